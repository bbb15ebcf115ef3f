//! The answer to a search: signatures within a token budget, with the full definition of the best hit if it fits.

use super::signature::{cut, signature};
use crate::catalog::Tool;
use crate::json::{ObjectWriter, RawJson};
use crate::skill::Skill;
use crate::weigh::tokens_within;

/// A search hit.
#[derive(Debug, Clone, Copy)]
pub struct AnswerHit<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// Its score.
    pub score: f32,
}

/// The answer to a search, for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    /// The text.
    pub text: String,
    /// The number of hits in it: the first ones.
    pub hits: usize,
    /// Whether it includes the definition of the first hit.
    pub has_definition: bool,
}

/// The number of hits that an answer to a search without a limit names in any case.
pub const LEAST_HITS: usize = 5;

/// The levels of detail of a hit: characters of its description and optional parameters, in descending order.
const DETAILS: [(usize, usize); 5] = [(200, 12), (120, 8), (60, 5), (0, 3), (0, 0)];
/// The detail of further hits: a model that needs more of one can ask for its definition.
const FURTHER_DETAILS: [(usize, usize); 2] = [(0, 3), (0, 0)];
/// Hits with a score below this share of the best one are shown with less detail.
const FITS_LESS: f32 = 0.7;
/// The maximum length of a note.
const MAX_NOTE: usize = 160;

