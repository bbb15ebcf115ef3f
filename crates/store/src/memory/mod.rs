//! The store in memory, which is lost with the process: for tests, trials and comparison.

mod audit;
mod consents;
mod console_sessions;
mod exposed_names;
mod files;
mod health;
mod held;
mod jobs;
mod letters;
mod shared_records;
mod sign_ins;
mod tokens;

use crate::audit::{AuditFilter, CallCountQuery, CallCounts, ResultSizeQuery, ResultSizes};
use crate::files::{FileFilter, FileQuota};
use crate::held::{HeldFilter, HeldStep, HeldUpdate};
use crate::limits::{self, MAX_OPEN_INTENTS, MAX_RECENT_CALLS, Retention};
use crate::records::{CallOutcome, CallRow, DiscoveryRecord, Intent, NonceUse, OutcomeWrite, outcome_write};
use crate::{Store, StoreError};
use async_trait::async_trait;
use audit::AuditTable;
use consents::ConsentTable;
use console_sessions::ConsoleSessionTable;
use exposed_names::ExposedNameTable;
use files::FileTable;
use health::HealthTable;
use held::HeldTable;
use jobs::WorkTable;
use letters::LetterTable;
use shared_records::SharedRecordTable;
use sign_ins::SignInTable;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokens::TokenTable;
use toolbooth_core::audit::{AuditEntry, AuditReport, AuditRow};
use toolbooth_core::clock::MAX_CLOCK_LEAD_MS;
use toolbooth_core::consent::{Consent, ConsentQuery, Pin, Release};
use toolbooth_core::file::FileRow;
use toolbooth_core::held::{Decision, HeldCall, HeldOutcome};
use toolbooth_core::names::ServerName;
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_core::plan::Plan;
use toolbooth_core::token::TokenRecord;
use uuid::Uuid;

/// The most nonces. Beyond it, new ones are refused: dropping one early would let a handle be used twice.
const MAX_NONCES: usize = 1_000_000;

/// A `Store` in the process's memory.
#[derive(Debug)]
pub struct MemoryStore {
    retention: Retention,
    state: Mutex<Option<MemoryState>>,
}

