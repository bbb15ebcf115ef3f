//! Everything durable: the trait `Store`, its backends, and the rules both of them keep.
//!
//! A method that returns `Ok` after a write means that the write survives kill -9; a caller that
//! stops waiting earlier learns nothing about its write. Times come in as parameters, in
//! milliseconds since 1970: no backend reads a clock.

#![forbid(unsafe_code)]

mod audit;
pub mod blobs;
mod error;
mod files;
mod health;
mod held;
mod letters;
mod limits;
mod memory;
mod records;
mod sign_ins;
mod sql;
mod sqlite;
mod url;

pub use audit::AuditFilter;
pub use blobs::{BlobError, BlobPlace, BlobStream, BlobWriter, Blobs, Stored, Written};
pub use error::{StoreError, Trouble};
pub use files::{FileFilter, FileQuota};
pub use health::{HEALTH_MS, HealthRow, HealthStore, MAX_HEALTH, MAX_HEALTH_BATCH, MAX_WINDOW_BYTES};
pub use held::{Claimed, Contest, Decided, Finished, HELD, HELD_OF_USER, HeldFilter, SameCall};
pub use letters::{
    ENDED_LETTER_MS, LetterContest, LetterFilter, LetterStore, MAX_LETTERS, MAX_LETTERS_PAGE,
    MAX_OPEN_LETTERS, MAX_OPEN_LETTERS_OF_USER, MAX_SEALED_BYTES, OPEN_LETTER_MS,
};
pub use limits::{
    AuditRetention, MAX_AUDIT_PAGE, MAX_CLOCK_LEAD_MS, MAX_CONSENTS_OF_USER, MAX_CONSENTS_PAGE,
    MAX_FILES_OF_USER, MAX_FILES_PAGE, MAX_HELD, MAX_HELD_ARGUMENTS_BYTES, MAX_HELD_PAGE,
    MAX_HELD_PAGE_BYTES, MAX_HELD_RESULT_BYTES, MAX_HELD_RESULTS, MAX_OPEN_HELD, MAX_OPEN_HELD_OF_USER,
    MAX_OPEN_INTENTS, MAX_OPEN_PLANS, MAX_PAYLOAD_BYTES, MAX_PINS, MAX_PLAN_STEPS, MAX_PLANS_PAGE,
    MAX_RECENT_CALLS, MAX_SWEEP, MAX_TOKENS, Retention,
};
pub use memory::MemoryStore;
pub use records::{CallRow, DiscoveryRecord, Intent, NonceUse, Outcome};
pub use sign_ins::{MAX_SIGN_IN_GROUPS, MAX_SIGN_INS, SignIn, SignInStore};
pub use sqlite::{KeyTrouble, SqliteStore};
pub use toolbooth_core::outcome::OutcomeKind;
pub use url::{StoreUrl, StoreUrlError};

use async_trait::async_trait;
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, AuditReport, AuditRow};
use toolbooth_core::consent::{Consent, ConsentQuery, Pin, Release};
use toolbooth_core::file::FileRow;
use toolbooth_core::held::{Decision, HeldCall, HeldOutcome};
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use toolbooth_core::token::TokenRecord;
use uuid::Uuid;

/// Keeps what must outlive the process; shared by every part of the gateway as `Arc<dyn Store>`.
#[async_trait]
pub trait Store: HealthStore + LetterStore + SignInStore + Send + Sync {
    /// Keeps what was discovered on a server, in place of what was kept before.
    async fn save_discovery(&self, record: DiscoveryRecord) -> Result<(), StoreError>;

    /// Everything kept about servers, by name.
    async fn discoveries(&self) -> Result<Vec<DiscoveryRecord>, StoreError>;

    /// Drops what was kept about a server; fine if there was nothing.
    async fn forget_discovery(&self, server: &ServerName) -> Result<(), StoreError>;

    /// Notes that a call with side effects is about to be sent.
    ///
    /// Writing the same intent again is fine; another one under the same id is a conflict.
    async fn write_intent(&self, intent: Intent) -> Result<(), StoreError>;

    /// Notes how a call ended.
    ///
    /// The first known outcome stands: the same again is fine, another one is a conflict.
    /// `Unknown` yields to any known outcome, and changes nothing that is known.
    async fn write_outcome(&self, outcome: Outcome) -> Result<(), StoreError>;

    /// The same together with the call's audit entry: both are on disk when this returns.
    async fn settle(&self, outcome: Outcome, audit: Option<AuditEntry>) -> Result<(), StoreError>;

    /// Notes that a call which may have side effects is about to be sent: quickly, so that it survives kill -9, but
    /// not a power cut. If the process dies before [`Store::note_end`], the call is an open intent at the next start.
    async fn note_intent(&self, intent: Intent) -> Result<(), StoreError>;

    /// Notes that such a call has ended, with its audit entry where it has one; as quickly.
    async fn note_end(&self, call: Uuid, audit: Option<AuditEntry>) -> Result<(), StoreError>;

