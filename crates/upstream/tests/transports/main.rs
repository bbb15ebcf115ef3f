//! Servers on WebSockets and on the older HTTP+SSE transport, on this machine.
#![allow(clippy::unwrap_used, reason = "tests")]

mod missing_command;
mod real;
mod sockets;
mod streams;
mod test_server;
mod tls;
mod turns;

use serde_json::{Value, json};
use sockets::Greeting;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use streams::Behavior;
use test_server::{Journal, Seen};
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::json::RawJson;
use toolbooth_core::secret::{KnownSecrets, SecretText};
use toolbooth_core::server::{OutboundAuth, RemoteEndpoint, ServerEntry, Transport};
use toolbooth_upstream::connection::{ProgressMode, UpstreamRequest};
use toolbooth_upstream::error::SentStatus;
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::open::{OpenContext, OpenRequest};
use toolbooth_upstream::peer::Peer;
use toolbooth_upstream::process::{Reaper, StderrTail};
use toolbooth_upstream::remote_parts::RemoteParts;
use toolbooth_upstream::websocket;
use toolbooth_upstream::{
    CallLink, Connection, ConnectionLease, LinkEvent, PeerAnswer, Remedy, ServerNotice, UpstreamError,
};

const LIMIT: usize = 50_000;
const SOON: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Over {
    Http,
    Sse,
    WebSocket,
}

/// A connection with its notices and the server's journal.
struct World {
    connection: Arc<Connection>,
    notices: mpsc::Receiver<ServerNotice>,
    journal: Journal,
}

struct Dial<'a> {
    over: Over,
    url: &'a str,
    credential: ServerCredential,
    capabilities: &'static str,
    time_limit: Duration,
}

impl<'a> Dial<'a> {
    fn new(over: Over, url: &'a str) -> Self {
        Self { over, url, credential: ServerCredential::None, capabilities: "{}", time_limit: SOON }
    }

    async fn open(self) -> Result<(Connection, mpsc::Receiver<ServerNotice>), UpstreamError> {
        let headers = BTreeMap::from([("x-team".to_owned(), SecretText::plain("blue"))]);
        let remote = RemoteEndpoint { url: SecretText::plain(self.url), headers };
        let transport = match self.over {
            Over::Http => Transport::Http(remote),
            Over::Sse => Transport::Sse(remote),
            Over::WebSocket => Transport::WebSocket(remote),
        };
        let mut entry = ServerEntry::with_defaults("tools".parse().unwrap(), transport);
        entry.connect_timeout = self.time_limit;
        let open_context = OpenContext {
            host_environment: BTreeMap::new(),
            allowed_environment: Vec::new(),
            reaper: Reaper::current_exe(),
            bundled: toolbooth_upstream::bundled::none,
            own_executable: "toolbooth".into(),
            roots: None,
            answer_limit: LIMIT,
        };
        let (notices, noticed) = mpsc::channel(16);
        let request = OpenRequest {
            entry: &entry,
            hint: None,
            capabilities: RawJson::trusted(self.capabilities),
            secrets: &KnownSecrets::default(),
            stderr: &StderrTail::new(),
            credential: self.credential,
            notices,
        };
        Ok((open_context.open(request).await?, noticed))
    }
}

/// Starts the small server and connects to it.
async fn world(over: Over, capabilities: &'static str) -> World {
    let (url, journal) = match over {
        Over::WebSocket => sockets::serve(Greeting::Mcp).await,
        _ => streams::serve(Behavior::Plain).await,
    };
    reached(over, &url, journal, capabilities).await
}

async fn reached(over: Over, url: &str, journal: Journal, capabilities: &'static str) -> World {
    let (connection, notices) = Dial { capabilities, ..Dial::new(over, url) }.open().await.unwrap();
    World { connection: Arc::new(connection), notices, journal }
}

