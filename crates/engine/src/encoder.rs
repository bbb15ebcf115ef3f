//! An encoder behind an HTTP endpoint, used for search in addition to the built-in table.
//!
//! Tools are encoded in the background, in batches, and cached by the digest of their text. A search sends only its
//! own few texts, waits briefly, and uses only the built-in table if anything is missing. An endpoint that failed is
//! not used for a while.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::catalog::Catalog;
use toolbooth_search::{EncodedQuery, EncodedTools, Query, Vector, index_of, query_texts, tool_text};
use toolbooth_upstream::embeddings::{EmbeddingsClient, EmbeddingsError};

/// How long a search waits for its vectors.
const QUERY_TIMEOUT: Duration = Duration::from_millis(150);
/// How long a batch of tools may take.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of tools in one request.
const BATCH: usize = 64;
/// How long an endpoint that failed is not used.
const BACKOFF: Duration = Duration::from_secs(10);
/// The maximum number of tools that are encoded; larger catalogs use only the built-in table.
const MAX_TOOLS: usize = 20_000;
/// The maximum number of cached query texts.
const MAX_TEXTS: usize = 512;

/// The SHA-256 of a tool's text.
type TextDigest = [u8; 32];

/// An encoder and its cached vectors.
#[derive(Debug)]
pub struct Encoder {
    endpoint: EmbeddingsClient,
    tools: Mutex<HashMap<TextDigest, Arc<Vector>>>,
    texts: Mutex<HashMap<String, Arc<Vector>>>,
    /// The last revision whose tools were encoded, and their vectors; `None` if not all of them could be encoded.
    encoded: Mutex<Option<(u64, Option<Arc<EncodedTools>>)>>,
    is_encoding: AtomicBool,
    backoff_until: Mutex<Option<Instant>>,
}

impl Encoder {
    /// An encoder behind this endpoint.
    pub fn new(endpoint: EmbeddingsClient) -> Arc<Self> {
        Arc::new(Self {
            endpoint,
            tools: Mutex::default(),
            texts: Mutex::default(),
            encoded: Mutex::default(),
            is_encoding: AtomicBool::new(false),
            backoff_until: Mutex::default(),
        })
    }

    /// This encoder, or an earlier one for the same endpoint, which already has vectors.
    pub(crate) fn or_earlier(self: Arc<Self>, earlier: Option<&Arc<Self>>) -> Arc<Self> {
        earlier.filter(|earlier| earlier.endpoint.is_same(&self.endpoint)).cloned().unwrap_or(self)
    }

    /// The vectors of a query and of the tools; `None` if they are not available in time.
    pub(super) async fn encode_query(
        self: &Arc<Self>,
        catalog: &Arc<Catalog>,
        query: &Query,
    ) -> Option<EncodedQuery> {
        if self.is_backing_off() {
            return None;
        }
        let Some(tools) = self.encoded_tools(catalog) else {
            self.encode_in_background(catalog);
            return None;
        };
        let tools = tools?;
        let needed: Vec<&str> = query.texts.iter().flat_map(|text| query_texts(text)).collect();
        let mut texts: HashMap<String, Arc<Vector>> = HashMap::new();
        let mut missing = Vec::new();
        for text in needed {
            match lock(&self.texts).get(text) {
                Some(vector) => drop(texts.insert(text.to_owned(), vector.clone())),
                None => missing.push(text.to_owned()),
            }
        }
        if !missing.is_empty() {
            let vectors = self.ask(&missing, QUERY_TIMEOUT).await?;
            let mut known = lock(&self.texts);
            if known.len() + missing.len() > MAX_TEXTS {
                known.clear();
            }
            for (text, vector) in missing.into_iter().zip(vectors) {
                let vector = Arc::new(Vector::of(&vector)?);
                known.insert(text.clone(), vector.clone());
                texts.insert(text, vector);
            }
        }
        Some(EncodedQuery { tools, texts })
    }

