//! A server over the older HTTP+SSE transport: it speaks on one stream, and is spoken to by POSTs.

mod events;
mod posts;

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, Taken};
use crate::error::{Sent, UpstreamError};
use crate::http::{Client, Credential, Failure, Origin};
use crate::peer::Notice;
use crate::refusal::Refusals;
use ::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use events::{Events, Item};
use http_body_util::Full;
use hyper::body::Incoming;
use posts::Posts;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use toolbooth_core::json::RawJson;
use url::Url;

/// The longest address that messages may be sent to.
const MAX_ENDPOINT_BYTES: usize = 8 * 1024;

/// What an HTTP+SSE server is opened with.
#[derive(Debug)]
pub struct SseParts {
    /// The server's name, for messages.
    pub server: String,
    /// Where its stream is.
    pub origin: Origin,
    /// Headers of the configuration, sent with every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The gateway's own credential.
    pub credential: Credential,
    /// Where its notices go.
    pub notices: mpsc::Sender<Notice>,
    /// What unasked `roots/list` is answered with.
    pub roots: Option<RawJson>,
    /// The longest message taken.
    pub message_limit: usize,
    /// How long it may take until the server has said where messages go.
    pub connect_timeout: Duration,
}

/// Opens the server's stream, learns where messages go, and speaks to it.
pub async fn open(parts: SseParts) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let mut events = listen(&parts).await?;
    let timeout = UpstreamError::Timeout { server: parts.server.clone(), after: parts.connect_timeout };
    let target = match tokio::time::timeout(parts.connect_timeout, endpoint(&parts, &mut events)).await {
        Ok(target) => target?,
        Err(_) => return Err(timeout),
    };
    let SseParts { server, headers, credential, notices, roots, message_limit, connect_timeout, .. } = parts;
    let (outgoing, queue) = mpsc::channel(OUTGOING_BACKLOG);
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&server, outgoing, notices, roots, on_close);
    // A peer that everybody dropped unclosed, as after a failed handshake, must not keep its stream.
    let weak = Arc::downgrade(&peer);
    let client = Client::new(target, connect_timeout);
    let posts = Posts { server, client, headers, credential, peer: weak.clone() };
    tokio::spawn(async move {
        let (reason, confirm) = tokio::select! {
            reason = read(&weak, &mut events, message_limit) => (Some(reason), None),
            reason = posts.write(queue) => (Some(reason), None),
            asked = closing => (None, asked.ok()),
        };
        if let (Some(reason), Some(peer)) = (reason, weak.upgrade()) {
            peer.lost(&reason);
        }
        // Hanging up is the only goodbye this transport has.
        drop(events);
        posts.client.close_idle();
        if let Some(confirm) = confirm {
            let _ = confirm.send(());
        }
    });
    Ok(peer)
}

/// Passes the server's messages on until its stream ends; says why it did.
async fn read(peer: &Weak<DuplexPeer>, events: &mut Events, limit: usize) -> String {
    loop {
        let item = match events.next().await {
            Ok(Some(item)) => item,
            Ok(None) => return "its stream ended".into(),
            Err(reason) => return reason,
        };
        let Some(peer) = peer.upgrade() else { return "nobody listens any more".into() };
        let taken = match item {
            Item::Event(event) if event.kind.as_deref().is_none_or(|kind| kind == "message") => {
                peer.receive(&event.data)
            }
            // Keep-alives under a name of their own, and a second endpoint, which means nothing.
            Item::Event(_) => Taken::No,
            Item::TooLong(id) => peer.oversized(id, limit),
        };
        if taken == Taken::Last {
            return "the gateway ended the connection".into();
        }
    }
}

/// Opens the stream, again after a challenge that could be met.
async fn listen(parts: &SseParts) -> Result<Events, UpstreamError> {
    let client = Client::new(parts.origin.clone(), parts.connect_timeout);
    let mut refusals = Refusals::default();
    loop {
        let mut request = head(Method::GET, &parts.origin, &parts.headers).map(|()| Full::default());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        request.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        parts.credential.apply(request.headers_mut()).await;
        let sent = tokio::time::timeout(parts.connect_timeout, client.send(request)).await;
        let (response, connection) = match sent {
            Ok(sent) => sent.map_err(|failure| failed(&parts.server, failure))?,
            Err(_) => {
                return Err(UpstreamError::Timeout {
                    server: parts.server.clone(),
                    after: parts.connect_timeout,
                });
            }
        };
        if Refusals::is_one(response.status()) {
            let (status, headers) = (response.status(), response.headers());
            refusals.answer(&parts.server, &parts.credential, status, headers).await?;
            continue;
        }
        check_stream(&parts.server, &response)?;
        return Ok(Events::new(response.into_body(), connection, parts.message_limit));
    }
}

