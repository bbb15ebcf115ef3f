//! The older HTTP+SSE transport: the server sends on one event stream and receives by POST.

mod events;
mod posts;

use crate::auth_refusals::AuthRefusals;
use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, ReceiveOutcome};
use crate::error::{SentStatus, UpstreamError};
use crate::http::{HttpOrigin, OriginClient, SendError};
use crate::remote_parts::RemoteParts;
use ::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use events::{SseItem, SseStream};
use http_body_util::Full;
use hyper::body::Incoming;
use posts::Posts;
use std::sync::{Arc, Weak};
use tokio::sync::{mpsc, oneshot};
use url::Url;

/// Maximum length of the endpoint URL.
const MAX_ENDPOINT_BYTES: usize = 8 * 1024;

/// Opens the server's stream, waits for its endpoint, and connects a peer to it.
pub async fn open(parts: RemoteParts) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let mut events = listen(&parts).await?;
    let timeout = UpstreamError::Timeout { server: parts.server.clone(), after: parts.connect_timeout };
    let target = match tokio::time::timeout(parts.connect_timeout, endpoint(&parts, &mut events)).await {
        Ok(target) => target?,
        Err(_) => return Err(timeout),
    };
    let RemoteParts { server, headers, credential, notices, roots, message_limit, connect_timeout, .. } =
        parts;
    let (outgoing, queue) = mpsc::channel(OUTGOING_BACKLOG);
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&server, outgoing, notices, roots, on_close);
    // A peer that was dropped without being closed, as after a failed handshake, must not keep its stream
    // open.
    let weak = Arc::downgrade(&peer);
    let client = OriginClient::new(target, connect_timeout);
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
        // This transport has no message that ends a session: it is closed by disconnecting.
        drop(events);
        posts.client.close_idle();
        if let Some(confirm) = confirm {
            let _ = confirm.send(());
        }
    });
    Ok(peer)
}

/// Passes the server's messages on until its stream ends, and returns why it ended.
async fn read(peer: &Weak<DuplexPeer>, events: &mut SseStream, limit: usize) -> String {
    loop {
        let item = match events.next().await {
            Ok(Some(item)) => item,
            Ok(None) => return "its stream ended".into(),
            Err(reason) => return reason,
        };
        let Some(peer) = peer.upgrade() else { return "the connection is no longer in use".into() };
        let taken = match item {
            SseItem::Event(event) if event.kind.as_deref().is_none_or(|kind| kind == "message") => {
                peer.receive(&event.data)
            }
            // Keep-alives with a name of their own, and a second endpoint event, are ignored.
            SseItem::Event(_) => ReceiveOutcome::No,
            SseItem::TooLong(id) => peer.oversized(id, limit),
        };
        if taken == ReceiveOutcome::Last {
            return "the gateway ended the connection".into();
        }
    }
}

/// Opens the stream, again after a challenge that could be answered.
async fn listen(parts: &RemoteParts) -> Result<SseStream, UpstreamError> {
    let client = OriginClient::new(parts.origin.clone(), parts.connect_timeout);
    let mut refusals = AuthRefusals::default();
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
        if AuthRefusals::is_one(response.status()) {
            let (status, headers) = (response.status(), response.headers());
            refusals.answer(&parts.server, &parts.credential, status, headers).await?;
            continue;
        }
        check_stream(&parts.server, &response)?;
        return Ok(SseStream::new(response.into_body(), connection, parts.message_limit));
    }
}

fn check_stream(server: &str, response: &Response<Incoming>) -> Result<(), UpstreamError> {
    let status = response.status();
    if status.is_server_error() {
        let reason = format!("it answered HTTP {status}");
        return Err(UpstreamError::Unreachable { server: server.to_owned(), reason });
    }
    if !status.is_success() || !is_event_stream(response.headers()) {
        return Err(bad(server, format!("HTTP {status} instead of an event stream")));
    }
    Ok(())
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

/// Waits for the event that names the endpoint.
async fn endpoint(parts: &RemoteParts, events: &mut SseStream) -> Result<HttpOrigin, UpstreamError> {
    loop {
        match events.next().await {
            Ok(Some(SseItem::Event(event))) if event.kind.as_deref() == Some("endpoint") => {
                let text =
                    std::str::from_utf8(&event.data).ok().filter(|text| text.len() <= MAX_ENDPOINT_BYTES);
                let text = text.ok_or_else(|| bad(&parts.server, "an invalid endpoint URL".into()))?;
                return target(&parts.origin, text).map_err(|what| bad(&parts.server, what.into()));
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                return Err(bad(&parts.server, "its stream ended before it named an endpoint".into()));
            }
            Err(reason) => {
                return Err(UpstreamError::Lost {
                    server: parts.server.clone(),
                    reason,
                    sent: SentStatus::No,
                });
            }
        }
    }
}

/// Resolves the endpoint URL. It must have the origin of the stream: the credential is meant for that origin
/// only.
fn target(stream: &HttpOrigin, endpoint: &str) -> Result<HttpOrigin, &'static str> {
    let wrong = "an invalid endpoint URL";
    let HttpOrigin { scheme, authority, path } = stream;
    let base = Url::parse(&format!("{scheme}://{authority}{path}")).map_err(|_| wrong)?;
    let mut url = base.join(endpoint.trim()).map_err(|_| wrong)?;
    if url.origin() != base.origin() {
        return Err("an endpoint on another origin");
    }
    url.set_fragment(None);
    HttpOrigin::parse(url.as_str()).map_err(|_| wrong)
}

/// The target and the configured headers of a request.
fn head(method: Method, origin: &HttpOrigin, configured: &[(HeaderName, HeaderValue)]) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = method;
    // The origin was parsed from a URI, so its path is valid.
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

fn failed(server: &str, failure: SendError) -> UpstreamError {
    let (SendError::NotSent(reason) | SendError::Broken(reason)) = failure;
    // A GET changes nothing, so it does not matter whether it was received.
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
            ("http://someone@tools.test:8000/m", Err("an invalid endpoint URL")),
            ("http://", Err("an invalid endpoint URL")),
        ];
        let stream = HttpOrigin::parse("http://tools.test:8000/v1/sse").expect("a URL");
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
