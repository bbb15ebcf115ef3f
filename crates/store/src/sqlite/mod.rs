//! The store in a SQLite file: a single writer that commits in groups, and read connections opened on demand.

mod audit;
mod change;
mod changes;
mod consents;
mod discoveries;
mod file;
mod files;
mod health;
mod held;
mod keys;
mod letters;
mod lock;
mod marks;
mod plans;
mod reader;
mod rows;
mod sign_ins;
mod spool;
mod tokens;
mod writer;

use crate::audit::AuditFilter;
use crate::files::{FileFilter, FileQuota};
use crate::health::HEALTH_MS;
use crate::held::{Contest, HeldFilter, HeldPage, HeldStep, narrowest};
use crate::letters::{ENDED_LETTER_MS, MAX_LETTERS, OPEN_LETTER_MS};
use crate::limits::{
    self, MAX_CONSENTS_PAGE, MAX_FILES_PAGE, MAX_HELD, MAX_HELD_RESULTS, MAX_OPEN_INTENTS, MAX_OPEN_PLANS,
    MAX_PINS, MAX_PLANS_PAGE, MAX_RECENT_CALLS, MAX_RELEASES, Retention,
};
use crate::records::{CallOutcome, CallRow, DiscoveryRecord, Intent, NonceUse};
use crate::{Store, StoreError, sql};
use async_trait::async_trait;
use change::{PURGE_CHUNK, StoreChange, Sweep};
use file::DatabaseFile;
use futures_util::TryStreamExt;
use keys::{KeyFile, marker_of};
use reader::ReadPool;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Sqlite, query::Query};
use std::fmt;
use std::path::Path;
use tokio::sync::Mutex;
use toolbooth_core::audit::{AuditEntry, AuditReport, AuditRow};
use toolbooth_core::consent::{Consent, ConsentQuery, Pin, Release};
use toolbooth_core::file::FileRow;
use toolbooth_core::held::{Decision, HeldCall, HeldOutcome};
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use toolbooth_core::token::TokenRecord;
use uuid::Uuid;
use writer::{Writer, WriterConnection};

