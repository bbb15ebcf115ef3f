//! Durable storage: the trait `Store`, its backends, and the rules that all backends share.
//!
//! When a write returns `Ok`, it survives kill -9. A caller that stops waiting earlier does not know
//! whether its write happened. Times are parameters, in milliseconds since 1970: no backend reads a
//! clock.

#![forbid(unsafe_code)]

mod audit;
pub mod blobs;
mod console_sessions;
mod error;
mod exposed_names;
mod files;
mod health;
mod held;
mod jobs;
mod letters;
mod limits;
mod memory;
mod notices;
mod postgres;
mod records;
mod shared_records;
mod sign_ins;
mod sql;
mod sqlite;
mod transfer;
mod url;

pub use audit::{
    AuditFilter, CallCount, CallCountQuery, CallCounts, MAX_COUNTED_ROWS, MAX_MEASURED_ROWS, RESULT_BYTES,
    ResultSizeQuery, ResultSizes,
};
pub use blobs::{BlobError, BlobStream, BlobUrl, BlobWriter, Blobs, StoredBlob, WrittenBlob};
pub use console_sessions::{
    ConsoleSessionRecord, ConsoleSessionStore, MAX_CONSOLE_CREDENTIAL_BYTES, MAX_CONSOLE_SESSIONS,
    MAX_CONSOLE_SESSIONS_OF_USER,
};
pub use error::{DatabaseFailure, KeyFileError, StoreError};
pub use exposed_names::{ExposedName, ExposedNameStore, MAX_EXPOSED_NAMES, MAX_NAMES_OF_CLAIM};
pub use files::{FileFilter, FileQuota};
pub use health::{HEALTH_MS, HealthRow, HealthStore, MAX_HEALTH, MAX_HEALTH_BATCH, MAX_WINDOW_BYTES};
pub use held::{HELD, HELD_OF_USER, HeldFilter, HeldUpdate, SameCall};
pub use jobs::{
    CALL_TASK_MS, ENDED_WORK_MS, JobStore, MAX_CALL_TASKS_OF_USER, MAX_ENDED_WORK, MAX_JOBS_OF_USER,
    MAX_TASKS_OF_USER, MAX_WORK_BYTES, MAX_WORK_CHANGES, MAX_WORK_PAGE, RowBodies, WorkChange, WorkFilter,
    WorkKind, WorkRow, WorkUpdate,
};
pub use letters::{
    ENDED_LETTER_MS, LetterFilter, LetterStore, LetterUpdate, MAX_LETTERS, MAX_LETTERS_PAGE,
    MAX_OPEN_LETTERS, MAX_OPEN_LETTERS_OF_USER, MAX_SEALED_BYTES, OPEN_LETTER_MS,
};
pub use limits::{
    AuditRetention, MAX_AUDIT_PAGE, MAX_CONSENTS_OF_USER, MAX_CONSENTS_PAGE, MAX_FILES_OF_USER,
    MAX_FILES_PAGE, MAX_HELD, MAX_HELD_ARGUMENTS_BYTES, MAX_HELD_PAGE, MAX_HELD_PAGE_BYTES,
    MAX_HELD_RESULT_BYTES, MAX_HELD_RESULTS, MAX_OPEN_HELD, MAX_OPEN_HELD_OF_USER, MAX_OPEN_INTENTS,
    MAX_OPEN_PLANS, MAX_PAYLOAD_BYTES, MAX_PINS, MAX_PLAN_STEPS, MAX_PLANS_PAGE, MAX_RECENT_CALLS, MAX_SWEEP,
    MAX_TOKENS, Retention,
};
pub use memory::MemoryStore;
pub use notices::{LostWork, StoreNotice, StoreNotices, StoreTopic};
pub use postgres::PostgresStore;
pub use records::{CallOutcome, CallRow, DiscoveryRecord, Intent, NonceUse};
pub use shared_records::{
    MAX_MAIL_BYTES, MAX_SHARED_BYTES, MAX_SHARED_PAGE, SharedKind, SharedRecord, SharedRecordStore,
};
pub use sign_ins::{MAX_SIGN_IN_GROUPS, MAX_SIGN_INS, SignInRecord, SignInStore};
pub use sqlite::SqliteStore;
pub use toolbooth_core::clock::MAX_CLOCK_LEAD_MS;
pub use toolbooth_core::outcome::OutcomeKind;
pub use transfer::{TransferError, TransferReport, back_up, migrate, restore};
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

