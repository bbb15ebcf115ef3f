//! Which arguments a schema declares, so that others can be told from them.

use super::MAX_PATTERNS;
use super::pattern::matcher;
use super::place::{Extent, in_place};
use crate::cursor::{Cursor, Kind};
use std::collections::HashSet;

/// How many names are compared one by one before a set pays off.
const FEW: usize = 12;

/// The arguments a schema declares at its root, whatever composition or reference they come through.
#[derive(Debug)]
pub(super) struct Shape {
    names: Names,
    others: Others,
    patterns: Vec<jsonschema::Validator>,
    /// The text says nothing about any value: there is nothing to check.
    pub(super) says_nothing: bool,
}

#[derive(Debug)]
enum Names {
    Few(Vec<Box<str>>),
    Many(HashSet<Box<str>>),
}

/// What the schema says of arguments it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// It lets them through, or names none at all.
    Welcome,
    /// It does not speak of them.
    Unknown,
}

impl Shape {
    pub(super) fn of(text: &str) -> Self {
        let mut names: Vec<Box<str>> = Vec::new();
        let mut patterns = Vec::new();
        let mut others = None;
        let mut names_any = false;
        let (parts, extent) = in_place(text);
        if extent != Extent::Whole {
            // What cannot be read may declare any argument.
            others = Some(Others::Welcome);
        }
        for part in parts {
            for spot in Cursor::new(text, part.start).spots() {
                let mut value = Cursor::new(text, spot.value.start);
                match (&*spot.key, value.kind()) {
                    ("properties", Kind::Object) => {
                        names_any = true;
                        names.extend(value.spots().into_iter().map(|property| property.key.into()));
                    }
                    ("patternProperties", Kind::Object) => {
                        names_any = true;
                        for spot in value.spots() {
                            match matcher(&spot.key).filter(|_| patterns.len() < MAX_PATTERNS) {
                                Some(pattern) => patterns.push(pattern),
                                // It may fit any argument.
                                None => others = Some(Others::Welcome),
                            }
                        }
                    }
                    ("additionalProperties" | "unevaluatedProperties", kind) => {
                        names_any = true;
                        let allowed = kind == Kind::Object || text[spot.value].trim() == "true";
                        if allowed {
                            others = Some(Others::Welcome);
                        }
                    }
                    _ => {}
                }
            }
        }
        let others = others.unwrap_or(if names_any { Others::Unknown } else { Others::Welcome });
        let names =
            if names.len() > FEW { Names::Many(names.into_iter().collect()) } else { Names::Few(names) };
        Self { names, others, patterns, says_nothing: says_nothing(text) }
    }

    /// Whether the schema names this argument.
    pub(super) fn names(&self, key: &str) -> bool {
        match &self.names {
            Names::Few(names) => names.iter().any(|name| **name == *key),
            Names::Many(names) => names.contains(key),
        }
    }

    /// Whether the schema has a place for this argument.
    pub(super) fn takes(&self, key: &str) -> bool {
        self.names(key) || self.others == Others::Welcome || {
            !self.patterns.is_empty() && {
                let key = serde_json::Value::String(key.to_owned());
                self.patterns.iter().any(|pattern| pattern.is_valid(&key))
            }
        }
    }
}

/// Whether a schema says no more than that the arguments are an object of some names.
fn says_nothing(text: &str) -> bool {
    let notes = ["title", "description", "$schema", "$comment", "default", "examples"];
    let is_note = |key: &str| notes.contains(&key) || key.starts_with("x-");
    Cursor::new(text, 0).spots().iter().all(|spot| {
        let value = &text[spot.value.clone()];
        match &*spot.key {
            "type" => value == "\"object\"",
            "additionalProperties" => true, // Others are dropped or welcome; `{…}` is looked at below.
            "required" => value.starts_with('[') && Cursor::new(text, spot.value.start).places().is_empty(),
            "properties" => {
                value.starts_with('{')
                    && Cursor::new(text, spot.value.start).spots().iter().all(|property| {
                        let mut cursor = Cursor::new(text, property.value.start);
                        cursor.kind() == Kind::Object && cursor.spots().iter().all(|spot| is_note(&spot.key))
                    })
            }
            key => is_note(key),
        }
    }) && !Cursor::new(text, 0)
        .spots()
        .iter()
        .any(|spot| spot.key == "additionalProperties" && text[spot.value.clone()].starts_with('{'))
}