/// Writes the answer: as much as fits into `budget` tokens. The first `least` hits are named in any case; further ones
/// are added while they fit, and take no detail away from the first.
pub fn search_answer(hits: &[AnswerHit<'_>], notes: &[String], budget: u32, least: usize) -> SearchAnswer {
    let notes: String = notes.iter().take(3).map(|note| format!("\nNote: {}", cut(note, MAX_NOTE))).collect();
    let (first, further) = hits.split_at(least.max(1).min(hits.len()));
    let Some(best) = first.first() else {
        let text = format!("No tool was found. Try other words, or use `mcp_tool_list`.{notes}");
        return SearchAnswer { text, hits: 0, has_definition: false };
    };
    let (mut lines, has_definition) = first_lines(best, first, &notes, budget);
    add_further(&mut lines, further, &notes, budget);
    SearchAnswer { text: written(&lines, &notes), hits: lines.len(), has_definition }
}

/// A line for each hit, with as much detail as fits, and whether the first is the definition of the best hit.
fn first_lines(
    best: &AnswerHit<'_>,
    hits: &[AnswerHit<'_>],
    notes: &str,
    budget: u32,
) -> (Vec<String>, bool) {
    // Weaker hits get less detail.
    let level = |hit: &AnswerHit<'_>, level: usize| {
        let fits_less = hit.score < best.score * FITS_LESS;
        DETAILS[(level + usize::from(fits_less)).min(DETAILS.len() - 1)]
    };
    let lines = |at| hits.iter().map(|hit| line(hit, level(hit, at))).collect::<Vec<_>>();
    let Some(lines) = (0..DETAILS.len()).map(lines).find(|lines| fits(lines, notes, budget)) else {
        return (hits.iter().map(|hit| hit.tool.exposed.to_string()).collect(), false);
    };
    // A skill without a plan has instructions and no definition.
    if instructions_of(best.tool).is_some() {
        return (lines, false);
    }
    // With the full definition, no signature is needed, and the other hits need less detail.
    let mut in_full = lines.clone();
    for (line_of, hit) in in_full.iter_mut().zip(hits) {
        let shorter = line(hit, level(hit, 1));
        if shorter.len() < line_of.len() {
            *line_of = shorter;
        }
    }
    in_full[0] = format!("Best match {}: {}", label(best), core_definition(best.tool));
    if fits(&in_full, notes, budget) { (in_full, true) } else { (lines, false) }
}

/// Adds lines for as many further hits as fit, with more detail if all of them fit with it.
fn add_further(lines: &mut Vec<String>, further: &[AnswerHit<'_>], notes: &str, budget: u32) {
    for details in FURTHER_DETAILS {
        let mut all = lines.clone();
        all.extend(further.iter().map(|hit| line(hit, details)));
        if fits(&all, notes, budget) {
            *lines = all;
            return;
        }
    }
    for hit in further {
        lines.push(line(hit, DETAILS[DETAILS.len() - 1]));
        if !fits(lines, notes, budget) {
            lines.pop();
            return;
        }
    }
}

fn fits(lines: &[String], notes: &str, budget: u32) -> bool {
    tokens_within(&written(lines, notes), budget).is_some()
}

fn written(lines: &[String], notes: &str) -> String {
    format!("{}{notes}", lines.join("\n"))
}

fn line(hit: &AnswerHit<'_>, (characters, optional): (usize, usize)) -> String {
    let tool = hit.tool;
    let head = match instructions_of(tool) {
        Some(skill) => format!("{} {} read {}", skill.name, label(hit), skill.uri()),
        None => format!("{} {}", signature(tool, optional), label(hit)),
    };
    match tool.description().filter(|_| characters > 0) {
        Some(text) if !text.trim().is_empty() => format!("{head} {}", cut(&text, characters)),
        _ => head,
    }
}

/// The skill without a plan that a hit represents: it is read, not called.
fn instructions_of(tool: &Tool) -> Option<&Skill> {
    tool.skill().map(|skill| &**skill).filter(|skill| !skill.is_tool())
}

/// The server's name, unless the tool's name contains it, or that it is a skill, and the score.
fn label(AnswerHit { tool, score }: &AnswerHit<'_>) -> String {
    if tool.skill().is_some() {
        return format!("[skill, {score:.2}]");
    }
    let server = tool.server.name.as_str();
    match tool.exposed.starts_with(server) {
        true => format!("[{score:.2}]"),
        false => format!("[{server}, {score:.2}]"),
    }
}

/// The part of a definition that a model needs.
pub(super) fn core_definition(tool: &Tool) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(tool.definition.as_bytes().len());
    for key in ["name", "description", "inputSchema"] {
        if let Some(value) = tool.definition.member(key) {
            writer.raw(key, &value);
        }
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;
    use std::sync::Arc;

    fn tool(name: &str, description: &str, parameters: usize) -> Tool {
        let mut tool = Tool::bare(Arc::new(entry("srv")), name, &format!("srv_{name}"));
        let properties: serde_json::Map<String, serde_json::Value> = (0..parameters)
            .map(|number| {
                let about =
                    serde_json::json!({ "type": "string", "description": "Says what to do. ".repeat(20) });
                (format!("parameter_{number}"), about)
            })
            .collect();
        tool.definition = RawJson::from_value(&serde_json::json!({
            "name": tool.exposed, "description": description,
            "inputSchema": { "type": "object", "properties": properties },
            "annotations": { "readOnlyHint": true },
        }));
        tool
    }

    #[test]
    fn a_small_best_hit_is_shown_in_full() {
        let tool = tool("read", "Reads a file.", 0);
        let answer =
            search_answer(&[AnswerHit { tool: &tool, score: 0.5 }], &["`git` is down".into()], 500, 5);
        assert_eq!(
            answer.text,
            "Best match [0.50]: {\"name\":\"srv_read\",\"description\":\"Reads a file.\",\
             \"inputSchema\":{\"type\":\"object\",\"properties\":{}}}\nNote: `git` is down"
        );
    }

    #[test]
    fn an_answer_keeps_to_its_budget_and_names_every_hit() {
        let tools: Vec<Tool> =
            (0..5).map(|n| tool(&format!("tool_{n}"), &"Long words. ".repeat(60), 30)).collect();
        let hits: Vec<AnswerHit<'_>> = tools.iter().map(|tool| AnswerHit { tool, score: 0.1 }).collect();
        for budget in [500, 200, 100] {
            let answer = search_answer(&hits, &[], budget, hits.len());
            assert!(tokens_within(&answer.text, budget).is_some(), "{budget}: {}", answer.text);
            assert!(tools.iter().all(|tool| answer.text.contains(&*tool.exposed)));
        }
        let least = search_answer(&hits, &[], 1, hits.len());
        assert_eq!(least.text.lines().count(), 5, "names in any case: {}", least.text);
        assert!(search_answer(&[], &[], 500, 5).text.contains("No tool was found"));
    }

    #[test]
    fn an_answer_has_as_many_hits_as_the_budget_holds() {
        let tools: Vec<Tool> =
            (0..10).map(|n| tool(&format!("tool_{n}"), "Does something useful.", 30)).collect();
        let hits: Vec<AnswerHit<'_>> = tools.iter().map(|tool| AnswerHit { tool, score: 0.5 }).collect();
        let mut counts = std::collections::BTreeSet::new();
        for budget in (20..500).step_by(5) {
            let answer = search_answer(&hits, &[], budget, LEAST_HITS);
            assert_eq!(answer.text.lines().count(), answer.hits);
            let five = search_answer(&hits[..5], &[], budget, LEAST_HITS);
            assert!(answer.text.starts_with(&five.text), "{budget}: the first hits keep their detail");
            if answer.hits > LEAST_HITS {
                assert!(tokens_within(&answer.text, budget).is_some(), "{budget}: {}", answer.text);
            }
            if let Some(next) = hits.get(answer.hits) {
                let more = format!("{}\n{}", answer.text, line(next, (0, 0)));
                assert!(tokens_within(&more, budget).is_none(), "{budget}: one more fits\n{more}");
            }
            counts.insert(answer.hits);
        }
        assert!(counts.contains(&5) && counts.contains(&10) && counts.len() > 2, "{counts:?}");
    }

    #[test]
    fn fewer_hits_than_the_least_are_all_named() {
        let tools: Vec<Tool> = (0..3).map(|n| tool(&format!("tool_{n}"), "Reads.", 0)).collect();
        let hits: Vec<AnswerHit<'_>> = tools.iter().map(|tool| AnswerHit { tool, score: 0.5 }).collect();
        for (given, expected) in [(&hits[..], 3), (&hits[..1], 1), (&hits[..0], 0)] {
            assert_eq!(search_answer(given, &[], 500, LEAST_HITS).hits, expected);
        }
    }
}
