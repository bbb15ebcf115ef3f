//! Finds servers that a query may refer to although their tools are unavailable: the server is down or needs a sign-in.

use crate::query::Query;
use crate::words::{Stems, each_word, is_stop};
use std::collections::HashSet;
use toolbooth_core::server::ServerEntry;

/// Whether a query has a word of the server's name, or two words of its descriptions.
pub fn mentions_server(query: &Query, server: &ServerEntry) -> bool {
    let stems = Stems::default();
    let mut query_words = HashSet::new();
    for text in &query.texts {
        each_word(text, &mut |word: &str| {
            if !is_stop(word) {
                query_words.insert(stems.of(word).into_owned());
            }
        });
    }
    let count = |text: &str| {
        let mut matched = HashSet::new();
        each_word(text, &mut |word: &str| {
            if let Some(word) = query_words.get(&*stems.of(word)) {
                matched.insert(word.as_str().to_owned());
            }
        });
        matched.len()
    };
    let about = [&server.about.short_description, &server.about.description];
    count(server.name.as_str()) > 0 || about.into_iter().flatten().map(|text| count(text)).sum::<usize>() > 1
}
