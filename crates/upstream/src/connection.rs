//! An established connection to a server: its era, its capabilities, and how requests are sent on it.

use crate::credential::ServerCredential;
use crate::error::UpstreamError;
use crate::link::CallLink;
use crate::peer::{EncodedRequest, Peer, PeerAnswer, QuestionPolicy, ResultReading};
use ::http::{HeaderName, HeaderValue};
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use toolbooth_core::call::Sealed;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::{Member, ObjectWriter, RawJson};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_core::server::ServerEntry;
use toolbooth_core::trace::{MAX_TRACESTATE, TRACEPARENT, TRACESTATE, TraceContext};
use toolbooth_wire::meta::OutgoingMeta;
use toolbooth_wire::mirror::{self, ParamHeader};
use toolbooth_wire::{Era, Revision, RpcError};

/// A connection to a server after the handshake.
#[derive(Debug)]
pub struct Connection {
    /// The server's name.
    pub server: String,
    /// The server's protocol era.
    pub era: Era,
    /// The negotiated protocol revision.
    pub revision: Revision,
    /// The capabilities that the server declared.
    pub capabilities: RawJson,
    /// Whether the server declared the tasks of revision 2025-11-25 for calls.
    pub has_legacy_tasks: bool,
    /// The server's `serverInfo`.
    pub server_info: Option<RawJson>,
    /// The server's instructions for models.
    pub instructions: Option<String>,
    pub(crate) peer: Box<dyn Peer>,
    /// Secrets to mask in everything the server sends.
    pub(crate) secrets: KnownSecrets,
    pub(crate) credential: ServerCredential,
    pub(crate) next_id: AtomicU64,
    /// The tool arguments to mirror in headers, by tool name.
    pub(crate) mirrored: ArcSwap<HashMap<String, Vec<ParamHeader>>>,
    /// Present if the server may ask questions and the transport does not link a question to its call. Then
    /// calls whose clients can be asked run one at a time (see `lease`).
    pub(crate) turns: Option<Arc<Semaphore>>,
    /// The link of the call that holds the turn.
    pub(crate) turn_holder: Mutex<Option<CallLink>>,
    pub(crate) question_policy: QuestionPolicy,
    pub(crate) opened: Instant,
    pub(crate) last_used_ms: AtomicU64,
    /// The log level last requested from a legacy server, as a verbosity rank.
    pub(crate) log_verbosity: AtomicU64,
}

/// The capabilities that allow a server to ask a client something.
pub(crate) const ASKABLE: [&str; 3] = ["elicitation", "sampling", "roots"];

/// Log levels, most verbose first.
pub const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A request from the gateway to a server.
#[derive(Debug)]
pub struct UpstreamRequest<'a> {
    /// The method.
    pub method: &'static str,
    /// The parameters without `_meta`.
    pub params: Vec<(&'static str, RawJson)>,
    /// The name of the called tool, for `tools/call`; written before the parameters.
    pub tool: Option<&'a str>,
    /// The client's capabilities and description.
    pub client: &'a ClientFacts,
    /// The client's own `_meta` members.
    pub meta: &'a [Member],
    /// Whether to request progress notifications.
    pub progress: ProgressMode,
    /// Whether a long result may stay in chunks.
    pub reading: ResultReading,
    /// Additional headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// Whether progress notifications are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// Request progress for the client.
    Wanted,
    /// Request progress for events; the client of the call gets none.
    Observed,
    /// Do not request progress.
    Unwanted,
}

impl ProgressMode {
    /// Whether the server is asked for progress.
    pub fn is_requested(self) -> bool {
        self != Self::Unwanted
    }
}

/// The parameters of a sealed call that differ between the rounds of a multi-round call.
#[derive(Debug, Default, Clone)]
pub struct Round {
    /// Answers to the server's input requests.
    pub input_responses: Option<RawJson>,
    /// The server's opaque request state, unchanged.
    pub request_state: Option<RawJson>,
}

