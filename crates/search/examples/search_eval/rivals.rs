//! The baselines that search is compared with: plain BM25, and points for substring matches.

use super::sets::{Collection, EvalTool};
use std::collections::{HashMap, HashSet};

const MAX_HITS: usize = 50;

/// BM25 over name and description, with words as they are written.
pub struct Bm25<'a> {
    tools: &'a [EvalTool],
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
    usual: f64,
}

impl<'a> Bm25<'a> {
    pub fn of(collection: &'a Collection) -> Self {
        let tools = &collection.listed;
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (place, tool) in tools.iter().enumerate() {
            let text = format!("{} {}", tool.name, tool.description.as_deref().unwrap_or_default());
            let mut counts: HashMap<String, f64> = HashMap::new();
            words(&text).for_each(|word| *counts.entry(word).or_default() += 1.0);
            lengths.push(counts.values().sum());
            for (word, count) in counts {
                postings.entry(word).or_default().push((place, count));
            }
        }
        let usual = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        Self { tools, postings, lengths, usual }
    }

    pub fn search(&self, text: &str) -> Vec<String> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for word in words(text) {
            let Some(postings) = self.postings.get(&word) else { continue };
            let (all, having) = (self.tools.len() as f64, postings.len() as f64);
            let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
            for (place, count) in postings {
                let length = 0.25 + 0.75 * self.lengths[*place] / self.usual;
                *scores.entry(*place).or_default() += rarity * count * 2.2 / (count + 1.2 * length);
            }
        }
        best(scores, self.tools)
    }
}

/// Points for words inside names and the first hundred characters of descriptions.
pub struct Substrings<'a> {
    tools: &'a [EvalTool],
    texts: Vec<[String; 3]>,
}

impl<'a> Substrings<'a> {
    pub fn of(collection: &'a Collection) -> Self {
        let tools = &collection.listed;
        let texts = tools.iter().map(|tool| {
            let about: String = tool.description.as_deref().unwrap_or_default().chars().take(100).collect();
            [format!("mcp_{}_{}", tool.server, tool.name), tool.name.clone(), about]
                .map(|text| text.to_lowercase())
        });
        Self { tools, texts: texts.collect() }
    }

    pub fn search(&self, text: &str) -> Vec<String> {
        let text = text.to_lowercase();
        let terms: Vec<&str> = text.split_whitespace().collect();
        let mut scores = HashMap::new();
        for (place, [full, own, about]) in self.texts.iter().enumerate() {
            let mut points = 0.0;
            for term in &terms {
                points += if own == term { 20.0 } else { 0.0 };
                points += if full.contains(term) { 10.0 } else { 0.0 };
                points += if own.contains(term) { 8.0 } else { 0.0 };
                points += if about.contains(term) { 3.0 } else { 0.0 };
                points += if own.starts_with(term) { 5.0 } else { 0.0 };
            }
            points += if terms.iter().all(|term| full.contains(term)) { 15.0 } else { 0.0 };
            points += if terms.iter().all(|term| about.contains(term)) { 5.0 } else { 0.0 };
            if points > 0.0 {
                scores.insert(place, points);
            }
        }
        best(scores, self.tools)
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let text = text.to_lowercase();
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}

fn best(scores: HashMap<usize, f64>, tools: &[EvalTool]) -> Vec<String> {
    let mut all: Vec<(usize, f64)> = scores.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut seen = HashSet::new();
    let ids = all.into_iter().map(|(place, _)| tools[place].id.clone());
    ids.filter(|id| seen.insert(id.clone())).take(MAX_HITS).collect()
}
