//! Near words: words of the catalog with about the same meaning as a word of a request.

use crate::comparison::{QueryVector, Vectors};
use crate::index::{Index, VisibleTools, WordEntry};
use crate::meaning::{Vector, WIDTH, meaning_of_word};
use crate::weights::WEIGHTS;
use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard};
use toolbooth_core::name_map::NameMap;

/// Number of near words that count for one word.
pub(crate) const NEAR: usize = 3;
/// Maximum number of indexed words; in a larger catalog the words that fewest servers have are left out.
const MAX_WORDS: usize = 16_384;
/// Number of words that justify a second thread.
const WORDS_PER_THREAD: usize = 2_000;
/// Maximum number of cached words; the cache is cleared when it is full.
const MAX_REMEMBERED: usize = 2_000;

/// A word of the catalog that is near to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearWord {
    /// Its first entry.
    pub(crate) entry: WordEntry,
    /// Its similarity, from 0 to 1.
    pub(crate) similarity: f32,
}

/// Cache of near words for one view. The same words occur in many searches.
#[derive(Debug, Default)]
pub(crate) struct NearWordCache(Mutex<NameMap<Box<str>, Arc<[NearWord]>>>);

impl NearWordCache {
    fn lock(&self) -> MutexGuard<'_, NameMap<Box<str>, Arc<[NearWord]>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn keep(&self, word: &str, near: Arc<[NearWord]>) {
        let mut known = self.lock();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(word.into(), near);
    }
}

/// The vectors of an index's words.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    words: Vec<WordEntry>,
    vectors: Vectors,
}

impl Neighbours {
    /// Builds the vectors of these words. A stem may not be a word, so its shortest written form is used.
    pub(crate) fn of(index: &Index, mut words: Vec<WordEntry>) -> Self {
        let having = |entry: &WordEntry| index.entries(index.word(*entry));
        if words.len() > MAX_WORDS {
            words.sort_by_cached_key(|entry| Reverse(having(entry).len()));
            words.truncate(MAX_WORDS);
        }
        let read = |words: &[WordEntry]| -> Vec<(WordEntry, Vector)> {
            let meaning = |entry: &WordEntry| {
                let written = having(entry).iter().map(|entry| index.written(entry));
                let meaning = written.min_by_key(|word| (word.len(), *word)).and_then(meaning_of_word);
                meaning.map(|meaning| (*entry, meaning))
            };
            words.iter().filter_map(meaning).collect()
        };
        let (first, second) =
            words.split_at(if words.len() < WORDS_PER_THREAD { words.len() } else { words.len() / 2 });
        let (first, second) = std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("search-index".into());
            let other =
                (!second.is_empty()).then(|| builder.spawn_scoped(scope, || read(second)).ok()).flatten();
            let first = read(first);
            // If the thread cannot be started, this one does its work.
            (first, other.and_then(|other| other.join().ok()).unwrap_or_else(|| read(second)))
        });
        let count = first.len() + second.len();
        let mut known = Self { words: Vec::with_capacity(count), vectors: Vectors::with_room(WIDTH, count) };
        for (entry, meaning) in first.into_iter().chain(second) {
            known.words.push(entry);
            known.vectors.push(Some(&meaning));
        }
        known
    }
}

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
