//! Changes of the database, and their effects.

use crate::StoreError;
use crate::files::FileQuota;
use crate::health::HealthRow;
use crate::held::{Contest, HeldStep};
use crate::letters::LetterContest;
use crate::limits::AuditRetention;
use crate::records::{CallOutcome, DiscoveryRecord, Intent};
use crate::sign_ins::SignInRecord;
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
pub(super) const PURGE_CHUNK: u64 = 1_000;

/// A change to write.
#[derive(Debug)]
pub(super) enum StoreChange {
    SaveDiscovery(DiscoveryRecord),
    ForgetDiscovery(ServerName),
    Intent(Intent),
    Outcome {
        outcome: CallOutcome,
        audit: Option<Box<AuditEntry>>,
    },
    RaiseClock(i64),
    CloseInterrupted {
        at_ms: i64,
    },
    /// The fingerprint of a key that is in the key file.
    Secret {
        name: String,
        marker: Vec<u8>,
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
    AddLetter(Box<DeadLetter>),
    MoveLetter {
        id: Uuid,
        step: Box<LetterStep>,
        at_ms: i64,
        audit: Option<Box<AuditEntry>>,
    },
    InterruptLetters {
        at_ms: i64,
        next_retry_ms: i64,
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
    /// Writes nothing; completes when all earlier changes are committed.
    Nothing,
}

/// The effect of a change.
#[derive(Debug, Default)]
pub(super) struct ChangeEffect {
    /// The number of changed rows.
    pub(super) rows: u64,
    /// The token after the change.
    pub(super) token: Option<TokenRecord>,
    /// The result of a step of a held call.
    pub(super) contest: Contest,
    /// The held calls that a sweep changed.
    pub(super) held: Vec<HeldCall>,
    /// The result of a step of a letter.
    pub(super) letter: LetterContest,
    /// The letters that a sweep changed.
    pub(super) letters: Vec<DeadLetter>,
    /// The plan after the change.
    pub(super) plan: Option<Plan>,
    /// The number of a step.
    pub(super) step: u32,
    /// The consent that was revoked.
    pub(super) consent: Option<Consent>,
    /// The file after the change, or before it was removed.
    pub(super) file: Option<FileRow>,
}

/// The result of one change: a refusal by the store's rules does not abort the group.
pub(super) type ChangeResult = Result<ChangeEffect, StoreError>;

/// State changes without a person's decision: calls whose deadline has passed, and calls that were interrupted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sweep {
    Overdue,
    Interrupted,
}
