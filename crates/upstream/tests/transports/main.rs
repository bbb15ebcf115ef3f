//! Servers on WebSockets and on the older HTTP+SSE transport, on this machine.
#![allow(clippy::unwrap_used)]

mod brain;
mod real;
mod sockets;
mod streams;
mod tls;
mod turns;

use brain::{Journal, Seen};
use serde_json::{Value, json};
use sockets::Greeting;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use streams::Manner;
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::json::RawJson;
use toolbooth_core::secret::{KnownSecrets, SecretText};
use toolbooth_core::server::{OutboundAuth, Remote, ServerEntry, Transport};
use toolbooth_upstream::connection::{Ask, Progress};
use toolbooth_upstream::error::Sent;
use toolbooth_upstream::http::Credential;
use toolbooth_upstream::open::{OpenRequest, Surroundings};
use toolbooth_upstream::peer::Peer;
use toolbooth_upstream::process::{Reaper, StderrTail};
use toolbooth_upstream::websocket::{self, WebSocketParts};
use toolbooth_upstream::{CallLink, Connection, LinkEvent, Notice, PeerAnswer, Remedy, Seat, UpstreamError};

const LIMIT: usize = 50_000;
const SOON: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Over {
    Http,
    Sse,
    WebSocket,
}

/// A connection and everything around it.
struct World {
    connection: Arc<Connection>,
    notices: mpsc::Receiver<Notice>,
    journal: Journal,
}

struct Dial<'a> {
    over: Over,
    url: &'a str,
    credential: Credential,
    capabilities: &'static str,
    patience: Duration,
}

impl<'a> Dial<'a> {
    fn new(over: Over, url: &'a str) -> Self {
        Self { over, url, credential: Credential::None, capabilities: "{}", patience: SOON }
    }

