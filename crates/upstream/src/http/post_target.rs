//! Repeated POSTs of JSON to a URL of the operator, with timeouts and without redirects.

use super::client::{HttpOrigin, OriginClient, OriginError, PooledConnection};
use super::send_error::SendError;
use ::http::header::{CONTENT_TYPE, HOST};
use ::http::{HeaderName, HeaderValue, Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of one delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer that is read.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// How much of a response is read, so that its connection can be reused.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Why a delivery failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// A retry may succeed.
    #[error("{0}")]
    Later(String),
    /// A retry would be refused again.
    #[error("it was refused with HTTP {0}")]
    Refused(u16),
}

/// A URL that receives POSTs.
#[derive(Debug)]
pub struct PostTarget {
    client: Arc<OriginClient>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl PostTarget {
    /// Creates a target from a URL.
    pub fn new(url: &str) -> Result<Self, OriginError> {
        Ok(Self::at(HttpOrigin::parse(url)?))
    }

    /// Creates a target from an origin.
    pub fn at(origin: HttpOrigin) -> Self {
        Self { client: OriginClient::new(origin, CONNECT_TIMEOUT), headers: Vec::new() }
    }

    /// Adds a header to every POST; `None` if the name or value is invalid.
    pub fn with_header(mut self, name: &str, value: &SecretText) -> Option<Self> {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(value.expose()).ok()?;
        value.set_sensitive(true);
        self.headers.push((name, value));
        Some(self)
    }

    /// The path of the URL.
    pub fn path(&self) -> &str {
        &self.client.origin().path
    }

    /// Posts JSON and returns the body of a successful answer.
    pub async fn ask(&self, body: Bytes, within: Duration) -> Result<Bytes, PostError> {
        in_time(within, async {
            let (response, connection) = self.send(body, &[]).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|_| later("its answer is too long or broke off"))?.to_bytes();
            connection.give_back();
            if status.is_success() { Ok(body) } else { Err(PostError::Refused(status.as_u16())) }
        })
        .await
    }

    /// Posts JSON with these additional headers.
    pub async fn post(&self, body: Bytes, headers: &[(&'static str, String)]) -> Result<(), PostError> {
        in_time(DELIVERY_TIMEOUT, async {
            let (response, connection) = self.send(body, headers).await?;
            let status = response.status();
            if Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await.is_ok() {
                connection.give_back();
            }
            match status.as_u16() {
                200..=299 => Ok(()),
                status @ (408 | 425 | 429 | 500..=599) => {
                    Err(PostError::Later(format!("it answered HTTP {status}")))
                }
                status => Err(PostError::Refused(status)),
            }
        })
        .await
    }

    async fn send(
        &self,
        body: Bytes,
        headers: &[(&'static str, String)],
    ) -> Result<(Response<Incoming>, PooledConnection), PostError> {
        let origin = self.client.origin();
        let mut request = Request::post(origin.path.as_str())
            .header(HOST, origin.authority.as_str())
            .header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|_| later("the request cannot be written"))?;
        self.client.send(request).await.map_err(|failure| {
            let (SendError::NotSent(why) | SendError::Broken(why)) = failure;
            PostError::Later(why)
        })
    }
}

fn later(why: &str) -> PostError {
    PostError::Later(why.to_owned())
}

async fn in_time<T>(
    limit: Duration,
    exchange: impl Future<Output = Result<T, PostError>>,
) -> Result<T, PostError> {
    let answered = tokio::time::timeout(limit, exchange).await;
    answered.unwrap_or_else(|_| Err(later("it did not answer in time")))
}
