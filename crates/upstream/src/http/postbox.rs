//! A postbox: an address of the operator's that is posted to, again and again. No redirects, bounded in time.

use super::client::{Client, Failure, Origin, OriginError};
use ::http::header::{CONTENT_TYPE, HOST};
use ::http::{HeaderName, HeaderValue, Request};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one delivery may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How much of an answer is read, so that its connection can be used again.
const LONGEST_ANSWER: usize = 64 << 10;

/// Why something was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// It can succeed another time.
    #[error("{0}")]
    Later(String),
    /// The same again would be refused again.
    #[error("it was refused with HTTP {0}")]
    Refused(u16),
}

/// An address that is posted to.
#[derive(Debug)]
pub struct Postbox {
    client: Arc<Client>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Postbox {
    /// The postbox at a URL.
    pub fn new(url: &str) -> Result<Self, OriginError> {
        Ok(Self::at(Origin::parse(url)?))
    }

    /// The postbox of an origin.
    pub fn at(origin: Origin) -> Self {
        Self { client: Client::new(origin, CONNECT), headers: Vec::new() }
    }

    /// The same, with a header that every post carries; nothing where it is none.
    pub fn with_header(mut self, name: &str, value: &SecretText) -> Option<Self> {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(value.expose()).ok()?;
        value.set_sensitive(true);
        self.headers.push((name, value));
        Some(self)
    }

    /// The path it is at.
    pub fn path(&self) -> &str {
        &self.client.origin().path
    }

    /// Posts JSON, with these headers besides.
    pub async fn post(&self, body: Bytes, headers: &[(&'static str, String)]) -> Result<(), PostError> {
        let later = |why: &str| PostError::Later(why.to_owned());
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
        let exchange = async {
            let (response, connection) = self.client.send(request).await.map_err(|failure| {
                let (Failure::NotSent(why) | Failure::Broken(why)) = failure;
                PostError::Later(why)
            })?;
            let status = response.status();
            if Limited::new(response.into_body(), LONGEST_ANSWER).collect().await.is_ok() {
                connection.give_back();
            }
            match status.as_u16() {
                200..=299 => Ok(()),
                status @ (408 | 425 | 429 | 500..=599) => {
                    Err(PostError::Later(format!("it answered HTTP {status}")))
                }
                status => Err(PostError::Refused(status)),
            }
        };
        let answered = tokio::time::timeout(DEADLINE, exchange).await;
        answered.unwrap_or_else(|_| Err(later("it did not answer in time")))
    }
}