    /// The vectors of this snapshot's tools; the outer `None` if they have not been encoded yet.
    fn encoded_tools(&self, catalog: &Catalog) -> Option<Option<Arc<EncodedTools>>> {
        let known = lock(&self.encoded).clone();
        known.filter(|(revision, _)| *revision == catalog.revision).map(|(_, encoded)| encoded)
    }

    /// Encodes the tools of this snapshot in the background, unless that is already running.
    fn encode_in_background(self: &Arc<Self>, catalog: &Arc<Catalog>) {
        if self.is_encoding.swap(true, Ordering::AcqRel) {
            return;
        }
        let (encoder, catalog) = (self.clone(), catalog.clone());
        tokio::spawn(async move {
            let guard = EncodingGuard(encoder);
            guard.0.encode(&catalog).await;
        });
    }

    async fn encode(&self, catalog: &Arc<Catalog>) {
        let prepare = {
            let catalog = catalog.clone();
            move || -> Vec<(TextDigest, String)> {
                let index = index_of(&catalog);
                let tools = index.tools().take(MAX_TOOLS + 1);
                tools.map(|tool| tool_text(tool)).map(|text| (Sha256::digest(&text).into(), text)).collect()
            }
        };
        let Ok(all) = tokio::task::spawn_blocking(prepare).await else { return };
        if all.is_empty() {
            return;
        }
        if all.len() > MAX_TOOLS {
            return self.finish(catalog.revision, None, "there are too many tools to encode");
        }
        let missing: Vec<&(TextDigest, String)> = {
            let mut known = lock(&self.tools);
            if known.len() > 2 * MAX_TOOLS {
                known.clear();
            }
            all.iter().filter(|(key, _)| !known.contains_key(key)).collect()
        };
        for batch in missing.chunks(BATCH) {
            let texts: Vec<String> = batch.iter().map(|(_, text)| text.clone()).collect();
            let Some(vectors) = self.ask(&texts, BATCH_TIMEOUT).await else { return };
            let mut known = lock(&self.tools);
            for ((key, _), vector) in batch.iter().zip(vectors) {
                let Some(vector) = Vector::of(&vector) else { continue };
                known.insert(*key, Arc::new(vector));
            }
        }
        let vectors: Vec<Option<Arc<Vector>>> = {
            let known = lock(&self.tools);
            all.iter().map(|(key, _)| known.get(key).cloned()).collect()
        };
        let encoded = EncodedTools::of(vectors.into_iter());
        self.finish(catalog.revision, encoded, "the endpoint returned vectors that cannot be compared");
    }

    /// Records the result for a snapshot: tools that cannot be encoded are not tried again with every search.
    fn finish(&self, revision: u64, encoded: Option<EncodedTools>, otherwise: &str) {
        if encoded.is_none() {
            tracing::warn!("search uses only the built-in table until the tools change: {otherwise}");
        }
        *lock(&self.encoded) = Some((revision, encoded.map(Arc::new)));
    }

    /// Sends texts to the endpoint. If that fails, the endpoint is not used for a while.
    async fn ask(&self, texts: &[String], within: Duration) -> Option<Vec<Vec<f32>>> {
        match self.endpoint.of(texts, within).await {
            Ok(vectors) => Some(vectors),
            Err(error) => {
                self.back_off(&error);
                None
            }
        }
    }

    fn is_backing_off(&self) -> bool {
        lock(&self.backoff_until).is_some_and(|until| Instant::now() < until)
    }

    fn back_off(&self, error: &EmbeddingsError) {
        tracing::warn!("search uses only the built-in table for {BACKOFF:?}: {error}");
        *lock(&self.backoff_until) = Some(Instant::now() + BACKOFF);
    }
}

/// Marks that encoding is running, until it is dropped.
struct EncodingGuard(Arc<Encoder>);

impl Drop for EncodingGuard {
    fn drop(&mut self) {
        self.0.is_encoding.store(false, Ordering::Release);
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
