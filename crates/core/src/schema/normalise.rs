//! Normalises a schema keyword by keyword: older spellings are translated, and invalid keywords are dropped.

use super::coverage::MAX_REPORTED;
use super::fault::{SchemaFault, shortened};
use super::keyword::{A_SCHEMA, KeywordValue, TYPES, keyword_value};
use super::pattern::Patterns;
use super::place::canonical;
use super::{MAX_DEPTH, MAX_PATTERNS, MAX_SUBSCHEMAS};
use crate::reference::steps;
use jsonschema::Draft;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Maximum number of `unevaluated…` keywords: each may make the compiler read everything below it twice.
const MAX_UNEVALUATED: usize = 6;
/// Maximum length of a reported position.
const MAX_PLACE: usize = 200;

/// Normalises one schema.
pub(super) struct SchemaNormaliser<'p> {
    patterns: &'p mut Patterns,
    draft: Draft,
    subschemas: usize,
    unevaluated: usize,
    tried: usize,
    /// Number of enclosing schemas with an `$id`, which changes the meaning of references.
    rebased: usize,
    place: String,
    faults: Vec<SchemaFault>,
    references: HashSet<String>,
}

/// The result of normalising a keyword.
enum KeywordOutcome {
    Kept,
    /// It is kept, but some of the values that it allowed are gone.
    Reduced,
    /// It has no effect, so nothing is lost without it.
    Empty,
    Dropped(SchemaFault),
}

type Keywords = Map<String, Value>;

impl<'p> SchemaNormaliser<'p> {
    pub(super) fn new(patterns: &'p mut Patterns, draft: Draft) -> Self {
        Self {
            patterns,
            draft,
            subschemas: 0,
            unevaluated: 0,
            tried: 0,
            rebased: 0,
            place: String::new(),
            faults: Vec::new(),
            references: HashSet::new(),
        }
    }

    /// The faults found, and the remaining references.
    pub(super) fn finish(self) -> (Vec<SchemaFault>, HashSet<String>) {
        (self.faults, self.references)
    }

