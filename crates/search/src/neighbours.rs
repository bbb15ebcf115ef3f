//! Near words: words of the catalog with about the same meaning as a word of a request.

use crate::comparison::QueryVector;
use crate::index::{Index, VisibleTools};
use crate::meaning::meaning_of_word;
use crate::near_words::{NEAR, NearWord};
use crate::weights::WEIGHTS;
use std::sync::Arc;

impl Index {
    /// For each word the nearest words of visible tools, nearest first. Returns one more than counts, because a word
    /// of the catalog is the nearest to itself.
    pub(crate) fn near(&self, view: &VisibleTools, words: &[&str]) -> Vec<Arc<[NearWord]>> {
        let mut found: Vec<Option<Arc<[NearWord]>>> = {
            let known = view.near_words.lock();
            words.iter().map(|word| known.get(*word).cloned()).collect()
        };
        let new: Vec<usize> = (0..words.len()).filter(|at| found[*at].is_none()).collect();
        let sought: Vec<QueryVector> =
            new.iter().map(|at| QueryVector::of(meaning_of_word(words[*at]).as_ref())).collect();
        let mut alike = vec![vec![0_f32; self.neighbours.words.len()]; new.len()];
        self.neighbours.vectors.compare(&sought, &mut alike);
        for (at, alike) in new.into_iter().zip(alike) {
            let nearest: Arc<[NearWord]> = self.nearest(view, &alike).into();
            view.near_words.keep(words[at], nearest.clone());
            found[at] = Some(nearest);
        }
        found.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn nearest(&self, view: &VisibleTools, alike: &[f32]) -> Vec<NearWord> {
        let all = self.neighbours.words.iter().zip(alike);
        let mut near: Vec<NearWord> = all
            .filter(|(_, similarity)| **similarity > WEIGHTS.least_near)
            .map(|(entry, similarity)| NearWord { entry: *entry, similarity: *similarity })
            .collect();
        near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        near.into_iter().filter(|near| self.has(view, self.word(near.entry))).take(NEAR + 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::near_words::{MAX_REMEMBERED, MAX_WORDS, NearWordCache};
    use std::collections::BTreeMap;
    use toolbooth_core::catalog::{Discovery, Naming, ServerCatalog, Tool, admit};
    use toolbooth_core::json::RawJson;
    use toolbooth_core::secret::SecretText;
    use toolbooth_core::server::{ServerEntry, Transport};

    fn of(servers: &[(&str, &[(&str, &str)])]) -> Index {
        let tool = |(name, about): &(&str, &str)| {
            RawJson::parse(format!(r#"{{"name":"{name}","description":"{about}","inputSchema":{{}}}}"#))
                .expect("JSON")
        };
        let server = |(name, tools): &(&str, &[(&str, &str)])| {
            let discovery = Discovery { tools: tools.iter().map(tool).collect(), ..Discovery::default() };
            let command = SecretText::plain("true");
            let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
            let entry = ServerEntry::with_defaults(name.parse().expect("a name"), transport);
            Arc::new(admit(&Arc::new(entry), &discovery, &Naming::default(), &|_| false))
        };
        let servers: Vec<Arc<ServerCatalog>> = servers.iter().map(server).collect();
        Index::of(servers.iter())
    }

    fn index(tools: &[(&str, &str)]) -> Index {
        of(&[("own", tools)])
    }

    fn near(index: &Index, view: &VisibleTools, word: &str) -> Vec<String> {
        let found = index.near(view, &[word]).remove(0);
        found.iter().map(|near| index.word(near.entry).to_owned()).collect()
    }

    fn shop() -> Index {
        index(&[
            ("track_deliveries", "Where deliveries are. A delivery takes days."),
            ("crop_picture", "Cuts the border off."),
            ("tell_weather", "Rain and sun."),
        ])
    }

    #[test]
    fn near_words_have_a_similar_meaning_and_stems_use_written_words() {
        let index = shop();
        let all = index.view("all".into(), |_| true);
        let cases = [("photograph", "pictur"), ("shipment", "deliveri"), ("rainy", "rain")];
        for (word, expected) in cases {
            assert!(near(&index, &all, word).iter().any(|near| near == expected), "{word}");
            assert!(near(&index, &all, word).iter().all(|near| near != "own"), "{word}");
        }
        assert_eq!(near(&index, &all, "weather")[0], "weather", "a word is the nearest to itself");
        assert!(near(&index, &all, "\u{1f600}").is_empty(), "a text without a meaning has no near words");
        let entry = index.entries("deliveri")[0];
        assert_eq!(index.written(&entry), "delivery", "the shortest written form");
    }

    #[test]
    fn a_near_word_raises_a_tool_but_is_not_a_matched_word() {
        let index = shop();
        let all = index.view("all".into(), |_| true);
        let query = Query::new(vec!["shipment".into()], 5).expect("a query");
        let hits = index.search(&all, &query, None);
        assert_eq!(&*hits[0].tool.name, "track_deliveries");
        assert!(hits[0].score > 0.99, "by words and by meaning: {}", hits[0].score);
        assert_eq!(hits[0].matched.names().count(), 0, "no word of the request is in the tool");
    }

    #[test]
    fn words_of_hidden_tools_are_not_near_words() {
        let index = shop();
        let sees = |tool: &Tool| &*tool.name != "crop_picture";
        let some = index.view("some".into(), sees);
        assert!(near(&index, &some, "photograph").iter().all(|near| near != "pictur"));
        let all = index.view("all".into(), |_| true);
        assert!(
            near(&index, &all, "photograph").iter().any(|near| near == "pictur"),
            "the cache is per view"
        );
    }

    #[test]
    fn hidden_servers_do_not_change_scores() {
        let work =
            [("send_mail", "Sends an email."), ("post_letter", "Delivers paper."), ("add", "Sums up.")];
        let vault = [
            ("send_secret_mail", "Sends email in secret."),
            ("mailings", "Emailed letters, papea papeb papec paped."),
        ];
        let alone = of(&[("work", &work)]);
        let both = of(&[("vault", &vault), ("work", &work)]);
        for text in [
            "send secret email",
            "mailing",
            "pape",
            "secretly message a friend and then add a few letters for him please",
        ] {
            let query = Query::new(vec![text.into()], 5).expect("a query");
            let found = |index: &Index| -> Vec<(String, f32)> {
                let view = index.view("some".into(), |tool| tool.server.name.as_str() == "work");
                let hits = index.search(&view, &query, None);
                hits.iter().map(|hit| (hit.tool.name.to_string(), hit.score)).collect()
            };
            assert_eq!(found(&both), found(&alone), "{text}");
        }
    }

    #[test]
    fn caches_and_vectors_are_bounded() {
        let name = |at: usize| -> String {
            let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).expect("a letter"));
            [at, at / 26, at / 676, at / 17_576].map(letter).iter().collect()
        };
        let about: Vec<String> = (0..20_000).map(name).collect();
        let tools: Vec<(String, String)> =
            about.chunks(500).map(|some| (some[0].clone(), some.join(" "))).collect();
        let tools: Vec<(&str, &str)> = tools.iter().map(|(name, about)| (&**name, &**about)).collect();
        let index = index(&tools);
        assert!(index.vocabulary.len() > MAX_WORDS);
        assert!(index.neighbours.words.len() <= MAX_WORDS);
        assert_eq!(index.neighbours.words.len(), index.neighbours.vectors.len());
        let cache = NearWordCache::default();
        for word in about.iter().take(2 * MAX_REMEMBERED + 1) {
            cache.keep(word, Arc::new([]));
        }
        assert!((1..=MAX_REMEMBERED).contains(&cache.lock().len()));
        let view = index.view("all".into(), |_| true);
        assert!(index.near(&view, &["weather"])[0].len() <= NEAR + 1);
    }
}
