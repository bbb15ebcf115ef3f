//! The trait `Store`, once for both databases.

use super::change::{PURGE_CHUNK, StoreChange, Sweep, SweepScope};
use super::dialect::{DbRow, RESULT_SIZES, SHARED, StoreBackend};
use super::{audit, consents, discoveries, files, held, marks, plans, read, tokens};
use crate::audit::{
    AuditFilter, CallCountQuery, CallCounts, MAX_COUNTED_ROWS, MAX_MEASURED_ROWS, ResultSizeQuery,
    ResultSizes,
};
use crate::files::{FileFilter, FileQuota};
use crate::health::HEALTH_MS;
use crate::held::{HeldFilter, HeldPage, HeldStep, HeldUpdate, narrowest};
use crate::jobs::{CALL_TASK_MS, ENDED_WORK_MS, MAX_ENDED_WORK};
use crate::letters::{ENDED_LETTER_MS, MAX_LETTERS, OPEN_LETTER_MS};
use crate::limits::{
    self, MAX_CONSENTS_PAGE, MAX_FILES_PAGE, MAX_HELD, MAX_HELD_RESULTS, MAX_OPEN_INTENTS, MAX_OPEN_PLANS,
    MAX_PINS, MAX_PLANS_PAGE, MAX_RECENT_CALLS, MAX_RELEASES,
};
use crate::notices::{LostWork, StoreNotices};
use crate::records::{CallOutcome, CallRow, DiscoveryRecord, Intent, NonceUse};
use crate::shared_records::{MAIL_MS, check_mail};
use crate::{Store, StoreError, sql};
use async_trait::async_trait;
use futures_util::TryStreamExt;
use toolbooth_core::audit::{AuditEntry, AuditReport, AuditRow};
use toolbooth_core::consent::{Consent, ConsentQuery, Pin, Release};
use toolbooth_core::file::FileRow;
use toolbooth_core::held::{Decision, HeldCall, HeldOutcome};
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use toolbooth_core::token::TokenRecord;
use uuid::Uuid;

#[async_trait]
impl Store for StoreBackend {
    async fn save_discovery(&self, record: DiscoveryRecord) -> Result<(), StoreError> {
        limits::check_discovery(&record)?;
        self.change(StoreChange::SaveDiscovery(record)).await?;
        Ok(())
    }

    async fn discoveries(&self) -> Result<Vec<DiscoveryRecord>, StoreError> {
        let mut reader = self.reader().await?;
        let found = discoveries::all(reader.connection()).await.map_err(|error| self.fault(&error))?;
        reader.give_back();
        Ok(found)
    }

    async fn forget_discovery(&self, server: &ServerName) -> Result<(), StoreError> {
        self.change(StoreChange::ForgetDiscovery(server.clone())).await?;
        Ok(())
    }

    async fn write_intent(&self, intent: Intent) -> Result<(), StoreError> {
        limits::check_intent(&intent)?;
        self.change(StoreChange::Intent(intent)).await?;
        Ok(())
    }

    async fn write_outcome(&self, outcome: CallOutcome) -> Result<(), StoreError> {
        limits::check_outcome(&outcome)?;
        self.change(StoreChange::Outcome { outcome, audit: None }).await?;
        Ok(())
    }

    async fn settle(&self, outcome: CallOutcome, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        limits::check_outcome(&outcome)?;
        let audit = audit.map(|entry| Box::new(entry.truncated()));
        self.change(StoreChange::Outcome { outcome, audit }).await?;
        Ok(())
    }

    async fn note_intent(&self, intent: Intent) -> Result<(), StoreError> {
        limits::check_intent(&intent)?;
        self.begin_call(intent).await
    }

    async fn note_end(&self, call: Uuid, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        self.end_call(call, audit.map(AuditEntry::truncated)).await
    }

