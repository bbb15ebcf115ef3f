//! Dead letters: calls that were accepted and came to nothing are written down before their caller hears of it,
//! and can be made again, as their first caller.

mod copy;
mod desk;
mod replay;

pub use desk::Insisting;
pub use replay::Replayed;

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::keys::sealing_key;
use crate::routing::InnerQuestion;
use copy::CallCopy;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};
use toolbooth_core::call::{Sealed, fingerprint};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::Tool;
use toolbooth_core::dead_letter::{
    Attempt, Letter, LetterFault, LetterState, Replaying, SCHEDULE_SECONDS, deserves_letter, next_retry_ms,
    replaying_of,
};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::redact;
use toolbooth_core::secret::SecretText;
use toolbooth_store::MAX_SEALED_BYTES;
use toolbooth_upstream::UpstreamError;
use toolbooth_upstream::error::Sent;
use toolbooth_wire::state::Sealer;
use uuid::Uuid;

/// The name under which the store keeps a key that nobody configured.
const KEY_NAME: &str = "dead-letter-key";
/// How many calls the gateway makes again by itself at once.
const AT_ONCE: usize = 4;
/// The longest sentence of a failure that is kept.
const MAX_TEXT: usize = 2_000;

/// What the configuration says about dead letters.
#[derive(Debug, Clone)]
pub struct LetterTerms {
    /// How often a safe call is made again by itself.
    pub max_replays: u32,
    /// After how many seconds, by how often that was done before.
    pub schedule_seconds: Vec<u32>,
}

impl Default for LetterTerms {
    fn default() -> Self {
        Self { max_replays: 3, schedule_seconds: SCHEDULE_SECONDS.to_vec() }
    }
}

/// The room where letters are sealed and opened.
pub(crate) struct LetterRoom {
    configured: Option<SecretText>,
    sealer: OnceCell<Sealer>,
    turns: Arc<Semaphore>,
    /// No letter is due before this; early is harmless.
    next_due_ms: AtomicI64,
}

impl LetterRoom {
    /// A room with the key that somebody configured, or the one that the store keeps.
    pub(crate) fn new(configured: Option<SecretText>) -> Self {
        Self {
            configured,
            sealer: OnceCell::new(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            next_due_ms: AtomicI64::new(i64::MIN),
        }
    }

    fn expect_at(&self, due_ms: Option<i64>) {
        if let Some(due_ms) = due_ms {
            self.next_due_ms.fetch_min(due_ms, Ordering::Relaxed);
        }
    }
}

/// A call that no provider served: why, and what was tried.
pub(crate) struct Undelivered {
    pub(crate) problem: Problem,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) sent: Sent,
    /// What a tool behind the called one asks before it serves the call; nothing has failed then.
    pub(crate) question: Option<Box<InnerQuestion>>,
}

impl Undelivered {
    /// A tool behind the called one asks something first.
    pub(crate) fn asking(question: Box<InnerQuestion>) -> Box<Self> {
        let problem = question.problem();
        Box::new(Self { problem, attempts: Vec::new(), sent: Sent::No, question: Some(question) })
    }

    /// Nothing was tried.
    pub(crate) fn untried(problem: Problem) -> Box<Self> {
        Box::new(Self { problem, attempts: Vec::new(), sent: Sent::No, question: None })
    }

    /// An answer came and could not be passed on.
    pub(crate) fn after_answer(call: &Sealed, problem: Problem) -> Box<Self> {
        let tried = attempt(provider_of(call.tool()), problem.code, Duration::ZERO);
        Box::new(Self { problem, attempts: vec![tried], sent: Sent::Maybe, question: None })
    }

    /// Notes one provider's failure after those before it. Once anything was sent, it stays so.
    pub(crate) fn then(
        before: Option<Box<Self>>,
        provider: String,
        problem: Problem,
        sent: Sent,
        began: Instant,
    ) -> Box<Self> {
        let sent =
            before.as_ref().map(|before| before.sent).filter(|sent| *sent == Sent::Maybe).unwrap_or(sent);
        let mut attempts = before.map(|before| before.attempts).unwrap_or_default();
        attempts.push(attempt(provider, problem.code, began.elapsed()));
        Box::new(Self { problem, attempts, sent, question: None })
    }

    /// What was tried before and beside this, as one.
    pub(crate) fn after(mut self: Box<Self>, before: Option<Box<Self>>) -> Box<Self> {
        if let Some(mut before) = before {
            before.attempts.append(&mut self.attempts);
            self.attempts = before.attempts;
            if before.sent == Sent::Maybe {
                self.sent = Sent::Maybe;
            }
        }
        self
    }