    /// Normalises a schema and everything below it. Fails if it exceeds a limit.
    pub(super) fn schema(&mut self, schema: &mut Value, depth: usize) -> Result<(), SchemaFault> {
        self.subschemas += 1;
        if self.subschemas > MAX_SUBSCHEMAS {
            return Err(SchemaFault::TooMany);
        }
        if depth > MAX_DEPTH {
            return Err(SchemaFault::TooDeep);
        }
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(_) => return Ok(()),
            other => {
                if !other.is_null() {
                    self.report(self.broken(A_SCHEMA));
                }
                *other = Value::Bool(true);
                return Ok(());
            }
        };
        let is_text = |key: &&str| keywords.get(*key).is_some_and(Value::is_string);
        let rebases = usize::from(depth > 0 && ["$id", "id"].iter().any(is_text));
        // Some writers use null to omit a keyword. Annotations are not needed for checking.
        keywords.retain(|keyword, value| match keyword_value(keyword) {
            Some(KeywordValue::Anything | KeywordValue::Types) => true,
            Some(_) => !value.is_null(),
            None => keyword == "nullable",
        });
        translate(keywords, self.draft);
        self.rebased += rebases;
        let names: Vec<String> = keywords.keys().cloned().collect();
        for keyword in &names {
            self.one(keywords, keyword, depth)?;
        }
        self.rebased -= rebases;
        Ok(())
    }

    /// Normalises one keyword, and those next to it that depend on it.
    fn one(&mut self, keywords: &mut Keywords, keyword: &str, depth: usize) -> Result<(), SchemaFault> {
        let Some((kind, value)) = keyword_value(keyword).zip(keywords.get_mut(keyword)) else {
            return Ok(());
        };
        if keyword.starts_with("unevaluated") {
            self.unevaluated += 1;
            if self.unevaluated > MAX_UNEVALUATED {
                return Err(SchemaFault::Branching);
            }
        }
        let around = self.enter(keyword);
        let outcome = self.value(kind, value, depth)?;
        if !matches!(outcome, KeywordOutcome::Kept | KeywordOutcome::Empty) {
            // Otherwise the other keyword would refuse the values that this one allowed.
            match keyword {
                "properties" | "patternProperties" => keywords.shift_remove("additionalProperties"),
                "prefixItems" => keywords.shift_remove("items"),
                _ => None,
            };
        }
        match outcome {
            KeywordOutcome::Kept | KeywordOutcome::Reduced => {}
            KeywordOutcome::Empty => drop(keywords.shift_remove(keyword)),
            KeywordOutcome::Dropped(fault) => {
                keywords.shift_remove(keyword);
                self.report(fault);
            }
        }
        self.place.truncate(around);
        Ok(())
    }

    fn value(
        &mut self,
        kind: KeywordValue,
        value: &mut Value,
        depth: usize,
    ) -> Result<KeywordOutcome, SchemaFault> {
        let wrong = KeywordOutcome::Dropped(self.broken(kind.in_words()));
        Ok(match (kind, value) {
            (
                KeywordValue::Schema | KeywordValue::SchemaOrSchemas,
                value @ (Value::Object(_) | Value::Bool(_)),
            ) => {
                self.schema(value, depth + 1)?;
                KeywordOutcome::Kept
            }
            (KeywordValue::SchemaMap | KeywordValue::SchemaOrSchemas, Value::Array(list))
                if list.is_empty() =>
            {
                KeywordOutcome::Empty
            }
            (KeywordValue::Schemas | KeywordValue::SchemaOrSchemas, Value::Array(list))
                if !list.is_empty() =>
            {
                for (index, part) in list.iter_mut().enumerate() {
                    self.below(&index.to_string(), part, depth)?;
                }
                KeywordOutcome::Kept
            }
            (KeywordValue::SchemaMap, Value::Object(map)) => {
                for (key, part) in map {
                    self.below(key, part, depth)?;
                }
                KeywordOutcome::Kept
            }
            (KeywordValue::PatternMap, Value::Object(map)) => self.pattern_map(map, depth)?,
            (KeywordValue::Dependencies | KeywordValue::NameMap, Value::Object(map)) => {
                self.dependencies(kind, map, depth)?
            }
            (KeywordValue::Names, Value::Array(list)) => self.names(list),
            (KeywordValue::Types, Value::String(name)) if TYPES.contains(&name.as_str()) => {
                KeywordOutcome::Kept
            }
            (KeywordValue::Types, Value::Array(list)) if are_types(list) => {
                deduplicate(list);
                KeywordOutcome::Kept
            }
            (KeywordValue::Values, Value::Array(list)) if !list.is_empty() => KeywordOutcome::Kept,
            (KeywordValue::Pattern, Value::String(pattern)) => {
                self.pattern(pattern).map_or(KeywordOutcome::Kept, KeywordOutcome::Dropped)
            }
            (KeywordValue::Reference, Value::String(reference)) => self.reference(reference),
            (KeywordValue::Count, Value::Number(number)) if is_count(number) => KeywordOutcome::Kept,
            (KeywordValue::Number | KeywordValue::Limit, Value::Number(_)) => KeywordOutcome::Kept,
            (KeywordValue::Step, Value::Number(number)) if number.as_f64().is_some_and(|step| step > 0.0) => {
                KeywordOutcome::Kept
            }
            (KeywordValue::Flag, Value::Bool(_)) | (KeywordValue::Anything, _) => KeywordOutcome::Kept,
            (KeywordValue::Unsupported, _) => {
                KeywordOutcome::Dropped(SchemaFault::Unsupported(self.last().to_owned()))
            }
            _ => wrong,
        })
    }

    fn below(&mut self, key: &str, schema: &mut Value, depth: usize) -> Result<(), SchemaFault> {
        let around = self.enter(key);
        self.schema(schema, depth + 1)?;
        self.place.truncate(around);
        Ok(())
    }

    fn pattern_map(&mut self, map: &mut Keywords, depth: usize) -> Result<KeywordOutcome, SchemaFault> {
        let all = map.len();
        let patterns: Vec<String> = map.keys().cloned().collect();
        for pattern in patterns {
            if let Some(fault) = self.pattern(&pattern) {
                self.report(fault);
                map.shift_remove(&pattern);
            }
        }
        for (pattern, part) in map.iter_mut() {
            self.below(pattern, part, depth)?;
        }
        Ok(if map.len() < all { KeywordOutcome::Reduced } else { KeywordOutcome::Kept })
    }

    fn dependencies(
        &mut self,
        kind: KeywordValue,
        map: &mut Keywords,
        depth: usize,
    ) -> Result<KeywordOutcome, SchemaFault> {
        let keys: Vec<String> = map.keys().cloned().collect();
        for key in keys {
            let Some(part) = map.get_mut(&key) else { continue };
            let around = self.enter(&key);
            let outcome = match part {
                Value::Array(list) => self.names(list),
                part if kind == KeywordValue::Dependencies => {
                    self.schema(part, depth + 1)?;
                    KeywordOutcome::Kept
                }
                _ => KeywordOutcome::Dropped(self.broken(KeywordValue::Names.in_words())),
            };
            if let KeywordOutcome::Dropped(fault) = outcome {
                map.shift_remove(&key);
                self.report(fault);
            }
            self.place.truncate(around);
        }
        Ok(KeywordOutcome::Kept)
    }

    fn names(&mut self, list: &mut Vec<Value>) -> KeywordOutcome {
        if list.iter().all(Value::is_string) {
            deduplicate(list);
            return KeywordOutcome::Kept;
        }
        KeywordOutcome::Dropped(self.broken(KeywordValue::Names.in_words()))
    }

    /// The fault of a pattern, if any.
    fn pattern(&mut self, pattern: &str) -> Option<SchemaFault> {
        self.tried += 1;
        if self.tried > MAX_PATTERNS {
            return Some(SchemaFault::Patterns);
        }
        (!self.patterns.compiles(pattern)).then(|| SchemaFault::Pattern(shortened(pattern, 80)))
    }

    fn reference(&mut self, reference: &mut String) -> KeywordOutcome {
        let Some(steps) = steps(reference) else {
            let shown = shortened(reference, 80);
            let near = reference.starts_with('#');
            return KeywordOutcome::Dropped(if near {
                SchemaFault::Dangling(shown)
            } else {
                SchemaFault::Remote(shown)
            });
        };
        if self.rebased > 0 {
            return KeywordOutcome::Dropped(SchemaFault::Unsupported("$ref under an inner $id".into()));
        }
        *reference = canonical(&steps);
        self.references.insert(reference.clone());
        KeywordOutcome::Kept
    }

    fn enter(&mut self, key: &str) -> usize {
        let around = self.place.len();
        if around > 0 {
            self.place.push('/');
        }
        self.place.push_str(&shortened(key, 60));
        around
    }

    fn last(&self) -> &str {
        self.place.rsplit('/').next().unwrap_or_default()
    }

    fn broken(&self, expected: &'static str) -> SchemaFault {
        SchemaFault::Keyword { place: shortened(&self.place, MAX_PLACE), expected }
    }

    fn report(&mut self, fault: SchemaFault) {
        if self.faults.len() < MAX_REPORTED && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }
}

