//! Lists as ready bytes: what a client is sent, made once per view.

use bytes::Bytes;

/// The lists a client can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the methods are the documentation")]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    /// The member of the result that holds the list.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

/// The text of `{"tools":[…]` in pieces that share the catalog's own bytes; the door closes it.
#[derive(Debug, Clone, Default)]
pub struct ListBytes {
    /// The pieces, in order.
    pub pieces: Vec<Bytes>,
}

/// Lists up to this size are copied into one piece: cheaper to send than many small ones.
const ONE_PIECE: usize = 256 * 1024;

impl ListBytes {
    /// Joins the texts of several servers.
    pub fn join<'a>(kind: ListKind, texts: impl Iterator<Item = &'a Bytes>) -> Self {
        let mut pieces = vec![Bytes::from(format!("{{\"{}\":[", kind.member()))];
        let mut first = true;
        for text in texts.filter(|text| !text.is_empty()) {
            if !std::mem::take(&mut first) {
                pieces.push(Bytes::from_static(b","));
            }
            pieces.push(text.clone());
        }
        pieces.push(Bytes::from_static(b"]"));
        let size: usize = pieces.iter().map(Bytes::len).sum();
        if size <= ONE_PIECE {
            pieces = vec![Bytes::from(pieces.concat())];
        }
        Self { pieces }
    }
}
