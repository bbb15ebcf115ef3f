//! Servers that a query may be about, though nothing of theirs can be found: they are down, or want a sign-in.

use super::query::Query;
use super::words::{Stems, each_word, is_stop};
use crate::server::ServerEntry;
use std::collections::HashSet;

/// Whether a query has a word of a server's name, or two of what is said about it.
pub fn speaks_of(query: &Query, server: &ServerEntry) -> bool {
    let stems = Stems::default();
    let mut wanted = HashSet::new();
    for text in &query.texts {
        each_word(text, &mut |word: &str| {
            if !is_stop(word) {
                wanted.insert(stems.of(word).into_owned());
            }
        });
    }
    let count = |text: &str| {
        let mut met = HashSet::new();
        each_word(text, &mut |word: &str| {
            if let Some(word) = wanted.get(&*stems.of(word)) {
                met.insert(word.as_str().to_owned());
            }
        });
        met.len()
    };
    let about = [&server.about.short_description, &server.about.description];
    count(server.name.as_str()) > 0 || about.into_iter().flatten().map(|text| count(text)).sum::<usize>() > 1
}
