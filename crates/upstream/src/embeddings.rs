//! An OpenAI-compatible embeddings endpoint: texts to vectors, bounded in time and length.
//!
//! What the endpoint says in an error goes to the log: it may repeat the texts, or a key.

use crate::http::{Client, Failure, Origin};
use ::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use ::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest answer.
const LONGEST: usize = 32 << 20;

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingsError {
    /// The settings cannot be used.
    #[error("{0}")]
    Settings(&'static str),
    /// It could not be reached.
    #[error("the embeddings endpoint could not be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("the embeddings endpoint took longer than {0:?}")]
    Slow(Duration),
    /// It refused.
    #[error("the embeddings endpoint answered HTTP {0}")]
    Refused(u16),
    /// Its answer is none.
    #[error("the embeddings endpoint gave an answer that cannot be read")]
    Unreadable,
}

/// An endpoint and its model.
#[derive(Debug)]
pub struct Embeddings {
    client: Arc<Client>,
    key: Option<HeaderValue>,
    model: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    #[serde(default)]
    index: usize,
    embedding: Vec<f32>,
}

impl Embeddings {
    /// An endpoint at an address that ends with `/embeddings`, or where that is to follow.
    pub fn new(url: &str, model: &str, key: Option<&SecretText>) -> Result<Self, EmbeddingsError> {
        let wrong = "`search.embeddings.url` is no http or https address";
        let mut origin = Origin::parse(url).map_err(|_| EmbeddingsError::Settings(wrong))?;
        let path = origin.path.trim_end_matches('/');
        origin.path = match path.ends_with("/embeddings") {
            true => path.to_owned(),
            false => format!("{path}/embeddings"),
        };
        let key = match key {
            None => None,
            Some(key) => {
                let value = HeaderValue::from_str(&format!("Bearer {}", key.expose()));
                let wrong = "`search.embeddings.key` holds what a header may not";
                let mut value = value.map_err(|_| EmbeddingsError::Settings(wrong))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { client: Client::new(origin, CONNECT), key, model: model.to_owned() })
    }

    /// Whether another one is the same model at the same address, asked with the same key.
    pub fn is_same(&self, other: &Self) -> bool {
        self.client.origin() == other.client.origin() && self.model == other.model && self.key == other.key
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The vectors of these texts, in their order.
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
            .map_err(|_| EmbeddingsError::Settings("`search.embeddings.url` cannot be asked"))?;
        let (response, connection) = self.client.send(request).await.map_err(|failure| {
            let (Failure::NotSent(reason) | Failure::Broken(reason)) = failure;
            EmbeddingsError::Unreachable(reason)
        })?;
        if response.status() != StatusCode::OK {
            return Err(EmbeddingsError::Refused(response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let body = body.map_err(|_| EmbeddingsError::Unreadable)?.to_bytes();
        connection.give_back();
        let mut answer: Answer = serde_json::from_slice(&body).map_err(|_| EmbeddingsError::Unreadable)?;
        answer.data.sort_by_key(|one| one.index);
        let vectors: Vec<Vec<f32>> = answer.data.into_iter().map(|one| one.embedding).collect();
        if vectors.len() == texts.len() { Ok(vectors) } else { Err(EmbeddingsError::Unreadable) }
    }
}
