//! Acceptance criteria: sentences that a person confirms, and checks of results that the gateway makes.

use super::fields::{FaultList, MAX_LIST};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One acceptance criterion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Criterion {
    /// A sentence that a person confirms.
    Sentence(String),
    /// A check of a step's result.
    Check(CriterionCheck),
}

/// A check of a step's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriterionCheck {
    /// The sentence for people.
    pub criterion: String,
    /// The part of the run (the task); any part if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The step whose results are checked.
    pub step: String,
    /// The JSON pointer into the results; the whole results if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The value that must be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// The least number, or the least number of elements or characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

/// A criterion in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriterionRecord {
    /// The sentence.
    pub criterion: String,
    /// Whether it is met; unknown until a person or a check has said so.
    pub met: Option<bool>,
    /// Who confirmed it; the gateway if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

impl Criterion {
    /// The sentence for people.
    pub fn sentence(&self) -> &str {
        match self {
            Self::Sentence(text) => text,
            Self::Check(check) => &check.criterion,
        }
    }

    /// The record of a criterion before a run.
    pub fn unknown(&self) -> CriterionRecord {
        CriterionRecord { criterion: self.sentence().to_owned(), met: None, by: None, at_ms: None }
    }
}

pub(super) fn read_criteria(faults: &mut FaultList, value: &Value, pointer: &str) -> Vec<Criterion> {
    const KNOWN: [&str; 6] = ["criterion", "task", "step", "path", "equals", "at_least"];
    let Some(list) = value.as_array().filter(|list| list.len() <= MAX_LIST) else {
        faults.add(pointer, format!("`acceptance_criteria` must be a list of at most {MAX_LIST} criteria"));
        return Vec::new();
    };
    let mut criteria = Vec::new();
    for (index, element) in list.iter().enumerate() {
        let place = format!("{pointer}/{index}");
        if let Some(text) = element.as_str() {
            match text.trim() {
                "" => faults.add(place, "a criterion must not be empty"),
                text if text.len() > 2_000 => faults.add(place, "a criterion must have at most 2000 bytes"),
                text => criteria.push(Criterion::Sentence(text.to_owned())),
            }
            continue;
        }
        let Some(fields) = faults.fields(element, place.clone(), &KNOWN) else { continue };
        let (criterion, step) = (faults.long(&fields, "criterion"), faults.short(&fields, "step"));
        let path = faults.short(&fields, "path").unwrap_or_default();
        if !path.is_empty() && !path.starts_with('/') {
            faults.add(format!("{place}/path"), "`path` must be a JSON pointer such as /items/0");
        }
        let at_least = fields.member("at_least").map(|(value, place)| {
            if !value.is_number() {
                faults.add(place, "`at_least` must be a number");
            }
            value.as_f64()
        });
        let (Some(criterion), Some(step)) = (criterion, step) else {
            faults.add(place, "a check needs `criterion` and `step`");
            continue;
        };
        criteria.push(Criterion::Check(CriterionCheck {
            criterion,
            task: faults.short(&fields, "task"),
            step,
            path,
            equals: fields.member("equals").map(|(value, _)| value.clone()),
            at_least: at_least.flatten(),
        }));
    }
    criteria
}
