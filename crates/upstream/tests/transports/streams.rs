//! The small server over HTTP+SSE.

use crate::test_server::{Act, Journal, Seen, answer_messages, written};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use toolbooth_wire::sse::write_event;

type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

/// How the server behaves.
#[derive(Debug, Clone, PartialEq)]
pub enum Behavior {
    /// As specified, with a relative endpoint.
    Plain,
    /// Sends this endpoint; `{host}` is replaced with its own host.
    Endpoint(String),
    /// Refuses the stream with a status and a challenge.
    Refusal(u16),
    /// Accepts a call only once it is answered.
    AcceptsWhenDone,
    /// Refuses calls with this status.
    RefusesCalls(u16),
    /// Opens a stream and never sends an endpoint.
    Silent,
}

struct Server {
    behavior: Behavior,
    seen: mpsc::UnboundedSender<Seen>,
    session: Mutex<Option<mpsc::Sender<Value>>>,
    /// POSTs that wait until their call is answered.
    held: Mutex<Vec<(Value, oneshot::Sender<()>)>>,
}

/// Starts the server and returns the URL of its stream.
pub async fn serve(behavior: Behavior) -> (String, Journal) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let (seen, journal) = mpsc::unbounded_channel();
    let server = Arc::new(Server { behavior, seen, session: Mutex::default(), held: Mutex::default() });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = server.clone();
            let service = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, io::Error>(server.answer(request).await) }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (url, Journal(journal))
}

fn respond(status: u16, body: BoxStream<'static, io::Result<Frame<Bytes>>>) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(body));
    *response.status_mut() = status.try_into().unwrap();
    response
}

fn plain(status: u16) -> Response<Body> {
    let text = Bytes::from_static(b"{\"detail\":\"plain\"}");
    respond(status, stream::iter([Ok(Frame::data(text))]).boxed())
}

/// Records in the journal when the gateway closes a stream.
struct Watched(mpsc::UnboundedSender<Seen>);

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.send(Seen::Ended(None));
    }
}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/sse") => self.stream(&request),
            (&Method::POST, "/messages") => self.take(request).await,
            (_, "/sse") => plain(405),
            _ => plain(404),
        }
    }

    fn stream(self: Arc<Self>, request: &Request<Incoming>) -> Response<Body> {
        let _ = self.seen.send(Seen::Headers("GET", written(request.headers())));
        if let Behavior::Refusal(status) = self.behavior {
            let mut refusal = plain(status);
            refusal.headers_mut().insert("www-authenticate", "Bearer realm=\"tools\"".parse().unwrap());
            return refusal;
        }
        let (inbox, messages) = mpsc::channel(64);
        let (acts, acting) = mpsc::channel(64);
        *self.session.lock().unwrap() = Some(inbox);
        tokio::spawn(answer_messages(messages, acts, self.seen.clone()));
        let first = match &self.behavior {
            Behavior::Endpoint(endpoint) => {
                let host = request.headers()["host"].to_str().unwrap();
                format!("event: endpoint\r\ndata: {}\r\n\r\n", endpoint.replace("{host}", host))
            }
            Behavior::Silent => ": nothing\n\n".to_owned(),
            _ => "event: endpoint\r\ndata: /messages?session=1\r\n\r\n".to_owned(),
        };
        let first = stream::iter([Ok(Frame::data(Bytes::from(first)))]);
        let server = self.clone();
        let rest = stream::unfold((acting, Watched(self.seen.clone())), move |(mut acting, watched)| {
            let server = server.clone();
            async move {
                match acting.recv().await? {
                    Act::Say(message) => {
                        server.held.lock().unwrap().retain(|(id, _)| *id != message["id"]);
                        let event = write_event(message.to_string().as_bytes(), None);
                        Some((Ok(Frame::data(event)), (acting, watched)))
                    }
                    Act::HangUp => Some((Err(io::Error::other("hung up")), (acting, watched))),
                }
            }
        });
        let mut response = respond(200, first.chain(rest).boxed());
        response.headers_mut().insert("content-type", "text/event-stream; charset=utf-8".parse().unwrap());
        response
    }

    async fn take(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let _ = self.seen.send(Seen::Headers("POST", written(request.headers())));
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let message: Value = serde_json::from_slice(&body).unwrap();
        let is_call = message["method"] == "tools/call";
        if let (Behavior::RefusesCalls(status), true) = (&self.behavior, is_call) {
            return plain(*status);
        }
        let held = (self.behavior == Behavior::AcceptsWhenDone && is_call).then(|| {
            let (done, held) = oneshot::channel();
            self.held.lock().unwrap().push((message["id"].clone(), done));
            held
        });
        let session = self.session.lock().unwrap().clone().unwrap();
        session.send(message).await.unwrap();
        if let Some(held) = held {
            let _ = tokio::time::timeout(Duration::from_secs(20), held).await;
        }
        plain(202)
    }
}
