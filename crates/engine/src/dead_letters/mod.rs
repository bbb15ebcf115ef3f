//! Dead letters: accepted calls that failed. They are stored before the caller gets the error, and can be replayed as
//! their original caller.
//!
//! A failed dispatch returns `Undelivered`: the problem, the attempts, and whether a server may have received the
//! call. `CallRecord::close` stores the letter and adds its id to the caller's hint. The rules (which failures are
//! stored, who may replay them, and when) are in `core/dead_letter`. Calls that are safe to repeat are replayed
//! automatically; after a restart, interrupted replays are released.

mod call_copy;
mod replay;
mod requests;

pub use replay::ReplayedCall;
pub use requests::ReplayAnyway;

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::keys::sealing_key;
use crate::routing::InnerQuestion;
use call_copy::CallCopy;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;
use toolbooth_core::call::{Sealed, fingerprint};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::Tool;
use toolbooth_core::dead_letter::{
    Attempt, DeadLetter, LetterFault, LetterState, ReplayMode, SCHEDULE_SECONDS, deserves_letter,
    next_retry_ms, replaying_of,
};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::redact;
use toolbooth_core::secret::SecretText;
use toolbooth_store::MAX_SEALED_BYTES;
use toolbooth_upstream::UpstreamError;
use toolbooth_upstream::error::SentStatus;
use toolbooth_wire::state::Sealer;
use uuid::Uuid;

/// The name of the key in the store, used if no key is configured.
const KEY_NAME: &str = "dead-letter-key";
/// The maximum number of automatic replays at a time.
const MAX_CONCURRENT_REPLAYS: usize = 4;
/// The longest error message that is stored, in characters.
const MAX_TEXT: usize = 2_000;

/// Settings of dead letters.
#[derive(Debug, Clone)]
pub struct LetterTerms {
    /// How often a call that is safe to repeat is replayed automatically.
    pub max_replays: u32,
    /// The delays before the first, second, third and later automatic replays.
    pub schedule_seconds: Vec<u32>,
}

impl Default for LetterTerms {
    fn default() -> Self {
        Self { max_replays: 3, schedule_seconds: SCHEDULE_SECONDS.to_vec() }
    }
}

/// The state of dead letters in this process: their encryption key and the schedule of replays.
pub(crate) struct DeadLetterState {
    configured_key: Option<SecretText>,
    sealer: OnceCell<Sealer>,
    replay_slots: Arc<Semaphore>,
    /// The earliest time at which a letter may be due. Too early is harmless.
    next_due_ms: AtomicI64,
}

impl DeadLetterState {
    /// The state with the configured key; without one, the key in the store is used.
    pub(crate) fn new(configured_key: Option<SecretText>) -> Self {
        Self {
            configured_key,
            sealer: OnceCell::new(),
            replay_slots: Arc::new(Semaphore::new(MAX_CONCURRENT_REPLAYS)),
            next_due_ms: AtomicI64::new(i64::MIN),
        }
    }

    fn note_due(&self, due_ms: Option<i64>) {
        if let Some(due_ms) = due_ms {
            self.next_due_ms.fetch_min(due_ms, Ordering::Relaxed);
        }
    }
}

/// A call that was not served: the problem and the attempts.
pub(crate) struct Undelivered {
    pub(crate) problem: Problem,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) sent: SentStatus,
    /// A question that must be answered before a tool behind the called one serves the call; then nothing has failed.
    pub(crate) question: Option<Box<InnerQuestion>>,
}

impl Undelivered {
    /// A tool behind the called one requires an approval first.
    pub(crate) fn asking(question: Box<InnerQuestion>) -> Box<Self> {
        let problem = question.problem();
        Box::new(Self { problem, attempts: Vec::new(), sent: SentStatus::No, question: Some(question) })
    }

    /// No attempt was made.
    pub(crate) fn untried(problem: Problem) -> Box<Self> {
        Box::new(Self { problem, attempts: Vec::new(), sent: SentStatus::No, question: None })
    }

    /// An answer arrived but could not be passed on.
    pub(crate) fn after_answer(call: &Sealed, problem: Problem) -> Box<Self> {
        let tried = attempt(provider_of(call.tool()), problem.code, Duration::ZERO);
        Box::new(Self { problem, attempts: vec![tried], sent: SentStatus::Maybe, question: None })
    }

