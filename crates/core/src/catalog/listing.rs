//! Lists as ready bytes: what a client is sent, made once per view.

use crate::json::RawJson;
use bytes::Bytes;
use std::hash::{DefaultHasher, Hasher};
use std::sync::OnceLock;

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
    /// All of them.
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

/// The text of `{"tools":[…]` in pieces that share the catalog's own bytes; the door closes it.
#[derive(Debug, Clone, Default)]
pub struct ListBytes {
    /// The pieces, in order.
    pub pieces: Vec<Bytes>,
    digest: OnceLock<u64>,
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
        Self { pieces, digest: OnceLock::new() }
    }

    /// The entries of the list, for those who look into it. Sending it needs none of this.
    pub fn entries(&self) -> Vec<RawJson> {
        let mut text = self.pieces.concat();
        text.push(b'}');
        let list = RawJson::parse(text).ok().and_then(|whole| whole.members().ok()?.pop());
        list.and_then(|list| list.value.elements().ok()).unwrap_or_default()
    }

    /// A number that tells this list from others, for as long as the process lives.
    pub fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            self.pieces.iter().for_each(|piece| hasher.write(piece));
            hasher.finish()
        })
    }
}
