//! Vectors from an external encoder: measures search with an embeddings endpoint.
//!
//! `--texts FILE` writes all texts for the encoder, one JSON string per line; `--vectors FILE` reads its vectors:
//! little-endian 32-bit floats, in the same order and all of one width.

use super::sets::{Collection, EvalSet};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use toolbooth_search::{EncodedQuery, EncodedTools, Vector, index_of, query_texts, tool_text};

/// Every text for the encoder, once.
pub fn texts(sets: &[EvalSet], collections: &[Collection]) -> Vec<String> {
    let mut all = BTreeSet::new();
    for collection in collections {
        all.extend(index_of(&collection.catalog).tools().map(|tool| tool_text(tool)));
    }
    for query in sets.iter().flat_map(|set| &set.queries) {
        all.extend(query_texts(&query.text).into_iter().map(str::to_owned));
    }
    all.into_iter().collect()
}

/// Writes the texts for an encoder.
pub fn write(texts: &[String], file: &Path) -> Result<(), String> {
    let lines: Vec<String> = texts.iter().map(|text| serde_json::json!(text).to_string()).collect();
    std::fs::write(file, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", file.display()))
}

/// The encoder's vectors by text.
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
    pub fn encoded_tools(&self, collection: &Collection) -> Option<Arc<EncodedTools>> {
        let index = index_of(&collection.catalog);
        let vectors: Vec<_> = index.tools().map(|tool| self.0.get(&tool_text(tool)).cloned()).collect();
        EncodedTools::of(vectors.into_iter()).map(Arc::new)
    }

    /// The encoder's vectors for one query.
    pub fn query(&self, tools: &Arc<EncodedTools>, query: &str) -> EncodedQuery {
        let known = |text: &str| Some((text.to_owned(), self.0.get(text)?.clone()));
        EncodedQuery {
            tools: tools.clone(),
            texts: query_texts(query).into_iter().filter_map(known).collect(),
        }
    }
}
