//! An encoder's vectors, made elsewhere: what search is like with an embeddings endpoint.
//!
//! `--texts FILE` writes all texts that an encoder is given, a JSON string a line; `--vectors FILE` reads what it made
//! of them: little-endian 32-bit floats, in the same order and all of one width.

use super::sets::{Collection, Set};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use toolbooth_core::search::{Given, Standing, Vector, text_of, texts_of};

/// Every text that an encoder is given, once.
pub fn texts(sets: &[Set], collections: &[Collection]) -> Vec<String> {
    let tools = collections.iter().flat_map(|collection| collection.catalog.search_index().tools());
    let mut all: BTreeSet<String> = tools.map(|tool| text_of(tool)).collect();
    for query in sets.iter().flat_map(|set| &set.queries) {
        all.extend(texts_of(&query.text).into_iter().map(str::to_owned));
    }
    all.into_iter().collect()
}

/// Writes texts for an encoder.
pub fn write(texts: &[String], file: &Path) -> Result<(), String> {
    let lines: Vec<String> = texts.iter().map(|text| serde_json::json!(text).to_string()).collect();
    std::fs::write(file, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", file.display()))
}

/// What an encoder made of texts.
pub struct Encoded(HashMap<String, Arc<Vector>>);

impl Encoded {
    /// Reads the vectors of these texts.
    pub fn read(texts: Vec<String>, file: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let numbers: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let width = numbers.len() / texts.len().max(1);
        if width == 0 || width * texts.len() != numbers.len() {
            let found = numbers.len();
            return Err(format!("{found} numbers are not the vectors of {} texts", texts.len()));
        }
        let vectors = numbers.chunks_exact(width).map(|numbers| Vector::of(numbers).map(Arc::new));
        Ok(Self(texts.into_iter().zip(vectors).filter_map(|(text, vector)| Some((text, vector?))).collect()))
    }

    /// The vectors of a collection's tools.
    pub fn standing(&self, collection: &Collection) -> Option<Arc<Standing>> {
        let tools = collection.catalog.search_index().tools();
        let vectors: Vec<_> = tools.map(|tool| self.0.get(&text_of(tool)).cloned()).collect();
        Standing::of(vectors.into_iter()).map(Arc::new)
    }

    /// The encoder's word on one query.
    pub fn given(&self, tools: &Arc<Standing>, query: &str) -> Given {
        let known = |text: &str| Some((text.to_owned(), self.0.get(text)?.clone()));
        Given { tools: tools.clone(), texts: texts_of(query).into_iter().filter_map(known).collect() }
    }
}