    /// Adds one provider's failure to earlier ones. `SentStatus::Maybe` is kept once it is set.
    pub(crate) fn then(
        before: Option<Box<Self>>,
        provider: String,
        problem: Problem,
        sent: SentStatus,
        began: Instant,
    ) -> Box<Self> {
        let sent = before
            .as_ref()
            .map(|before| before.sent)
            .filter(|sent| *sent == SentStatus::Maybe)
            .unwrap_or(sent);
        let mut attempts = before.map(|before| before.attempts).unwrap_or_default();
        attempts.push(attempt(provider, problem.code, began.elapsed()));
        Box::new(Self { problem, attempts, sent, question: None })
    }

    /// Joins the attempts that were made before or concurrently with these.
    pub(crate) fn after(mut self: Box<Self>, before: Option<Box<Self>>) -> Box<Self> {
        if let Some(mut before) = before {
            before.attempts.append(&mut self.attempts);
            self.attempts = before.attempts;
            if before.sent == SentStatus::Maybe {
                self.sent = SentStatus::Maybe;
            }
        }
        self
    }

    /// Adds a failure of a tool's own server.
    pub(crate) fn on_server(
        before: Option<Box<Self>>,
        server: &ServerName,
        error: &UpstreamError,
        began: Instant,
    ) -> Box<Self> {
        Self::then(before, format!("mcp:{server}"), Problem::of(error), error.sent(), began)
    }
}

fn attempt(provider: String, code: &str, took: Duration) -> Attempt {
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let at_ms = now_ms().saturating_sub(i64::try_from(duration_ms).unwrap_or(i64::MAX));
    Attempt { at_ms, provider, code: code.to_owned(), duration_ms }
}

fn provider_of(tool: &Tool) -> String {
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
    /// The content of a dead letter, if the failure deserves one, and the problem for the caller.
    pub(crate) fn of(call: &Sealed, undelivered: Undelivered) -> (Option<Box<Self>>, Problem) {
        let Undelivered { problem, attempts, sent, question: _ } = undelivered;
        if !deserves_letter(&problem) || call.tool().server.is_own() {
            return (None, problem);
        }
        let failed = Self {
            caller: call.caller().clone(),
            client: call.client().clone(),
            tool: call.tool().clone(),
            arguments: call.public_arguments().clone(),
            attempts,
            sent,
        };
        (Some(Box::new(failed)), problem)
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

impl Engine {
    /// Stores a dead letter, and adds its id to the hint of the caller's problem.
    pub(crate) async fn keep_letter(
        &self,
        failed: FailedCall,
        call: Uuid,
        approval: PersonApproval,
        problem: &mut Problem,
    ) {
        let letter = self.letter_of(failed, call, approval, problem).await;
        let (id, next) = (letter.id, letter.next_retry_ms);
        let event = letter_event(EventKind::DeadLetterAdded, &letter);
        if let Err(error) = self.store().add_letter(letter).await {
            tracing::error!(call = %call, "a failed call could not be stored as a dead letter: {error}");
            return;
        }
        self.emit(event);
        self.letters().note_due(next);
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
    }

    async fn letter_of(
        &self,
        failed: FailedCall,
        call: Uuid,
        approval: PersonApproval,
        problem: &Problem,
    ) -> DeadLetter {
        let now = now_ms();
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
            arguments_preview: redact::preview_without(&arguments, &self.terms().secrets),
            arguments_sha256: fingerprint(&arguments),
            sealed: None,
            error_code: problem.code.to_owned(),
            error_text: redact::masked(&problem.message, &self.terms().secrets)
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
        let terms = self.terms();
        let LetterTerms { max_replays, schedule_seconds } = &terms.letters;
        next_retry_ms(schedule_seconds, letter.replays, *max_replays, now_ms(), random_fraction())
    }

    async fn sealer(&self) -> Option<&Sealer> {
        let state = self.letters();
        let made = state.sealer.get_or_try_init(async || {
            let secret = match &state.configured_key {
                Some(secret) => secret.expose().as_bytes().to_vec(),
                None => sealing_key(&**self.store(), KEY_NAME).await?.to_vec(),
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

/// A random number from 0 to 1.
fn random_fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
