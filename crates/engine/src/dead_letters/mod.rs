//! Dead letters: accepted calls that failed. They are stored before the caller gets the error, and can be replayed as
//! their original caller.
//!
//! A failed dispatch returns `DispatchFailure`: the problem, the attempts, and whether a server may have received the
//! call. `CallRecord::close` stores the letter and adds its id to the caller's hint. The rules (which failures are
//! stored, who may replay them, and when) are in `core/dead_letter`. Calls that are safe to repeat are replayed
//! automatically; after a restart, interrupted replays are released.

mod call_copy;
mod replay;
mod requests;

pub use replay::ReplayedCall;
pub use requests::ReplayAnyway;

use crate::answer::Answer;
use crate::catalog::LiveCatalog;
use crate::events::EventRing;
use crate::keys::sealing_key;
use crate::providers::random_fraction;
use crate::rights_source::RightsSourceLink;
use crate::shared_state::SharedState;
use crate::terms::{LetterTerms, SharedTerms};
use call_copy::CallCopy;
use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use toolbooth_core::call::{IncomingCall, Sealed, fingerprint};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::Tool;
use toolbooth_core::clock::Clock;
use toolbooth_core::dead_letter::{
    Attempt, DeadLetter, LetterFault, LetterState, ReplayMode, deserves_letter, next_retry_ms, replaying_of,
};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::redact;
use toolbooth_core::secret::SecretText;
use toolbooth_store::{MAX_SEALED_BYTES, Store};
use toolbooth_upstream::error::SentStatus;
use toolbooth_wire::state::Sealer;
use uuid::Uuid;

/// The name of the key in the store, used if no key is configured.
const KEY_NAME: &str = "dead-letter-key";
/// The maximum number of automatic replays at a time.
const MAX_CONCURRENT_REPLAYS: usize = 4;
/// The longest error message that is stored, in characters.
const MAX_TEXT: usize = 2_000;

/// A call that replays a dead letter.
pub(crate) struct ReplayRequest {
    /// The call, with the current rights of its caller.
    pub(crate) incoming: IncomingCall,
    /// The id of the letter.
    pub(crate) letter: Uuid,
    /// The id of the call that failed first.
    pub(crate) first_call: Uuid,
    /// The user who requested the replay; `None` for an automatic one.
    pub(crate) by: Option<Arc<str>>,
}

/// The outcome of a replay.
pub(crate) struct ReplayOutcome {
    /// The answer, or the problem.
    pub(crate) answer: Result<Answer, Problem>,
    /// The failed call, if it failed again in a way that deserves a letter.
    pub(crate) failed: Option<Box<FailedCall>>,
}

/// Runs the calls of dead letters. The call pipeline implements it.
pub(crate) trait ReplayRunner: Send + Sync {
    /// Runs a call without a waiting client, and records its outcome.
    fn replay(self: Arc<Self>, request: ReplayRequest) -> BoxFuture<'static, ReplayOutcome>;
}

/// The dead letters of this gateway: their encryption key, and the schedule of replays.
pub struct DeadLetters {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    terms: SharedTerms,
    events: Arc<EventRing>,
    catalog: Arc<LiveCatalog>,
    rights_source: Arc<RightsSourceLink>,
    configured_key: Option<SecretText>,
    sealer: OnceCell<Sealer>,
    replay_slots: Arc<Semaphore>,
    /// The earliest time at which a letter may be due. Too early is harmless.
    next_due_ms: AtomicI64,
    runner: OnceLock<Weak<dyn ReplayRunner>>,
}

impl std::fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetters").field("next_due_ms", &self.next_due_ms).finish_non_exhaustive()
    }
}

/// When an attempt began, and how long it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptTimes {
    at_ms: i64,
    duration_ms: u64,
}

impl AttemptTimes {
    /// Of an attempt that has just ended.
    pub(crate) fn until_now(clock: &Clock, took: Duration) -> Self {
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let at_ms = clock.now_ms().saturating_sub(i64::try_from(duration_ms).unwrap_or(i64::MAX));
        Self { at_ms, duration_ms }
    }
}

