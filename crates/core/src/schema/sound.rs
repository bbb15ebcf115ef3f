//! From a schema's text to a tree that can be compiled and asked within bounds.
//!
//! What cannot be checked is left out, and leaving out must never forbid: where less of a schema would let
//! less through, as under `not`, that goes as well. References are followed within the schema alone.

use super::coverage::MAX_TOLD;
use super::fault::{SchemaFault, shortened};
use super::graph::{self, find};
use super::keyword::{Wanted, wanted};
use super::mend::Mending;
use super::pattern::Patterns;
use super::{MAX_BYTES, coverage::Coverage};
use crate::json::RawJson;
use jsonschema::Draft;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A schema as it is checked.
pub(super) struct Sound {
    pub(super) tree: Value,
    pub(super) draft: Draft,
    pub(super) coverage: Coverage,
    pub(super) refers: bool,
}

/// Makes a schema fit to be compiled, or says why nothing of it can be checked.
pub(super) fn sound(schema: &RawJson, patterns: &mut Patterns) -> Result<Sound, SchemaFault> {
    let size = schema.as_bytes().len();
    if size > MAX_BYTES {
        return Err(SchemaFault::TooLarge(size));
    }
    let mut tree: Value = schema.read().map_err(|error| SchemaFault::Uncompiled(error.0))?;
    let draft = draft_of(&tree);
    let mut mending = Mending::new(patterns, draft);
    mending.schema(&mut tree, 0)?;
    let (mut faults, references) = mending.finish();
    let refers = !references.is_empty();
    if refers {
        drop_dangling(&mut tree, &references, &mut faults);
    }
    if !faults.is_empty() {
        every(&mut tree, &mut widen);
        drop_dangling(&mut tree, &references, &mut faults);
    }
    if refers {
        graph::check(&tree)?;
    }
    faults.truncate(MAX_TOLD);
    let coverage = if faults.is_empty() { Coverage::Whole } else { Coverage::Part(faults) };
    Ok(Sound { tree, draft, coverage, refers })
}

/// 2020-12 unless the schema says otherwise. What the older drafts say otherwise is mended into draft 07.
fn draft_of(tree: &Value) -> Draft {
    let named = tree.get("$schema").and_then(Value::as_str).unwrap_or_default();
    if named.contains("2019-09") {
        return Draft::Draft201909;
    }
    let older = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|mark| named.contains(mark));
    if older { Draft::Draft7 } else { Draft::Draft202012 }
}

/// Leaves out what lets less through when other parts let more through.
fn widen(keywords: &mut Map<String, Value>) {
    for turned in ["not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "maxContains"] {
        keywords.shift_remove(turned);
    }
    if let Some(list) = keywords.shift_remove("oneOf")
        && !keywords.contains_key("anyOf")
    {
        keywords.insert("anyOf".into(), list);
    }
}

/// Leaves out the references that lead to no schema: whatever stands there may be anything.
fn drop_dangling(tree: &mut Value, references: &HashSet<String>, faults: &mut Vec<SchemaFault>) {
    let mut places = HashSet::new();
    gather(tree, &mut places);
    let leads = |reference: &str| {
        find(tree, reference).is_some_and(|target| places.contains(&std::ptr::from_ref(target)))
    };
    let dangling: HashSet<&String> = references.iter().filter(|reference| !leads(reference)).collect();
    if dangling.is_empty() {
        return;
    }
    every(tree, &mut |keywords| {
        let Some(Value::String(reference)) = keywords.get("$ref") else { return };
        if dangling.contains(reference) {
            let fault = SchemaFault::Dangling(shortened(reference, 80));
            if !faults.contains(&fault) && faults.len() < MAX_TOLD {
                faults.push(fault);
            }
            keywords.shift_remove("$ref");
        }
    });
}

/// Where the schemas stand. What a reference leads to must be one, not a list or a value.
fn gather(schema: &Value, places: &mut HashSet<*const Value>) {
    places.insert(schema);
    let Value::Object(keywords) = schema else { return };
    for (keyword, value) in keywords {
        match (wanted(keyword), value) {
            (Some(Wanted::Schema | Wanted::SchemaOrSchemas), Value::Object(_) | Value::Bool(_)) => {
                gather(value, places);
            }
            (Some(Wanted::Schemas | Wanted::SchemaOrSchemas), Value::Array(list)) => {
                list.iter().for_each(|part| gather(part, places));
            }
            (Some(Wanted::SchemaMap | Wanted::PatternMap | Wanted::Dependencies), Value::Object(map)) => {
                map.values().filter(|part| !part.is_array()).for_each(|part| gather(part, places));
            }
            _ => {}
        }
    }
}

/// Changes every schema in a schema.
fn every(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(keywords) = schema else { return };
    change(keywords);
    for (keyword, value) in keywords.iter_mut() {
        match (wanted(keyword), value) {
            (Some(Wanted::Schema | Wanted::SchemaOrSchemas), value @ Value::Object(_)) => {
                every(value, change);
            }
            (Some(Wanted::Schemas | Wanted::SchemaOrSchemas), Value::Array(list)) => {
                list.iter_mut().for_each(|part| every(part, change));
            }
            (Some(Wanted::SchemaMap | Wanted::PatternMap | Wanted::Dependencies), Value::Object(map)) => {
                map.values_mut().for_each(|part| every(part, change));
            }
            _ => {}
        }
    }
}
