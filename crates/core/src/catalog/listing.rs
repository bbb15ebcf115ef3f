//! Serialized lists: the bytes that clients receive, built once per view.

use crate::json::RawJson;
use bytes::Bytes;
use std::hash::{DefaultHasher, Hasher};
use std::sync::OnceLock;

/// The lists a client can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the methods are the documentation")]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

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

/// The text of `{"tools":[…]` in pieces that share the catalog's buffers. The server crate adds the end.
#[derive(Debug, Clone, Default)]
pub struct ListBytes {
    /// The pieces, in order.
    pub pieces: Vec<Bytes>,
    digest: OnceLock<u64>,
}

/// Lists up to this size are copied into one piece, which is cheaper to send than many small ones.
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
        Self { pieces, digest: OnceLock::new() }
    }

    /// The parsed entries of the list. Not needed to send it.
    pub fn entries(&self) -> Vec<RawJson> {
        let mut text = self.pieces.concat();
        text.push(b'}');
        let list = RawJson::parse(text).ok().and_then(|whole| whole.members().ok()?.pop());
        list.and_then(|list| list.value.elements().ok()).unwrap_or_default()
    }

    /// A number that distinguishes this list from others while the process runs.
    pub fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            self.pieces.iter().for_each(|piece| hasher.write(piece));
            hasher.finish()
        })
    }
}
