//! Ranks hits: combines word and meaning scores, and puts exact names first.

use crate::clauses::clauses;
use crate::comparison::QueryVector;
use crate::cover::{HitCandidate, MAX_CANDIDATES, cover_clauses};
use crate::encoder::EncodedQuery;
use crate::fields::{MatchedFields, ToolField, each_text};
use crate::index::{Hit, Index, VisibleTools};
use crate::lexical;
use crate::meaning::meaning;
use crate::names::{NameMatch, SoughtName, as_name, each_named};
use crate::query::{Pattern, Query};
use crate::similarities::{Similarities, largest};
use crate::weights::WEIGHTS;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use toolbooth_core::catalog::Tool;

/// Maximum number of bytes of a description that a pattern is matched against.
const MAX_MATCHED: usize = 4_000;

/// The scores of all tools so far.
struct Ranking {
    scores: Vec<f32>,
    fields: Vec<u8>,
    named: HashMap<usize, NameMatch>,
    /// How well each tool fits each clause; empty unless the query is one request with several clauses.
    clauses: Vec<Vec<f32>>,
}

impl Ranking {
    /// How the name of a tool was matched; usually none is.
    fn name_match(&self, place: usize) -> Option<NameMatch> {
        if self.named.is_empty() { None } else { self.named.get(&place).copied() }
    }
}