    /// Intents without an outcome, oldest first, at most `MAX_OPEN_INTENTS`.
    async fn open_intents(&self) -> Result<Vec<Intent>, StoreError>;

    /// Marks every open intent `Unknown`, with audit entries, and says how many there were; for the start of a
    /// gateway.
    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError>;

    /// The newest calls of the journal, newest first, at most `MAX_RECENT_CALLS`.
    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError>;

    /// The secret of that name; made once, then the same bytes for every caller and replica.
    ///
    /// `create` may be asked for bytes that are thrown away because somebody else was faster.
    async fn get_or_create_secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError>;

    /// Uses up a nonce: `First` for exactly one caller until it expires and is purged.
    ///
    /// A caller must refuse expired handles itself, since their nonces are forgotten.
    async fn use_nonce(&self, nonce: &[u8], expires_at_ms: i64) -> Result<NonceUse, StoreError>;

    /// Keeps a token; the same again is fine, another under its id or hash is `store.taken`.
    async fn add_token(&self, token: TokenRecord) -> Result<(), StoreError>;

    /// The token with this hash, also one that is expired or revoked: ask its `standing`.
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>, StoreError>;

    /// Every token, oldest first; at most `MAX_TOKENS`.
    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Revokes a token and returns it; the first revocation stands. `None`: there is no such token.
    async fn revoke_token(&self, id: &str, at_ms: i64) -> Result<Option<TokenRecord>, StoreError>;

    /// Keeps a call that waits for a person; the same again is fine, another under its id is a conflict.
    async fn hold(&self, call: HeldCall) -> Result<(), StoreError>;

    /// A held call, with its result.
    async fn held(&self, id: Uuid) -> Result<Option<HeldCall>, StoreError>;

    /// Held calls, newest first, without their results; a page holds at most `MAX_HELD_PAGE` calls
    /// and about `MAX_HELD_PAGE_BYTES` bytes, and the next one begins `before` its last call.
    async fn held_calls(&self, filter: HeldFilter) -> Result<Vec<HeldCall>, StoreError>;

    /// Answers for a held call: one answer wins, later and late ones lose. The winner's audit entry
    /// is written with the answer or not at all.
    async fn decide_held(
        &self,
        id: Uuid,
        decision: Decision,
        audit: AuditEntry,
    ) -> Result<Decided, StoreError>;

    /// Takes the licence to run an approved call: one claim wins, ever.
    async fn claim_held(&self, id: Uuid, at_ms: i64) -> Result<Claimed, StoreError>;

    /// Notes how a claimed call ended, with its audit entry.
    async fn finish_held(
        &self,
        id: Uuid,
        outcome: HeldOutcome,
        audit: AuditEntry,
    ) -> Result<Finished, StoreError>;

    /// Gives up waiting calls whose time is over, with audit entries; at most `MAX_SWEEP` at once, oldest first.
    async fn expire_held(&self, now_ms: i64) -> Result<Vec<HeldCall>, StoreError>;

    /// Ends every call that was claimed and has no outcome as `Unknown`, with audit entries; for the
    /// start of a gateway.
    async fn interrupted_held(&self, at_ms: i64) -> Result<Vec<HeldCall>, StoreError>;

    /// Opens a plan, unless there is an open one of the same scope; the one that is open now.
    async fn open_plan(&self, plan: Plan) -> Result<Plan, StoreError>;

    /// The open plan that a call falls under: the narrowest of those that cover it.
    async fn plan_of(
        &self,
        user: &str,
        persona: Option<&str>,
        session: Option<&str>,
    ) -> Result<Option<Plan>, StoreError>;

    /// Plans, of one user or of all, newest first, at most `MAX_PLANS_PAGE`.
    async fn plans(&self, user: Option<&str>) -> Result<Vec<Plan>, StoreError>;

    /// Closes a plan and returns it; the first closing stands. `None`: there is no such plan.
    async fn close_plan(&self, id: Uuid, at_ms: i64) -> Result<Option<Plan>, StoreError>;

    /// Holds a call as the next step of an open plan and returns the step's number, counted from 1.
    ///
    /// Queueing the same call again answers the number it has.
    async fn queue_step(&self, plan: Uuid, call: HeldCall) -> Result<u32, StoreError>;

    /// Remembers an approval, in place of an earlier one for the same user, tool and session.
    async fn grant_consent(&self, consent: Consent) -> Result<(), StoreError>;

