//! An encoder behind an endpoint, in place of the compiled-in table.
//!
//! Tools are encoded in the background, in batches, and remembered by what they say. A search asks for its own
//! few texts only, waits a moment and no longer, and goes by the table whenever anything is missing. An endpoint
//! that failed is left alone for a while.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use toolbooth_core::catalog::Catalog;
use toolbooth_core::search::{Given, Query, Standing, Vector, text_of, texts_of};
use toolbooth_upstream::embeddings::{Embeddings, EmbeddingsError};

/// How long a search waits for its texts.
const PATIENCE: Duration = Duration::from_millis(150);
/// How long a batch of tools may take.
const BATCH_PATIENCE: Duration = Duration::from_secs(30);
/// How many tools are encoded at once.
const BATCH: usize = 64;
/// How long an endpoint that failed is left alone.
const REST: Duration = Duration::from_secs(10);
/// How many tools are remembered; catalogs with more go by the table.
const MAX_TOOLS: usize = 20_000;
/// How many texts of queries are remembered.
const MAX_TEXTS: usize = 512;

type Key = [u8; 32];

/// An encoder and what it has said.
#[derive(Debug)]
pub struct Encoder {
    endpoint: Embeddings,
    tools: Mutex<HashMap<Key, Arc<Vector>>>,
    texts: Mutex<HashMap<String, Arc<Vector>>>,
    /// The last revision whose tools were encoded, and their vectors; none where they cannot all be had.
    standing: Mutex<Option<(u64, Option<Arc<Standing>>)>>,
    gathering: AtomicBool,
    resting: Mutex<Option<Instant>>,
}

impl Encoder {
    /// An encoder behind this endpoint.
    pub fn new(endpoint: Embeddings) -> Arc<Self> {
        Arc::new(Self {
            endpoint,
            tools: Mutex::default(),
            texts: Mutex::default(),
            standing: Mutex::default(),
            gathering: AtomicBool::new(false),
            resting: Mutex::default(),
        })
    }

    /// This one, or an earlier one of the same endpoint: that has encoded tools already.
    pub(crate) fn or_earlier(self: Arc<Self>, earlier: Option<&Arc<Self>>) -> Arc<Self> {
        earlier.filter(|earlier| earlier.endpoint.is_same(&self.endpoint)).cloned().unwrap_or(self)
    }

    /// Its word on a query, if it has one in time.
    pub(super) async fn given(self: &Arc<Self>, catalog: &Arc<Catalog>, query: &Query) -> Option<Given> {
        if self.rests() {
            return None;
        }
        let Some(tools) = self.standing(catalog) else {
            self.gather(catalog);
            return None;
        };
        let tools = tools?;
        let wanted: Vec<&str> = query.texts.iter().flat_map(|text| texts_of(text)).collect();
        let mut texts: HashMap<String, Arc<Vector>> = HashMap::new();
        let mut missing = Vec::new();
        for text in wanted {
            match lock(&self.texts).get(text) {
                Some(vector) => drop(texts.insert(text.to_owned(), vector.clone())),
                None => missing.push(text.to_owned()),
            }
        }
        if !missing.is_empty() {
            let vectors = self.ask(&missing, PATIENCE).await?;
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
        Some(Given { tools, texts })
    }

    /// The vectors of this snapshot's tools, once it is known whether they can be had.
    fn standing(&self, catalog: &Catalog) -> Option<Option<Arc<Standing>>> {
        let known = lock(&self.standing).clone();
        known.filter(|(revision, _)| *revision == catalog.revision).map(|(_, standing)| standing)
    }

    /// Encodes in the background what is not known of this snapshot's tools.
    fn gather(self: &Arc<Self>, catalog: &Arc<Catalog>) {
        if self.gathering.swap(true, Ordering::AcqRel) {
            return;
        }
        let (encoder, catalog) = (self.clone(), catalog.clone());
        tokio::spawn(async move {
            let gathering = Gathering(encoder);
            gathering.0.encode(&catalog).await;
        });
    }

    async fn encode(&self, catalog: &Arc<Catalog>) {
        let prepare = {
            let catalog = catalog.clone();
            move || -> Vec<(Key, String)> {
                let tools = catalog.search_index().tools().take(MAX_TOOLS + 1);
                tools.map(|tool| text_of(tool)).map(|text| (Sha256::digest(&text).into(), text)).collect()
            }
        };
        let Ok(all) = tokio::task::spawn_blocking(prepare).await else { return };
        if all.is_empty() {
            return;
        }
        if all.len() > MAX_TOOLS {
            return self.settle(catalog.revision, None, "there are too many tools to encode");
        }
        let missing: Vec<&(Key, String)> = {
            let mut known = lock(&self.tools);
            if known.len() > 2 * MAX_TOOLS {
                known.clear();
            }
            all.iter().filter(|(key, _)| !known.contains_key(key)).collect()
        };
        for batch in missing.chunks(BATCH) {
            let texts: Vec<String> = batch.iter().map(|(_, text)| text.clone()).collect();
            let Some(vectors) = self.ask(&texts, BATCH_PATIENCE).await else { return };
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
        let standing = Standing::of(vectors.into_iter());
        self.settle(catalog.revision, standing, "the endpoint gave vectors that cannot be compared");
    }

    /// Says for good what is known of a snapshot: what cannot be encoded is not tried again with every search.
    fn settle(&self, revision: u64, standing: Option<Standing>, otherwise: &str) {
        if standing.is_none() {
            tracing::warn!("search goes by the built-in table until the tools change: {otherwise}");
        }
        *lock(&self.standing) = Some((revision, standing.map(Arc::new)));
    }

    /// Asks the endpoint; where it fails, it is left alone for a while.
    async fn ask(&self, texts: &[String], within: Duration) -> Option<Vec<Vec<f32>>> {
        match self.endpoint.of(texts, within).await {
            Ok(vectors) => Some(vectors),
            Err(error) => {
                self.rest(&error);
                None
            }
        }
    }

    fn rests(&self) -> bool {
        lock(&self.resting).is_some_and(|until| Instant::now() < until)
    }

    fn rest(&self, error: &EmbeddingsError) {
        tracing::warn!("search goes by the built-in table for {REST:?}: {error}");
        *lock(&self.resting) = Some(Instant::now() + REST);
    }
}

/// Encoding that is under way, until it ends in any way.
struct Gathering(Arc<Encoder>);

impl Drop for Gathering {
    fn drop(&mut self) {
        self.0.gathering.store(false, Ordering::Release);
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
