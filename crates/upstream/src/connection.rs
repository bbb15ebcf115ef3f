//! A connection that has shaken hands: which era, what the server can do, and how it is asked.

use crate::error::UpstreamError;
use crate::http::Credential;
use crate::link::CallLink;
use crate::peer::{Asking, Outbound, Peer, PeerAnswer, Reading};
use ::http::{HeaderName, HeaderValue};
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use toolbooth_core::call::Sealed;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::{Member, ObjectWriter, RawJson};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_core::server::ServerEntry;
use toolbooth_core::trace::{MAX_TRACESTATE, TRACEPARENT, TRACESTATE, TraceContext};
use toolbooth_wire::meta::Stamp;
use toolbooth_wire::mirror::{self, ParamHeader};
use toolbooth_wire::{Era, Revision, RpcError};

/// A server, ready to be asked.
#[derive(Debug)]
pub struct Connection {
    /// The server's name.
    pub server: String,
    /// The era it speaks.
    pub era: Era,
    /// The revision agreed on.
    pub revision: Revision,
    /// What it can do.
    pub capabilities: RawJson,
    /// Its description of itself.
    pub server_info: Option<RawJson>,
    /// Its advice to models.
    pub instructions: Option<String>,
    pub(crate) peer: Box<dyn Peer>,
    /// What the server must not repeat.
    pub(crate) secrets: KnownSecrets,
    pub(crate) credential: Credential,
    pub(crate) next_id: AtomicU64,
    /// Which arguments its tools want mirrored in headers.
    pub(crate) mirrored: ArcSwap<HashMap<String, Vec<ParamHeader>>>,
    /// Whether the server was told it may ask; then calls whose clients may be asked go one at a time where
    /// the transport does not link a question to its call (see `seat`).
    pub(crate) turns: Option<Arc<Semaphore>>,
    /// The call whose turn it is.
    pub(crate) holder: Mutex<Option<CallLink>>,
    pub(crate) asking: Asking,
    pub(crate) opened: Instant,
    pub(crate) last_used_ms: AtomicU64,
    /// How talkative a legacy server was told to be.
    pub(crate) loudness: AtomicU64,
}

/// The capabilities by which a server may ask a client something.
pub(crate) const ASKABLE: [&str; 3] = ["elicitation", "sampling", "roots"];

/// Log levels, most talkative first.
pub const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// One request of the gateway to a server.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The method.
    pub method: &'static str,
    /// The parameters, `_meta` aside.
    pub params: Vec<(&'static str, RawJson)>,
    /// The tool that is called, where one is: it stands before the parameters.
    pub tool: Option<&'a str>,
    /// What the client said about itself.
    pub client: &'a ClientFacts,
    /// The client's own `_meta` members.
    pub meta: &'a [Member],
    /// Whether progress is wanted.
    pub progress: Progress,
    /// Whether a long result may stay in pieces.
    pub reading: Reading,
    /// Headers besides the protocol's own.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// Whether the client wants progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It does.
    Wanted,
    /// It does not.
    Unwanted,
}

/// The parts of a sealed call that come with the round, not with the call.
#[derive(Debug, Default, Clone)]
pub struct Round {
    /// Answers to the server's questions.
    pub input_responses: Option<RawJson>,
    /// The server's own state, as it gave it.
    pub request_state: Option<RawJson>,
}

impl<'a> Ask<'a> {
    /// A request without anything special.
    pub fn plain(
        method: &'static str,
        params: Vec<(&'static str, RawJson)>,
        client: &'a ClientFacts,
    ) -> Self {
        Self {
            method,
            params,
            tool: None,
            client,
            meta: &[],
            progress: Progress::Unwanted,
            reading: Reading::Whole,
            headers: Vec::new(),
        }
    }

    /// Adds those headers of the caller's request that the server is to be passed on.
    pub fn carry(&mut self, entry: &ServerEntry, caller: &Caller) {
        for (from, to) in &entry.forward_headers {
            let value = caller.carried.get(from).and_then(|value| HeaderValue::from_str(value).ok());
            if let (Some(mut value), Ok(name)) = (value, HeaderName::from_bytes(to.as_bytes())) {
                value.set_sensitive(true);
                self.headers.push((name, value));
            }
        }
    }

    /// The request for a sealed call.
    pub fn for_call(call: &'a Sealed, round: &Round, progress: Progress, reading: Reading) -> Self {
        let mut params = vec![("arguments", call.arguments().clone())];
        if let Some(responses) = &round.input_responses {
            params.push(("inputResponses", responses.clone()));
        }
        if let Some(state) = &round.request_state {
            params.push(("requestState", state.clone()));
        }
        Self {
            method: "tools/call",
            params,
            tool: Some(&call.tool().name),
            client: call.client(),
            meta: call.meta(),
            progress,
            reading,
            headers: Vec::new(),
        }
    }
}

impl Connection {
    /// Asks the server for the gateway itself, which nobody can ask anything; calls have a
    /// [`Seat`](crate::seat::Seat). Dropping the future cancels the request there too.
    pub async fn ask(&self, ask: Ask<'_>, link: &CallLink) -> Result<PeerAnswer, UpstreamError> {
        self.request(ask, Asking::No, link).await
    }