#[derive(Debug, Default)]
struct MemoryState {
    discoveries: BTreeMap<ServerName, DiscoveryRecord>,
    exposed_names: ExposedNameTable,
    calls: BTreeMap<u64, CallRow>,
    place: HashMap<Uuid, u64>,
    next_place: u64,
    secrets: HashMap<String, Vec<u8>>,
    nonces: HashMap<Vec<u8>, i64>,
    latest_clock: i64,
    tokens: TokenTable,
    held: HeldTable,
    letters: LetterTable,
    work: WorkTable,
    health: HealthTable,
    sign_ins: SignInTable,
    console_sessions: ConsoleSessionTable,
    shared_records: SharedRecordTable,
    consents: ConsentTable,
    files: FileTable,
    audit: AuditTable,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(retention: Retention) -> Self {
        Self { retention, state: Mutex::new(Some(MemoryState::default())) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut MemoryState) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match self.lock().as_mut() {
            Some(state) => act(state),
            None => Err(StoreError::Closed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<MemoryState>> {
        // Every change is a single step, so a panic elsewhere cannot leave a partial change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    fn call(&mut self, call_id: Uuid) -> Option<&mut CallRow> {
        self.calls.get_mut(self.place.get(&call_id)?)
    }

    fn step(&mut self, id: Uuid, step: HeldStep, audit: Option<AuditEntry>) -> HeldUpdate {
        let update = self.held.step(id, step);
        if let (HeldUpdate::Won(_), Some(entry)) = (&update, audit) {
            self.audit.add(entry);
        }
        update
    }

    fn sweep(&mut self, at_ms: i64, change: impl Fn(&HeldCall) -> Option<HeldCall>) -> Vec<HeldCall> {
        let (moved, traces) = self.held.sweep(at_ms, change);
        traces.into_iter().for_each(|entry| self.audit.add(entry));
        moved
    }

    fn drop_calls(&mut self, unwanted: impl Fn(u64, &CallRow) -> bool) {
        let places = &mut self.place;
        self.calls.retain(|place, row| {
            let keep = row.outcome.is_none() || !unwanted(*place, row);
            if !keep {
                places.remove(&row.intent.call_id);
            }
            keep
        });
    }

    fn drop_surplus(&mut self, max_rows: u32) {
        let Some((&newest_surplus, _)) = self.calls.iter().rev().nth(max_rows as usize) else { return };
        self.drop_calls(|place, _| place <= newest_surplus);
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn save_discovery(&self, record: DiscoveryRecord) -> Result<(), StoreError> {
        limits::check_discovery(&record)?;
        self.with(|state| {
            state.discoveries.insert(record.server.clone(), record);
            Ok(())
        })
    }

    async fn discoveries(&self) -> Result<Vec<DiscoveryRecord>, StoreError> {
        self.with(|state| Ok(state.discoveries.values().cloned().collect()))
    }

    async fn forget_discovery(&self, server: &ServerName) -> Result<(), StoreError> {
        self.with(|state| {
            state.discoveries.remove(server);
            Ok(())
        })
    }

    async fn write_intent(&self, intent: Intent) -> Result<(), StoreError> {
        limits::check_intent(&intent)?;
        let max_rows = self.retention.max_rows;
        self.with(|state| {
            if let Some(row) = state.call(intent.call_id) {
                let call_id = intent.call_id;
                return if row.intent == intent { Ok(()) } else { Err(StoreError::Conflict { call_id }) };
            }
            state.place.insert(intent.call_id, state.next_place);
            state.calls.insert(state.next_place, CallRow { intent, outcome: None });
            state.next_place += 1;
            // `purge` may never be called. Walking all rows is expensive, so it happens once per 1,000 intents.
            if state.next_place % 1_000 == 0 {
                state.drop_surplus(max_rows);
            }
            Ok(())
        })
    }

    async fn write_outcome(&self, outcome: CallOutcome) -> Result<(), StoreError> {
        limits::check_outcome(&outcome)?;
        let call_id = outcome.call_id;
        self.with(|state| {
            let row = state.call(call_id).ok_or(StoreError::NoIntent { call_id })?;
            match outcome_write(row.outcome.as_ref(), &outcome) {
                OutcomeWrite::Write => row.outcome = Some(outcome),
                OutcomeWrite::Repeat | OutcomeWrite::Keep => {}
                OutcomeWrite::Conflict => return Err(StoreError::Conflict { call_id }),
            }
            Ok(())
        })
    }

    async fn settle(&self, outcome: CallOutcome, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        let call = outcome.call_id;
        let is_stored = self
            .with(|state| Ok(state.call(call).is_some_and(|row| row.outcome.as_ref() == Some(&outcome))))?;
        self.audit_now(audit.filter(|_| !is_stored).into_iter().collect()).await?;
        self.write_outcome(outcome).await
    }

    async fn note_intent(&self, intent: Intent) -> Result<(), StoreError> {
        self.write_intent(intent).await
    }

    async fn note_end(&self, call: Uuid, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        self.with(|state| {
            if let Some(place) = state.place.remove(&call) {
                state.calls.remove(&place);
            }
            Ok(())
        })?;
        self.audit_now(audit.into_iter().collect()).await
    }

    async fn latest_clock(&self) -> Result<i64, StoreError> {
        self.with(|state| Ok(state.latest_clock))
    }

    async fn raise_clock(&self, at_ms: i64) -> Result<(), StoreError> {
        self.with(|state| {
            let lead_ms = state.latest_clock.saturating_sub(at_ms);
            // A stored time that is too far ahead came from a wrong clock.
            if !(0..=MAX_CLOCK_LEAD_MS).contains(&lead_ms) {
                state.latest_clock = at_ms;
            }
            Ok(())
        })
    }

    async fn open_intents(&self) -> Result<Vec<Intent>, StoreError> {
        self.with(|state| {
            let open = state.calls.values().filter(|row| row.outcome.is_none());
            Ok(open.take(MAX_OPEN_INTENTS as usize).map(|row| row.intent.clone()).collect())
        })
    }

    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError> {
        self.with(|state| {
            let mut closed = 0;
            for row in state.calls.values_mut().filter(|row| row.outcome.is_none()) {
                row.outcome = Some(interrupted(&row.intent, at_ms));
                state.audit.add(row.intent.interrupted_entry(at_ms));
                closed += 1;
            }
            Ok(closed)
        })
    }

    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        let limit = limit.min(MAX_RECENT_CALLS) as usize;
        self.with(|state| Ok(state.calls.values().rev().take(limit).cloned().collect()))
    }

    async fn get_or_create_secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError> {
        limits::check_secret_name(name)?;
        if let Some(secret) = self.with(|state| Ok(state.secrets.get(name).cloned()))? {
            return Ok(secret);
        }
        // The callback must not run under the lock.
        let candidate = create();
        limits::check_secret(&candidate)?;
        self.with(|state| Ok(state.secrets.entry(name.to_owned()).or_insert(candidate).clone()))
    }

    async fn use_nonce(&self, nonce: &[u8], expires_at_ms: i64) -> Result<NonceUse, StoreError> {
        limits::check_nonce(nonce)?;
        self.with(|state| {
            let full = state.nonces.len() >= MAX_NONCES;
            match state.nonces.entry(nonce.to_vec()) {
                Entry::Occupied(_) => Ok(NonceUse::Again),
                Entry::Vacant(_) if full => Err(StoreError::Full { what: "nonces" }),
                Entry::Vacant(free) => {
                    free.insert(expires_at_ms);
                    Ok(NonceUse::First)
                }
            }
        })
    }

    async fn add_token(&self, token: TokenRecord) -> Result<(), StoreError> {
        limits::check_token(&token)?;
        self.with(|state| state.tokens.add(token))
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>, StoreError> {
        self.with(|state| Ok(state.tokens.by_hash(hash)))
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.with(|state| Ok(state.tokens.all()))
    }

    async fn revoke_token(&self, id: &str, at_ms: i64) -> Result<Option<TokenRecord>, StoreError> {
        self.with(|state| Ok(state.tokens.revoke(id, at_ms)))
    }

    async fn hold(&self, call: HeldCall) -> Result<(), StoreError> {
        limits::check_held(&call)?;
        self.with(|state| state.held.hold(call))
    }

    async fn held(&self, id: Uuid) -> Result<Option<HeldCall>, StoreError> {
        self.with(|state| Ok(state.held.get(id)))
    }

    async fn held_calls(&self, filter: HeldFilter) -> Result<Vec<HeldCall>, StoreError> {
        self.with(|state| Ok(state.held.list(&filter)))
    }

    async fn decide_held(
        &self,
        id: Uuid,
        decision: Decision,
        audit: AuditEntry,
    ) -> Result<HeldUpdate, StoreError> {
        limits::check_decision(&decision)?;
        self.with(|state| Ok(state.step(id, HeldStep::Decide(decision), Some(audit))))
    }

    async fn claim_held(&self, id: Uuid, at_ms: i64) -> Result<HeldUpdate, StoreError> {
        self.with(|state| Ok(state.step(id, HeldStep::Claim { at_ms }, None)))
    }

    async fn finish_held(
        &self,
        id: Uuid,
        outcome: HeldOutcome,
        audit: AuditEntry,
    ) -> Result<HeldUpdate, StoreError> {
        limits::check_held_outcome(&outcome)?;
        self.with(|state| Ok(state.step(id, HeldStep::Finish(outcome), Some(audit))))
    }

    async fn expire_held(&self, now_ms: i64) -> Result<Vec<HeldCall>, StoreError> {
        self.with(|state| Ok(state.sweep(now_ms, |call| call.expire(now_ms).ok())))
    }

    async fn interrupted_held(&self, at_ms: i64) -> Result<Vec<HeldCall>, StoreError> {
        self.with(|state| Ok(state.sweep(at_ms, |call| call.interrupt(at_ms).ok())))
    }

    async fn open_plan(&self, plan: Plan) -> Result<Plan, StoreError> {
        limits::check_plan(&plan)?;
        self.with(|state| state.held.open_plan(plan))
    }

    async fn plan_of(
        &self,
        user: &str,
        persona: Option<&str>,
        session: Option<&str>,
    ) -> Result<Option<Plan>, StoreError> {
        self.with(|state| Ok(state.held.plan_of(user, persona, session)))
    }

    async fn plans(&self, user: Option<&str>) -> Result<Vec<Plan>, StoreError> {
        self.with(|state| Ok(state.held.plans(user)))
    }

    async fn close_plan(&self, id: Uuid, at_ms: i64) -> Result<Option<Plan>, StoreError> {
        self.with(|state| Ok(state.held.close_plan(id, at_ms)))
    }

    async fn queue_step(&self, plan: Uuid, call: HeldCall) -> Result<u32, StoreError> {
        limits::check_held(&call)?;
        self.with(|state| state.held.queue_step(plan, call))
    }

    async fn grant_consent(&self, consent: Consent) -> Result<(), StoreError> {
        limits::check_consent(&consent)?;
        self.with(|state| state.consents.grant(consent))
    }

    async fn consent_for(&self, call: &ConsentQuery<'_>, now_ms: i64) -> Result<Option<Consent>, StoreError> {
        self.with(|state| Ok(state.consents.find(call, now_ms)))
    }

    async fn consents(&self, user: Option<&str>) -> Result<Vec<Consent>, StoreError> {
        self.with(|state| Ok(state.consents.list(user)))
    }

    async fn revoke_consent(&self, id: Uuid) -> Result<Option<Consent>, StoreError> {
        self.with(|state| Ok(state.consents.revoke(id)))
    }

    async fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        self.with(|state| Ok(state.consents.pins()))
    }

    async fn pin(&self, server: &ServerName, tool: &str) -> Result<Option<Pin>, StoreError> {
        self.with(|state| Ok(state.consents.pin(server, tool)))
    }

    async fn releases(&self) -> Result<Vec<Release>, StoreError> {
        self.with(|state| Ok(state.consents.releases()))
    }

    async fn save_release(&self, release: Release) -> Result<(), StoreError> {
        limits::check_release(&release)?;
        self.with(|state| state.consents.save_release(release))
    }

    async fn save_pins(&self, pins: Vec<Pin>) -> Result<(), StoreError> {
        pins.iter().try_for_each(limits::check_pin)?;
        self.with(|state| state.consents.save_pins(pins))
    }

    async fn forget_pins(&self, server: &ServerName) -> Result<(), StoreError> {
        self.with(|state| {
            state.consents.forget_pins(server);
            Ok(())
        })
    }

    async fn audit(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.audit_now(vec![entry]).await
    }

    async fn audit_now(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.with(|state| {
            entries.into_iter().for_each(|entry| state.audit.add(entry));
            Ok(())
        })
    }

    async fn audit_rows(&self, filter: AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        self.with(|state| Ok(state.audit.list(&filter)))
    }

    async fn result_sizes(&self, query: ResultSizeQuery) -> Result<ResultSizes, StoreError> {
        self.with(|state| Ok(state.audit.result_sizes(&query)))
    }

    async fn call_counts(&self, query: CallCountQuery) -> Result<CallCounts, StoreError> {
        self.with(|state| Ok(state.audit.call_counts(&query)))
    }

    async fn verify_audit(&self) -> Result<AuditReport, StoreError> {
        self.with(|state| Ok(state.audit.verify()))
    }

    async fn add_file_within(&self, file: FileRow, quota: FileQuota) -> Result<FileRow, StoreError> {
        limits::check_file(&file)?;
        self.with(|state| state.files.add(file, quota))
    }

    async fn file_usage(&self, user: &str) -> Result<(u64, u64), StoreError> {
        self.with(|state| Ok(state.files.usage(user)))
    }

    async fn files_before(&self, created_ms: i64) -> Result<Vec<Uuid>, StoreError> {
        self.with(|state| Ok(state.files.before(created_ms)))
    }

    async fn file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError> {
        self.with(|state| Ok(state.files.find(id)))
    }

    async fn file_named(
        &self,
        user: &str,
        session: Option<&str>,
        name: &str,
    ) -> Result<Option<FileRow>, StoreError> {
        self.with(|state| Ok(state.files.named(user, session, name)))
    }

    async fn files(&self, filter: FileFilter) -> Result<Vec<FileRow>, StoreError> {
        self.with(|state| Ok(state.files.list(&filter)))
    }

    async fn known_files(&self, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        limits::check_file_ids(ids.len())?;
        self.with(|state| Ok(state.files.known(ids)))
    }

    async fn remove_file(&self, id: Uuid) -> Result<Option<FileRow>, StoreError> {
        self.with(|state| Ok(state.files.remove(id)))
    }

    async fn open_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError> {
        self.with(|state| {
            state.files.open_grant(call, until_ms);
            Ok(())
        })
    }

    async fn end_grant(&self, call: Uuid, until_ms: i64) -> Result<(), StoreError> {
        self.with(|state| {
            state.files.end_grant(call, until_ms);
            Ok(())
        })
    }

    async fn end_grants(&self, until_ms: i64) -> Result<(), StoreError> {
        self.with(|state| {
            state.files.end_grants(until_ms);
            Ok(())
        })
    }

    async fn grant(&self, call: Uuid) -> Result<Option<i64>, StoreError> {
        self.with(|state| Ok(state.files.grant(call)))
    }

    async fn purge(&self, now_ms: i64) -> Result<(), StoreError> {
        let horizon_ms = self.retention.horizon_ms(now_ms);
        self.with(|state| {
            state.nonces.retain(|_, expires_at_ms| *expires_at_ms > now_ms);
            state.drop_calls(|_, row| row.intent.at_ms < horizon_ms);
            state.drop_surplus(self.retention.max_rows);
            state.tokens.purge(horizon_ms);
            state.sign_ins.purge(now_ms);
            state.console_sessions.purge(now_ms);
            state.shared_records.purge(now_ms);
            state.held.purge(horizon_ms);
            state.letters.purge(now_ms);
            state.work.purge(now_ms);
            state.health.purge(now_ms);
            state.consents.purge(now_ms);
            state.files.purge(now_ms);
            state.audit.purge(self.retention.audit, now_ms);
            Ok(())
        })
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.with(|_| Ok(()))
    }

    async fn close(&self) {
        *self.lock() = None;
    }
}

fn interrupted(intent: &Intent, at_ms: i64) -> CallOutcome {
    CallOutcome {
        call_id: intent.call_id,
        at_ms,
        kind: OutcomeKind::Unknown,
        error_code: None,
        // It is not known how long the call ran before the gateway died.
        duration_ms: 0,
    }
}
