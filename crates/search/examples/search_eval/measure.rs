//! The metrics, the same as in the collections' own scorer.

use super::sets::{Collection, EvalSet};
use std::collections::HashMap;
use toolbooth_core::catalog::Naming;
use toolbooth_search::{Query, search};

/// Recall at 1, 3, 5 and 10, mean reciprocal rank and nDCG at 5.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub recall: [f64; 4],
    pub mrr: f64,
    pub ndcg: f64,
}

const CUTS: [usize; 4] = [1, 3, 5, 10];

impl Figures {
    pub fn of(set: &EvalSet, ranked: &[Vec<String>]) -> Self {
        let all: Vec<Self> =
            set.queries.iter().zip(ranked).map(|(query, ranked)| one(ranked, &query.relevant)).collect();
        mean(&all)
    }
}

fn one(ranked: &[String], groups: &[Vec<String>]) -> Figures {
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (place, id) in ranked.iter().enumerate() {
        places.entry(id).or_insert(place);
    }
    let found: Vec<usize> = groups
        .iter()
        .filter_map(|group| group.iter().filter_map(|id| places.get(&**id)).min().copied())
        .collect();
    let recall =
        CUTS.map(|cut| found.iter().filter(|place| **place < cut).count() as f64 / groups.len() as f64);
    let gain = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let mut distinct = found.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let ideal: f64 = (0..groups.len().min(5)).map(gain).sum();
    let ndcg = distinct.iter().filter(|place| **place < 5).map(|place| gain(*place)).sum::<f64>() / ideal;
    Figures { recall, mrr: distinct.first().map_or(0.0, |place| 1.0 / (*place as f64 + 1.0)), ndcg }
}

/// The mean of figures.
pub fn mean(all: &[Figures]) -> Figures {
    let count = all.len().max(1) as f64;
    let mut mean = Figures::default();
    for figures in all {
        for (mean, own) in mean.recall.iter_mut().zip(figures.recall) {
            *mean += own / count;
        }
        mean.mrr += figures.mrr / count;
        mean.ndcg += figures.ndcg / count;
    }
    mean
}

/// The number of spellings of names, and the number of those that find a tool of that name first.
pub fn exact_names(collections: &[Collection]) -> (usize, usize) {
    let (mut all, mut first) = (0, 0);
    for collection in collections {
        for tool in collection.catalog.tools(collection.owner()) {
            let forms = Naming::forms(tool.server.name.as_str(), &tool.name);
            for form in forms.into_iter().chain([tool.exposed.to_string()]) {
                let Ok(query) = Query::new(vec![form.clone()], 1) else { continue };
                all += 1;
                let hits = search(&collection.catalog, collection.owner(), &query);
                first += usize::from(hits.first().is_some_and(|hit| is_named(&hit.tool, form.trim())));
            }
        }
    }
    (all, first)
}

fn is_named(tool: &toolbooth_core::catalog::Tool, name: &str) -> bool {
    &*tool.exposed == name
        || Naming::forms(tool.server.name.as_str(), &tool.name).iter().any(|form| form.trim() == name)
}
