//! Changes of the database, and their effects.

use crate::StoreError;
use crate::console_sessions::ConsoleSessionRecord;
use crate::exposed_names::ExposedName;
use crate::files::FileQuota;
use crate::health::HealthRow;
use crate::held::{HeldStep, HeldUpdate};
use crate::jobs::{WorkChange, WorkUpdate};
use crate::letters::LetterUpdate;
use crate::limits::AuditRetention;
use crate::records::{CallOutcome, DiscoveryRecord, Intent};
use crate::shared_records::{SharedKind, SharedRecord};
use crate::sign_ins::SignInRecord;
use crate::transfer::{StoreTable, TablePage};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::consent::{Consent, Pin, Release};
use toolbooth_core::dead_letter::{DeadLetter, LetterStep};
use toolbooth_core::file::FileRow;
use toolbooth_core::held::HeldCall;
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use toolbooth_core::token::TokenRecord;
use uuid::Uuid;

/// The most rows that one purging change deletes.
pub(crate) const PURGE_CHUNK: u64 = 1_000;

/// A change to write. PostgreSQL's writer writes it again after a lost connection or a deadlock.
#[derive(Debug, Clone)]
pub(crate) enum StoreChange {
    SaveDiscovery(DiscoveryRecord),
    ForgetDiscovery(ServerName),
    ClaimNames {
        claims: Vec<ExposedName>,
        at_ms: i64,
    },
    ReleaseNames(ServerName),
    Intent(Intent),
    Outcome {
        outcome: CallOutcome,
        audit: Option<Box<AuditEntry>>,
    },
    /// A call ended whose intent needs no outcome.
    #[allow(dead_code, reason = "SQLite has such intents in its spool")]
    ForgetIntent {
        call: Uuid,
        audit: Option<Box<AuditEntry>>,
    },
    /// The audit entry of an event that has happened.
    #[allow(dead_code, reason = "SQLite has such entries in its spool")]
    Note(Box<AuditEntry>),
    RaiseClock(i64),
    CloseInterrupted {
        scope: SweepScope,
        at_ms: i64,
    },
    /// A key, or the fingerprint of a key that is in a key file.
    Secret {
        name: String,
        value: Vec<u8>,
    },
    Nonce {
        nonce: Vec<u8>,
        expires_at_ms: i64,
    },
    AddToken(TokenRecord),
    RevokeToken {
        id: String,
        at_ms: i64,
    },
    Hold(Box<HeldCall>),
    Step {
        id: Uuid,
        step: HeldStep,
        audit: Option<Box<AuditEntry>>,
    },
    Sweep {
        sweep: Sweep,
        at_ms: i64,
    },
    SaveHealth(Vec<HealthRow>),
    SaveSignIn(SignInRecord),
    AddConsoleSession(Box<ConsoleSessionRecord>),
    ExtendConsoleSession {
        digest: [u8; 32],
        until_ms: i64,
    },
    ReplaceConsoleCredential {
        digest: [u8; 32],
        credential: Vec<u8>,
    },
    EndConsoleSession([u8; 32]),
    SaveShared(Box<SharedRecord>),
    ExtendShared {
        kind: SharedKind,
        names: Vec<String>,
        expires_ms: i64,
    },
    TakeLease {
        name: String,
        holder: String,
        now_ms: i64,
        until_ms: i64,
    },
    EndLease {
        name: String,
        holder: String,
    },
    /// A message to other gateways.
    SendMail {
        to: String,
        body: String,
        at_ms: i64,
    },
    AddLetter(Box<DeadLetter>),
    MoveLetter {
        id: Uuid,
        step: Box<LetterStep>,
        at_ms: i64,
        audit: Option<Box<AuditEntry>>,
    },
    InterruptLetters {
        scope: SweepScope,
        at_ms: i64,
        next_retry_ms: i64,
    },
    Work {
        changes: Vec<WorkChange>,
        audit: Option<Box<AuditEntry>>,
    },
    OpenPlan(Plan),
    ClosePlan {
        id: Uuid,
        at_ms: i64,
    },
    QueueStep {
        plan: Uuid,
        call: Box<HeldCall>,
    },
    GrantConsent(Consent),
    RevokeConsent(Uuid),
    SavePins(Vec<Pin>),
    SaveRelease(Release),
    ForgetPins(ServerName),
    AddFile {
        file: Box<FileRow>,
        quota: FileQuota,
    },
    RemoveFile(Uuid),
    OpenGrant {
        call: Uuid,
        until_ms: i64,
    },
    EndGrant {
        call: Uuid,
        until_ms: i64,
    },
    EndGrants {
        scope: SweepScope,
        until_ms: i64,
    },
    Purge {
        statement: &'static str,
        bound: i64,
    },
    Audit(Vec<AuditEntry>),
    PurgeAudit {
        retention: AuditRetention,
        now_ms: i64,
    },
    /// Adds copied rows.
    AddPage {
        table: &'static StoreTable,
        page: TablePage,
    },
    /// Ends a copy.
    EndCopy,
    /// Stores a number under a name.
    SetMark {
        name: String,
        value: i64,
    },
    /// Writes nothing; completes when all earlier changes are committed.
    Nothing,
}

impl StoreChange {
    /// Whether it records something that has happened, such as the end of a call. If it cannot be written, it is written
    /// later: the event does not become undone with the record.
    pub(crate) fn is_of_past_event(&self) -> bool {
        matches!(self, Self::Outcome { .. } | Self::ForgetIntent { .. } | Self::Note(_))
    }
}

/// The effect of a change.
#[derive(Debug, Default)]
pub(crate) struct ChangeEffect {
    /// The number of changed rows.
    pub(crate) rows: u64,
    /// The token after the change.
    pub(crate) token: Option<TokenRecord>,
    /// The result of a step of a held call.
    pub(crate) held_update: HeldUpdate,
    /// The held calls that a sweep changed.
    pub(crate) held: Vec<HeldCall>,
    /// The result of a step of a letter.
    pub(crate) letter: LetterUpdate,
    /// The letters that a sweep changed.
    pub(crate) letters: Vec<DeadLetter>,
    /// The result of changes of jobs, runs and tasks.
    pub(crate) work: WorkUpdate,
    /// The plan after the change.
    pub(crate) plan: Option<Plan>,
    /// The number of a step.
    pub(crate) step: u32,
    /// The consent that was revoked.
    pub(crate) consent: Option<Consent>,
    /// The file after the change, or before it was removed.
    pub(crate) file: Option<FileRow>,
    /// The claimed names that another server has.
    pub(crate) names: Vec<ExposedName>,
}

/// The result of one change: a refusal by the store's rules does not abort the group.
pub(crate) type ChangeResult = Result<ChangeEffect, StoreError>;

/// State changes without a person's decision: calls whose deadline has passed, and calls that were interrupted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sweep {
    Overdue,
    Interrupted(SweepScope),
}

/// Whose interrupted work a change ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SweepScope {
    /// The work of all gateways that have ended, and the work of this gateway, which is just starting.
    Start,
    /// Only the work of other gateways that have ended.
    Lost,
}
