//! The stream of a legacy server's own messages: notices, and questions that name no call.

use super::HttpPeer;
use super::response_reader::ResponseReader;
use crate::duplex::note_unsolicited;
use crate::list_changes::ReconnectBackoff;
use crate::peer::ServerNotice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use tokio::time::Instant;
use toolbooth_wire::Message;

/// Follows the stream and reopens it when it breaks, until the peer is gone or the server has no such stream.
pub(super) async fn follow(peer: Weak<HttpPeer>) {
    let (mut backoff, mut is_reopened) = (ReconnectBackoff::default(), false);
    let mut last_id: Option<String> = None;
    loop {
        let Some(peer) = peer.upgrade().filter(|peer| !peer.closed.load(Ordering::Relaxed)) else { return };
        let response = peer.open_stream(last_id.as_deref()).await;
        let late = peer.own_stream.settle();
        let mut opened = None;
        if let Ok((head, body)) = response {
            if !head.status.is_success() {
                return; // 405: the server has no such stream.
            }
            opened = Some(Instant::now());
            // With the id of the last event the server can resume.
            if late || (is_reopened && last_id.is_none()) {
                ServerNotice::Missed.pass_on(&peer.parts.notices);
            }
            let mut reader =
                ResponseReader::new(&head, body, peer.parts.body_limit, peer.parts.server.clone());
            let weak = Arc::downgrade(&peer);
            drop(peer);
            while let Ok(Some(message)) = reader.next_message(None).await {
                let Some(peer) = weak.upgrade() else { return };
                match message {
                    Message::Notification(notification) => peer.handle_notification(notification, None),
                    Message::Request(request) => {
                        if peer.handle_request(request, peer.only_askable()).is_err() {
                            return;
                        }
                    }
                    Message::Response(_) => note_unsolicited(&peer.parts.server, &peer.unsolicited),
                }
            }
            last_id = reader.last_id().map(str::to_owned).or(last_id);
        } else {
            drop(peer);
        }
        tokio::time::sleep(backoff.pause(opened)).await;
        is_reopened = true;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crate::http::{HttpOrigin, HttpParts, HttpPeer, OriginClient, ServerCredential};
    use crate::link::{CallLink, LinkEvent};
    use crate::peer::{EncodedRequest, Peer, PeerAnswer, QuestionPolicy, ResultReading};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::tcp::OwnedWriteHalf;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    use toolbooth_core::json::RawJson;
    use toolbooth_wire::{Era, Revision};

    const QUESTION: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#;
    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

    /// A server that asks on its own stream and answers its calls with the answer it received.
    #[derive(Default)]
    struct Server {
        stream: Mutex<Option<OwnedWriteHalf>>,
        /// Unanswered calls, by id.
        calls: Mutex<Vec<(u64, OwnedWriteHalf)>>,
        /// Number of calls after which it asks.
        asks_after: usize,
    }

    impl Server {
        async fn serve(self: Arc<Self>, socket: TcpStream) {
            let (mut read, mut write) = socket.into_split();
            let mut text = String::new();
            let mut chunk = [0; 4096];
            // In this test a request is complete when its braces, or its head, are closed.
            let is_whole = |text: &str| match text.starts_with("GET") {
                true => text.ends_with("\r\n\r\n"),
                false => text.ends_with('}'),
            };
            while !is_whole(&text) {
                match read.read(&mut chunk).await {
                    Ok(0) | Err(_) => return,
                    Ok(length) => text.push_str(&String::from_utf8_lossy(&chunk[..length])),
                }
            }
            if text.starts_with("GET") {
                // Slow to open, as over a real network: calls must not overtake it.
                tokio::time::sleep(Duration::from_millis(100)).await;
                write.write_all(STREAM.as_bytes()).await.unwrap();
                *self.stream.lock().unwrap() = Some(write);
                return;
            }
            let body = RawJson::parse(text.split_once("\r\n\r\n").unwrap().1.to_owned()).unwrap();
            match body.member("method") {
                Some(_) => {
                    let id = body.member("id").unwrap().read().unwrap();
                    self.calls.lock().unwrap().push((id, write));
                    if self.calls.lock().unwrap().len() == self.asks_after {
                        let mut stream =
                            self.stream.lock().unwrap().take().expect("the stream is open first");
                        stream.write_all(format!("data: {QUESTION}\n\n").as_bytes()).await.unwrap();
                        *self.stream.lock().unwrap() = Some(stream);
                    }
                }
                None => {
                    write.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                    let outcome = body.member("result").or_else(|| body.member("error")).unwrap();
                    let calls = std::mem::take(&mut *self.calls.lock().unwrap());
                    for (id, mut call) in calls {
                        let answer =
                            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"heard":{outcome}}}}}"#);
                        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
                        let whole = format!("{head} {}\r\n\r\n{answer}", answer.len());
                        call.write_all(whole.as_bytes()).await.unwrap();
                    }
                }
            }
        }
    }

    async fn peer(asks_after: usize) -> Arc<HttpPeer> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = Arc::new(Server { asks_after, ..Server::default() });
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(socket));
            }
        });
        let peer = HttpPeer::new(HttpParts {
            server: "s".into(),
            client: OriginClient::new(HttpOrigin::parse(&url).unwrap(), Duration::from_secs(5)),
            headers: Vec::new(),
            credential: ServerCredential::None,
            notices: mpsc::channel(4).0,
            roots: None,
            body_limit: 65536,
            stall: Duration::from_secs(30),
        });
        peer.agreed(Era::Legacy, Revision::NEWEST_LEGACY);
        peer.listen();
        peer
    }

    /// Makes a call whose client accepts every question, and returns the answer that the server received.
    async fn call(peer: &Arc<HttpPeer>, id: u64) -> String {
        let (link, mut events) = CallLink::new();
        let outbound = EncodedRequest {
            id,
            method: "tools/call",
            text: toolbooth_wire::envelope::write_request(id, "tools/call", None),
            name: None,
            headers: Vec::new(),
            reading: ResultReading::Whole,
            question_policy: QuestionPolicy::Allowed,
        };
        let agreeing = async {
            while let Some(event) = events.recv().await {
                if let LinkEvent::Question(question) = event {
                    let _ = question.reply.send(Ok(RawJson::trusted(r#"{"action":"accept"}"#)));
                }
            }
        };
        let call = async {
            tokio::select! {
                answer = peer.request(outbound, &link) => answer.unwrap(),
                () = agreeing => unreachable!("events never end"),
            }
        };
        match tokio::time::timeout(Duration::from_secs(10), call).await.unwrap() {
            PeerAnswer::Whole(Ok(result)) => result.member("heard").unwrap().to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_question_on_the_servers_own_stream_goes_to_the_only_call() {
        let peer = peer(1).await;
        assert_eq!(call(&peer, 10).await, r#"{"action":"accept"}"#);
    }

    #[tokio::test]
    async fn a_question_that_could_belong_to_two_calls_is_refused() {
        let peer = peer(2).await;
        let (one, other) = tokio::join!(call(&peer, 10), call(&peer, 11));
        assert!(one.contains("-32601") && other.contains("-32601"), "{one} {other}");
    }
}
