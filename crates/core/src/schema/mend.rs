//! Keyword by keyword: what is meant clearly is put into today's words, what makes no sense is left out.

use super::coverage::MAX_TOLD;
use super::fault::{SchemaFault, shortened};
use super::keyword::{A_SCHEMA, TYPES, Wanted, wanted};
use super::pattern::Patterns;
use super::place::canonical;
use super::{MAX_DEPTH, MAX_PATTERNS, MAX_SUBSCHEMAS};
use crate::reference::steps;
use jsonschema::Draft;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Each `unevaluated…` may make the compiler look twice at all that stands below it.
const MAX_UNEVALUATED: usize = 6;
/// The longest place that is told.
const MAX_PLACE: usize = 200;

/// One schema being mended.
pub(super) struct Mending<'p> {
    patterns: &'p mut Patterns,
    draft: Draft,
    subschemas: usize,
    unevaluated: usize,
    tried: usize,
    /// How many schemas around this one have an `$id`, so that references mean something else in it.
    rebased: usize,
    place: String,
    faults: Vec<SchemaFault>,
    references: HashSet<String>,
}

/// What becomes of a keyword.
enum Fate {
    Stays,
    /// It stays, but some of what it lets through is gone from it.
    Thinned,
    /// It says nothing, so nothing is lost with it.
    Empty,
    Goes(SchemaFault),
}

type Keywords = Map<String, Value>;

impl<'p> Mending<'p> {
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

    /// What was left out, and the references that are left.
    pub(super) fn finish(self) -> (Vec<SchemaFault>, HashSet<String>) {
        (self.faults, self.references)
    }