    pub(crate) async fn request(
        &self,
        ask: Ask<'_>,
        asking: Asking,
        link: &CallLink,
    ) -> Result<PeerAnswer, UpstreamError> {
        self.touch();
        let outbound = self.outbound(ask, asking);
        if self.secrets.is_empty() && !self.credential.can_ask() {
            return self.exchange(outbound, link).await;
        }
        let link = link.masked_by(&self.secrets, &self.credential);
        let method = outbound.method;
        let mut answer = self.exchange(outbound, &link).await;
        // Tokens that were obtained may be others by now.
        let [tokens, former] = self.credential.secrets();
        for secrets in [&self.secrets, &tokens, &former] {
            if !secrets.is_empty() {
                answer = match answer {
                    Ok(answer) => Ok(answer.masked(method, secrets)),
                    Err(error) => Err(error.masked(secrets)),
                };
            }
        }
        answer
    }

    /// Sends a request and waits for its answer, or until the server has asked its client too much.
    async fn exchange(&self, outbound: Outbound, link: &CallLink) -> Result<PeerAnswer, UpstreamError> {
        if outbound.asking == Asking::No {
            return self.peer.request(outbound, link).await;
        }
        tokio::select! {
            biased;
            answer = self.peer.request(outbound, link) => answer,
            // Dropping the request tells the server that it is over.
            () = link.asked_too_much() => Err(UpstreamError::AskedTooMuch { server: self.server.clone() }),
        }
    }

    /// Asks, and takes a server's error for ours.
    pub async fn result(&self, ask: Ask<'_>) -> Result<RawJson, AskError> {
        match self.ask(ask, &CallLink::silent()).await? {
            PeerAnswer::Whole(outcome) => outcome.map_err(AskError::Rpc),
            PeerAnswer::Long(long) => Ok(long.whole()),
        }
    }

    fn outbound(&self, mut ask: Ask<'_>, asking: Asking) -> Outbound {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let token = (ask.progress == Progress::Wanted).then_some(id);
        let mut headers = std::mem::take(&mut ask.headers);
        let mut name = None;
        if self.era == Era::Modern {
            if let Some(tool) = ask.tool {
                name = Some(mirror::encode(tool));
                self.mirror_arguments(tool, &ask.params, &mut headers);
            } else if let Some(member) = mirror::name_member(ask.method) {
                let value = ask.params.iter().find(|(key, _)| *key == member);
                name = value.and_then(|(_, value)| value.string()).map(|text| mirror::encode(&text));
            }
        }
        if !ask.meta.is_empty() {
            trace_headers(ask.meta, &mut headers);
        }
        let text = self.write(id, &ask, token);
        Outbound { id, method: ask.method, text, name, headers, reading: ask.reading, asking }
    }

    fn mirror_arguments(
        &self,
        tool: &str,
        params: &[(&'static str, RawJson)],
        headers: &mut Vec<(HeaderName, HeaderValue)>,
    ) {
        let mirrored = self.mirrored.load();
        let Some(wanted) = mirrored.get(tool) else { return };
        let Some((_, arguments)) = params.iter().find(|(key, _)| *key == "arguments") else { return };
        for one in wanted {
            if let Some(value) = one.value(arguments) {
                headers.push((one.header.clone(), mirror::encode(&value)));
            }
        }
    }

    /// The message, written once into one buffer.
    fn write(&self, id: u64, ask: &Ask<'_>, progress_token: Option<u64>) -> Bytes {
        let ours;
        let mut stamp = Stamp { progress_token, rest: ask.meta, ..Stamp::default() };
        if self.era == Era::Modern {
            stamp.revision = Some(self.revision);
            stamp.capabilities = Some(&ask.client.capabilities);
            stamp.log_level = ask.client.log_level.as_deref();
            stamp.client_info = match &ask.client.info {
                Some(info) => Some(info),
                None => {
                    ours = our_info();
                    Some(&ours)
                }
            };
        }
        let sent = ask.params.iter().map(|(key, value)| key.len() + value.as_bytes().len() + 4);
        let size = sent.sum::<usize>() + stamp.size() + ask.tool.map_or(0, str::len) + 96;
        let mut message = ObjectWriter::with_capacity(size);
        message.text("jsonrpc", "2.0").number("id", id).text("method", ask.method);
        if ask.tool.is_some() || !ask.params.is_empty() || stamp.says_something() {
            message.object("params", |params| {
                if let Some(tool) = ask.tool {
                    params.text("name", tool);
                }
                for (key, value) in &ask.params {
                    params.raw(key, value);
                }
                stamp.write(params);
            });
        }
        message.end()
    }

    /// Whether the call whose turn it is waits for a person, so that others should go elsewhere.
    pub(crate) fn is_held_up(&self) -> bool {
        let Some(turns) = &self.turns else { return false };
        let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        turns.available_permits() == 0 && holder.as_ref().is_some_and(CallLink::waits_for_client)
    }

    /// Whether there is a turn and nobody has it.
    pub(crate) fn has_free_turn(&self) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.available_permits() > 0)
    }

