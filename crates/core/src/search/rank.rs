//! The order of hits: words and meanings put together, names before everything.

use super::clauses::clauses;
use super::comparison::Sought;
use super::cover::{Candidate, LOOKED_AT, spread};
use super::fields::{Field, Fields, each_text};
use super::given::Given;
use super::index::{Hit, Index, View};
use super::lexical;
use super::meaning::meaning;
use super::names::{Naming, SoughtName, as_name, each_named};
use super::query::{Pattern, Query};
use super::weights::WEIGHTS;
use crate::catalog::Tool;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

/// A pattern is held against this much of a description.
const MAX_MATCHED: usize = 4_000;

/// What was found so far, for each tool.
struct Tally {
    scores: Vec<f32>,
    fields: Vec<u8>,
    named: HashMap<usize, Naming>,
    /// How well each tool meets each clause, where one request of several clauses is all that is searched for.
    clauses: Vec<Vec<f32>>,
}

impl Tally {
    /// How well a tool's name was given; hardly ever is one.
    fn naming(&self, place: usize) -> Option<Naming> {
        if self.named.is_empty() { None } else { self.named.get(&place).copied() }
    }
}

impl Index {
    /// The tools in view that fit a query best, best first.
    pub(crate) fn search(&self, view: &View, query: &Query, given: Option<&Given>) -> Vec<Hit> {
        let size = self.len();
        let (scores, fields) = (vec![0.0; size], vec![0; size]);
        let mut tally = Tally { scores, fields, named: HashMap::new(), clauses: Vec::new() };
        let texts: Cow<'_, [String]> = match (&query.pattern, query.texts.as_slice()) {
            (Some(pattern), []) => vec![pattern.words()].into(),
            (_, texts) => texts.into(),
        };
        let is_one_request = texts.len() == 1 && query.pattern.is_none();
        for text in texts.iter() {
            let clauses = self.rank(view, text.trim(), given, &mut tally);
            if is_one_request {
                tally.clauses = clauses;
            }
        }
        self.best(view, query, &tally)
    }

    /// Ranks all tools in view for one text, and tells how well each meets each of its clauses. For several texts, each
    /// tool has the score of the one it fits best.
    fn rank(&self, view: &View, text: &str, given: Option<&Given>, tally: &mut Tally) -> Vec<Vec<f32>> {
        let mut texts = vec![text];
        texts.extend(clauses(text));
        let mut words = lexical::score(self, view, &texts, &mut tally.fields);
        self.favour_servers(&mut words);
        let alike = self.alike(view, &texts);
        let given = given.and_then(|given| given.alike(self, view, &texts));
        let mut given = given.into_iter().flatten();
        let mut parts = vec![0_f32; if texts.len() > 1 { self.len() } else { 0 }];
        let (mut whole, mut clauses) = (Vec::new(), Vec::new());
        let lexical::Scores { texts: words, rarely_named, .. } = words;
        for (at, (mut words, alike)) in words.into_iter().zip(alike).enumerate() {
            match given.next() {
                Some(given) => fuse(&mut words, &alike.joined(&given), WEIGHTS.lexical_beside_encoder),
                None => fuse(&mut words, &alike, WEIGHTS.lexical),
            }
            match at {
                0 => whole = words,
                _ => {
                    parts.iter_mut().zip(&words).for_each(|(best, score)| *best = best.max(*score));
                    clauses.push(words);
                }
            }
        }
        for (whole, part) in whole.iter_mut().zip(parts) {
            *whole += WEIGHTS.clause * (part - *whole);
        }
        for place in rarely_named {
            whole[place] += WEIGHTS.rare_name;
        }
        self.favour_names(text, &mut whole);
        for (score, own) in tally.scores.iter_mut().zip(whole) {
            *score = score.max(own);
        }
        let name = SoughtName::new(text);
        for part in self.named.parts(&name) {
            each_named(&self.servers[part], &self.parts[part].spellings, &name, &mut |place, naming| {
                let best = tally.named.entry(self.bases[part] + place).or_insert(naming);
                *best = naming.max(*best);
            });
        }
        clauses
    }

    /// How like each tool in view is to each text by the table.
    fn alike(&self, view: &View, texts: &[&str]) -> Vec<Alike> {
        let sought: Vec<Sought> = texts.iter().map(|text| Sought::of(meaning(text).as_ref())).collect();
        let mut alike = vec![vec![0_f32; self.len()]; texts.len()];
        self.vectors.compare(&sought, &mut alike);
        alike.into_iter().map(|alike| Alike::of(view, alike)).collect()
    }

    /// A server that fits as a whole lifts those of its tools that have any of the words.
    fn favour_servers(&self, words: &mut lexical::Scores) {
        let Some(whole) = words.texts.first_mut() else { return };
        let lift = largest(whole) * WEIGHTS.server;
        for (bounds, fit) in self.bases.windows(2).zip(&words.servers) {
            let lift = lift * fit; // Here, so that the compiler makes it a loop over vectors.
            for score in &mut whole[bounds[0]..bounds[1]] {
                *score += if *score > 0.0 { lift } else { 0.0 };
            }
        }
    }

    /// A query that reads as a name, or as the beginning of one.
    fn favour_names(&self, text: &str, scores: &mut [f32]) {
        let Some(name) = as_name(text) else { return };
        let one_word = !text.contains(char::is_whitespace);
        let beginning = (one_word && name.len() > 2).then_some(WEIGHTS.name_prefix);
        for (part, base) in self.parts.iter().zip(&self.bases) {
            part.names.each_beginning_with(&name, &mut |place, is_all| {
                let lift = if is_all { Some(WEIGHTS.same_name) } else { beginning };
                scores[base + place] += lift.unwrap_or_default();
            });
        }
    }

    /// The best tools in view, by name where scores are equal.
    fn best(&self, view: &View, query: &Query, tally: &Tally) -> Vec<Hit> {
        let fits = |place: usize| match &query.pattern {
            Some(pattern) => self.tool(place).is_some_and(|tool| matches(pattern, tool)),
            None => tally.scores[place] > 0.0 || tally.naming(place).is_some(),
        };
        // What has a name is not passed over for what covers more.
        let is_spread = !tally.clauses.is_empty() && tally.named.is_empty();
        let limit = if is_spread { query.limit.max(LOOKED_AT) } else { query.limit };
        // Few are good enough to be put in order. What is named or must match is, whatever its score.
        let least = match (&query.pattern, tally.named.is_empty()) {
            (None, true) => least_of_best(&tally.scores, limit, |place| view.has(place)),
            _ => 0.0,
        };
        let mut found: Vec<Candidate> = Vec::new();
        each_of_least(&tally.scores, least, |place, score| {
            if view.has(place) && fits(place) {
                found.push((tally.naming(place), score, place));
            }
            least
        });
        let order = |a: &Candidate, b: &Candidate| {
            let by_score = (b.0, b.1).partial_cmp(&(a.0, a.1)).unwrap_or(Ordering::Equal);
            by_score.then_with(|| self.name(a.2).cmp(&self.name(b.2)))
        };
        if found.len() > limit {
            found.select_nth_unstable_by(limit, order);
            found.truncate(limit);
        }
        found.sort_unstable_by(order);
        if is_spread {
            spread(&mut found, &tally.clauses, query.limit);
            found.truncate(query.limit);
        }
        let hit = |(named, score, place): Candidate| {
            let tool = self.tool(place)?.clone();
            let name = if named.is_some() { 1 << Field::Name.index() } else { 0 };
            let score = if named.is_some() { 1.0 } else { score.min(1.0) };
            Some(Hit { tool, score, matched: Fields(tally.fields[place] | name) })
        };
        found.into_iter().filter_map(hit).collect()
    }

    fn name(&self, place: usize) -> Option<(&str, &str)> {
        self.tool(place).map(|tool| (&*tool.exposed, tool.server.name.as_str()))
    }
}