impl World {
    /// Calls a tool in the background.
    fn call(&self, tool: &str, link: CallLink) -> tokio::task::JoinHandle<Result<Value, UpstreamError>> {
        let connection = self.connection.clone();
        let name = RawJson::from_value(tool);
        tokio::spawn(async move {
            // This client can be asked; a server asks only if it was told that it may.
            let capabilities = RawJson::trusted(r#"{"elicitation":{}}"#);
            let client = ClientFacts { capabilities, ..ClientFacts::default() };
            let params = vec![("name", name), ("arguments", RawJson::trusted(r#"{"text":"héllo"}"#))];
            let ask = UpstreamRequest {
                progress: ProgressMode::Wanted,
                ..UpstreamRequest::plain("tools/call", params, &client)
            };
            match ConnectionLease::take(connection).await.send(ask, &link).await? {
                PeerAnswer::Whole(Ok(result)) => Ok(serde_json::from_slice(result.as_bytes()).unwrap()),
                PeerAnswer::Whole(Err(error)) => Ok(json!({"error": error.message})),
                PeerAnswer::Long(_) => panic!("chunks although a whole result was requested"),
            }
        })
    }

    async fn outcome(&self, tool: &str) -> Result<Value, UpstreamError> {
        timeout(SOON, self.call(tool, CallLink::silent())).await.expect("an outcome in time").unwrap()
    }

    /// Waits for the notice that the connection was lost.
    async fn closed(&mut self) -> String {
        loop {
            if let ServerNotice::Closed(reason) = timeout(SOON, self.notices.recv()).await.unwrap().unwrap() {
                return reason;
            }
        }
    }
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn servers_complete_the_handshake_list_and_answer_with_progress() {
    for over in [Over::Sse, Over::WebSocket] {
        let world = world(over, "{}").await;
        assert_eq!(world.connection.revision.as_str(), "2024-11-05", "{over:?}");
        let listed = world.connection.discover().await.unwrap();
        assert_eq!(listed.tools.len(), 1, "{over:?}");
        let (link, mut events) = CallLink::new();
        let result = world.call("echo", link).await.unwrap().unwrap();
        assert_eq!(text_of(&result), "héllo", "{over:?}");
        let Some(LinkEvent::Progress(progress)) = events.recv().await else {
            panic!("no progress over {over:?}")
        };
        assert_eq!(progress.member("total").unwrap().as_str(), "2");
        world.connection.probe(SOON).await.unwrap();
    }
}

#[tokio::test]
async fn no_modern_request_is_sent_over_the_older_transport() {
    let mut world = world(Over::Sse, "{}").await;
    world.outcome("echo").await.unwrap();
    let discovers =
        |seen: &Seen| matches!(seen, Seen::Message(message) if message["method"] == "server/discover");
    assert!(!world.journal.drain().iter().any(discovers));
}

#[tokio::test]
async fn a_question_reaches_the_client_and_its_answer_the_server() {
    for over in [Over::Sse, Over::WebSocket] {
        let world = world(over, r#"{"elicitation":{}}"#).await;
        let (link, mut events) = CallLink::new();
        let call = world.call("ask", link);
        let Some(LinkEvent::Question(question)) = events.recv().await else {
            panic!("no question over {over:?}")
        };
        assert_eq!(question.method, "elicitation/create");
        let answer = RawJson::trusted(r#"{"action":"accept","content":{"who":"bo"}}"#);
        question.reply.send(Ok(answer)).unwrap();
        let result = timeout(SOON, call).await.unwrap().unwrap().unwrap();
        assert_eq!(result["structuredContent"]["content"]["who"], "bo", "{over:?}");
    }
}

#[tokio::test]
async fn an_event_over_the_limit_fails_its_own_call_only() {
    let mut world = world(Over::Sse, "{}").await;
    let waiting = world.call("wait for ever", CallLink::silent());
    world.journal.message("tools/call").await;
    assert!(matches!(world.outcome("long").await, Err(UpstreamError::TooLarge { limit: LIMIT, .. })));
    assert_eq!(text_of(&world.outcome("echo").await.unwrap()), "héllo");
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn a_socket_message_over_the_limit_fails_the_call_and_closes_the_socket() {
    let mut world = world(Over::WebSocket, "{}").await;
    assert!(matches!(world.outcome("long").await, Err(UpstreamError::TooLarge { limit: LIMIT, .. })));
    assert_eq!(world.closed().await, "it sent a message over the limit");
    assert_eq!(world.journal.end().await, Some(1009));
}

#[tokio::test]
async fn a_broken_channel_fails_waiting_calls_immediately() {
    for over in [Over::Sse, Over::WebSocket] {
        let mut world = world(over, "{}").await;
        let waiting = world.call("wait for ever", CallLink::silent());
        world.journal.message("tools/call").await;
        let cause = world.outcome("hang up").await;
        assert!(
            matches!(cause, Err(UpstreamError::Lost { sent: SentStatus::Maybe, .. })),
            "{over:?}: {cause:?}"
        );
        let waited = timeout(SOON, waiting).await.unwrap().unwrap();
        assert!(
            matches!(waited, Err(UpstreamError::Lost { sent: SentStatus::Maybe, .. })),
            "{over:?}: {waited:?}"
        );
        let reason = world.closed().await;
        let expected = if over == Over::Sse {
            "its stream broke off"
        } else {
            "it closed the connection without a close frame"
        };
        assert_eq!(reason, expected);
        let later = world.outcome("echo").await;
        assert!(
            matches!(later, Err(UpstreamError::Lost { sent: SentStatus::No, .. })),
            "{over:?}: {later:?}"
        );
    }
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_on_the_server() {
    for over in [Over::Sse, Over::WebSocket] {
        let mut world = world(over, "{}").await;
        let call = world.call("wait for ever", CallLink::silent());
        let id = world.journal.message("tools/call").await["id"].clone();
        call.abort();
        let cancelled = world.journal.message("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], id, "{over:?}");
    }
}

#[tokio::test]
async fn closing_is_announced_and_does_not_count_as_a_loss() {
    for (over, code) in [(Over::Sse, None), (Over::WebSocket, Some(1000))] {
        let mut world = world(over, "{}").await;
        timeout(SOON, world.connection.close()).await.unwrap();
        assert_eq!(world.journal.end().await, code, "{over:?}");
        assert!(world.notices.try_recv().is_err(), "{over:?}");
    }
}

#[tokio::test]
async fn a_connection_dropped_without_close_releases_its_channel() {
    for over in [Over::Sse, Over::WebSocket] {
        let World { connection, mut journal, .. } = world(over, "{}").await;
        drop(connection);
        journal.end().await;
    }
}

#[tokio::test]
async fn every_request_carries_headers_and_credential() {
    let auth = OutboundAuth::Bearer(SecretText::plain("s3cret"));
    for (over, requests) in [(Over::Sse, &["GET", "POST"][..]), (Over::WebSocket, &["handshake"])] {
        let (url, mut journal) = match over {
            Over::Sse => streams::serve(Behavior::Plain).await,
            _ => sockets::serve(Greeting::Mcp).await,
        };
        let credential = ServerCredential::fixed(&auth).unwrap();
        let _connection = Dial { credential, ..Dial::new(over, &url) }.open().await.unwrap();
        let seen = journal.drain();
        for request in requests {
            let headers = seen.iter().find_map(|seen| match seen {
                Seen::Headers(kind, headers) if kind == request => Some(BTreeMap::from_iter(headers.clone())),
                _ => None,
            });
            let headers = headers.unwrap();
            assert_eq!(headers["authorization"], "Bearer s3cret", "{request}");
            assert_eq!(headers["x-team"], "blue", "{request}");
        }
    }
}

#[tokio::test]
async fn a_refused_credential_is_reported_as_needs_auth() {
    for status in [401, 403] {
        for over in [Over::Sse, Over::WebSocket] {
            let (url, _journal) = match over {
                Over::Sse => streams::serve(Behavior::Refusal(status)).await,
                _ => sockets::serve(Greeting::Refusal(status)).await,
            };
            let error = Dial::new(over, &url).open().await.unwrap_err();
            let challenge = Some("Bearer realm=\"tools\"".to_owned());
            assert_eq!(
                error,
                UpstreamError::NeedsAuth {
                    server: "tools".into(),
                    challenge,
                    status,
                    remedy: Remedy::Configure
                },
                "{over:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_endpoint_on_another_origin_is_refused() {
    let (elsewhere, mut elsewhere_saw) = streams::serve(Behavior::Plain).await;
    let endpoint = elsewhere.replace("/sse", "/messages");
    let (url, _journal) = streams::serve(Behavior::Endpoint(endpoint)).await;
    let error = Dial::new(Over::Sse, &url).open().await.unwrap_err();
    assert!(error.to_string().ends_with("an endpoint on another origin"), "{error}");
    assert_eq!(elsewhere_saw.drain(), []);
}

#[tokio::test]
async fn an_endpoint_of_the_same_origin_may_be_absolute() {
    let endpoint = "http://{host}/messages?session=é".to_owned();
    let (url, journal) = streams::serve(Behavior::Endpoint(endpoint)).await;
    let world = reached(Over::Sse, &url, journal, "{}").await;
    world.outcome("echo").await.unwrap();
}

#[tokio::test]
async fn an_answer_overtakes_a_call_that_is_accepted_only_when_done() {
    let (url, journal) = streams::serve(Behavior::AcceptsWhenDone).await;
    let world = reached(Over::Sse, &url, journal, r#"{"elicitation":{}}"#).await;
    let (link, mut events) = CallLink::new();
    let call = world.call("ask", link);
    let Some(LinkEvent::Question(question)) = events.recv().await else { panic!("no question") };
    question.reply.send(Ok(RawJson::trusted(r#"{"action":"decline"}"#))).unwrap();
    let result = timeout(SOON, call).await.unwrap().unwrap().unwrap();
    assert_eq!(result["structuredContent"]["action"], "decline");
}

#[tokio::test]
async fn a_refused_message_fails_its_own_call_only() {
    let (url, journal) = streams::serve(Behavior::RefusesCalls(413)).await;
    let mut world = reached(Over::Sse, &url, journal, "{}").await;
    let refused = world.outcome("echo").await.unwrap();
    assert_eq!(refused["error"], "the server refused the message: HTTP 413 Payload Too Large");
    world.connection.probe(SOON).await.unwrap();
    assert!(world.notices.try_recv().is_err());
}

#[tokio::test]
async fn a_forgotten_session_is_a_lost_connection() {
    let (url, journal) = streams::serve(Behavior::RefusesCalls(404)).await;
    let mut world = reached(Over::Sse, &url, journal, "{}").await;
    assert!(matches!(world.outcome("echo").await, Err(UpstreamError::Lost { .. })));
    assert_eq!(world.closed().await, "it ended the session (HTTP 404 Not Found)");
}

#[tokio::test]
async fn a_server_without_streamable_http_is_reached_over_http_and_sse() {
    let (url, journal) = streams::serve(Behavior::Plain).await;
    let world = reached(Over::Http, &url, journal, "{}").await;
    assert_eq!(text_of(&world.outcome("echo").await.unwrap()), "héllo");
    // If nothing is there at all, the first error is reported.
    let error = Dial::new(Over::Http, &url.replace("/sse", "/mcp")).open().await.unwrap_err();
    assert!(error.to_string().contains("the handshake failed: HTTP 404"), "{error}");
    // A refused credential is the more useful error.
    let (url, _journal) = streams::serve(Behavior::Refusal(401)).await;
    let error = Dial::new(Over::Http, &url).open().await.unwrap_err();
    assert!(matches!(error, UpstreamError::NeedsAuth { status: 401, .. }), "{error}");
}

#[tokio::test]
async fn a_server_may_choose_no_subprotocol() {
    let (url, mut journal) = sockets::serve(Greeting::NoSubprotocol).await;
    let (_connection, _notices) = Dial::new(Over::WebSocket, &url).open().await.unwrap();
    assert_eq!(journal.header("handshake", "sec-websocket-protocol").await.as_deref(), Some("mcp"));
    assert_eq!(journal.header("handshake", "sec-websocket-protocol").await, None);
}

#[tokio::test]
async fn connecting_respects_its_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap(); // Connections are never accepted there.
    let (silent, _journal) = streams::serve(Behavior::Silent).await;
    let (dead_stream, dead_socket) = (format!("http://{address}/sse"), format!("ws://{address}"));
    for (over, url) in [(Over::Sse, dead_stream), (Over::Sse, silent), (Over::WebSocket, dead_socket)] {
        let time_limit = Duration::from_millis(100);
        let opened = Dial { time_limit, ..Dial::new(over, &url) }.open();
        let error = timeout(SOON, opened).await.unwrap().unwrap_err();
        let expected = matches!(error, UpstreamError::Timeout { .. } | UpstreamError::Unreachable { .. });
        assert!(expected, "{url}: {error}");
    }
}

#[tokio::test]
async fn only_a_peer_that_answers_no_pings_is_lost() {
    for (greeting, lost) in [(Greeting::Unresponsive, true), (Greeting::Mcp, false)] {
        let (url, _journal) = sockets::serve(greeting).await;
        let (notices, mut noticed) = mpsc::channel(4);
        let parts = RemoteParts {
            server: "tools".into(),
            origin: websocket::origin(&url).unwrap(),
            headers: Vec::new(),
            credential: ServerCredential::None,
            notices,
            roots: None,
            message_limit: LIMIT,
            connect_timeout: SOON,
        };
        let peer = websocket::open(parts, Duration::from_millis(200)).await.unwrap();
        let closed = timeout(Duration::from_secs(2), noticed.recv()).await;
        assert_eq!(closed.is_ok(), lost, "{greeting:?}: {closed:?}");
        timeout(SOON, peer.close()).await.unwrap();
    }
}

#[test]
fn handshakes_are_never_logged() {
    assert!(log::STATIC_MAX_LEVEL <= log::LevelFilter::Debug, "the WebSocket library traces whole requests");
}

// H4: a server that sends too many requests is disconnected on every duplex transport.
#[tokio::test]
async fn a_server_that_sends_too_many_requests_is_disconnected() {
    for over in [Over::Sse, Over::WebSocket] {
        let mut world = world(over, "{}").await;
        let error = world.outcome("flood").await.expect_err("disconnected");
        assert!(matches!(error, UpstreamError::Flooded { .. }), "{over:?}: {error}");
        let notice = loop {
            match timeout(SOON, world.notices.recv()).await.unwrap().unwrap() {
                ServerNotice::Flooded(reason) => break reason,
                ServerNotice::Closed(reason) => panic!("{over:?}: {reason}"),
                _ => {}
            }
        };
        assert!(notice.contains("requests"), "{over:?}: {notice}");
        let after = world.outcome("echo").await.expect_err("the connection is gone");
        assert!(matches!(after, UpstreamError::Lost { sent: SentStatus::No, .. }), "{over:?}: {after}");
    }
}