/// A `Store` in a SQLite database that only one gateway uses.
pub struct SqliteStore {
    file: DatabaseFile,
    retention: Retention,
    readers: ReadPool,
    writer: Writer,
    // Locked while a key is created, so that two tasks do not create the same key.
    keys: Mutex<KeyFile>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.file.path()).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database at `path`; creates it and its folder if they do not exist.
    pub async fn open(path: &Path, retention: Retention) -> Result<Self, StoreError> {
        let (file, lock) = DatabaseFile::claim(path)?;
        let mut ready = WriterConnection::connect(&file).await?;
        let keys = ready.keys(&file).await?;
        let spool = ready.recover(&file).await?;
        let writer = Writer::start(file.clone(), ready, spool, lock);
        Ok(Self { readers: ReadPool::new(file.clone()), file, retention, writer, keys: Mutex::new(keys) })
    }

    fn is_closed(&self) -> bool {
        self.writer.is_closed()
    }

    async fn step(&self, id: Uuid, step: HeldStep, audit: Option<AuditEntry>) -> Result<Contest, StoreError> {
        let audit = audit.map(|mut entry| {
            entry.fit();
            Box::new(entry)
        });
        let change = StoreChange::Step { id, step, audit };
        Ok(self.writer.write(change).await?.contest)
    }

    /// Reads all rows of a query.
    async fn all<T>(
        &self,
        query: Query<'_, Sqlite, SqliteArguments>,
        read: fn(&SqliteRow) -> Result<T, BoxDynError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut reader = self.readers.take().await?;
        let found = query.fetch_all(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(rows::readable(&found, read))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn save_discovery(&self, record: DiscoveryRecord) -> Result<(), StoreError> {
        limits::check_discovery(&record)?;
        self.writer.write(StoreChange::SaveDiscovery(record)).await?;
        Ok(())
    }

    async fn discoveries(&self) -> Result<Vec<DiscoveryRecord>, StoreError> {
        let mut reader = self.readers.take().await?;
        let found = discoveries::all(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(found)
    }

    async fn forget_discovery(&self, server: &ServerName) -> Result<(), StoreError> {
        self.writer.write(StoreChange::ForgetDiscovery(server.clone())).await?;
        Ok(())
    }

    async fn write_intent(&self, intent: Intent) -> Result<(), StoreError> {
        limits::check_intent(&intent)?;
        self.writer.write(StoreChange::Intent(intent)).await?;
        Ok(())
    }

    async fn write_outcome(&self, outcome: CallOutcome) -> Result<(), StoreError> {
        limits::check_outcome(&outcome)?;
        self.writer.write(StoreChange::Outcome { outcome, audit: None }).await?;
        Ok(())
    }

    async fn settle(&self, outcome: CallOutcome, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        limits::check_outcome(&outcome)?;
        let audit = audit.map(|mut entry| {
            entry.fit();
            Box::new(entry)
        });
        self.writer.write(StoreChange::Outcome { outcome, audit }).await?;
        Ok(())
    }

    async fn note_intent(&self, intent: Intent) -> Result<(), StoreError> {
        limits::check_intent(&intent)?;
        self.writer.begin(intent)
    }

    async fn note_end(&self, call: Uuid, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        match audit {
            Some(entry) => self.audit(entry).await,
            None => self.writer.end(call),
        }
    }

    async fn open_intents(&self) -> Result<Vec<Intent>, StoreError> {
        let query = sqlx::query(sql::OPEN_CALLS).bind(i64::from(MAX_OPEN_INTENTS));
        let open = self.all(query, rows::call).await?;
        Ok(open.into_iter().map(|row| row.intent).collect())
    }

    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError> {
        let mut closed = 0;
        loop {
            let rows = self.writer.write(StoreChange::CloseInterrupted { at_ms }).await?.rows;
            closed += rows;
            if rows < u64::from(MAX_OPEN_INTENTS) {
                return Ok(closed);
            }
        }
    }

    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        let query = sqlx::query(sql::RECENT_CALLS).bind(i64::from(limit.min(MAX_RECENT_CALLS)));
        self.all(query, rows::call).await
    }

    async fn get_or_create_secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError> {
        limits::check_secret_name(name)?;
        let mut keys = self.keys.lock().await;
        if self.is_closed() {
            return Err(StoreError::Closed);
        }
        let key = match keys.get(name) {
            Some(key) if keys.is_marked(name) => return Ok(key.clone()),
            // A crash or a failed commit happened between writing the key and its fingerprint.
            Some(key) => key.clone(),
            None => {
                let key = create();
                keys.add(name, key.clone())?;
                key
            }
        };
        // The fingerprint is written last: an unused key is harmless, a fingerprint without its key is not.
        self.writer.write(StoreChange::Secret { name: name.to_owned(), marker: marker_of(&key) }).await?;
        keys.set_marked(name);
        Ok(key)
    }

    async fn use_nonce(&self, nonce: &[u8], expires_at_ms: i64) -> Result<NonceUse, StoreError> {
        limits::check_nonce(nonce)?;
        let effect = self.writer.write(StoreChange::Nonce { nonce: nonce.to_vec(), expires_at_ms }).await?;
        Ok(if effect.rows == 1 { NonceUse::First } else { NonceUse::Again })
    }

    async fn add_token(&self, token: TokenRecord) -> Result<(), StoreError> {
        limits::check_token(&token)?;
        self.writer.write(StoreChange::AddToken(token)).await?;
        Ok(())
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>, StoreError> {
        let query = sqlx::query(sql::tokens::TOKEN_BY_HASH).bind(hash.to_vec());
        Ok(self.all(query, tokens::token).await?.pop())
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.all(sqlx::query(sql::tokens::TOKENS), tokens::token).await
    }

    async fn revoke_token(&self, id: &str, at_ms: i64) -> Result<Option<TokenRecord>, StoreError> {
        Ok(self.writer.write(StoreChange::RevokeToken { id: id.to_owned(), at_ms }).await?.token)
    }

    async fn hold(&self, call: HeldCall) -> Result<(), StoreError> {
        limits::check_held(&call)?;
        self.writer.write(StoreChange::Hold(call.into())).await?;
        Ok(())
    }

    async fn held(&self, id: Uuid) -> Result<Option<HeldCall>, StoreError> {
        let query = sqlx::query(sql::held::HELD).bind(id.to_string());
        Ok(self.all(query, held::held).await?.pop())
    }

    async fn held_calls(&self, filter: HeldFilter) -> Result<Vec<HeldCall>, StoreError> {
        let mut reader = self.readers.take().await?;
        let mut query = held::list(filter);
        let mut page = HeldPage::default();
        {
            let mut found = query.build().fetch(reader.connection());
            while let Some(row) = found.try_next().await.map_err(|error| self.file.fault(&error))? {
                if rows::readable(&[row], held::held).pop().is_some_and(|call| !page.add(call)) {
                    break;
                }
            }
        }
        reader.give_back();
        Ok(page.calls)
    }

    async fn decide_held(
        &self,
        id: Uuid,
        decision: Decision,
        audit: AuditEntry,
    ) -> Result<Contest, StoreError> {
        limits::check_decision(&decision)?;
        self.step(id, HeldStep::Decide(decision), Some(audit)).await
    }

    async fn claim_held(&self, id: Uuid, at_ms: i64) -> Result<Contest, StoreError> {
        self.step(id, HeldStep::Claim { at_ms }, None).await
    }

    async fn finish_held(
        &self,
        id: Uuid,
        outcome: HeldOutcome,
        audit: AuditEntry,
    ) -> Result<Contest, StoreError> {
        limits::check_held_outcome(&outcome)?;
        self.step(id, HeldStep::Finish(outcome), Some(audit)).await
    }

    async fn expire_held(&self, now_ms: i64) -> Result<Vec<HeldCall>, StoreError> {
        Ok(self.writer.write(StoreChange::Sweep { sweep: Sweep::Overdue, at_ms: now_ms }).await?.held)
    }

    async fn interrupted_held(&self, at_ms: i64) -> Result<Vec<HeldCall>, StoreError> {
        let mut all = Vec::new();
        loop {
            let some = self.writer.write(StoreChange::Sweep { sweep: Sweep::Interrupted, at_ms }).await?.held;
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some);
        }
    }

    async fn open_plan(&self, plan: Plan) -> Result<Plan, StoreError> {
        limits::check_plan(&plan)?;
        let opened = self.writer.write(StoreChange::OpenPlan(plan.clone())).await?.plan;
        Ok(opened.unwrap_or(plan))
    }

    async fn plan_of(
        &self,
        user: &str,
        persona: Option<&str>,
        session: Option<&str>,
    ) -> Result<Option<Plan>, StoreError> {
        let query = sqlx::query(sql::held::OPEN_PLANS).bind(user.to_owned()).bind(MAX_OPEN_PLANS as i64);
        let open = self.all(query, plans::plan).await?;
        Ok(narrowest(open.iter(), user, persona, session).cloned())
    }

    async fn plans(&self, user: Option<&str>) -> Result<Vec<Plan>, StoreError> {
        let query =
            sqlx::query(sql::held::PLANS).bind(user.map(str::to_owned)).bind(i64::from(MAX_PLANS_PAGE));
        self.all(query, plans::plan).await
    }

    async fn close_plan(&self, id: Uuid, at_ms: i64) -> Result<Option<Plan>, StoreError> {
        Ok(self.writer.write(StoreChange::ClosePlan { id, at_ms }).await?.plan)
    }

    async fn queue_step(&self, plan: Uuid, call: HeldCall) -> Result<u32, StoreError> {
        limits::check_held(&call)?;
        Ok(self.writer.write(StoreChange::QueueStep { plan, call: call.into() }).await?.step)
    }

    async fn grant_consent(&self, consent: Consent) -> Result<(), StoreError> {
        limits::check_consent(&consent)?;
        self.writer.write(StoreChange::GrantConsent(consent)).await?;
        Ok(())
    }

    async fn consent_for(&self, call: &ConsentQuery<'_>, now_ms: i64) -> Result<Option<Consent>, StoreError> {
        let query = sqlx::query(sql::consents::CONSENTS_ON)
            .bind(call.user.to_owned())
            .bind(call.server.to_string())
            .bind(call.tool.to_owned())
            .bind(call.digest.to_vec())
            .bind(call.session.map(str::to_owned))
            .bind(now_ms);
        Ok(self.all(query, consents::consent).await?.pop())
    }

    async fn consents(&self, user: Option<&str>) -> Result<Vec<Consent>, StoreError> {
        let query = sqlx::query(sql::consents::CONSENTS)
            .bind(user.map(str::to_owned))
            .bind(i64::from(MAX_CONSENTS_PAGE));
        self.all(query, consents::consent).await
    }

    async fn revoke_consent(&self, id: Uuid) -> Result<Option<Consent>, StoreError> {
        Ok(self.writer.write(StoreChange::RevokeConsent(id)).await?.consent)
    }

    async fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        self.all(sqlx::query(sql::consents::PINS).bind(MAX_PINS as i64), consents::pin).await
    }

    async fn pin(&self, server: &ServerName, tool: &str) -> Result<Option<Pin>, StoreError> {
        let query = sqlx::query(sql::consents::PIN).bind(server.to_string()).bind(tool.to_owned());
        Ok(self.all(query, consents::pin).await?.pop())
    }

    async fn save_pins(&self, pins: Vec<Pin>) -> Result<(), StoreError> {
        pins.iter().try_for_each(limits::check_pin)?;
        self.writer.write(StoreChange::SavePins(pins)).await?;
        Ok(())
    }

    async fn forget_pins(&self, server: &ServerName) -> Result<(), StoreError> {
        self.writer.write(StoreChange::ForgetPins(server.clone())).await?;
        Ok(())
    }

    async fn releases(&self) -> Result<Vec<Release>, StoreError> {
        self.all(sqlx::query(sql::consents::RELEASES).bind(MAX_RELEASES as i64), consents::release).await
    }

    async fn save_release(&self, release: Release) -> Result<(), StoreError> {
        limits::check_release(&release)?;
        self.writer.write(StoreChange::SaveRelease(release)).await?;
        Ok(())
    }

    async fn audit(&self, mut entry: AuditEntry) -> Result<(), StoreError> {
        entry.fit();
        self.writer.note(entry).await
    }

    async fn audit_now(&self, mut entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        entries.iter_mut().for_each(AuditEntry::fit);
        self.writer.write(StoreChange::Audit(entries)).await?;
        Ok(())
    }

    async fn audit_rows(&self, filter: AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        self.all(audit::list(filter).build(), audit::row).await
    }

    async fn verify_audit(&self) -> Result<AuditReport, StoreError> {
        let mut reader = self.readers.take().await?;
        let report = audit::verify(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(report)
    }

    async fn add_file_within(&self, file: FileRow, quota: FileQuota) -> Result<FileRow, StoreError> {
        limits::check_file(&file)?;
        let kept = self.writer.write(StoreChange::AddFile { file: file.clone().into(), quota }).await?.file;
        Ok(kept.unwrap_or(file))
    }

    async fn file_usage(&self, user: &str) -> Result<(u64, u64), StoreError> {
        let query = sqlx::query(sql::files::USER_FILES).bind(user.to_owned());
        Ok(self.all(query, files::usage).await?.pop().unwrap_or_default())
    }

    async fn files_before(&self, created_ms: i64) -> Result<Vec<Uuid>, StoreError> {
        let query = sqlx::query(sql::files::FILES_BEFORE).bind(created_ms).bind(i64::from(MAX_FILES_PAGE));
        self.all(query, files::id).await
    }

    async fn file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError> {
        Ok(self.all(sqlx::query(sql::files::FILE).bind(id.to_string()), files::file).await?.pop())
    }

    async fn file_named(
        &self,
        user: &str,
        session: Option<&str>,
        name: &str,
    ) -> Result<Option<FileRow>, StoreError> {
        let query = sqlx::query(sql::files::FILE_NAMED)
            .bind(user.to_owned())
            .bind(name.to_owned())
            .bind(session.map(str::to_owned));
        Ok(self.all(query, files::file).await?.pop())
    }

    async fn files(&self, filter: FileFilter) -> Result<Vec<FileRow>, StoreError> {
        self.all(files::list(filter).build(), files::file).await
    }

    async fn known_files(&self, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        limits::check_file_ids(ids.len())?;
        self.all(files::known(ids).build(), files::id).await
    }

    async fn remove_file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError> {
        Ok(self.writer.write(StoreChange::RemoveFile(id)).await?.file)
    }

    async fn open_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError> {
        self.writer.write(StoreChange::OpenGrant { call, until_ms }).await?;
        Ok(())
    }

    async fn end_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError> {
        self.writer.write(StoreChange::EndGrant { call, until_ms }).await?;
        Ok(())
    }

    async fn end_grants(&self, until_ms: i64) -> Result<(), StoreError> {
        self.writer.write(StoreChange::EndGrants { until_ms }).await?;
        Ok(())
    }

    async fn grant(&self, call: Uuid) -> Result<Option<i64>, StoreError> {
        let query = sqlx::query(sql::files::GRANT).bind(call.to_string());
        Ok(self.all(query, |row| Ok(sqlx::Row::try_get(row, "until_ms")?)).await?.pop())
    }

    async fn latest_clock(&self) -> Result<i64, StoreError> {
        let mut reader = self.readers.take().await?;
        let found = marks::read(reader.connection(), marks::CLOCK).await;
        let found = found.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(found)
    }

    async fn raise_clock(&self, at_ms: i64) -> Result<(), StoreError> {
        self.writer.write(StoreChange::RaiseClock(at_ms)).await?;
        Ok(())
    }

    async fn purge(&self, now_ms: i64) -> Result<(), StoreError> {
        let horizon_ms = self.retention.horizon_ms(now_ms);
        let kinds = [
            (sql::PURGE_NONCES, now_ms),
            (sql::PURGE_OLD_CALLS, horizon_ms),
            (sql::tokens::PURGE_TOKENS, horizon_ms),
            (sql::held::PURGE_OLD_HELD, horizon_ms),
            (sql::held::PURGE_SURPLUS_HELD, i64::from(MAX_HELD)),
            (sql::held::PURGE_RESULTS, i64::from(MAX_HELD_RESULTS)),
            (sql::held::PURGE_PLANS, horizon_ms),
            (sql::letters::PURGE_ENDED_LETTERS, now_ms.saturating_sub(ENDED_LETTER_MS)),
            (sql::letters::PURGE_OPEN_LETTERS, now_ms.saturating_sub(OPEN_LETTER_MS)),
            (sql::letters::PURGE_SURPLUS_LETTERS, i64::from(MAX_LETTERS)),
            (sql::health::PURGE_HEALTH, now_ms.saturating_sub(HEALTH_MS)),
            (sql::sign_ins::PURGE_SIGN_INS, now_ms),
            (sql::consents::PURGE_CONSENTS, now_ms),
            (sql::files::PURGE_GRANTS, now_ms),
            (sql::PURGE_SURPLUS_CALLS, i64::from(self.retention.max_rows)),
        ];
        for (statement, bound) in kinds {
            // In chunks, so that other writes are not blocked for long.
            while self.writer.write(StoreChange::Purge { statement, bound }).await?.rows >= PURGE_CHUNK {}
        }
        let retention = self.retention.audit;
        while self.writer.write(StoreChange::PurgeAudit { retention, now_ms }).await?.rows >= PURGE_CHUNK {}
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.writer.write(StoreChange::Nothing).await?;
        Ok(())
    }

    async fn close(&self) {
        // The writer closes last: the last connection to close removes the write-ahead log.
        self.readers.close().await;
        self.writer.close().await;
    }
}