    /// Mends a schema and all below it. Fails if it is out of bounds.
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
                    self.tell(self.broken(A_SCHEMA));
                }
                *other = Value::Bool(true);
                return Ok(());
            }
        };
        let is_text = |key: &&str| keywords.get(*key).is_some_and(Value::is_string);
        let rebases = usize::from(depth > 0 && ["$id", "id"].iter().any(is_text));
        // Null is how some writers leave a keyword out. Notes are not needed for checking.
        keywords.retain(|keyword, value| match wanted(keyword) {
            Some(Wanted::Anything | Wanted::Types) => true,
            Some(_) => !value.is_null(),
            None => keyword == "nullable",
        });
        reword(keywords, self.draft);
        self.rebased += rebases;
        let names: Vec<String> = keywords.keys().cloned().collect();
        for keyword in &names {
            self.one(keywords, keyword, depth)?;
        }
        self.rebased -= rebases;
        Ok(())
    }

    /// Mends one keyword, and those beside it that depend on it.
    fn one(&mut self, keywords: &mut Keywords, keyword: &str, depth: usize) -> Result<(), SchemaFault> {
        let Some((kind, value)) = wanted(keyword).zip(keywords.get_mut(keyword)) else { return Ok(()) };
        if keyword.starts_with("unevaluated") {
            self.unevaluated += 1;
            if self.unevaluated > MAX_UNEVALUATED {
                return Err(SchemaFault::Branching);
            }
        }
        let around = self.enter(keyword);
        let fate = self.value(kind, value, depth)?;
        if !matches!(fate, Fate::Stays | Fate::Empty) {
            // What this one let through, the one beside it would now take for a stranger.
            match keyword {
                "properties" | "patternProperties" => keywords.shift_remove("additionalProperties"),
                "prefixItems" => keywords.shift_remove("items"),
                _ => None,
            };
        }
        match fate {
            Fate::Stays | Fate::Thinned => {}
            Fate::Empty => drop(keywords.shift_remove(keyword)),
            Fate::Goes(fault) => {
                keywords.shift_remove(keyword);
                self.tell(fault);
            }
        }
        self.place.truncate(around);
        Ok(())
    }

    fn value(&mut self, kind: Wanted, value: &mut Value, depth: usize) -> Result<Fate, SchemaFault> {
        let wrong = Fate::Goes(self.broken(kind.in_words()));
        Ok(match (kind, value) {
            (Wanted::Schema | Wanted::SchemaOrSchemas, value @ (Value::Object(_) | Value::Bool(_))) => {
                self.schema(value, depth + 1)?;
                Fate::Stays
            }
            (Wanted::SchemaMap | Wanted::SchemaOrSchemas, Value::Array(list)) if list.is_empty() => {
                Fate::Empty
            }
            (Wanted::Schemas | Wanted::SchemaOrSchemas, Value::Array(list)) if !list.is_empty() => {
                for (index, part) in list.iter_mut().enumerate() {
                    self.below(&index.to_string(), part, depth)?;
                }
                Fate::Stays
            }
            (Wanted::SchemaMap, Value::Object(map)) => {
                for (key, part) in map {
                    self.below(key, part, depth)?;
                }
                Fate::Stays
            }
            (Wanted::PatternMap, Value::Object(map)) => self.pattern_map(map, depth)?,
            (Wanted::Dependencies | Wanted::NameMap, Value::Object(map)) => {
                self.dependencies(kind, map, depth)?
            }
            (Wanted::Names, Value::Array(list)) => self.names(list),
            (Wanted::Types, Value::String(name)) if TYPES.contains(&name.as_str()) => Fate::Stays,
            (Wanted::Types, Value::Array(list)) if are_types(list) => {
                once_each(list);
                Fate::Stays
            }
            (Wanted::Values, Value::Array(list)) if !list.is_empty() => Fate::Stays,
            (Wanted::Pattern, Value::String(pattern)) => {
                self.pattern(pattern).map_or(Fate::Stays, Fate::Goes)
            }
            (Wanted::Reference, Value::String(reference)) => self.reference(reference),
            (Wanted::Count, Value::Number(number)) if is_count(number) => Fate::Stays,
            (Wanted::Number | Wanted::Limit, Value::Number(_)) => Fate::Stays,
            (Wanted::Step, Value::Number(number)) if number.as_f64().is_some_and(|step| step > 0.0) => {
                Fate::Stays
            }
            (Wanted::Flag, Value::Bool(_)) | (Wanted::Anything, _) => Fate::Stays,
            (Wanted::Never, _) => Fate::Goes(SchemaFault::Unsupported(self.last().to_owned())),
            _ => wrong,
        })
    }

    fn below(&mut self, key: &str, schema: &mut Value, depth: usize) -> Result<(), SchemaFault> {
        let around = self.enter(key);
        self.schema(schema, depth + 1)?;
        self.place.truncate(around);
        Ok(())
    }

    fn pattern_map(&mut self, map: &mut Keywords, depth: usize) -> Result<Fate, SchemaFault> {
        let all = map.len();
        let patterns: Vec<String> = map.keys().cloned().collect();
        for pattern in patterns {
            if let Some(fault) = self.pattern(&pattern) {
                self.tell(fault);
                map.shift_remove(&pattern);
            }
        }
        for (pattern, part) in map.iter_mut() {
            self.below(pattern, part, depth)?;
        }
        Ok(if map.len() < all { Fate::Thinned } else { Fate::Stays })
    }

    fn dependencies(&mut self, kind: Wanted, map: &mut Keywords, depth: usize) -> Result<Fate, SchemaFault> {
        let keys: Vec<String> = map.keys().cloned().collect();
        for key in keys {
            let Some(part) = map.get_mut(&key) else { continue };
            let around = self.enter(&key);
            let fate = match part {
                Value::Array(list) => self.names(list),
                part if kind == Wanted::Dependencies => {
                    self.schema(part, depth + 1)?;
                    Fate::Stays
                }
                _ => Fate::Goes(self.broken(Wanted::Names.in_words())),
            };
            if let Fate::Goes(fault) = fate {
                map.shift_remove(&key);
                self.tell(fault);
            }
            self.place.truncate(around);
        }
        Ok(Fate::Stays)
    }

    fn names(&mut self, list: &mut Vec<Value>) -> Fate {
        if list.iter().all(Value::is_string) {
            once_each(list);
            return Fate::Stays;
        }
        Fate::Goes(self.broken(Wanted::Names.in_words()))
    }

    /// What is wrong with a pattern, if anything is.
    fn pattern(&mut self, pattern: &str) -> Option<SchemaFault> {
        self.tried += 1;
        if self.tried > MAX_PATTERNS {
            return Some(SchemaFault::Patterns);
        }
        (!self.patterns.compiles(pattern)).then(|| SchemaFault::Pattern(shortened(pattern, 80)))
    }

    fn reference(&mut self, reference: &mut String) -> Fate {
        let Some(steps) = steps(reference) else {
            let shown = shortened(reference, 80);
            let near = reference.starts_with('#');
            return Fate::Goes(if near { SchemaFault::Dangling(shown) } else { SchemaFault::Remote(shown) });
        };
        if self.rebased > 0 {
            return Fate::Goes(SchemaFault::Unsupported("$ref under an inner $id".into()));
        }
        *reference = canonical(&steps);
        self.references.insert(reference.clone());
        Fate::Stays
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

    fn tell(&mut self, fault: SchemaFault) {
        if self.faults.len() < MAX_TOLD && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }
}

/// Puts what older drafts and OpenAPI say into the words of the draft.
fn reword(keywords: &mut Keywords, draft: Draft) {
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

/// The drafts forbid to say a thing twice.
fn once_each(list: &mut Vec<Value>) {
    let mut seen = HashSet::with_capacity(list.len());
    list.retain(|name| seen.insert(name.clone()));
}

fn is_count(number: &serde_json::Number) -> bool {
    number.as_f64().is_some_and(|count| count >= 0.0 && count.fract() == 0.0)
}
