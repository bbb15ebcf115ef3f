//! Checks whether a run meets its acceptance criteria.

use super::criteria::Criterion;
use super::record::RunRecord;
use serde_json::Value;

impl Criterion {
    /// Whether a run meets it; `None` if only a person can tell.
    pub fn is_met(&self, run: &RunRecord) -> Option<bool> {
        let Self::Check(check) = self else { return None };
        let parts = run.parts.iter().filter(|part| check.task.as_ref().is_none_or(|task| part.id == *task));
        let mut steps = parts.filter_map(|part| part.steps.get(&check.step));
        let results = steps.find_map(|step| step.record.as_ref()?.results.as_ref());
        let value = results.and_then(|results| results.pointer(&check.path));
        let Some(value) = value.filter(|value| !value.is_null()) else { return Some(false) };
        let equal = check.equals.as_ref().is_none_or(|expected| expected == value);
        let enough =
            check.at_least.is_none_or(|least| size_of_value(value).is_some_and(|size| size >= least));
        Some(equal && enough)
    }
}

fn size_of_value(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Array(elements) => Some(elements.len() as f64),
        Value::Object(members) => Some(members.len() as f64),
        Value::String(text) => Some(text.chars().count() as f64),
        _ => None,
    }
}
