//! Single requests to authorization servers, with limits and without redirects.
//!
//! Host names are resolved here, each address is checked against the request's [`NetworkReach`], and only
//! checked addresses are connected to, so that a name that resolves differently a moment later cannot be
//! abused.

use super::client::{HttpOrigin, OriginClient};
use super::send_error::SendError;
use crate::oauth::{HttpError, HttpFetch, NetworkReach};
use ::http::header::{CONTENT_LENGTH, HOST, HeaderValue};
use ::http::uri::{Authority, Scheme};
use ::http::{Request, Response, Uri};
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Total timeout of one request, including name resolution and the body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum response size; metadata and tokens are far smaller.
const MAX_BODY_BYTES: usize = 256 * 1024;
/// Number of cached clients at which the cache is cleared.
const MAX_CLIENTS: usize = 64;

/// An origin and the addresses that were checked for it.
type ClientKey = (Scheme, Authority, Vec<SocketAddr>);

/// Sends OAuth requests, with a cached client per origin.
#[derive(Debug, Default)]
pub struct Fetch {
    clients: Mutex<HashMap<ClientKey, Arc<OriginClient>>>,
}

#[async_trait]
impl HttpFetch for Fetch {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = self.exchange(request);
        tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.unwrap_or(Err(HttpError::TimedOut))
    }
}

impl Fetch {
    async fn exchange(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let origin = HttpOrigin::parse(&request.uri().to_string()).map_err(|_| HttpError::Unreachable)?;
        // A request without a reach was not checked, and gets the narrowest.
        let reach = request.extensions().get::<NetworkReach>().copied().unwrap_or(NetworkReach::Public);
        let client = self.within_reach(&origin, reach).await?;
        let host = HeaderValue::from_str(origin.authority.as_str()).map_err(|_| HttpError::Unreachable)?;
        request.headers_mut().insert(HOST, host);
        *request.uri_mut() = origin.path.parse::<Uri>().map_err(|_| HttpError::Unreachable)?;
        let (response, connection) = client.send(request.map(Full::new)).await.map_err(unreachable)?;
        let (parts, body) = response.into_parts();
        let length =
            parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > MAX_BODY_BYTES) {
            return Err(HttpError::TooLarge);
        }
        let body = match Limited::new(body, MAX_BODY_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(HttpError::TooLarge),
            Err(_) => return Err(HttpError::Unreachable),
        };
        connection.give_back();
        Ok(Response::from_parts(parts, body))
    }

    /// The client for an origin, limited to the addresses that the request may reach now.
    pub(crate) async fn within_reach(
        &self,
        origin: &HttpOrigin,
        reach: NetworkReach,
    ) -> Result<Arc<OriginClient>, HttpError> {
        let host = origin.authority.host().trim_start_matches('[').trim_end_matches(']');
        let resolved =
            tokio::net::lookup_host((host, origin.port())).await.map_err(|_| HttpError::Unreachable)?;
        let (allowed, refused): (Vec<SocketAddr>, Vec<SocketAddr>) =
            resolved.partition(|address| reach.allows(address.ip()));
        if allowed.is_empty() {
            return Err(if refused.is_empty() { HttpError::Unreachable } else { HttpError::Blocked });
        }
        let mut judged = allowed.clone();
        judged.sort_unstable();
        let key = (origin.scheme.clone(), origin.authority.clone(), judged);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&key) {
            clients.clear();
        }
        let client = clients
            .entry(key)
            .or_insert_with(|| OriginClient::pinned(origin.clone(), allowed, CONNECT_TIMEOUT));
        Ok(client.clone())
    }
}

fn unreachable(failure: SendError) -> HttpError {
    let (SendError::NotSent(reason) | SendError::Broken(reason)) = failure;
    tracing::debug!("an authorization server did not answer: {reason}");
    HttpError::Unreachable
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ::http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Starts a server with a fixed response; returns its URL and the number of connections it accepted.
    async fn answering(answer: String) -> (String, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dialled = Arc::new(Mutex::new(0));
        let count = dialled.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let answer = answer.clone();
                tokio::spawn(async move {
                    let mut read = [0; 4096];
                    while stream.read(&mut read).await.is_ok_and(|length| length > 0) {
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        (format!("http://localhost:{}/doc?x=1", address.port()), dialled)
    }

    fn get(url: &str, reach: Option<NetworkReach>) -> Request<Bytes> {
        let mut request = Request::get(url).body(Bytes::new()).unwrap();
        reach.map(|reach| request.extensions_mut().insert(reach));
        request
    }

    #[tokio::test]
    async fn a_redirect_is_returned_and_not_followed() {
        let (url, dialled) = answering(
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\nok".into(),
        )
        .await;
        let fetch = Fetch::default();
        for _ in 0..2 {
            let response = fetch.fetch(get(&url, Some(NetworkReach::Loopback))).await.unwrap();
            assert_eq!((response.status(), &response.body()[..]), (StatusCode::FOUND, &b"ok"[..]));
        }
        assert_eq!(*dialled.lock().unwrap(), 1, "the connection is kept for the next request");
    }

    #[tokio::test]
    async fn only_addresses_within_reach_are_dialled() {
        let (url, dialled) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()).await;
        let fetch = Fetch::default();
        let cases = [
            (None, Err(HttpError::Blocked)),
            (Some(NetworkReach::Public), Err(HttpError::Blocked)),
            (Some(NetworkReach::Site), Err(HttpError::Blocked)),
            (Some(NetworkReach::Loopback), Ok(StatusCode::OK)),
            (Some(NetworkReach::Configured), Ok(StatusCode::OK)),
            // Another request's wider reach does not apply to this one.
            (Some(NetworkReach::Public), Err(HttpError::Blocked)),
        ];
        for (reach, expected) in cases {
            let status = fetch.fetch(get(&url, reach)).await.map(|response| response.status());
            assert_eq!(status, expected, "{reach:?}");
        }
        assert_eq!(*dialled.lock().unwrap(), 1);
    }

    #[tokio::test]
    async fn a_long_response_is_refused_with_and_without_a_content_length() {
        let long = "x".repeat(MAX_BODY_BYTES + 1);
        let announced = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
        let chunked = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
            long.len()
        );
        for answer in [announced, chunked] {
            let (url, _) = answering(answer).await;
            let refused = Fetch::default().fetch(get(&url, Some(NetworkReach::Loopback))).await;
            assert_eq!(refused.map(|_| ()), Err(HttpError::TooLarge));
        }
    }
}
