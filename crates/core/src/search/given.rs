//! Meanings from elsewhere: vectors that an encoder made, compared beside the table's. Neither knows all words.

use super::clauses::clauses;
use super::comparison::{Sought, Vectors};
use super::fields::{Field, each_text};
use super::index::{Index, View};
use super::meaning::Vector;
use super::rank::Alike;
use super::words::spelled_out;
use crate::catalog::Tool;
use std::collections::HashMap;
use std::sync::Arc;

/// No more of a tool's text is given to an encoder than this.
const MAX_TEXT: usize = 2_000;

/// What an encoder is given of a tool.
pub fn text_of(tool: &Tool) -> String {
    let mut text = format!("{} {}:", spelled_out(tool.server.name.as_str()), spelled_out(&tool.name));
    let mut parameters = String::new();
    each_text(tool, &mut |field, more| match field {
        Field::Description => {
            text.push(' ');
            text.push_str(more);
        }
        Field::Parameters => {
            parameters.push(' ');
            parameters.push_str(&spelled_out(more));
        }
        _ => {}
    });
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    parameters.truncate(parameters.floor_char_boundary(MAX_TEXT / 4));
    text + &parameters
}

/// What an encoder is given of one text of a query: the whole, and each clause of a long one.
pub fn texts_of(text: &str) -> Vec<&str> {
    let text = text.trim();
    std::iter::once(text).chain(clauses(text)).collect()
}

/// The vectors of all tools of one snapshot.
#[derive(Debug)]
pub struct Standing(Vectors);

impl Standing {
    /// The vectors of an index's tools, in their order; none where any is missing or is of another width.
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

/// An encoder's word on how like tools are to the texts of one query.
#[derive(Debug)]
pub struct Given {
    /// The tools' vectors.
    pub tools: Arc<Standing>,
    /// The vector of each text of the query.
    pub texts: HashMap<String, Arc<Vector>>,
}

impl Given {
    /// How like each tool in view is to each text; nothing where vectors are missing.
    pub(super) fn alike(&self, index: &Index, view: &View, texts: &[&str]) -> Option<Vec<Alike>> {
        if index.len() != self.tools.0.len() {
            return None;
        }
        let vector = |text: &&str| self.texts.get(text.trim()).map(|vector| Sought::of(Some(vector)));
        let sought: Vec<Sought> = texts.iter().map(vector).collect::<Option<_>>()?;
        let mut alike = vec![vec![0_f32; index.len()]; texts.len()];
        self.tools.0.compare(&sought, &mut alike);
        Some(alike.into_iter().map(|alike| Alike::of(view, alike)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_is_given_clauses_as_search_looks_for_them() {
        let request = " Read the report of last week. Save it as a PDF to my folder, please ";
        let texts = texts_of(request);
        assert_eq!(texts[0], request.trim());
        assert_eq!(texts[1..], ["Read the report of last week", "Save it as a PDF to my folder"]);
    }
}
