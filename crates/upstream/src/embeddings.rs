//! Client of an OpenAI-compatible embeddings endpoint, with limits on time and size.
//!
//! Error bodies of the endpoint are not returned: they may repeat the texts or the key.

use crate::http::{HttpOrigin, OriginClient, SendError};
use ::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use ::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum response size.
const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// Errors of an embeddings request.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingsError {
    /// The settings are invalid.
    #[error("{0}")]
    Settings(&'static str),
    /// The endpoint could not be reached.
    #[error("the embeddings endpoint could not be reached: {0}")]
    Unreachable(String),
    /// The request timed out.
    #[error("the embeddings endpoint took longer than {0:?}")]
    Slow(Duration),
    /// The endpoint returned another status than 200.
    #[error("the embeddings endpoint answered HTTP {0}")]
    Refused(u16),
    /// The response could not be parsed.
    #[error("the embeddings endpoint sent an unreadable answer")]
    Unreadable,
}

/// A client for one endpoint and model.
#[derive(Debug)]
pub struct EmbeddingsClient {
    client: Arc<OriginClient>,
    key: Option<HeaderValue>,
    model: String,
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingItem>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    #[serde(default)]
    index: usize,
    embedding: Vec<f32>,
}

impl EmbeddingsClient {
    /// Creates a client. `/embeddings` is appended to the URL if it does not end with it.
    pub fn new(url: &str, model: &str, key: Option<&SecretText>) -> Result<Self, EmbeddingsError> {
        let wrong = "`search.embeddings.url` is not an http or https URL";
        let mut origin = HttpOrigin::parse(url).map_err(|_| EmbeddingsError::Settings(wrong))?;
        let path = origin.path.trim_end_matches('/');
        origin.path = match path.ends_with("/embeddings") {
            true => path.to_owned(),
            false => format!("{path}/embeddings"),
        };
        let key = match key {
            None => None,
            Some(key) => {
                let value = HeaderValue::from_str(&format!("Bearer {}", key.expose()));
                let wrong = "`search.embeddings.key` contains characters that are not allowed in a header";
                let mut value = value.map_err(|_| EmbeddingsError::Settings(wrong))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { client: OriginClient::new(origin, CONNECT_TIMEOUT), key, model: model.to_owned() })
    }

    /// Whether both clients use the same model, URL and key.
    pub fn is_same(&self, other: &Self) -> bool {
        self.client.origin() == other.client.origin() && self.model == other.model && self.key == other.key
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Embeds the texts and returns the vectors in the same order.
    pub async fn of(&self, texts: &[String], within: Duration) -> Result<Vec<Vec<f32>>, EmbeddingsError> {
        match tokio::time::timeout(within, self.exchange(texts)).await {
            Ok(answer) => answer,
            Err(_) => Err(EmbeddingsError::Slow(within)),
        }
    }

    async fn exchange(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingsError> {
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"}).to_string();
        let origin = self.client.origin();
        let mut request = Request::post(origin.path.as_str())
            .header(HOST, origin.authority.as_str())
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|_| EmbeddingsError::Settings("`search.embeddings.url` is not a valid request URL"))?;
        let (response, connection) = self.client.send(request).await.map_err(|failure| {
            let (SendError::NotSent(reason) | SendError::Broken(reason)) = failure;
            EmbeddingsError::Unreachable(reason)
        })?;
        if response.status() != StatusCode::OK {
            return Err(EmbeddingsError::Refused(response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|_| EmbeddingsError::Unreadable)?.to_bytes();
        connection.give_back();
        let mut answer: EmbeddingsResponse =
            serde_json::from_slice(&body).map_err(|_| EmbeddingsError::Unreadable)?;
        answer.data.sort_by_key(|one| one.index);
        let vectors: Vec<Vec<f32>> = answer.data.into_iter().map(|one| one.embedding).collect();
        if vectors.len() == texts.len() { Ok(vectors) } else { Err(EmbeddingsError::Unreadable) }
    }
}
