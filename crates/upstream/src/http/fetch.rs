//! Single requests to authorization servers: bounded, within their reach, and followed nowhere else.
//!
//! A name is resolved here, every address is held against the request's [`Reach`], and only addresses that passed
//! are dialled: a name that resolves to something else a moment later leads nowhere new.

use super::client::{Client, Failure, Origin};
use crate::oauth::{Http, HttpError, Reach};
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

/// How long one request may take, from the name to the last byte.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest answer taken; metadata and tokens are far shorter.
const LONGEST_BODY: usize = 256 * 1024;
/// How many origins are remembered before all are forgotten.
const MOST_ORIGINS: usize = 64;

/// An origin, and the addresses it had when it was last judged.
type Key = (Scheme, Authority, Vec<SocketAddr>);

/// Sends the requests that OAuth makes, with a client for each origin.
#[derive(Debug, Default)]
pub struct Fetch {
    clients: Mutex<HashMap<Key, Arc<Client>>>,
}

#[async_trait]
impl Http for Fetch {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = self.exchange(request);
        tokio::time::timeout(DEADLINE, exchange).await.unwrap_or(Err(HttpError::TimedOut))
    }
}

impl Fetch {
    async fn exchange(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let origin = Origin::parse(&request.uri().to_string()).map_err(|_| HttpError::Unreachable)?;
        // A request without a reach was not judged by anybody: it gets the narrowest.
        let reach = request.extensions().get::<Reach>().copied().unwrap_or(Reach::Public);
        let client = self.within_reach(&origin, reach).await?;
        let host = HeaderValue::from_str(origin.authority.as_str()).map_err(|_| HttpError::Unreachable)?;
        request.headers_mut().insert(HOST, host);
        *request.uri_mut() = origin.path.parse::<Uri>().map_err(|_| HttpError::Unreachable)?;
        let (response, connection) = client.send(request.map(Full::new)).await.map_err(unreachable)?;
        let (parts, body) = response.into_parts();
        let length =
            parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > LONGEST_BODY) {
            return Err(HttpError::TooLarge);
        }
        let body = match Limited::new(body, LONGEST_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(HttpError::TooLarge),
            Err(_) => return Err(HttpError::Unreachable),
        };
        connection.give_back();
        Ok(Response::from_parts(parts, body))
    }

    /// The client for an origin, at the addresses that the request may reach now.
    pub(crate) async fn within_reach(&self, origin: &Origin, reach: Reach) -> Result<Arc<Client>, HttpError> {
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
        if clients.len() >= MOST_ORIGINS && !clients.contains_key(&key) {
            clients.clear();
        }
        let client = clients.entry(key).or_insert_with(|| Client::pinned(origin.clone(), allowed, CONNECT));
        Ok(client.clone())
    }
}

fn unreachable(failure: Failure) -> HttpError {
    let (Failure::NotSent(reason) | Failure::Broken(reason)) = failure;
    tracing::debug!("an authorization server did not answer: {reason}");
    HttpError::Unreachable
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ::http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// A server that gives one answer to every request, and says where it is and how often it was dialled.
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

    fn get(url: &str, reach: Option<Reach>) -> Request<Bytes> {
        let mut request = Request::get(url).body(Bytes::new()).unwrap();
        reach.map(|reach| request.extensions_mut().insert(reach));
        request
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_like_any_other() {
        let (url, dialled) = answering(
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\nok".into(),
        )
        .await;
        let fetch = Fetch::default();
        for _ in 0..2 {
            let response = fetch.fetch(get(&url, Some(Reach::Loopback))).await.unwrap();
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
            (Some(Reach::Public), Err(HttpError::Blocked)),
            (Some(Reach::Site), Err(HttpError::Blocked)),
            (Some(Reach::Loopback), Ok(StatusCode::OK)),
            (Some(Reach::Configured), Ok(StatusCode::OK)),
            // What another request was allowed is not allowed to this one.
            (Some(Reach::Public), Err(HttpError::Blocked)),
        ];
        for (reach, expected) in cases {
            let status = fetch.fetch(get(&url, reach)).await.map(|response| response.status());
            assert_eq!(status, expected, "{reach:?}");
        }
        assert_eq!(*dialled.lock().unwrap(), 1);
    }

    #[tokio::test]
    async fn a_long_answer_is_refused_whether_or_not_it_says_so() {
        let long = "x".repeat(LONGEST_BODY + 1);
        let announced = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
        let chunked = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
            long.len()
        );
        for answer in [announced, chunked] {
            let (url, _) = answering(answer).await;
            let refused = Fetch::default().fetch(get(&url, Some(Reach::Loopback))).await;
            assert_eq!(refused.map(|_| ()), Err(HttpError::TooLarge));
        }
    }
}