/// The least of the `count` largest scores that count, or 0 where there are no more.
fn least_of_best(scores: &[f32], count: usize, counts: impl Fn(usize) -> bool) -> f32 {
    let mut best = vec![0_f32; count]; // The largest first.
    each_of_least(scores, 0.0, |place, score| {
        let least = best.last().copied().unwrap_or_default();
        if score <= least || !counts(place) {
            return least;
        }
        best.pop();
        best.insert(best.partition_point(|better| *better >= score), score);
        best.last().copied().unwrap_or_default()
    });
    best.last().copied().unwrap_or_default()
}

/// So many scores are passed over at once.
const PASSED_OVER: usize = 64;

/// Visits the places of scores that are no less than `least`, which each visit sets anew. Most scores are less.
fn each_of_least(scores: &[f32], mut least: f32, mut visit: impl FnMut(usize, f32) -> f32) {
    for (chunk, from) in scores.chunks(PASSED_OVER).zip((0..).step_by(PASSED_OVER)) {
        if largest(chunk) < least {
            continue;
        }
        for (score, place) in chunk.iter().zip(from..) {
            if *score >= least {
                least = visit(place, *score);
            }
        }
    }
}

/// How like tools are to one text.
pub(super) struct Alike {
    likenesses: Vec<f32>,
    /// What is no more alike than this is not alike: texts usually are so much.
    floor: f32,
    /// What makes the most alike one, and the floor zero.
    factor: f32,
    /// How like the most alike is: how sure one can be of all.
    nearest: f32,
}

