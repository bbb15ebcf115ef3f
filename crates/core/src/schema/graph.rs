//! Schemas with references as a graph: refuses reference cycles on the same value, and counts the paths through the
//! schema.

use super::fault::SchemaFault;
pub(super) use crate::reference::target as find;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Maximum number of paths from the root to its parts. Without references it is the number of parts.
const MAX_PATHS: u64 = 5_000;

/// How a part is applied.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Edge {
    /// To the same value.
    InPlace,
    /// To a part of the value.
    Deeper,
}

/// Calls `visit` for each direct subschema of `schema`, following references one step.
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

/// Checks the references of a schema.
pub(super) fn check(root: &Value) -> Result<(), SchemaFault> {
    let mut walk = SchemaWalk { root, state: HashMap::new(), loops: false };
    walk.reachable().into_iter().try_for_each(|part| walk.in_place(part))?;
    walk.state.clear();
    if walk.paths(root) > MAX_PATHS { Err(SchemaFault::Branching) } else { Ok(()) }
}

/// Whether a schema applies to itself again, deeper in the value.
pub(super) fn is_recursive(root: &Value) -> bool {
    let mut walk = SchemaWalk { root, state: HashMap::new(), loops: false };
    walk.paths(root);
    walk.loops
}

enum VisitState {
    Open,
    Done(u64),
}

struct SchemaWalk<'v> {
    root: &'v Value,
    state: HashMap<*const Value, VisitState>,
    loops: bool,
}

impl<'v> SchemaWalk<'v> {
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

    /// Fails if a part leads back to itself on the same value.
    fn in_place(&mut self, schema: &'v Value) -> Result<(), SchemaFault> {
        match self.state.get(&std::ptr::from_ref(schema)) {
            Some(VisitState::Done(_)) => return Ok(()),
            Some(VisitState::Open) => return Err(SchemaFault::Endless),
            None => {}
        }
        self.state.insert(schema, VisitState::Open);
        let mut same = Vec::new();
        parts(self.root, schema, &mut |edge, part| {
            if edge == Edge::InPlace {
                same.push(part);
            }
        });
        same.into_iter().try_for_each(|part| self.in_place(part))?;
        self.state.insert(schema, VisitState::Done(1));
        Ok(())
    }

    /// The number of paths to the parts below, with each loop taken once.
    fn paths(&mut self, schema: &'v Value) -> u64 {
        match self.state.get(&std::ptr::from_ref(schema)) {
            Some(VisitState::Done(paths)) => return *paths,
            Some(VisitState::Open) => {
                self.loops = true;
                return 1;
            }
            None => {}
        }
        self.state.insert(schema, VisitState::Open);
        let mut edges = Vec::new();
        parts(self.root, schema, &mut |_, part| edges.push(part));
        let paths = edges.into_iter().fold(1_u64, |sum, part| sum.saturating_add(self.paths(part)));
        self.state.insert(schema, VisitState::Done(paths));
        paths
    }
}
