//! Vectors from an external encoder, compared in addition to those of the table. Neither knows all words.

use crate::clauses::clauses;
use crate::comparison::{QueryVector, Vectors};
use crate::fields::{ToolField, each_text};
use crate::index::{Index, VisibleTools};
use crate::meaning::Vector;
use crate::similarities::Similarities;
use crate::words::spelled_out;
use std::collections::HashMap;
use std::sync::Arc;
use toolbooth_core::catalog::Tool;

/// Maximum number of bytes of a tool's text for the encoder.
const MAX_TEXT: usize = 2_000;

/// The text of a tool for the encoder.
pub fn tool_text(tool: &Tool) -> String {
    let mut text = format!("{} {}:", spelled_out(tool.server.name.as_str()), spelled_out(&tool.name));
    let mut parameters = String::new();
    each_text(tool, &mut |field, more| match field {
        ToolField::Description => {
            text.push(' ');
            text.push_str(more);
        }
        ToolField::Parameters => {
            parameters.push(' ');
            parameters.push_str(&spelled_out(more));
        }
        _ => {}
    });
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    parameters.truncate(parameters.floor_char_boundary(MAX_TEXT / 4));
    text + &parameters
}

/// The texts of a query for the encoder: the whole, and each clause of a long one.
pub fn query_texts(text: &str) -> Vec<&str> {
    let text = text.trim();
    std::iter::once(text).chain(clauses(text)).collect()
}

/// The encoder's vectors of all tools of one snapshot.
#[derive(Debug)]
pub struct EncodedTools(Vectors);

impl EncodedTools {
    /// The vectors of an index's tools, in order; `None` if one is missing or has another width.
    pub fn of(mut tools: impl ExactSizeIterator<Item = Option<Arc<Vector>>>) -> Option<Self> {
        let count = tools.len();
        let first = tools.next()??;
        let mut vectors = Vectors::with_room(first.width(), count);
        vectors.push(Some(&first));
        for vector in tools {
            let vector = vector.filter(|vector| vector.width() == first.width())?;
            vectors.push(Some(&vector));
        }
        Some(Self(vectors))
    }
}

/// The encoder's vectors for one query.
#[derive(Debug)]
pub struct EncodedQuery {
    /// The vectors of the tools.
    pub tools: Arc<EncodedTools>,
    /// The vector of each text of the query.
    pub texts: HashMap<String, Arc<Vector>>,
}

impl EncodedQuery {
    /// The similarity of each visible tool to each text; `None` if vectors are missing.
    pub(crate) fn similarities(
        &self,
        index: &Index,
        view: &VisibleTools,
        texts: &[&str],
    ) -> Option<Vec<Similarities>> {
        if index.len() != self.tools.0.len() {
            return None;
        }
        let vector = |text: &&str| self.texts.get(text.trim()).map(|vector| QueryVector::of(Some(vector)));
        let sought: Vec<QueryVector> = texts.iter().map(vector).collect::<Option<_>>()?;
        let mut similarities = vec![vec![0_f32; index.len()]; texts.len()];
        self.tools.0.compare(&sought, &mut similarities);
        Some(similarities.into_iter().map(|similarities| Similarities::of(view, similarities)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoder_gets_clauses_as_search_cuts_them() {
        let request = " Read the report of last week. Save it as a PDF to my folder, please ";
        let texts = query_texts(request);
        assert_eq!(texts[0], request.trim());
        assert_eq!(texts[1..], ["Read the report of last week", "Save it as a PDF to my folder"]);
    }
}
