//! Computes the cost of a check in advance, for recursive schemas.
//!
//! Such a schema may visit the same value twice on every level, so that the cost doubles with each. The visits are
//! counted with every pair of schema and value computed once, so counting is always fast.

use super::graph::find;
use serde_json::Value;
use std::collections::HashMap;

/// Maximum number of visits of one check.
const MAX_VISITS: u64 = 200_000;
/// Maximum number of pairs of schema and value that are counted.
const MAX_PAIRS: usize = 50_000;

/// Whether a check stays within the limits.
pub(super) fn affordable(root: &Value, value: &Value) -> bool {
    let mut count = VisitCount { root, known: HashMap::new() };
    count.visits(root, value).is_some_and(|visits| visits <= MAX_VISITS)
}

struct VisitCount<'v> {
    root: &'v Value,
    known: HashMap<(*const Value, *const Value), u64>,
}

impl<'v> VisitCount<'v> {
    fn visits(&mut self, schema: &'v Value, value: &'v Value) -> Option<u64> {
        let Value::Object(keywords) = schema else { return Some(1) };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&pair) {
            return Some(*known);
        }
        if self.known.len() >= MAX_PAIRS {
            return None;
        }
        let mut visits = 1_u64;
        for (keyword, part) in keywords {
            visits = visits.saturating_add(self.keyword(keyword, part, value)?);
        }
        self.known.insert(pair, visits);
        (visits <= MAX_VISITS).then_some(visits)
    }

    fn keyword(&mut self, keyword: &str, part: &'v Value, value: &'v Value) -> Option<u64> {
        match (keyword, part, value) {
            ("$ref", Value::String(reference), _) => match find(self.root, reference) {
                Some(target) => self.visits(target, value),
                None => Some(1),
            },
            ("allOf" | "anyOf" | "oneOf", Value::Array(list), _) => {
                self.sum(list.iter().map(|part| (part, value)))
            }
            ("not" | "if" | "then" | "else", part, _) => self.visits(part, value),
            ("dependentSchemas" | "dependencies", Value::Object(map), _) => {
                self.sum(map.values().map(|part| (part, value)))
            }
            ("properties", Value::Object(map), Value::Object(members)) => {
                self.sum(map.iter().filter_map(|(key, part)| Some((part, members.get(key)?))))
            }
            ("patternProperties", Value::Object(map), Value::Object(members)) => {
                self.sum(map.values().flat_map(|part| members.values().map(move |value| (part, value))))
            }
            ("additionalProperties" | "unevaluatedProperties", part, Value::Object(members)) => {
                self.sum(members.values().map(|value| (part, value)))
            }
            ("prefixItems" | "items", Value::Array(list), Value::Array(items)) => {
                self.sum(list.iter().zip(items))
            }
            (
                "items" | "contains" | "additionalItems" | "unevaluatedItems",
                part @ Value::Object(_),
                Value::Array(items),
            ) => self.sum(items.iter().map(|value| (part, value))),
            _ => Some(0),
        }
    }

    fn sum(&mut self, pairs: impl Iterator<Item = (&'v Value, &'v Value)>) -> Option<u64> {
        let mut sum = 0_u64;
        for (schema, value) in pairs {
            sum = sum.saturating_add(self.visits(schema, value)?);
        }
        Some(sum)
    }
}