    /// Whether the server declared a capability.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.member(capability).is_some()
    }

    /// Whether the server says it tells of changes.
    pub fn tells_of_changes(&self) -> bool {
        ["tools", "prompts", "resources"].iter().any(|kind| {
            self.capabilities.at(&[kind, "listChanged"]).is_some_and(|value| value.as_str() == "true")
        })
    }

    /// A sign of life: an answer of any kind will do.
    pub async fn probe(&self, within: Duration) -> Result<(), UpstreamError> {
        let method = match self.era {
            Era::Modern => "server/discover",
            Era::Legacy => "ping",
        };
        let client = ClientFacts::default();
        let asked = self.result(Ask::plain(method, Vec::new(), &client));
        match tokio::time::timeout(within, asked).await {
            Err(_) => Err(UpstreamError::Timeout { server: self.server.clone(), after: within }),
            Ok(Ok(_) | Err(AskError::Rpc(_))) => Ok(()),
            Ok(Err(AskError::Upstream(error))) => Err(error),
        }
    }

    /// Makes a legacy server as talkative as a client wants. Louder clients win; doors filter.
    pub async fn follow_log_level(&self, client: &ClientFacts) {
        let Some(level) = client.log_level.as_deref() else { return };
        if self.era == Era::Modern || !self.can("logging") {
            return;
        }
        let Some(wanted) = LOG_LEVELS.iter().position(|name| *name == level) else { return };
        let wanted = u64::try_from(LOG_LEVELS.len() - wanted).unwrap_or(0);
        if self.loudness.fetch_max(wanted, Ordering::Relaxed) >= wanted {
            return;
        }
        let ask = Ask::plain("logging/setLevel", vec![("level", RawJson::from_value(level))], client);
        let _ = Box::pin(tokio::time::timeout(Duration::from_secs(5), self.result(ask))).await;
    }

    /// Notes that somebody uses it.
    pub(crate) fn touch(&self) {
        self.last_used_ms.store(elapsed_ms(self.opened), Ordering::Relaxed);
    }

    /// How long nobody has used it.
    pub fn idle_for(&self) -> Duration {
        Duration::from_millis(
            elapsed_ms(self.opened).saturating_sub(self.last_used_ms.load(Ordering::Relaxed)),
        )
    }

    /// Ends the connection.
    pub async fn close(&self) {
        self.peer.close().await;
    }
}

/// The trace context of a request, for servers that look for it in headers.
fn trace_headers(meta: &[Member], headers: &mut Vec<(HeaderName, HeaderValue)>) {
    let text = |key: &str| meta.iter().find(|member| member.key == key)?.value.string();
    let Some(parent) = text(TRACEPARENT).filter(|parent| TraceContext::parse(parent).is_some()) else {
        return;
    };
    let state =
        text(TRACESTATE).filter(|state| state.len() <= MAX_TRACESTATE).map(|state| (TRACESTATE, state));
    for (name, value) in [(TRACEPARENT, parent)].into_iter().chain(state) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.push((HeaderName::from_static(name), value));
        }
    }
}

/// Why the gateway's own request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskError {
    /// The server could not be asked.
    Upstream(UpstreamError),
    /// The server said no.
    Rpc(RpcError),
}

impl From<UpstreamError> for AskError {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(error)
    }
}

/// How the gateway introduces itself.
pub fn our_info() -> RawJson {
    RawJson::trusted(concat!(
        r#"{"name":"toolbooth","title":"Toolbooth","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""}"#
    ))
}

/// Which gateway this is, told apart from all others for as long as it runs.
pub fn our_instance() -> &'static str {
    static INSTANCE: OnceLock<String> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut bytes = [0_u8; 16];
        // Without randomness all such gateways look alike: better than a loop that nobody ends.
        let _ = getrandom::fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

pub(crate) fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Shared by the connections of one server: a peer and how it came to be.
pub(crate) struct Opened {
    pub(crate) peer: Box<dyn Peer>,
    /// Whether the transport links a server's question to the call that caused it.
    pub(crate) linked: Linked,
}

/// Whether a transport links a server's question to the call that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    Yes,
    No,
}

pub(crate) type SharedConnection = Arc<Connection>;
