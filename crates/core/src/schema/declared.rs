//! The arguments that a schema declares, as opposed to unknown ones.

use super::MAX_PATTERNS;
use super::pattern::matcher;
use super::place::{SchemaCompleteness, in_place};
use crate::json::{JsonCursor, JsonKind};
use std::collections::HashSet;

/// Number of names up to which a linear search is faster than a set.
const FEW: usize = 12;

/// The arguments that a schema declares at its root, directly or through composition and references.
#[derive(Debug)]
pub(super) struct DeclaredArguments {
    names: Names,
    others: OtherArguments,
    patterns: Vec<jsonschema::Validator>,
    /// The schema constrains no value, so there is nothing to check.
    pub(super) has_no_constraints: bool,
}

#[derive(Debug)]
enum Names {
    Few(Vec<Box<str>>),
    Many(HashSet<Box<str>>),
}

/// How the schema treats arguments that it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherArguments {
    /// It accepts them, or names none at all.
    Accepted,
    /// It does not mention them.
    Unknown,
}

impl DeclaredArguments {
    pub(super) fn of(text: &str) -> Self {
        let mut names: Vec<Box<str>> = Vec::new();
        let mut patterns = Vec::new();
        let mut others = None;
        let mut names_any = false;
        let (parts, completeness) = in_place(text);
        if completeness != SchemaCompleteness::Complete {
            // The part that cannot be read may declare any argument.
            others = Some(OtherArguments::Accepted);
        }
        for part in parts {
            for spot in JsonCursor::new(text, part.start).member_spans() {
                let mut value = JsonCursor::new(text, spot.value.start);
                match (&*spot.key, value.kind()) {
                    ("properties", JsonKind::Object) => {
                        names_any = true;
                        names.extend(value.member_spans().into_iter().map(|property| property.key.into()));
                    }
                    ("patternProperties", JsonKind::Object) => {
                        names_any = true;
                        for spot in value.member_spans() {
                            match matcher(&spot.key).filter(|_| patterns.len() < MAX_PATTERNS) {
                                Some(pattern) => patterns.push(pattern),
                                // It may match any argument.
                                None => others = Some(OtherArguments::Accepted),
                            }
                        }
                    }
                    ("additionalProperties" | "unevaluatedProperties", kind) => {
                        names_any = true;
                        let allowed = kind == JsonKind::Object || text[spot.value].trim() == "true";
                        if allowed {
                            others = Some(OtherArguments::Accepted);
                        }
                    }
                    _ => {}
                }
            }
        }
        let others =
            others.unwrap_or(if names_any { OtherArguments::Unknown } else { OtherArguments::Accepted });
        let names =
            if names.len() > FEW { Names::Many(names.into_iter().collect()) } else { Names::Few(names) };
        Self { names, others, patterns, has_no_constraints: has_no_constraints(text) }
    }

    /// Whether the schema names this argument.
    pub(super) fn names(&self, key: &str) -> bool {
        match &self.names {
            Names::Few(names) => names.iter().any(|name| **name == *key),
            Names::Many(names) => names.contains(key),
        }
    }

    /// Whether the schema accepts an argument of this name.
    pub(super) fn takes(&self, key: &str) -> bool {
        self.names(key) || self.others == OtherArguments::Accepted || {
            !self.patterns.is_empty() && {
                let key = serde_json::Value::String(key.to_owned());
                self.patterns.iter().any(|pattern| pattern.is_valid(&key))
            }
        }
    }
}

/// Whether a schema says no more than that the arguments are an object with some names.
fn has_no_constraints(text: &str) -> bool {
    let notes = ["title", "description", "$schema", "$comment", "default", "examples"];
    let is_note = |key: &str| notes.contains(&key) || key.starts_with("x-");
    JsonCursor::new(text, 0).member_spans().iter().all(|spot| {
        let value = &text[spot.value.clone()];
        match &*spot.key {
            "type" => value == "\"object\"",
            "additionalProperties" => true, // `{…}` is checked below; otherwise it constrains no value.
            "required" => {
                value.starts_with('[') && JsonCursor::new(text, spot.value.start).element_ranges().is_empty()
            }
            "properties" => {
                value.starts_with('{')
                    && JsonCursor::new(text, spot.value.start).member_spans().iter().all(|property| {
                        let mut cursor = JsonCursor::new(text, property.value.start);
                        cursor.kind() == JsonKind::Object
                            && cursor.member_spans().iter().all(|spot| is_note(&spot.key))
                    })
            }
            key => is_note(key),
        }
    }) && !JsonCursor::new(text, 0)
        .member_spans()
        .iter()
        .any(|spot| spot.key == "additionalProperties" && text[spot.value.clone()].starts_with('{'))
}