impl Alike {
    /// Likenesses; those of tools that are not in view count for nothing.
    pub(super) fn of(view: &View, mut likenesses: Vec<f32>) -> Self {
        if !view.is_whole() {
            // What is hidden is like nothing, and so changes no score.
            (0..likenesses.len()).filter(|place| !view.has(*place)).for_each(|place| likenesses[place] = 0.0);
        }
        let nearest = largest(&likenesses);
        let floor = (sum(&likenesses) / view.count.max(1) as f32).max(0.0) * WEIGHTS.floor;
        let factor = if nearest > floor { 1.0 / (nearest - floor) } else { 0.0 };
        Self { likenesses, floor, factor, nearest }
    }

    /// The scores of all tools, from 0 to 1.
    fn scores(&self) -> impl Iterator<Item = f32> {
        self.likenesses.iter().map(|likeness| (likeness - self.floor).max(0.0) * self.factor)
    }

    /// What two engines say of likeness: each knows what the other does not, and the surer one counts more.
    fn joined(&self, other: &Self) -> Self {
        let both = self.scores().zip(other.scores());
        let likenesses: Vec<f32> =
            both.map(|(score, others)| score * self.nearest + others * other.nearest).collect();
        let nearest = largest(&likenesses);
        let factor = if nearest > 0.0 { 1.0 / nearest } else { 0.0 };
        Self { likenesses, floor: 0.0, factor, nearest }
    }
}

/// Puts words and meanings together: `words` becomes the score.
fn fuse(words: &mut [f32], alike: &Alike, share_of_words: f32) {
    let most = largest(words);
    let by_words = if most > 0.0 { share_of_words / most } else { 0.0 };
    for (score, alike) in words.iter_mut().zip(alike.scores()) {
        *score = *score * by_words + alike * (1.0 - share_of_words);
    }
}

/// The largest of these, and no less than 0. Lane by lane, so that the compiler makes it a loop over vectors.
fn largest(scores: &[f32]) -> f32 {
    let (chunks, rest) = scores.as_chunks::<8>();
    let lanes = chunks.iter().fold([0_f32; 8], |mut lanes, chunk| {
        lanes
            .iter_mut()
            .zip(chunk)
            .for_each(|(lane, score)| *lane = if *score > *lane { *score } else { *lane });
        lanes
    });
    lanes.iter().chain(rest).copied().fold(0.0, f32::max)
}

fn sum(scores: &[f32]) -> f32 {
    let (chunks, rest) = scores.as_chunks::<8>();
    let lanes = chunks.iter().fold([0_f32; 8], |mut lanes, chunk| {
        lanes.iter_mut().zip(chunk).for_each(|(lane, score)| *lane += score);
        lanes
    });
    lanes.iter().chain(rest).sum()
}

/// Whether a tool's name, description or one of its parameters' names is what a pattern describes.
fn matches(pattern: &Pattern, tool: &Tool) -> bool {
    if pattern.is_in(&tool.exposed) || pattern.is_in(&tool.name) {
        return true;
    }
    let mut found = false;
    each_text(tool, &mut |field, text| {
        let searched = matches!(field, Field::Description | Field::Parameters);
        found = found || (searched && pattern.is_in(&text[..text.floor_char_boundary(MAX_MATCHED)]));
    });
    found
}
