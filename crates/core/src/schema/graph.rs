//! Schemas with references, as a graph: no reference leads round in place, and the ways through it can be
//! counted.

use super::fault::SchemaFault;
pub(super) use crate::reference::target as find;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The most ways from the root to its parts. Without references there are as many as there are parts.
const MAX_WAYS: u64 = 5_000;

/// How a part is reached.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Edge {
    /// It looks at the same value.
    InPlace,
    /// It looks at a part of the value.
    Deeper,
}

/// Calls `visit` for each subschema right under `schema`, references followed one step.
pub(super) fn parts<'v>(root: &'v Value, schema: &'v Value, visit: &mut dyn FnMut(Edge, &'v Value)) {
    let Value::Object(keywords) = schema else { return };
    for (keyword, value) in keywords {
        let edge = match keyword.as_str() {
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas"
            | "dependencies" => Edge::InPlace,
            "properties"
            | "patternProperties"
            | "additionalProperties"
            | "propertyNames"
            | "items"
            | "prefixItems"
            | "additionalItems"
            | "contains"
            | "unevaluatedItems"
            | "unevaluatedProperties" => Edge::Deeper,
            "$ref" => {
                if let Some(target) = value.as_str().and_then(|reference| find(root, reference)) {
                    visit(Edge::InPlace, target);
                }
                continue;
            }
            _ => continue,
        };
        match (keyword.as_str(), value) {
            (
                "properties" | "patternProperties" | "dependentSchemas" | "dependencies",
                Value::Object(map),
            ) => {
                map.values().filter(|part| part.is_object()).for_each(|part| visit(edge, part));
            }
            (_, Value::Array(list)) => list.iter().for_each(|part| visit(edge, part)),
            (_, part) => visit(edge, part),
        }
    }
}

/// Checks a schema that has references.
pub(super) fn check(root: &Value) -> Result<(), SchemaFault> {
    let mut walk = Walk { root, state: HashMap::new(), loops: false };
    walk.reachable().into_iter().try_for_each(|part| walk.in_place(part))?;
    walk.state.clear();
    if walk.ways(root) > MAX_WAYS { Err(SchemaFault::Branching) } else { Ok(()) }
}

/// Whether a schema can be applied to itself again, deeper in the value.
pub(super) fn is_recursive(root: &Value) -> bool {
    let mut walk = Walk { root, state: HashMap::new(), loops: false };
    walk.ways(root);
    walk.loops
}

enum State {
    Open,
    Done(u64),
}

struct Walk<'v> {
    root: &'v Value,
    state: HashMap<*const Value, State>,
    loops: bool,
}

impl<'v> Walk<'v> {
    /// Every part that can be reached.
    fn reachable(&self) -> Vec<&'v Value> {
        let (mut seen, mut found, mut next) = (HashSet::new(), Vec::new(), vec![self.root]);
        while let Some(schema) = next.pop() {
            if seen.insert(std::ptr::from_ref(schema)) {
                found.push(schema);
                parts(self.root, schema, &mut |_, part| next.push(part));
            }
        }
        found
    }

    /// Fails if a part leads back to itself while looking at the same value.
    fn in_place(&mut self, schema: &'v Value) -> Result<(), SchemaFault> {
        match self.state.get(&std::ptr::from_ref(schema)) {
            Some(State::Done(_)) => return Ok(()),
            Some(State::Open) => return Err(SchemaFault::Endless),
            None => {}
        }
        self.state.insert(schema, State::Open);
        let mut same = Vec::new();
        parts(self.root, schema, &mut |edge, part| {
            if edge == Edge::InPlace {
                same.push(part);
            }
        });
        same.into_iter().try_for_each(|part| self.in_place(part))?;
        self.state.insert(schema, State::Done(1));
        Ok(())
    }

    /// In how many ways the parts below are reached, each loop taken once.
    fn ways(&mut self, schema: &'v Value) -> u64 {
        match self.state.get(&std::ptr::from_ref(schema)) {
            Some(State::Done(ways)) => return *ways,
            Some(State::Open) => {
                self.loops = true;
                return 1;
            }
            None => {}
        }
        self.state.insert(schema, State::Open);
        let mut edges = Vec::new();
        parts(self.root, schema, &mut |_, part| edges.push(part));
        let ways = edges.into_iter().fold(1_u64, |sum, part| sum.saturating_add(self.ways(part)));
        self.state.insert(schema, State::Done(ways));
        ways
    }
}