fn check_stream(server: &str, response: &Response<Incoming>) -> Result<(), UpstreamError> {
    let status = response.status();
    if status.is_server_error() {
        let reason = format!("it answered HTTP {status}");
        return Err(UpstreamError::Unreachable { server: server.to_owned(), reason });
    }
    if !status.is_success() || !is_event_stream(response.headers()) {
        return Err(bad(server, format!("HTTP {status} where an event stream was expected")));
    }
    Ok(())
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

/// Waits for the event that says where messages go.
async fn endpoint(parts: &SseParts, events: &mut Events) -> Result<Origin, UpstreamError> {
    loop {
        match events.next().await {
            Ok(Some(Item::Event(event))) if event.kind.as_deref() == Some("endpoint") => {
                let text =
                    std::str::from_utf8(&event.data).ok().filter(|text| text.len() <= MAX_ENDPOINT_BYTES);
                let text = text.ok_or_else(|| bad(&parts.server, "an endpoint that is no address".into()))?;
                return target(&parts.origin, text).map_err(|what| bad(&parts.server, what.into()));
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                return Err(bad(&parts.server, "its stream ended before it named an endpoint".into()));
            }
            Err(reason) => {
                return Err(UpstreamError::Lost { server: parts.server.clone(), reason, sent: Sent::No });
            }
        }
    }
}

/// Where messages go. Only the origin of the stream will do: the credential is meant for no other.
fn target(stream: &Origin, endpoint: &str) -> Result<Origin, &'static str> {
    let wrong = "an endpoint that is no address";
    let Origin { scheme, authority, path } = stream;
    let base = Url::parse(&format!("{scheme}://{authority}{path}")).map_err(|_| wrong)?;
    let mut url = base.join(endpoint.trim()).map_err(|_| wrong)?;
    if url.origin() != base.origin() {
        return Err("an endpoint on another origin");
    }
    url.set_fragment(None);
    Origin::parse(url.as_str()).map_err(|_| wrong)
}

/// What every request has: its target, and the configured headers.
fn head(method: Method, origin: &Origin, configured: &[(HeaderName, HeaderValue)]) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = method;
    // The origin was a URI once, so its path is one too.
    *request.uri_mut() = origin.path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    if let Ok(host) = HeaderValue::from_str(origin.authority.as_str()) {
        headers.insert(HOST, host);
    }
    for (name, value) in configured {
        headers.insert(name, value.clone());
    }
    request
}

fn failed(server: &str, failure: Failure) -> UpstreamError {
    let (Failure::NotSent(reason) | Failure::Broken(reason)) = failure;
    // A GET changes nothing, so whether it was seen does not matter.
    UpstreamError::Unreachable { server: server.to_owned(), reason }
}

fn bad(server: &str, what: String) -> UpstreamError {
    UpstreamError::BadAnswer { server: server.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_origin_of_the_stream_only() {
        let cases = [
            ("/messages?session=7", Ok("/messages?session=7")),
            ("messages", Ok("/v1/messages")),
            ("?session=7", Ok("/v1/sse?session=7")),
            (" http://tools.test:8000/m#part ", Ok("/m")),
            ("//tools.test:8000/m", Ok("/m")),
            ("http://tools.test/m", Err("an endpoint on another origin")),
            ("https://tools.test:8000/m", Err("an endpoint on another origin")),
            ("//other.test:8000/m", Err("an endpoint on another origin")),
            (r"\\other.test:8000\m", Err("an endpoint on another origin")),
            ("file:///etc/passwd", Err("an endpoint on another origin")),
            ("http://someone@tools.test:8000/m", Err("an endpoint that is no address")),
            ("http://", Err("an endpoint that is no address")),
        ];
        let stream = Origin::parse("http://tools.test:8000/v1/sse").expect("a URL");
        for (endpoint, expected) in cases {
            let found = target(&stream, endpoint);
            assert_eq!(
                found.as_ref().map(|origin| &*origin.path).map_err(|what| *what),
                expected,
                "{endpoint}"
            );
        }
    }
}