    async fn open(self) -> Result<(Connection, mpsc::Receiver<Notice>), UpstreamError> {
        let headers = BTreeMap::from([("x-team".to_owned(), SecretText::plain("blue"))]);
        let remote = Remote { url: SecretText::plain(self.url), headers };
        let transport = match self.over {
            Over::Http => Transport::Http(remote),
            Over::Sse => Transport::Sse(remote),
            Over::WebSocket => Transport::WebSocket(remote),
        };
        let mut entry = ServerEntry::with_defaults("tools".parse().unwrap(), transport);
        entry.connect_timeout = self.patience;
        let surroundings = Surroundings {
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
        Ok((surroundings.open(request).await?, noticed))
    }
}

/// The small server, reached over a transport.
async fn world(over: Over, capabilities: &'static str) -> World {
    let (url, journal) = match over {
        Over::WebSocket => sockets::serve(Greeting::Mcp).await,
        _ => streams::serve(Manner::Plain).await,
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
            // A client that can be asked; where the server was told of nothing, it asks nothing.
            let capabilities = RawJson::trusted(r#"{"elicitation":{}}"#);
            let client = ClientFacts { capabilities, ..ClientFacts::default() };
            let params = vec![("name", name), ("arguments", RawJson::trusted(r#"{"text":"héllo"}"#))];
            let ask = Ask { progress: Progress::Wanted, ..Ask::plain("tools/call", params, &client) };
            match Seat::take(connection).await.ask(ask, &link).await? {
                PeerAnswer::Whole(Ok(result)) => Ok(serde_json::from_slice(result.as_bytes()).unwrap()),
                PeerAnswer::Whole(Err(error)) => Ok(json!({"error": error.message})),
                PeerAnswer::Long(_) => panic!("pieces where a whole text was asked for"),
            }
        })
    }

    async fn outcome(&self, tool: &str) -> Result<Value, UpstreamError> {
        timeout(SOON, self.call(tool, CallLink::silent())).await.expect("an outcome in time").unwrap()
    }

    /// Waits until the gateway is told that the connection is gone.
    async fn closed(&mut self) -> String {
        loop {
            if let Notice::Closed(reason) = timeout(SOON, self.notices.recv()).await.unwrap().unwrap() {
                return reason;
            }
        }
    }
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn servers_shake_hands_list_and_answer_with_progress() {
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
async fn the_older_transport_hears_no_modern_word() {
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
async fn a_socket_message_over_the_limit_is_told_and_ends_the_socket() {
    let mut world = world(Over::WebSocket, "{}").await;
    assert!(matches!(world.outcome("long").await, Err(UpstreamError::TooLarge { limit: LIMIT, .. })));
    assert_eq!(world.closed().await, "it sent a message over the limit");
    assert_eq!(world.journal.end().await, Some(1009));
}

#[tokio::test]
async fn a_broken_channel_fails_waiting_calls_at_once() {
    for over in [Over::Sse, Over::WebSocket] {
        let mut world = world(over, "{}").await;
        let waiting = world.call("wait for ever", CallLink::silent());
        world.journal.message("tools/call").await;
        let cause = world.outcome("hang up").await;
        assert!(matches!(cause, Err(UpstreamError::Lost { sent: Sent::Maybe, .. })), "{over:?}: {cause:?}");
        let waited = timeout(SOON, waiting).await.unwrap().unwrap();
        assert!(matches!(waited, Err(UpstreamError::Lost { sent: Sent::Maybe, .. })), "{over:?}: {waited:?}");
        let reason = world.closed().await;
        let expected =
            if over == Over::Sse { "its stream broke off" } else { "it hung up without a goodbye" };
        assert_eq!(reason, expected);
        let later = world.outcome("echo").await;
        assert!(matches!(later, Err(UpstreamError::Lost { sent: Sent::No, .. })), "{over:?}: {later:?}");
    }
}

#[tokio::test]
async fn a_caller_who_leaves_is_told_to_the_server() {
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
async fn closing_says_goodbye_and_is_no_loss() {
    for (over, code) in [(Over::Sse, None), (Over::WebSocket, Some(1000))] {
        let mut world = world(over, "{}").await;
        timeout(SOON, world.connection.close()).await.unwrap();
        assert_eq!(world.journal.end().await, code, "{over:?}");
        assert!(world.notices.try_recv().is_err(), "{over:?}");
    }
}

#[tokio::test]
async fn a_connection_that_was_dropped_unclosed_keeps_nothing_open() {
    for over in [Over::Sse, Over::WebSocket] {
        let World { connection, mut journal, .. } = world(over, "{}").await;
        drop(connection);
        journal.end().await;
    }
}

#[tokio::test]
async fn headers_and_credential_are_on_every_request() {
    let auth = OutboundAuth::Bearer(SecretText::plain("s3cret"));
    for (over, requests) in [(Over::Sse, &["GET", "POST"][..]), (Over::WebSocket, &["handshake"])] {
        let (url, mut journal) = match over {
            Over::Sse => streams::serve(Manner::Plain).await,
            _ => sockets::serve(Greeting::Mcp).await,
        };
        let credential = Credential::fixed(&auth).unwrap();
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
async fn a_refused_credential_is_named_as_such() {
    for status in [401, 403] {
        for over in [Over::Sse, Over::WebSocket] {
            let (url, _journal) = match over {
                Over::Sse => streams::serve(Manner::Refusal(status)).await,
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
    let (elsewhere, mut elsewhere_saw) = streams::serve(Manner::Plain).await;
    let endpoint = elsewhere.replace("/sse", "/messages");
    let (url, _journal) = streams::serve(Manner::Endpoint(endpoint)).await;
    let error = Dial::new(Over::Sse, &url).open().await.unwrap_err();
    assert!(error.to_string().ends_with("an endpoint on another origin"), "{error}");
    assert_eq!(elsewhere_saw.drain(), []);
}

#[tokio::test]
async fn an_endpoint_of_the_same_origin_may_be_absolute() {
    let endpoint = "http://{host}/messages?session=é".to_owned();
    let (url, journal) = streams::serve(Manner::Endpoint(endpoint)).await;
    let world = reached(Over::Sse, &url, journal, "{}").await;
    world.outcome("echo").await.unwrap();
}

#[tokio::test]
async fn an_answer_overtakes_a_call_that_is_accepted_only_when_done() {
    let (url, journal) = streams::serve(Manner::AcceptsWhenDone).await;
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
    let (url, journal) = streams::serve(Manner::RefusesCalls(413)).await;
    let mut world = reached(Over::Sse, &url, journal, "{}").await;
    let refused = world.outcome("echo").await.unwrap();
    assert_eq!(refused["error"], "the server refused the message: HTTP 413 Payload Too Large");
    world.connection.probe(SOON).await.unwrap();
    assert!(world.notices.try_recv().is_err());
}

#[tokio::test]
async fn a_forgotten_session_is_a_lost_connection() {
    let (url, journal) = streams::serve(Manner::RefusesCalls(404)).await;
    let mut world = reached(Over::Sse, &url, journal, "{}").await;
    assert!(matches!(world.outcome("echo").await, Err(UpstreamError::Lost { .. })));
    assert_eq!(world.closed().await, "it has forgotten our session (HTTP 404 Not Found)");
}

#[tokio::test]
async fn a_server_without_streamable_http_is_reached_the_older_way() {
    let (url, journal) = streams::serve(Manner::Plain).await;
    let world = reached(Over::Http, &url, journal, "{}").await;
    assert_eq!(text_of(&world.outcome("echo").await.unwrap()), "héllo");
    // Where there is nothing at all, the first complaint stands.
    let error = Dial::new(Over::Http, &url.replace("/sse", "/mcp")).open().await.unwrap_err();
    assert!(error.to_string().contains("the handshake failed: HTTP 404"), "{error}");
    // A refused credential is the better complaint.
    let (url, _journal) = streams::serve(Manner::Refusal(401)).await;
    let error = Dial::new(Over::Http, &url).open().await.unwrap_err();
    assert!(matches!(error, UpstreamError::NeedsAuth { status: 401, .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_chooses_no_subprotocol_is_spoken_to() {
    let (url, mut journal) = sockets::serve(Greeting::NoSubprotocol).await;
    let (_connection, _notices) = Dial::new(Over::WebSocket, &url).open().await.unwrap();
    assert_eq!(journal.header("handshake", "sec-websocket-protocol").await.as_deref(), Some("mcp"));
    assert_eq!(journal.header("handshake", "sec-websocket-protocol").await, None);
}

#[tokio::test]
async fn dialling_takes_no_longer_than_it_may() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap(); // Connections wait there for ever.
    let (silent, _journal) = streams::serve(Manner::Silent).await;
    let (dead_stream, dead_socket) = (format!("http://{address}/sse"), format!("ws://{address}"));
    for (over, url) in [(Over::Sse, dead_stream), (Over::Sse, silent), (Over::WebSocket, dead_socket)] {
        let patience = Duration::from_millis(100);
        let opened = Dial { patience, ..Dial::new(over, &url) }.open();
        let error = timeout(SOON, opened).await.unwrap().unwrap_err();
        let expected = matches!(error, UpstreamError::Timeout { .. } | UpstreamError::Unreachable { .. });
        assert!(expected, "{url}: {error}");
    }
}

#[tokio::test]
async fn a_peer_that_answers_no_pings_is_lost_and_one_that_does_is_not() {
    for (greeting, lost) in [(Greeting::Coma, true), (Greeting::Mcp, false)] {
        let (url, _journal) = sockets::serve(greeting).await;
        let (notices, mut noticed) = mpsc::channel(4);
        let parts = WebSocketParts {
            server: "tools".into(),
            origin: websocket::origin(&url).unwrap(),
            headers: Vec::new(),
            credential: Credential::None,
            notices,
            roots: None,
            message_limit: LIMIT,
            connect_timeout: SOON,
            ping_every: Duration::from_millis(200),
        };
        let peer = websocket::open(parts).await.unwrap();
        let closed = timeout(Duration::from_secs(2), noticed.recv()).await;
        assert_eq!(closed.is_ok(), lost, "{greeting:?}: {closed:?}");
        timeout(SOON, peer.close()).await.unwrap();
    }
}

#[test]
fn handshakes_are_never_written_to_a_log() {
    assert!(log::STATIC_MAX_LEVEL <= log::LevelFilter::Debug, "the WebSocket library traces whole requests");
}

// H4: a server that asks without end is cut off, over every transport that carries its requests.
#[tokio::test]
async fn a_server_that_asks_without_end_is_cut_off() {
    for over in [Over::Sse, Over::WebSocket] {
        let mut world = world(over, "{}").await;
        let error = world.outcome("flood").await.expect_err("cut off");
        assert!(matches!(error, UpstreamError::Flooded { .. }), "{over:?}: {error}");
        let notice = loop {
            match timeout(SOON, world.notices.recv()).await.unwrap().unwrap() {
                Notice::Flooded(reason) => break reason,
                Notice::Closed(reason) => panic!("{over:?}: {reason}"),
                _ => {}
            }
        };
        assert!(notice.contains("requests"), "{over:?}: {notice}");
        let after = world.outcome("echo").await.expect_err("the connection is gone");
        assert!(matches!(after, UpstreamError::Lost { sent: Sent::No, .. }), "{over:?}: {after}");
    }
}