/// Translates keywords of older drafts and OpenAPI to the schema's draft.
fn translate(keywords: &mut Keywords, draft: Draft) {
    for (exclusive, plain) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(Value::Bool(flag)) = keywords.get(exclusive) else { continue };
        let beside = if *flag { keywords.shift_remove(plain) } else { None };
        keywords.shift_remove(exclusive);
        if let Some(limit) = beside {
            keywords.insert(exclusive.into(), limit);
        }
    }
    if draft == Draft::Draft202012
        && keywords.get("items").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    {
        let rest = keywords.shift_remove("additionalItems");
        let tuple = keywords.shift_remove("items").unwrap_or_default();
        keywords.entry("prefixItems").or_insert(tuple);
        if let Some(rest) = rest {
            keywords.insert("items".into(), rest);
        }
    }
    if keywords.shift_remove("nullable") == Some(Value::Bool(true)) {
        let mut others = Keywords::new();
        for keyword in
            ["type", "enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"]
        {
            others.extend(keywords.shift_remove_entry(keyword));
        }
        keywords.insert("anyOf".into(), json!([{ "type": "null" }, others]));
    }
}

fn are_types(list: &[Value]) -> bool {
    let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    !list.is_empty() && list.iter().all(known)
}

/// Removes duplicates, which the drafts forbid.
fn deduplicate(list: &mut Vec<Value>) {
    let mut seen = HashSet::with_capacity(list.len());
    list.retain(|name| seen.insert(name.clone()));
}

fn is_count(number: &serde_json::Number) -> bool {
    number.as_f64().is_some_and(|count| count >= 0.0 && count.fract() == 0.0)
}
