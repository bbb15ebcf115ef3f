//! Turns a schema's text into a tree that can be compiled and checked within limits.
//!
//! Parts that cannot be checked are dropped. A dropped part must never refuse more arguments: keywords such as `not`,
//! which would refuse more, are dropped as well. References are followed only within the schema.

use super::coverage::MAX_REPORTED;
use super::fault::{SchemaFault, shortened};
use super::graph::{self, find};
use super::keyword::{KeywordValue, keyword_value};
use super::normalise::SchemaNormaliser;
use super::pattern::Patterns;
use super::{MAX_BYTES, coverage::Coverage};
use crate::json::RawJson;
use jsonschema::Draft;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A schema in the form that is checked.
pub(super) struct CheckableSchema {
    pub(super) tree: Value,
    pub(super) draft: Draft,
    pub(super) coverage: Coverage,
    pub(super) refers: bool,
}

/// Makes a schema fit to be compiled, or returns the reason why nothing of it can be checked.
pub(super) fn checkable(schema: &RawJson, patterns: &mut Patterns) -> Result<CheckableSchema, SchemaFault> {
    let size = schema.as_bytes().len();
    if size > MAX_BYTES {
        return Err(SchemaFault::TooLarge(size));
    }
    let mut tree: Value = schema.read().map_err(|error| SchemaFault::Uncompiled(error.0))?;
    let draft = draft_of(&tree);
    let mut normaliser = SchemaNormaliser::new(patterns, draft);
    normaliser.schema(&mut tree, 0)?;
    let (mut faults, references) = normaliser.finish();
    let refers = !references.is_empty();
    if refers {
        drop_dangling(&mut tree, &references, &mut faults);
    }
    if !faults.is_empty() {
        for_each_schema(&mut tree, &mut widen);
        drop_dangling(&mut tree, &references, &mut faults);
    }
    if refers {
        graph::check(&tree)?;
    }
    faults.truncate(MAX_REPORTED);
    let coverage = if faults.is_empty() { Coverage::Whole } else { Coverage::Part(faults) };
    Ok(CheckableSchema { tree, draft, coverage, refers })
}

/// The draft: 2020-12 unless the schema names another. Older drafts are normalised to draft 07.
fn draft_of(tree: &Value) -> Draft {
    let named = tree.get("$schema").and_then(Value::as_str).unwrap_or_default();
    if named.contains("2019-09") {
        return Draft::Draft201909;
    }
    let older = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|mark| named.contains(mark));
    if older { Draft::Draft7 } else { Draft::Draft202012 }
}

/// Drops keywords that refuse more when other parts allow more.
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

/// Drops the references without a target schema, so that they allow any value.
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
    for_each_schema(tree, &mut |keywords| {
        let Some(Value::String(reference)) = keywords.get("$ref") else { return };
        if dangling.contains(reference) {
            let fault = SchemaFault::Dangling(shortened(reference, 80));
            if !faults.contains(&fault) && faults.len() < MAX_REPORTED {
                faults.push(fault);
            }
            keywords.shift_remove("$ref");
        }
    });
}

/// Collects the positions of all schemas: the target of a reference must be a schema, not a list or a value.
fn gather(schema: &Value, places: &mut HashSet<*const Value>) {
    places.insert(schema);
    let Value::Object(keywords) = schema else { return };
    for (keyword, value) in keywords {
        match (keyword_value(keyword), value) {
            (
                Some(KeywordValue::Schema | KeywordValue::SchemaOrSchemas),
                Value::Object(_) | Value::Bool(_),
            ) => {
                gather(value, places);
            }
            (Some(KeywordValue::Schemas | KeywordValue::SchemaOrSchemas), Value::Array(list)) => {
                list.iter().for_each(|part| gather(part, places));
            }
            (
                Some(KeywordValue::SchemaMap | KeywordValue::PatternMap | KeywordValue::Dependencies),
                Value::Object(map),
            ) => {
                map.values().filter(|part| !part.is_array()).for_each(|part| gather(part, places));
            }
            _ => {}
        }
    }
}

/// Applies a change to every schema in a schema.
fn for_each_schema(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(keywords) = schema else { return };
    change(keywords);
    for (keyword, value) in keywords.iter_mut() {
        match (keyword_value(keyword), value) {
            (Some(KeywordValue::Schema | KeywordValue::SchemaOrSchemas), value @ Value::Object(_)) => {
                for_each_schema(value, change);
            }
            (Some(KeywordValue::Schemas | KeywordValue::SchemaOrSchemas), Value::Array(list)) => {
                list.iter_mut().for_each(|part| for_each_schema(part, change));
            }
            (
                Some(KeywordValue::SchemaMap | KeywordValue::PatternMap | KeywordValue::Dependencies),
                Value::Object(map),
            ) => {
                map.values_mut().for_each(|part| for_each_schema(part, change));
            }
            _ => {}
        }
    }
}