/// Stores data that must outlive the process; every part of the gateway shares it as `Arc<dyn Store>`.
#[async_trait]
pub trait Store:
    ConsoleSessionStore
    + ExposedNameStore
    + HealthStore
    + JobStore
    + LetterStore
    + SharedRecordStore
    + SignInStore
    + Send
    + Sync
{
    /// Saves the discovery of a server, and replaces an earlier one.
    async fn save_discovery(&self, record: DiscoveryRecord) -> Result<(), StoreError>;

    /// Returns all discoveries, sorted by server name.
    async fn discoveries(&self) -> Result<Vec<DiscoveryRecord>, StoreError>;

    /// Deletes the discovery of a server, if it exists.
    async fn forget_discovery(&self, server: &ServerName) -> Result<(), StoreError>;

    /// Records that a call with side effects is about to be sent.
    ///
    /// Writing the same intent twice is allowed; a different intent with the same id is a conflict.
    async fn write_intent(&self, intent: Intent) -> Result<(), StoreError>;

    /// Records how a call ended.
    ///
    /// The first known outcome is final: writing it twice is allowed, a different one is a conflict.
    /// Any known outcome replaces `Unknown`; `Unknown` never replaces a known one.
    async fn write_outcome(&self, outcome: CallOutcome) -> Result<(), StoreError>;

    /// Records the outcome together with the call's audit entry: both are on disk when this returns. The same outcome
    /// again adds no second entry.
    ///
    /// This, [`Store::note_end`] and [`Store::audit`] record what has happened. If they fail because the disk is full or the
    /// database does not answer, the store writes the record later, as long as this process runs.
    async fn settle(&self, outcome: CallOutcome, audit: Option<AuditEntry>) -> Result<(), StoreError>;

    /// Records, without waiting for the disk, that a call which may have side effects is about to be sent. The record
    /// survives kill -9 but not a power cut. If the process dies before [`Store::note_end`], the call is an open
    /// intent at the next start.
    async fn note_intent(&self, intent: Intent) -> Result<(), StoreError>;

    /// Records that such a call has ended, with its optional audit entry; also without waiting for the disk.
    async fn note_end(&self, call: Uuid, audit: Option<AuditEntry>) -> Result<(), StoreError>;

    /// Returns intents without an outcome, oldest first, at most `MAX_OPEN_INTENTS`.
    async fn open_intents(&self) -> Result<Vec<Intent>, StoreError>;

    /// Marks every open intent `Unknown`, writes audit entries, and returns the number of intents. Called when a
    /// gateway starts.
    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError>;

    /// Returns the latest calls of the journal, newest first, at most `MAX_RECENT_CALLS`.
    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError>;

    /// Returns the secret with this name. It is created once; every caller and replica gets the same bytes.
    ///
    /// The result of `create` is discarded if another caller created the secret first.
    async fn get_or_create_secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError>;

    /// Uses a nonce: exactly one caller gets `First` until the nonce expires and is purged.
    ///
    /// The caller must reject expired handles itself, because their nonces are purged.
    async fn use_nonce(&self, nonce: &[u8], expires_at_ms: i64) -> Result<NonceUse, StoreError>;

    /// Adds a token. Adding the same token twice is allowed; a different one with its id or hash is `store.taken`.
    async fn add_token(&self, token: TokenRecord) -> Result<(), StoreError>;

    /// Returns the token with this hash, even if it is expired or revoked: check its `status`.
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>, StoreError>;

    /// Returns every token, oldest first; at most `MAX_TOKENS`.
    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Revokes a token and returns it; a second call does not change the time. `None` if the token does not exist.
    async fn revoke_token(&self, id: &str, at_ms: i64) -> Result<Option<TokenRecord>, StoreError>;

    /// Adds a call that waits for a person. Adding it twice is allowed; a different call with its id is a conflict.
    async fn hold(&self, call: HeldCall) -> Result<(), StoreError>;

    /// Returns a held call, with its result.
    async fn held(&self, id: Uuid) -> Result<Option<HeldCall>, StoreError>;

    /// Returns a page of held calls, newest first, without their results. A page holds at most `MAX_HELD_PAGE`
    /// calls and about `MAX_HELD_PAGE_BYTES` bytes; pass its last call as `before` to get the next page.
    async fn held_calls(&self, filter: HeldFilter) -> Result<Vec<HeldCall>, StoreError>;

    /// Decides a held call. The first decision wins; later ones, and those after the expiry, lose. The winner's audit
    /// entry is written in the same transaction.
    async fn decide_held(
        &self,
        id: Uuid,
        decision: Decision,
        audit: AuditEntry,
    ) -> Result<HeldUpdate, StoreError>;

    /// Claims an approved call in order to run it: only one claim ever wins.
    async fn claim_held(&self, id: Uuid, at_ms: i64) -> Result<HeldUpdate, StoreError>;

    /// Records how a claimed call ended, with its audit entry.
    async fn finish_held(
        &self,
        id: Uuid,
        outcome: HeldOutcome,
        audit: AuditEntry,
    ) -> Result<HeldUpdate, StoreError>;

    /// Expires waiting calls whose deadline has passed, with audit entries; at most `MAX_SWEEP` at once, oldest first.
    async fn expire_held(&self, now_ms: i64) -> Result<Vec<HeldCall>, StoreError>;

    /// Ends every claimed call without an outcome as `Unknown`, with audit entries. Called when a gateway starts.
    async fn interrupted_held(&self, at_ms: i64) -> Result<Vec<HeldCall>, StoreError>;

    /// Opens a plan, unless a plan with the same scope is open; returns the open plan.
    async fn open_plan(&self, plan: Plan) -> Result<Plan, StoreError>;

    /// Returns the open plan with the narrowest scope that covers a call.
    async fn plan_of(
        &self,
        user: &str,
        persona: Option<&str>,
        session: Option<&str>,
    ) -> Result<Option<Plan>, StoreError>;

    /// Returns the plans of one user or of all users, newest first, at most `MAX_PLANS_PAGE`.
    async fn plans(&self, user: Option<&str>) -> Result<Vec<Plan>, StoreError>;

    /// Closes a plan and returns it; a second call does not change the time. `None` if the plan does not exist.
    async fn close_plan(&self, id: Uuid, at_ms: i64) -> Result<Option<Plan>, StoreError>;

    /// Adds a call as the next step of an open plan and returns the step's number, counted from 1.
    ///
    /// Queueing the same call twice returns the number it already has.
    async fn queue_step(&self, plan: Uuid, call: HeldCall) -> Result<u32, StoreError>;

    /// Saves a consent, and replaces an earlier one for the same user, tool and session.
    async fn grant_consent(&self, consent: Consent) -> Result<(), StoreError>;

    /// Returns the newest consent that covers a call.
    async fn consent_for(&self, call: &ConsentQuery<'_>, now_ms: i64) -> Result<Option<Consent>, StoreError>;

    /// Returns the consents of one user or of all users, newest first, at most `MAX_CONSENTS_PAGE`, including expired
    /// ones.
    async fn consents(&self, user: Option<&str>) -> Result<Vec<Consent>, StoreError>;

    /// Deletes a consent and returns it. `None` if it does not exist.
    async fn revoke_consent(&self, id: Uuid) -> Result<Option<Consent>, StoreError>;

    /// Returns the pin (accepted definition) of every tool, sorted by server and tool, without the texts.
    async fn pins(&self) -> Result<Vec<Pin>, StoreError>;

    /// Returns the pin of one tool, with the text of the definition if it was stored.
    async fn pin(&self, server: &ServerName, tool: &str) -> Result<Option<Pin>, StoreError>;

    /// Saves pins and replaces earlier ones of the same tools; all of them or none.
    async fn save_pins(&self, pins: Vec<Pin>) -> Result<(), StoreError>;

    /// Deletes all pins of a server.
    async fn forget_pins(&self, server: &ServerName) -> Result<(), StoreError>;

    /// Returns every tool that was released from quarantine, sorted by server and tool.
    async fn releases(&self) -> Result<Vec<Release>, StoreError>;

    /// Releases one version of a tool from quarantine, and replaces an earlier release of the tool.
    async fn save_release(&self, release: Release) -> Result<(), StoreError>;

    /// Adds an audit entry without waiting for the disk; waits only while too many entries are queued.
    ///
    /// When it returns, the entry survives kill -9. It survives a power cut after the next `flush`, after any
    /// later write that has returned, or 100 ms later. An entry that cannot be written stays queued and is
    /// retried; once too many are queued, this returns the error.
    async fn audit(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// Adds audit entries, all or none, and returns when they are durable.
    async fn audit_now(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError>;

    /// Returns rows of the audit, newest first, at most `MAX_AUDIT_PAGE`.
    async fn audit_rows(&self, filter: AuditFilter) -> Result<Vec<AuditRow>, StoreError>;

    /// Counts the calls in the audit by the time at which they ended, and by outcome. Reads at most
    /// [`MAX_COUNTED_ROWS`] rows, the newest first.
    async fn call_counts(&self, query: CallCountQuery) -> Result<CallCounts, StoreError>;

    /// Adds up the sizes of the results that callers received. Reads at most [`MAX_MEASURED_ROWS`] rows, the newest
    /// first.
    async fn result_sizes(&self, query: ResultSizeQuery) -> Result<ResultSizes, StoreError>;

    /// Verifies the whole audit, page by page; `core::audit` documents what this can detect and what not.
    async fn verify_audit(&self) -> Result<AuditReport, StoreError>;

    /// Adds the row of a file whose content is already stored, and assigns the next version of its name.
    ///
    /// Adding the same file twice is allowed; a different one with its id is `store.taken`.
    async fn add_file(&self, file: FileRow) -> Result<FileRow, StoreError> {
        self.add_file_within(file, FileQuota::default()).await
    }

    /// Adds the row of a file, or returns `store.full` if the user would exceed the quota.
    async fn add_file_within(&self, file: FileRow, quota: FileQuota) -> Result<FileRow, StoreError>;

    /// Returns the number of files of a user, and their total size in bytes.
    async fn file_usage(&self, user: &str) -> Result<(u64, u64), StoreError>;

    /// Returns files created before this time, oldest first, at most `MAX_FILES_PAGE`.
    async fn files_before(&self, created_ms: i64) -> Result<Vec<Uuid>, StoreError>;

    /// Returns a file.
    async fn file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError>;

    /// Returns the newest file with this name in a session: the session's own file, else one without a session.
    async fn file_named(
        &self,
        user: &str,
        session: Option<&str>,
        name: &str,
    ) -> Result<Option<FileRow>, StoreError>;

    /// Returns files of one user, newest first, at most `MAX_FILES_PAGE`; pass the last one as `before` to get the
    /// next page.
    async fn files(&self, filter: FileFilter) -> Result<Vec<FileRow>, StoreError>;

    /// Returns those of the given ids that have a row; accepts at most `MAX_FILES_PAGE` ids.
    async fn known_files(&self, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError>;

    /// Deletes the row of a file and returns it. `None` if the file does not exist.
    async fn remove_file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError>;

    /// Opens the grant of a call: file URLs given to the call are valid until this time.
    async fn open_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError>;

    /// Shortens the grant of a call that has ended to this time at the latest.
    async fn end_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError>;

    /// Shortens the grants of all calls to this time at the latest. Called when a gateway starts.
    async fn end_grants(&self, until_ms: i64) -> Result<(), StoreError>;

    /// Returns the time until which a call's file URLs are valid; `None` if the call has no grant or it was purged.
    async fn grant(&self, call: Uuid) -> Result<Option<i64>, StoreError>;

    /// Returns the time stored by [`Store::raise_clock`]; 0 if none.
    async fn latest_clock(&self) -> Result<i64, StoreError>;

    /// Stores a time of day, unless a later one is stored. A stored time that is later by more than
    /// [`MAX_CLOCK_LEAD_MS`] came from a wrong clock and is replaced.
    async fn raise_clock(&self, at_ms: i64) -> Result<(), StoreError>;

    /// Deletes expired nonces, grants and consents, and finished records that are older than the retention.
    async fn purge(&self, now_ms: i64) -> Result<(), StoreError>;

    /// Waits until all earlier writes are durable.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Finishes queued writes and releases the database; later calls return `store.closed`.
    async fn close(&self);

    /// Checks that the store can be used. A gateway whose store cannot be used is not ready.
    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether several gateways may use the store at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// The id of this gateway in the store, which is new each time the store is opened.
    fn replica(&self) -> &str {
        "single"
    }

    /// Follows the changes of other gateways; `None` if the store is not shared.
    fn notices(&self) -> Option<StoreNotices> {
        None
    }

    /// The ids of the running gateways on the store, this one included.
    async fn live_replicas(&self) -> Result<Vec<String>, StoreError> {
        Ok(vec![self.replica().to_owned()])
    }

    /// Sends a message to the other running gateways whose id ends with `to`: one gateway, or all of them if it is
    /// empty. Returns the number of recipients.
    async fn send_mail(&self, to: &str, body: String, at_ms: i64) -> Result<u64, StoreError> {
        let _ = (to, body, at_ms);
        Ok(0)
    }

    /// Removes and returns messages to this gateway, oldest first, at most 100. Messages that are not read for ten
    /// minutes are lost.
    async fn take_mail(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Ends the unfinished work of other gateways that have ended, as [`Store::close_interrupted`],
    /// [`Store::interrupted_held`], [`LetterStore::interrupted_letters`] and [`Store::end_grants`] do at the start.
    async fn end_lost_work(
        &self,
        at_ms: i64,
        next_retry_ms: i64,
        grants_until_ms: i64,
    ) -> Result<LostWork, StoreError> {
        let _ = (at_ms, next_retry_ms, grants_until_ms);
        Ok(LostWork::default())
    }
}

/// Opens the store at `url` with the default retention.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    open_with(url, Retention::default()).await
}

/// Opens the store at `url` with the given retention.
pub async fn open_with(url: &StoreUrl, retention: Retention) -> Result<Arc<dyn Store>, StoreError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new(retention))),
        StoreUrl::Sqlite(path) => Ok(Arc::new(SqliteStore::open(path, retention).await?)),
        StoreUrl::Postgres(url) => Ok(Arc::new(PostgresStore::open(url, retention).await?)),
    }
}