/// An attempt with this outcome.
pub(crate) fn attempt(provider: String, code: &str, times: AttemptTimes) -> Attempt {
    let AttemptTimes { at_ms, duration_ms } = times;
    Attempt { at_ms, provider, code: code.to_owned(), duration_ms }
}

/// The id of the provider of a tool without a list of providers.
pub(crate) fn provider_of(tool: &Tool) -> String {
    format!("mcp:{}", tool.server.name)
}

/// An accepted call that failed: the content of a dead letter.
pub(crate) struct FailedCall {
    caller: Arc<Caller>,
    client: Arc<ClientFacts>,
    tool: Arc<Tool>,
    arguments: RawJson,
    attempts: Vec<Attempt>,
    sent: SentStatus,
}

impl FailedCall {
    /// The content of a dead letter, if the failure deserves one.
    pub(crate) fn of(
        call: &Sealed,
        problem: &Problem,
        attempts: Vec<Attempt>,
        sent: SentStatus,
    ) -> Option<Box<Self>> {
        if !deserves_letter(problem) || call.tool().server.is_own() {
            return None;
        }
        let failed = Self {
            caller: call.caller().clone(),
            client: call.client().clone(),
            tool: call.tool().clone(),
            arguments: call.public_arguments().clone(),
            attempts,
            sent,
        };
        Some(Box::new(failed))
    }

    /// Whether the tool may have changed something although no answer arrived.
    fn may_have_happened(&self) -> bool {
        let repeatable = self.tool.terms.idempotency_key || !self.tool.effect().rung.writes();
        self.sent == SentStatus::Maybe && !repeatable
    }
}

/// The event about a letter.
fn letter_event(kind: EventKind, letter: &DeadLetter) -> Event {
    let event = Event::new(kind).user(letter.user.as_str()).server(&letter.server).tool(letter.tool.as_str());
    let event = event.call(letter.call_id).code(letter.error_code.clone());
    event.with("dead_letter", letter.id.to_string().as_str())
}

/// Whether the call needed a person's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PersonApproval {
    /// It did, so the gateway does not replay it without asking.
    Given,
    /// None was needed.
    NotNeeded,
}

impl DeadLetters {
    /// The letters with the configured key; without one, the key in the store is used.
    pub(crate) fn new(
        shared: &SharedState,
        catalog: Arc<LiveCatalog>,
        configured_key: Option<SecretText>,
    ) -> Self {
        Self {
            clock: shared.clock.clone(),
            store: shared.store.clone(),
            terms: shared.terms.clone(),
            events: shared.events.clone(),
            catalog,
            rights_source: shared.rights_source.clone(),
            configured_key,
            sealer: OnceCell::new(),
            replay_slots: Arc::new(Semaphore::new(MAX_CONCURRENT_REPLAYS)),
            next_due_ms: AtomicI64::new(i64::MIN),
            runner: OnceLock::new(),
        }
    }

    /// Sets the runner of replayed calls. Only the first call has an effect.
    pub(crate) fn set_runner(&self, runner: Weak<dyn ReplayRunner>) {
        let _ = self.runner.set(runner);
    }

    /// Looks for due letters at the next opportunity: another gateway has changed some.
    pub(crate) fn note_elsewhere(&self) {
        self.note_due(Some(i64::MIN));
    }

    fn note_due(&self, due_ms: Option<i64>) {
        if let Some(due_ms) = due_ms {
            self.next_due_ms.fetch_min(due_ms, Ordering::Relaxed);
        }
    }

    /// Stores a dead letter, and adds its id to the hint of the caller's problem.
    pub(crate) async fn keep(
        &self,
        failed: FailedCall,
        call: Uuid,
        approval: PersonApproval,
        problem: &mut Problem,
    ) -> Option<Uuid> {
        let letter = self.letter_of(failed, call, approval, problem).await;
        let (id, next) = (letter.id, letter.next_retry_ms);
        let event = letter_event(EventKind::DeadLetterAdded, &letter);
        if let Err(error) = self.store.add_letter(letter).await {
            tracing::error!(call = %call, "a failed call could not be stored as a dead letter: {error}");
            return None;
        }
        self.events.emit(event);
        self.note_due(next);
        let kept = match next {
            Some(_) => {
                format!("the call is kept as dead letter {id}, and the gateway will retry it")
            }
            None => {
                format!(
                    "the call is kept as dead letter {id}: `toolbooth dead-letters replay {id}` retries it"
                )
            }
        };
        problem.hint = Some(match problem.hint.take() {
            Some(hint) => format!("{hint}; {kept}"),
            None => kept,
        });
        Some(id)
    }