impl<'a> UpstreamRequest<'a> {
    /// A request without a tool, progress, metadata or headers.
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
            progress: ProgressMode::Unwanted,
            reading: ResultReading::Whole,
            headers: Vec::new(),
        }
    }

    /// Adds the headers of the caller's request that the entry forwards to the server.
    pub fn forward_headers(&mut self, entry: &ServerEntry, caller: &Caller) {
        for (from, to) in &entry.forward_headers {
            let value = caller.forwarded.get(from).and_then(|value| HeaderValue::from_str(value).ok());
            if let (Some(mut value), Ok(name)) = (value, HeaderName::from_bytes(to.as_bytes())) {
                value.set_sensitive(true);
                self.headers.push((name, value));
            }
        }
    }

    /// The request for a sealed call.
    pub fn for_call(call: &'a Sealed, round: &Round, progress: ProgressMode, reading: ResultReading) -> Self {
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
    /// Sends a request of the gateway itself, during which the server cannot ask questions. Calls use a
    /// [`ConnectionLease`](crate::lease::ConnectionLease). Dropping the future cancels the request on the
    /// server too.
    pub async fn send(
        &self,
        request: UpstreamRequest<'_>,
        link: &CallLink,
    ) -> Result<PeerAnswer, UpstreamError> {
        self.send_with_policy(request, QuestionPolicy::No, link).await
    }

    pub(crate) async fn send_with_policy(
        &self,
        request: UpstreamRequest<'_>,
        question_policy: QuestionPolicy,
        link: &CallLink,
    ) -> Result<PeerAnswer, UpstreamError> {
        self.touch();
        let outbound = self.outbound(request, question_policy);
        if self.secrets.is_empty() && !self.credential.can_renew() {
            return self.exchange(outbound, link).await;
        }
        let link = link.masked_by(&self.secrets, &self.credential);
        let method = outbound.method;
        let mut answer = self.exchange(outbound, &link).await;
        // The OAuth tokens may have been renewed during the request.
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

    /// Sends a request and waits for its answer, or until the server exceeds its question limit.
    async fn exchange(&self, outbound: EncodedRequest, link: &CallLink) -> Result<PeerAnswer, UpstreamError> {
        if outbound.question_policy == QuestionPolicy::No {
            return self.peer.request(outbound, link).await;
        }
        tokio::select! {
            biased;
            answer = self.peer.request(outbound, link) => answer,
            // Dropping the request cancels it on the server.
            () = link.asked_too_much() => Err(UpstreamError::AskedTooMuch { server: self.server.clone() }),
        }
    }

    /// Sends a request and returns its result; a server error becomes an `Err`.
    pub async fn result(&self, request: UpstreamRequest<'_>) -> Result<RawJson, RequestError> {
        match self.send(request, &CallLink::silent()).await? {
            PeerAnswer::Whole(outcome) => outcome.map_err(RequestError::Rpc),
            PeerAnswer::Long(long) => Ok(long.whole()),
        }
    }

    fn outbound(&self, mut request: UpstreamRequest<'_>, question_policy: QuestionPolicy) -> EncodedRequest {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let token = request.progress.is_requested().then_some(id);
        let mut headers = std::mem::take(&mut request.headers);
        let mut name = None;
        if self.era == Era::Modern {
            if let Some(tool) = request.tool {
                name = Some(mirror::encode(tool));
                self.mirror_arguments(tool, &request.params, &mut headers);
            } else if let Some(member) = mirror::name_member(request.method) {
                let value = request.params.iter().find(|(key, _)| *key == member);
                name = value.and_then(|(_, value)| value.string()).map(|text| mirror::encode(&text));
            }
        }
        if !request.meta.is_empty() {
            trace_headers(request.meta, &mut headers);
        }
        let text = self.write(id, &request, token);
        EncodedRequest {
            id,
            method: request.method,
            text,
            name,
            headers,
            reading: request.reading,
            question_policy,
        }
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

    /// Serialises the message into one buffer.
    fn write(&self, id: u64, request: &UpstreamRequest<'_>, progress_token: Option<u64>) -> Bytes {
        let own_info;
        let mut stamp = OutgoingMeta { progress_token, rest: request.meta, ..OutgoingMeta::default() };
        if self.era == Era::Modern {
            stamp.revision = Some(self.revision);
            stamp.capabilities = Some(&request.client.capabilities);
            stamp.log_level = request.client.log_level.as_deref();
            stamp.client_info = match &request.client.info {
                Some(info) => Some(info),
                None => {
                    own_info = our_info();
                    Some(&own_info)
                }
            };
        }
        let sent = request.params.iter().map(|(key, value)| key.len() + value.as_bytes().len() + 4);
        let size = sent.sum::<usize>() + stamp.size() + request.tool.map_or(0, str::len) + 96;
        let mut message = ObjectWriter::with_capacity(size);
        message.text("jsonrpc", "2.0").number("id", id).text("method", request.method);
        if request.tool.is_some() || !request.params.is_empty() || stamp.has_content() {
            message.object("params", |params| {
                if let Some(tool) = request.tool {
                    params.text("name", tool);
                }
                for (key, value) in &request.params {
                    params.raw(key, value);
                }
                stamp.write(params);
            });
        }
        message.end()
    }

    /// Whether the call that holds the turn waits for a person, so that other calls should use another
    /// connection.
    pub(crate) fn waits_for_person(&self) -> bool {
        let Some(turns) = &self.turns else { return false };
        let turn_holder = self.turn_holder.lock().unwrap_or_else(PoisonError::into_inner);
        turns.available_permits() == 0 && turn_holder.as_ref().is_some_and(CallLink::waits_for_client)
    }

    /// Whether this connection has a turn that is free.
    pub(crate) fn has_free_turn(&self) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.available_permits() > 0)
    }

    /// Whether the server declared a capability.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.member(capability).is_some()
    }

    /// Whether the server announces list changes.
    pub fn announces_changes(&self) -> bool {
        ["tools", "prompts", "resources"].iter().any(|kind| {
            self.capabilities.at(&[kind, "listChanged"]).is_some_and(|value| value.as_str() == "true")
        })
    }

    /// Whether the server announces changes of all its lists.
    pub fn announces_all_changes(&self) -> bool {
        ["tools", "prompts", "resources"].iter().all(|kind| {
            let changes = self.capabilities.at(&[kind, "listChanged"]);
            !self.can(kind) || changes.is_some_and(|value| value.as_str() == "true")
        })
    }

    /// Health check: any answer counts as success.
    pub async fn probe(&self, within: Duration) -> Result<(), UpstreamError> {
        let method = match self.era {
            Era::Modern => "server/discover",
            Era::Legacy => "ping",
        };
        let client = ClientFacts::default();
        let asked = self.result(UpstreamRequest::plain(method, Vec::new(), &client));
        match tokio::time::timeout(within, asked).await {
            Err(_) => Err(UpstreamError::Timeout { server: self.server.clone(), after: within }),
            Ok(Ok(_) | Err(RequestError::Rpc(_))) => Ok(()),
            Ok(Err(RequestError::Upstream(error))) => Err(error),
        }
    }

    /// Sets the log level of a legacy server. The most verbose client wins; front ends filter for the others.
    pub async fn follow_log_level(&self, client: &ClientFacts) {
        let Some(level) = client.log_level.as_deref() else { return };
        if self.era == Era::Modern || !self.can("logging") {
            return;
        }
        let Some(wanted) = LOG_LEVELS.iter().position(|name| *name == level) else { return };
        let wanted = u64::try_from(LOG_LEVELS.len() - wanted).unwrap_or(0);
        if self.log_verbosity.fetch_max(wanted, Ordering::Relaxed) >= wanted {
            return;
        }
        let request =
            UpstreamRequest::plain("logging/setLevel", vec![("level", RawJson::from_value(level))], client);
        let _ = Box::pin(tokio::time::timeout(Duration::from_secs(5), self.result(request))).await;
    }

    /// Records the time of use.
    pub(crate) fn touch(&self) {
        self.last_used_ms.store(elapsed_ms(self.opened), Ordering::Relaxed);
    }

    /// How long the connection has been idle.
    pub fn idle_for(&self) -> Duration {
        Duration::from_millis(
            elapsed_ms(self.opened).saturating_sub(self.last_used_ms.load(Ordering::Relaxed)),
        )
    }

    /// Closes the connection.
    pub async fn close(&self) {
        self.peer.close().await;
    }
}

/// Copies the trace context of a request into headers, for servers that read it there.
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

/// Errors of the gateway's own requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The request could not be sent or answered.
    Upstream(UpstreamError),
    /// The server returned an error.
    Rpc(RpcError),
}

impl From<UpstreamError> for RequestError {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(error)
    }
}

/// The gateway's `clientInfo`.
pub fn our_info() -> RawJson {
    RawJson::trusted(concat!(
        r#"{"name":"toolbooth","title":"Toolbooth","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""}"#
    ))
}

/// A random id of this gateway process, used to detect a gateway configured as its own server.
pub fn our_instance() -> &'static str {
    static INSTANCE: OnceLock<String> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut bytes = [0_u8; 16];
        // Without randomness all such gateways share an id, which is better than an undetected loop.
        let _ = getrandom::fill(&mut bytes);
        toolbooth_core::hex::encode(&bytes)
    })
}

pub(crate) fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A peer together with the properties of its transport.
pub(crate) struct OpenedPeer {
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