    /// Notes a failure of a tool's own server.
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

/// A call that was accepted and failed: what a letter is written from.
pub(crate) struct Lost {
    caller: Arc<Caller>,
    client: Arc<ClientFacts>,
    tool: Arc<Tool>,
    arguments: RawJson,
    attempts: Vec<Attempt>,
    sent: Sent,
}

impl Lost {
    /// What is kept of a call that ended so, where anything is.
    pub(crate) fn of(call: &Sealed, undelivered: Undelivered) -> (Option<Box<Self>>, Problem) {
        let Undelivered { problem, attempts, sent, question: _ } = undelivered;
        if !deserves_letter(&problem) || call.tool().server.is_own() {
            return (None, problem);
        }
        let lost = Self {
            caller: call.caller().clone(),
            client: call.client().clone(),
            tool: call.tool().clone(),
            arguments: call.public_arguments().clone(),
            attempts,
            sent,
        };
        (Some(Box::new(lost)), problem)
    }

    /// Whether the tool may have changed something though nobody heard so.
    fn may_have_happened(&self) -> bool {
        let repeatable = self.tool.terms.idempotency_key || !self.tool.effect().rung.writes();
        self.sent == Sent::Maybe && !repeatable
    }
}

/// What is told of a letter to those who follow events.
fn letter_event(kind: EventKind, letter: &Letter) -> Event {
    let event = Event::new(kind).user(letter.user.as_str()).server(&letter.server).tool(letter.tool.as_str());
    let event = event.call(letter.call_id).code(letter.error_code.clone());
    event.with("dead_letter", letter.id.to_string().as_str())
}

/// Whether a person had to agree to the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreed {
    /// One did, so the gateway does not make it again unasked.
    ByPerson,
    /// None was needed.
    Unasked,
}

impl Engine {
    /// Writes a letter, and says so in the problem that the caller is told.
    pub(crate) async fn keep_letter(&self, lost: Lost, call: Uuid, agreed: Agreed, problem: &mut Problem) {
        let letter = self.letter_of(lost, call, agreed, problem).await;
        let (id, next) = (letter.id, letter.next_retry_ms);
        let event = letter_event(EventKind::DeadLetterAdded, &letter);
        if let Err(error) = self.store().add_letter(letter).await {
            tracing::error!(call = %call, "a failed call was not kept as a dead letter: {error}");
            return;
        }
        self.emit(event);
        self.letters().expect_at(next);
        let kept = match next {
            Some(_) => {
                format!("the call is kept as dead letter {id}, and the gateway makes it again by itself")
            }
            None => {
                format!(
                    "the call is kept as dead letter {id}: `toolbooth dead-letters replay {id}` makes it again"
                )
            }
        };
        problem.hint = Some(match problem.hint.take() {
            Some(hint) => format!("{hint}; {kept}"),
            None => kept,
        });
    }

    async fn letter_of(&self, lost: Lost, call: Uuid, agreed: Agreed, problem: &Problem) -> Letter {
        let now = now_ms();
        let replaying = match agreed {
            Agreed::ByPerson => Replaying::ByHand,
            Agreed::Unasked => replaying_of(&lost.tool),
        };
        let may_have_happened = lost.may_have_happened();
        let Lost { caller, client, tool, arguments, attempts, .. } = lost;
        let mut letter = Letter {
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
        // What cannot be made again is not planned.
        if letter.sealed.is_some() {
            letter.next_retry_ms = self.next_replay_ms(&letter);
        }
        letter
    }

    fn next_replay_ms(&self, letter: &Letter) -> Option<i64> {
        if letter.replaying == Replaying::ByHand {
            return None;
        }
        let terms = self.terms();
        let LetterTerms { max_replays, schedule_seconds } = &terms.letters;
        next_retry_ms(schedule_seconds, letter.replays, *max_replays, now_ms(), chance())
    }

    async fn sealer(&self) -> Option<&Sealer> {
        let room = self.letters();
        let made = room.sealer.get_or_try_init(async || {
            let secret = match &room.configured {
                Some(secret) => secret.expose().as_bytes().to_vec(),
                None => sealing_key(&**self.store(), KEY_NAME).await?.to_vec(),
            };
            let key = Sha256::new_with_prefix("toolbooth dead letters\0").chain_update(&secret).finalize();
            Ok::<_, Problem>(Sealer::new(&key.into()))
        });
        match made.await {
            Ok(sealer) => Some(sealer),
            Err(error) => {
                tracing::error!("the key of dead letters cannot be had: {}", error.message);
                None
            }
        }
    }

    async fn seal_letter(&self, letter: &Letter, copy: CallCopy) -> Option<String> {
        // As text it is a third longer.
        if copy.arguments.as_bytes().len() > MAX_SEALED_BYTES / 2 {
            return None;
        }
        self.sealer().await?.seal(&copy.write(), &letter.binding())
    }

    async fn open_letter(&self, letter: &Letter) -> Result<CallCopy, LetterFault> {
        let id = letter.id;
        let sealed = letter.sealed.as_deref().ok_or(LetterFault::NoCopy { id })?;
        let sealer = self.sealer().await.ok_or(LetterFault::KeyLost { id })?;
        let opened = sealer.open(sealed, &letter.binding()).ok_or(LetterFault::KeyLost { id })?;
        CallCopy::read(opened).ok_or(LetterFault::KeyLost { id })
    }
}

/// A number from 0 to 1 that nobody can foresee.
fn chance() -> f64 {
    let mut bytes = [0_u8; 4];
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