    async fn letter_of(
        &self,
        failed: FailedCall,
        call: Uuid,
        approval: PersonApproval,
        problem: &Problem,
    ) -> DeadLetter {
        let now = self.clock.now_ms();
        let replaying = match approval {
            PersonApproval::Given => ReplayMode::ByHand,
            PersonApproval::NotNeeded => replaying_of(&failed.tool),
        };
        let may_have_happened = failed.may_have_happened();
        let FailedCall { caller, client, tool, arguments, attempts, .. } = failed;
        let mut letter = DeadLetter {
            id: Uuid::now_v7(),
            call_id: call,
            user: caller.user.to_string(),
            persona: caller.persona_name().map(str::to_owned),
            session: caller.session.as_deref().map(str::to_owned),
            level: caller.compliance_level.as_ref().map(|level| level.name.to_string()),
            identified_by: Some(caller.identified_by.clone()),
            server: tool.server.name.clone(),
            tool: tool.name.to_string(),
            exposed: tool.exposed.to_string(),
            provider: attempts.last().map_or_else(|| provider_of(&tool), |last| last.provider.clone()),
            arguments_preview: redact::preview_without(&arguments, &self.terms.load().secrets),
            arguments_sha256: fingerprint(&arguments),
            sealed: None,
            error_code: problem.code.to_owned(),
            error_text: redact::masked(&problem.message, &self.terms.load().secrets)
                .chars()
                .take(MAX_TEXT)
                .collect(),
            attempts,
            created_ms: now,
            next_retry_ms: None,
            state: LetterState::Pending,
            replaying,
            may_have_happened,
            replays: 0,
            ended_ms: None,
        };
        letter.sealed = self.seal_letter(&letter, CallCopy { client: client.name(), arguments }).await;
        // Without a copy of the call there is nothing to replay.
        if letter.sealed.is_some() {
            letter.next_retry_ms = self.next_replay_ms(&letter);
        }
        letter
    }

    fn next_replay_ms(&self, letter: &DeadLetter) -> Option<i64> {
        if letter.replaying == ReplayMode::ByHand {
            return None;
        }
        let terms = self.terms.load();
        let LetterTerms { max_replays, schedule_seconds } = &terms.letters;
        next_retry_ms(schedule_seconds, letter.replays, *max_replays, self.clock.now_ms(), random_fraction())
    }

    async fn sealer(&self) -> Option<&Sealer> {
        let made = self.sealer.get_or_try_init(async || {
            let secret = match &self.configured_key {
                Some(secret) => secret.expose().as_bytes().to_vec(),
                None => sealing_key(&*self.store, KEY_NAME).await?.to_vec(),
            };
            let key = Sha256::new_with_prefix("toolbooth dead letters\0").chain_update(&secret).finalize();
            Ok::<_, Problem>(Sealer::new(&key.into()))
        });
        match made.await {
            Ok(sealer) => Some(sealer),
            Err(error) => {
                tracing::error!("the key of dead letters is not available: {}", error.message);
                None
            }
        }
    }

    async fn seal_letter(&self, letter: &DeadLetter, copy: CallCopy) -> Option<String> {
        // The sealed text is a third longer than the bytes.
        if copy.arguments.as_bytes().len() > MAX_SEALED_BYTES / 2 {
            return None;
        }
        self.sealer().await?.seal(&copy.write(), &letter.binding())
    }

    async fn open_letter(&self, letter: &DeadLetter) -> Result<CallCopy, LetterFault> {
        let id = letter.id;
        let sealed = letter.sealed.as_deref().ok_or(LetterFault::NoCopy { id })?;
        let sealer = self.sealer().await.ok_or(LetterFault::KeyLost { id })?;
        let opened = sealer.open(sealed, &letter.binding()).ok_or(LetterFault::KeyLost { id })?;
        CallCopy::read(opened).ok_or(LetterFault::KeyLost { id })
    }
}
