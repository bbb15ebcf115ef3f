//! An encoder for tests: an OpenAI-compatible embeddings endpoint. Two texts are similar if they contain words of
//! the same groups.

use crate::chat::read;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// How the endpoint answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderMode {
    /// With vectors.
    Normal,
    /// Never.
    Silent,
    /// With status 500.
    Failing,
}

/// A local embeddings endpoint.
#[derive(Debug)]
pub struct EncoderServer {
    /// Its URL, including `/v1`.
    pub url: String,
    state: Arc<Mutex<(EncoderMode, Vec<Value>)>>,
}

impl EncoderServer {
    /// Starts an endpoint; the words of a group are synonyms.
    pub async fn start(groups: &'static [&'static [&'static str]]) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let state = Arc::new(Mutex::new((EncoderMode::Normal, Vec::new())));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, groups, shared.clone()));
            }
        });
        Ok(Self { url, state })
    }

    /// Sets how the endpoint answers.
    pub fn set_mode(&self, mode: EncoderMode) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = mode;
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Value> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    groups: &'static [&'static [&'static str]],
    state: Arc<Mutex<(EncoderMode, Vec<Value>)>>,
) {
    while let Some(request) = read(&mut stream).await {
        let texts = request["input"].as_array().cloned().unwrap_or_default();
        let mode = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.1.push(request);
            state.0
        };
        let (status, body) = match mode {
            EncoderMode::Silent => std::future::pending().await,
            EncoderMode::Failing => (500, json!({"error": {"message": "no"}})),
            EncoderMode::Normal => {
                let one = |(index, text): (usize, &Value)| {
                    let text = text.as_str().unwrap_or_default().to_lowercase();
                    let has = |group: &&[&str]| u8::from(group.iter().any(|word| text.contains(word)));
                    let mut vector: Vec<u8> = groups.iter().map(has).collect();
                    vector.push(1); // No vector may be zero.
                    json!({"index": index, "embedding": vector})
                };
                (200, json!({"data": texts.iter().enumerate().map(one).collect::<Vec<_>>()}))
            }
        };
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} Some\r\ncontent-type: application/json\r\n");
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