    async fn open_intents(&self) -> Result<Vec<Intent>, StoreError> {
        let query = sqlx::query(sql::OPEN_CALLS).bind(i64::from(MAX_OPEN_INTENTS));
        let open = self.all(query, read::call).await?;
        Ok(open.into_iter().map(|row| row.intent).collect())
    }

    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError> {
        self.close_calls(SweepScope::Start, at_ms).await
    }

    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        let query = sqlx::query(sql::RECENT_CALLS).bind(i64::from(limit.min(MAX_RECENT_CALLS)));
        self.all(query, read::call).await
    }

    async fn get_or_create_secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError> {
        limits::check_secret_name(name)?;
        self.secret(name, create).await
    }

    async fn use_nonce(&self, nonce: &[u8], expires_at_ms: i64) -> Result<NonceUse, StoreError> {
        limits::check_nonce(nonce)?;
        let effect = self.change(StoreChange::Nonce { nonce: nonce.to_vec(), expires_at_ms }).await?;
        Ok(if effect.rows == 1 { NonceUse::First } else { NonceUse::Again })
    }

    async fn add_token(&self, token: TokenRecord) -> Result<(), StoreError> {
        limits::check_token(&token)?;
        self.change(StoreChange::AddToken(token)).await?;
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
        Ok(self.change(StoreChange::RevokeToken { id: id.to_owned(), at_ms }).await?.token)
    }

    async fn hold(&self, call: HeldCall) -> Result<(), StoreError> {
        limits::check_held(&call)?;
        self.change(StoreChange::Hold(call.into())).await?;
        Ok(())
    }

    async fn held(&self, id: Uuid) -> Result<Option<HeldCall>, StoreError> {
        let query = sqlx::query(sql::held::HELD).bind(id.to_string());
        Ok(self.all(query, held::held).await?.pop())
    }

    async fn held_calls(&self, filter: HeldFilter) -> Result<Vec<HeldCall>, StoreError> {
        let mut reader = self.reader().await?;
        let mut query = held::list(filter);
        let mut page = HeldPage::default();
        {
            let mut found = query.build().fetch(reader.connection());
            while let Some(row) = found.try_next().await.map_err(|error| self.fault(&error))? {
                if read::readable(&[row], held::held).pop().is_some_and(|call| !page.add(call)) {
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
    ) -> Result<HeldUpdate, StoreError> {
        limits::check_decision(&decision)?;
        self.step(id, HeldStep::Decide(decision), Some(audit)).await
    }

    async fn claim_held(&self, id: Uuid, at_ms: i64) -> Result<HeldUpdate, StoreError> {
        self.step(id, HeldStep::Claim { at_ms }, None).await
    }

    async fn finish_held(
        &self,
        id: Uuid,
        outcome: HeldOutcome,
        audit: AuditEntry,
    ) -> Result<HeldUpdate, StoreError> {
        limits::check_held_outcome(&outcome)?;
        self.step(id, HeldStep::Finish(outcome), Some(audit)).await
    }

    async fn expire_held(&self, now_ms: i64) -> Result<Vec<HeldCall>, StoreError> {
        Ok(self.change(StoreChange::Sweep { sweep: Sweep::Overdue, at_ms: now_ms }).await?.held)
    }

    async fn interrupted_held(&self, at_ms: i64) -> Result<Vec<HeldCall>, StoreError> {
        self.interrupt_held(SweepScope::Start, at_ms).await
    }

    async fn open_plan(&self, plan: Plan) -> Result<Plan, StoreError> {
        limits::check_plan(&plan)?;
        let opened = self.change(StoreChange::OpenPlan(plan.clone())).await?.plan;
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
        Ok(self.change(StoreChange::ClosePlan { id, at_ms }).await?.plan)
    }

    async fn queue_step(&self, plan: Uuid, call: HeldCall) -> Result<u32, StoreError> {
        limits::check_held(&call)?;
        Ok(self.change(StoreChange::QueueStep { plan, call: call.into() }).await?.step)
    }

    async fn grant_consent(&self, consent: Consent) -> Result<(), StoreError> {
        limits::check_consent(&consent)?;
        self.change(StoreChange::GrantConsent(consent)).await?;
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
        Ok(self.change(StoreChange::RevokeConsent(id)).await?.consent)
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
        self.change(StoreChange::SavePins(pins)).await?;
        Ok(())
    }

    async fn forget_pins(&self, server: &ServerName) -> Result<(), StoreError> {
        self.change(StoreChange::ForgetPins(server.clone())).await?;
        Ok(())
    }

    async fn releases(&self) -> Result<Vec<Release>, StoreError> {
        self.all(sqlx::query(sql::consents::RELEASES).bind(MAX_RELEASES as i64), consents::release).await
    }

    async fn save_release(&self, release: Release) -> Result<(), StoreError> {
        limits::check_release(&release)?;
        self.change(StoreChange::SaveRelease(release)).await?;
        Ok(())
    }

    async fn audit(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.note(entry.truncated()).await
    }

    async fn audit_now(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        let entries = entries.into_iter().map(AuditEntry::truncated).collect();
        self.change(StoreChange::Audit(entries)).await?;
        Ok(())
    }

    async fn audit_rows(&self, filter: AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        if filter.has_nul() {
            return Ok(Vec::new());
        }
        self.all(audit::list(filter).build(), audit::row).await
    }

    async fn call_counts(&self, query: CallCountQuery) -> Result<CallCounts, StoreError> {
        // No row has such a user, and PostgreSQL does not accept the text.
        if query.user.as_deref().is_some_and(|user| user.contains('\0')) {
            return Ok(CallCounts::of(&query, Vec::new()));
        }
        let statement = match query.user {
            Some(_) => sql::audit::CALL_COUNTS_OF_USER,
            None => sql::audit::CALL_COUNTS,
        };
        let mut counting = sqlx::query(statement)
            .bind(query.from_ms)
            .bind(query.until_ms())
            .bind(i64::from(MAX_COUNTED_ROWS))
            .bind(query.step_ms.max(1));
        if let Some(user) = query.user.clone() {
            counting = counting.bind(user);
        }
        Ok(CallCounts::of(&query, self.all(counting, audit::counted).await?))
    }

    async fn result_sizes(&self, query: ResultSizeQuery) -> Result<ResultSizes, StoreError> {
        // As in `call_counts`.
        if query.user.as_deref().is_some_and(|user| user.contains('\0')) {
            return Ok(ResultSizes::of(&query, (0, 0), 0, query.from_ms));
        }
        let measuring = sqlx::query(RESULT_SIZES.as_str())
            .bind(query.from_ms)
            .bind(query.until_ms)
            .bind(i64::from(MAX_MEASURED_ROWS))
            .bind(query.user.clone());
        let sums = self.all(measuring, audit::measured).await?.pop().unwrap_or_default();
        Ok(ResultSizes::of(&query, (sums.results, sums.bytes), sums.read, sums.oldest_ms))
    }

    async fn verify_audit(&self) -> Result<AuditReport, StoreError> {
        let mut reader = self.reader().await?;
        let report = audit::verify(reader.connection()).await.map_err(|error| self.fault(&error))?;
        reader.give_back();
        Ok(report)
    }

    async fn add_file_within(&self, file: FileRow, quota: FileQuota) -> Result<FileRow, StoreError> {
        limits::check_file(&file)?;
        let kept = self.change(StoreChange::AddFile { file: file.clone().into(), quota }).await?.file;
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
        Ok(self.change(StoreChange::RemoveFile(id)).await?.file)
    }

    async fn open_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError> {
        self.change(StoreChange::OpenGrant { call, until_ms }).await?;
        Ok(())
    }

    async fn end_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError> {
        self.change(StoreChange::EndGrant { call, until_ms }).await?;
        Ok(())
    }

    async fn end_grants(&self, until_ms: i64) -> Result<(), StoreError> {
        self.change(StoreChange::EndGrants { scope: SweepScope::Start, until_ms }).await?;
        Ok(())
    }

    async fn grant(&self, call: Uuid) -> Result<Option<i64>, StoreError> {
        let query = sqlx::query(sql::files::GRANT).bind(call.to_string());
        Ok(self.all(query, |row| Ok(sqlx::Row::try_get(row, "until_ms")?)).await?.pop())
    }

    async fn latest_clock(&self) -> Result<i64, StoreError> {
        let mut reader = self.reader().await?;
        let found = marks::read(reader.connection(), marks::CLOCK).await;
        let found = found.map_err(|error| self.fault(&error))?;
        reader.give_back();
        Ok(found)
    }

    async fn raise_clock(&self, at_ms: i64) -> Result<(), StoreError> {
        self.change(StoreChange::RaiseClock(at_ms)).await?;
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
            (sql::jobs::PURGE_ENDED_WORK, now_ms.saturating_sub(ENDED_WORK_MS)),
            (sql::jobs::PURGE_SURPLUS_WORK, i64::from(MAX_ENDED_WORK)),
            (sql::jobs::PURGE_CALL_TASKS, now_ms.saturating_sub(CALL_TASK_MS)),
            (sql::health::PURGE_HEALTH, now_ms.saturating_sub(HEALTH_MS)),
            (sql::sign_ins::PURGE_SIGN_INS, now_ms),
            (sql::console_sessions::PURGE_SESSIONS, now_ms),
            (sql::shared_records::PURGE_SHARED, now_ms),
            (sql::consents::PURGE_CONSENTS, now_ms),
            (sql::files::PURGE_GRANTS, now_ms),
            (sql::PURGE_SURPLUS_CALLS, i64::from(self.retention.max_rows)),
        ];
        // SQLite has no messages: one gateway uses it.
        let mail = (sql::shared_records::PURGE_MAIL, now_ms.saturating_sub(MAIL_MS));
        for (statement, bound) in kinds.into_iter().chain(SHARED.then_some(mail)) {
            // In chunks, so that other writes are not blocked for long.
            while self.change(StoreChange::Purge { statement, bound }).await?.rows >= PURGE_CHUNK {}
        }
        let retention = self.retention.audit;
        self.drop_old_audit(retention, now_ms).await?;
        while self.change(StoreChange::PurgeAudit { retention, now_ms }).await?.rows >= PURGE_CHUNK {}
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.change(StoreChange::Nothing).await?;
        Ok(())
    }

    async fn close(&self) {
        self.shut().await;
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.probe().await
    }

    fn is_shared(&self) -> bool {
        SHARED
    }

    fn replica(&self) -> &str {
        self.replica_id()
    }

    fn notices(&self) -> Option<StoreNotices> {
        self.follow()
    }

    async fn live_replicas(&self) -> Result<Vec<String>, StoreError> {
        if !SHARED {
            return Ok(vec![self.replica_id().to_owned()]);
        }
        self.all(sqlx::query(sql::shared_records::LIVE_REPLICAS), |row| Ok(sqlx::Row::try_get(row, 0)?)).await
    }

    async fn send_mail(&self, to: &str, body: String, at_ms: i64) -> Result<u64, StoreError> {
        check_mail(to, &body)?;
        if !SHARED {
            return Ok(0);
        }
        Ok(self.change(StoreChange::SendMail { to: to.to_owned(), body, at_ms }).await?.rows)
    }

    async fn take_mail(&self) -> Result<Vec<String>, StoreError> {
        if !SHARED {
            return Ok(Vec::new());
        }
        let query = sqlx::query(sql::shared_records::TAKE_MAIL).bind(self.replica_id().to_owned());
        let message = |row: &DbRow| Ok((sqlx::Row::try_get::<i64, _>(row, 0)?, sqlx::Row::try_get(row, 1)?));
        let mut taken: Vec<(i64, String)> = self.all(query, message).await?;
        taken.sort_unstable_by_key(|(seq, _)| *seq);
        Ok(taken.into_iter().map(|(_, body)| body).collect())
    }

    async fn end_lost_work(
        &self,
        at_ms: i64,
        next_retry_ms: i64,
        grants_until_ms: i64,
    ) -> Result<LostWork, StoreError> {
        if !SHARED {
            return Ok(LostWork::default());
        }
        let scope = SweepScope::Lost;
        let held = self.interrupt_held(scope, at_ms).await?;
        let calls = self.close_calls(scope, at_ms).await?;
        let letters = self.interrupt_letters(scope, at_ms, next_retry_ms).await?;
        self.change(StoreChange::EndGrants { scope, until_ms: grants_until_ms }).await?;
        Ok(LostWork { calls, held, letters })
    }
}

impl StoreBackend {
    async fn step(
        &self,
        id: Uuid,
        step: HeldStep,
        audit: Option<AuditEntry>,
    ) -> Result<HeldUpdate, StoreError> {
        let audit = audit.map(|entry| Box::new(entry.truncated()));
        let change = StoreChange::Step { id, step, audit };
        Ok(self.change(change).await?.held_update)
    }

    async fn close_calls(&self, scope: SweepScope, at_ms: i64) -> Result<u64, StoreError> {
        let mut closed = 0;
        loop {
            let rows = self.change(StoreChange::CloseInterrupted { scope, at_ms }).await?.rows;
            closed += rows;
            if rows < u64::from(MAX_OPEN_INTENTS) {
                return Ok(closed);
            }
        }
    }

    async fn interrupt_held(&self, scope: SweepScope, at_ms: i64) -> Result<Vec<HeldCall>, StoreError> {
        let mut all = Vec::new();
        loop {
            let sweep = Sweep::Interrupted(scope);
            let some = self.change(StoreChange::Sweep { sweep, at_ms }).await?.held;
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some);
        }
    }
}