impl Index {
    /// The visible tools that fit a query best, best first.
    pub(crate) fn search(
        &self,
        view: &VisibleTools,
        query: &Query,
        encoded: Option<&EncodedQuery>,
    ) -> Vec<Hit> {
        let size = self.len();
        let (scores, fields) = (vec![0.0; size], vec![0; size]);
        let mut ranking = Ranking { scores, fields, named: HashMap::new(), clauses: Vec::new() };
        let texts: Cow<'_, [String]> = match (&query.pattern, query.texts.as_slice()) {
            (Some(pattern), []) => vec![pattern.words()].into(),
            (_, texts) => texts.into(),
        };
        let is_one_request = texts.len() == 1 && query.pattern.is_none();
        for text in texts.iter() {
            let clauses = self.rank(view, text.trim(), encoded, &mut ranking);
            if is_one_request {
                ranking.clauses = clauses;
            }
        }
        self.best(view, query, &ranking)
    }

    /// Scores all visible tools for one text and returns how well each fits each clause. With several texts, a tool's
    /// score is that of the text that it fits best.
    fn rank(
        &self,
        view: &VisibleTools,
        text: &str,
        encoded: Option<&EncodedQuery>,
        ranking: &mut Ranking,
    ) -> Vec<Vec<f32>> {
        let mut texts = vec![text];
        texts.extend(clauses(text));
        let mut words = lexical::score(self, view, &texts, &mut ranking.fields);
        self.favour_servers(&mut words);
        let similarities = self.similarities(view, &texts);
        let encoded = encoded.and_then(|encoded| encoded.similarities(self, view, &texts));
        let mut encoded = encoded.into_iter().flatten();
        let mut parts = vec![0_f32; if texts.len() > 1 { self.len() } else { 0 }];
        let (mut whole, mut clauses) = (Vec::new(), Vec::new());
        let lexical::Scores { texts: words, rare_name_matches, .. } = words;
        for (at, (mut words, similarities)) in words.into_iter().zip(similarities).enumerate() {
            match encoded.next() {
                Some(encoded) => {
                    fuse(&mut words, &similarities.joined(&encoded), WEIGHTS.lexical_beside_encoder)
                }
                None => fuse(&mut words, &similarities, WEIGHTS.lexical),
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
        for place in rare_name_matches {
            whole[place] += WEIGHTS.rare_name;
        }
        self.favour_names(text, &mut whole);
        for (score, own) in ranking.scores.iter_mut().zip(whole) {
            *score = score.max(own);
        }
        let name = SoughtName::new(text);
        for part in self.named.parts(&name) {
            each_named(&self.servers[part], &self.parts[part].spellings, &name, &mut |place, name_match| {
                let best = ranking.named.entry(self.bases[part] + place).or_insert(name_match);
                *best = name_match.max(*best);
            });
        }
        clauses
    }

    /// The similarity of each visible tool to each text, by the table.
    fn similarities(&self, view: &VisibleTools, texts: &[&str]) -> Vec<Similarities> {
        let sought: Vec<QueryVector> =
            texts.iter().map(|text| QueryVector::of(meaning(text).as_ref())).collect();
        let mut similarities = vec![vec![0_f32; self.len()]; texts.len()];
        self.vectors.compare(&sought, &mut similarities);
        similarities.into_iter().map(|similarities| Similarities::of(view, similarities)).collect()
    }

    /// Raises the scores of the matching tools of servers that fit as a whole.
    fn favour_servers(&self, words: &mut lexical::Scores) {
        let Some(whole) = words.texts.first_mut() else { return };
        let lift = largest(whole) * WEIGHTS.server;
        for (bounds, fit) in self.bases.windows(2).zip(&words.servers) {
            let lift = lift * fit; // Outside the loop, so that the compiler vectorises it.
            for score in &mut whole[bounds[0]..bounds[1]] {
                *score += if *score > 0.0 { lift } else { 0.0 };
            }
        }
    }

    /// Raises the scores of tools whose names are, or begin with, the query.
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

    /// The best visible tools, ordered by name if scores are equal.
    fn best(&self, view: &VisibleTools, query: &Query, ranking: &Ranking) -> Vec<Hit> {
        let fits = |place: usize| match &query.pattern {
            Some(pattern) => self.tool(place).is_some_and(|tool| matches(pattern, tool)),
            None => ranking.scores[place] > 0.0 || ranking.name_match(place).is_some(),
        };
        let may_be_hit = |place: usize| {
            let is_covered =
                || self.tool(place).is_some_and(|tool| query.covers_server(tool.server.name.as_str()));
            view.has(place) && (query.servers.is_empty() || is_covered())
        };
        // A tool with an exact name must not move back in favour of coverage.
        let covers_clauses = !ranking.clauses.is_empty() && ranking.named.is_empty();
        let limit = if covers_clauses { query.limit.max(MAX_CANDIDATES) } else { query.limit };
        // Few scores need sorting. Named tools and matches of a pattern count whatever their score.
        let least = match (&query.pattern, ranking.named.is_empty()) {
            (None, true) => lowest_of_best(&ranking.scores, limit, may_be_hit),
            _ => 0.0,
        };
        let mut found: Vec<HitCandidate> = Vec::new();
        each_at_least(&ranking.scores, least, |place, score| {
            if may_be_hit(place) && fits(place) {
                found.push((ranking.name_match(place), score, place));
            }
            least
        });
        let order = |a: &HitCandidate, b: &HitCandidate| {
            let by_score = (b.0, b.1).partial_cmp(&(a.0, a.1)).unwrap_or(Ordering::Equal);
            by_score.then_with(|| self.name(a.2).cmp(&self.name(b.2)))
        };
        if found.len() > limit {
            found.select_nth_unstable_by(limit, order);
            found.truncate(limit);
        }
        found.sort_unstable_by(order);
        if covers_clauses {
            cover_clauses(&mut found, &ranking.clauses, query.limit);
            found.truncate(query.limit);
        }
        let hit = |(named, score, place): HitCandidate| {
            let tool = self.tool(place)?.clone();
            let name = if named.is_some() { 1 << ToolField::Name.index() } else { 0 };
            let score = if named.is_some() { 1.0 } else { score.min(1.0) };
            Some(Hit { tool, score, matched: MatchedFields(ranking.fields[place] | name) })
        };
        found.into_iter().filter_map(hit).collect()
    }

    fn name(&self, place: usize) -> Option<(&str, &str)> {
        self.tool(place).map(|tool| (&*tool.exposed, tool.server.name.as_str()))
    }
}

/// The smallest of the `count` largest scores that count, or 0 if there are fewer.
fn lowest_of_best(scores: &[f32], count: usize, counts: impl Fn(usize) -> bool) -> f32 {
    let mut best = vec![0_f32; count]; // Largest first.
    each_at_least(scores, 0.0, |place, score| {
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

/// Number of scores that are skipped at once.
const CHUNK: usize = 64;

/// Visits the scores that are at least `least`; each visit returns the next `least`. Most scores are smaller.
fn each_at_least(scores: &[f32], mut least: f32, mut visit: impl FnMut(usize, f32) -> f32) {
    for (chunk, from) in scores.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
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

/// Combines word and meaning scores; the result replaces `words`.
fn fuse(words: &mut [f32], similarities: &Similarities, share_of_words: f32) {
    let most = largest(words);
    let by_words = if most > 0.0 { share_of_words / most } else { 0.0 };
    for (score, meaning) in words.iter_mut().zip(similarities.scores()) {
        *score = *score * by_words + meaning * (1.0 - share_of_words);
    }
}

/// Whether a pattern matches a tool's name, its description or the name of a parameter.
fn matches(pattern: &Pattern, tool: &Tool) -> bool {
    if pattern.is_in(&tool.exposed) || pattern.is_in(&tool.name) {
        return true;
    }
    let mut found = false;
    each_text(tool, &mut |field, text| {
        let searched = matches!(field, ToolField::Description | ToolField::Parameters);
        found = found || (searched && pattern.is_in(&text[..text.floor_char_boundary(MAX_MATCHED)]));
    });
    found
}