    /// The newest consent that covers a call.
    async fn consent_for(&self, call: &ConsentQuery<'_>, now_ms: i64) -> Result<Option<Consent>, StoreError>;

    /// Consents, of one user or of all, newest first, at most `MAX_CONSENTS_PAGE`; also expired ones.
    async fn consents(&self, user: Option<&str>) -> Result<Vec<Consent>, StoreError>;

    /// Forgets a consent and returns it. `None`: there is no such consent.
    async fn revoke_consent(&self, id: Uuid) -> Result<Option<Consent>, StoreError>;

    /// Every accepted definition of a tool, by server and tool, without the texts.
    async fn pins(&self) -> Result<Vec<Pin>, StoreError>;

    /// The accepted definition of one tool, with its text if that was kept.
    async fn pin(&self, server: &ServerName, tool: &str) -> Result<Option<Pin>, StoreError>;

    /// Accepts definitions, in place of those accepted before; all of them or none.
    async fn save_pins(&self, pins: Vec<Pin>) -> Result<(), StoreError>;

    /// Forgets what was accepted on a server.
    async fn forget_pins(&self, server: &ServerName) -> Result<(), StoreError>;

    /// Every tool that was let out of quarantine, by server and tool.
    async fn releases(&self) -> Result<Vec<Release>, StoreError>;

    /// Lets a tool out of quarantine in one version, in place of another that was let out before.
    async fn save_release(&self, release: Release) -> Result<(), StoreError>;

    /// Adds to the audit without waiting for the disk; waits while too much is queued.
    ///
    /// When it returns, the entry survives kill -9. It survives a power cut after the next `flush`, after any
    /// later write that has returned, or 100 ms later. An entry that cannot be written is kept and tried
    /// again; when too many are, this answers the fault.
    async fn audit(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// Adds to the audit, all entries or none, and returns when they are durable.
    async fn audit_now(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError>;

    /// Rows of the audit, newest first, at most `MAX_AUDIT_PAGE`.
    async fn audit_rows(&self, filter: AuditFilter) -> Result<Vec<AuditRow>, StoreError>;

    /// Checks the whole audit, in little memory; `core::audit` says what that can show and what not.
    async fn verify_audit(&self) -> Result<AuditReport, StoreError>;

    /// Keeps what is known of a file whose content is kept already, and gives it the next version of its name.
    ///
    /// The same again is fine; another one under its id is `store.taken`.
    async fn add_file(&self, file: FileRow) -> Result<FileRow, StoreError> {
        self.add_file_within(file, FileQuota::default()).await
    }

    /// The same, unless the user has more than the quota then: that is `store.full`.
    async fn add_file_within(&self, file: FileRow, quota: FileQuota) -> Result<FileRow, StoreError>;

    /// How many files a user has, and how many bytes they are.
    async fn file_usage(&self, user: &str) -> Result<(u64, u64), StoreError>;

    /// Files that came before then, oldest first, at most `MAX_FILES_PAGE`.
    async fn files_before(&self, created_ms: i64) -> Result<Vec<Uuid>, StoreError>;

    /// A file.
    async fn file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError>;

    /// The newest file that a name means in a session: the session's own, else one without a session.
    async fn file_named(
        &self,
        user: &str,
        session: Option<&str>,
        name: &str,
    ) -> Result<Option<FileRow>, StoreError>;

    /// Files of one user, newest first, at most `MAX_FILES_PAGE`; the next page begins `before` the last.
    async fn files(&self, filter: FileFilter) -> Result<Vec<FileRow>, StoreError>;

    /// Which of these files are known; at most `MAX_FILES_PAGE` are asked for at once.
    async fn known_files(&self, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError>;

    /// Forgets a file and returns it. `None`: there is no such file.
    async fn remove_file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError>;

    /// Lets addresses of files that are given to a call count until then.
    async fn open_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError>;

    /// Lets them count until then at the latest, since the call is over.
    async fn end_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError>;

    /// The same for every call; for the start of a gateway.
    async fn end_grants(&self, until_ms: i64) -> Result<(), StoreError>;

    /// Until when a call's addresses of files count; nothing, if it was given none or they are forgotten.
    async fn grant(&self, call: Uuid) -> Result<Option<i64>, StoreError>;

    /// The time that [`Store::raise_clock`] remembers; 0 if none.
    async fn latest_clock(&self) -> Result<i64, StoreError>;

    /// Remembers a time of day, unless a later one is remembered. One that is later by more than
    /// [`MAX_CLOCK_LEAD_MS`] came from a wrong clock and is replaced.
    async fn raise_clock(&self, at_ms: i64) -> Result<(), StoreError>;

    /// Drops expired nonces, grants and consents, and what is over beyond the retention.
    async fn purge(&self, now_ms: i64) -> Result<(), StoreError>;

    /// Waits until everything written before is durable.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Finishes queued writes and lets go of the data; later calls answer `store.closed`.
    async fn close(&self);
}

/// Opens the store at `url` with the default retention.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    open_with(url, Retention::default()).await
}

/// Opens the store at `url`, to keep journal rows as `retention` says.
pub async fn open_with(url: &StoreUrl, retention: Retention) -> Result<Arc<dyn Store>, StoreError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new(retention))),
        StoreUrl::Sqlite(path) => Ok(Arc::new(SqliteStore::open(path, retention).await?)),
        StoreUrl::Postgres(_) => Err(StoreError::NotBuilt { backend: "PostgreSQL" }),
    }
}
