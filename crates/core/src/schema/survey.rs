//! The check at admission: one pass over a schema's text, no tree unless it has references.

use super::fault::{SchemaFault, shortened};
use super::{MAX_BYTES, MAX_DEPTH, MAX_PATTERN_BYTES, MAX_SUBSCHEMAS, graph};
use crate::cursor::{Cursor, Kind};
use crate::json::RawJson;
use std::collections::HashMap;

/// How many patterns are remembered as tried.
const KNOWN_PATTERNS: usize = 1024;
/// Each `unevaluated…` may make the compiler look twice at all that stands below it.
const MAX_UNEVALUATED: usize = 6;

/// Patterns that have been tried, so that a catalog full of the same ones compiles each once.
#[derive(Debug, Default)]
pub struct Patterns(HashMap<Box<str>, bool>);

impl Patterns {
    fn compiles(&mut self, pattern: &str) -> bool {
        if let Some(known) = self.0.get(pattern) {
            return *known;
        }
        let schema = serde_json::json!({ "pattern": pattern });
        let compiles = options().build(&schema).is_ok();
        if self.0.len() < KNOWN_PATTERNS {
            self.0.insert(pattern.into(), compiles);
        }
        compiles
    }
}

/// How every schema is compiled: nothing is fetched, no pattern can run away, formats are notes.
pub(super) fn options() -> jsonschema::ValidationOptions<'static> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
    jsonschema::options().offline().should_validate_formats(false).with_pattern_options(patterns)
}

/// Whether a pattern looks around or back. The engine that cannot run away cannot do that, so such a
/// pattern is left to the tool's server.
pub(super) fn looks_around(pattern: &str) -> bool {
    let bytes = pattern.as_bytes();
    let back = |pair: &[u8]| pair[0] == b'\\' && (matches!(pair[1], b'1'..=b'9') || pair[1] == b'k');
    ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|mark| pattern.contains(mark)) || bytes.windows(2).any(back)
}

/// Checks that a schema is sound and can be compiled and applied within bounds.
pub fn check(schema: &RawJson, patterns: &mut Patterns) -> Result<(), SchemaFault> {
    let text = schema.as_str();
    if text.len() > MAX_BYTES {
        return Err(SchemaFault::TooLarge(text.len()));
    }
    let era = if text.contains("draft-04") { Bounds::Flags } else { Bounds::Numbers };
    let mut survey = Survey { patterns, bounds: era, subschemas: 0, unevaluated: 0, references: 0, ids: 0 };
    survey.schema(&mut Cursor::new(text, 0), 0)?;
    if survey.references > 0 {
        if survey.ids > 0 {
            // An inner `$id` changes what references mean.
            return Err(SchemaFault::Unsupported("$id inside the schema"));
        }
        graph::check(&schema.read().map_err(|error| SchemaFault::Uncompiled(error.0))?)?;
    }
    Ok(())
}

/// What `exclusiveMinimum` and `exclusiveMaximum` are.
#[derive(Clone, Copy, PartialEq)]
enum Bounds {
    Numbers,
    /// In draft 04.
    Flags,
}

struct Survey<'p> {
    patterns: &'p mut Patterns,
    bounds: Bounds,
    subschemas: usize,
    unevaluated: usize,
    references: usize,
    ids: usize,
}

/// What a keyword's value must be.
#[derive(Clone, Copy)]
enum Shape {
    Schema,
    Schemas,
    SchemaOrSchemas,
    SchemaMap,
    PatternMap,
    /// Schemas or lists of names by key.
    Dependencies,
    NameMap,
    Names,
    Types,
    Values,
    Text,
    Pattern,
    Reference,
    Count,
    Number,
    Limit,
    Flag,
}

fn shape_of(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        "additionalProperties"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "additionalItems"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => Shape::Schema,
        "items" => Shape::SchemaOrSchemas,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Shape::Schemas,
        "properties" | "$defs" | "definitions" | "dependentSchemas" => Shape::SchemaMap,
        "patternProperties" => Shape::PatternMap,
        "dependencies" => Shape::Dependencies,
        "dependentRequired" => Shape::NameMap,
        "required" => Shape::Names,
        "type" => Shape::Types,
        "enum" => Shape::Values,
        "pattern" => Shape::Pattern,
        "$ref" => Shape::Reference,
        "$schema" | "$id" | "$anchor" | "$comment" | "title" | "description" | "format" => Shape::Text,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => Shape::Count,
        "minimum" | "maximum" | "multipleOf" => Shape::Number,
        "exclusiveMinimum" | "exclusiveMaximum" => Shape::Limit,
        "uniqueItems" => Shape::Flag,
        _ => return None,
    })
}

impl Survey<'_> {
    fn schema(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), SchemaFault> {
        self.subschemas += 1;
        if self.subschemas > MAX_SUBSCHEMAS {
            return Err(SchemaFault::TooMany);
        }
        if depth > MAX_DEPTH {
            return Err(SchemaFault::TooDeep);
        }
        match cursor.kind() {
            Kind::Object => {}
            Kind::Boolean if depth > 0 => return pass_over(cursor),
            _ => return Err(wrong("a schema: an object, or true or false")),
        }
        cursor.members(|cursor, keyword| {
            match &*keyword {
                "unevaluatedProperties" | "unevaluatedItems" => self.unevaluated += 1,
                "$dynamicRef" => return Err(SchemaFault::Unsupported("$dynamicRef")),
                "$recursiveRef" => return Err(SchemaFault::Unsupported("$recursiveRef")),
                "$id" | "id" if depth > 0 && cursor.kind() == Kind::Text => self.ids += 1,
                _ => {}
            }
            if self.unevaluated > MAX_UNEVALUATED {
                return Err(SchemaFault::Branching);
            }
            match shape_of(&keyword) {
                Some(shape) => self.keyword(cursor, shape, depth).map_err(|fault| fault.under(&keyword)),
                None => pass_over(cursor),
            }
        })
    }

    fn keyword(&mut self, cursor: &mut Cursor<'_>, shape: Shape, depth: usize) -> Result<(), SchemaFault> {
        let kind = cursor.kind();
        match (shape, kind) {
            (Shape::Schema, _) => self.schema(cursor, depth + 1),
            (Shape::SchemaOrSchemas, Kind::Array) | (Shape::Schemas, Kind::Array) => {
                let mut count = 0;
                cursor.elements(|cursor| {
                    count += 1;
                    self.schema(cursor, depth + 1)
                })?;
                if count == 0 && matches!(shape, Shape::Schemas) {
                    return Err(wrong("a list of at least one schema"));
                }
                Ok(())
            }
            (Shape::SchemaOrSchemas, _) => self.schema(cursor, depth + 1),
            (Shape::Schemas, _) => Err(wrong("a list of schemas")),
            (Shape::SchemaMap, Kind::Object) => cursor
                .members(|cursor, key| self.schema(cursor, depth + 1).map_err(|fault| fault.under(&key))),
            (Shape::PatternMap, Kind::Object) => cursor.members(|cursor, pattern| {
                self.pattern(&pattern)?;
                if looks_around(&pattern) {
                    return Err(SchemaFault::Unsupported("look-around in patternProperties"));
                }
                self.schema(cursor, depth + 1).map_err(|fault| fault.under(&pattern))
            }),
            (Shape::SchemaMap | Shape::PatternMap, _) => Err(wrong("an object of schemas")),
            (Shape::Dependencies, Kind::Object) => cursor.members(|cursor, _| match cursor.kind() {
                Kind::Array => names(cursor),
                _ => self.schema(cursor, depth + 1),
            }),
            (Shape::Dependencies, _) => Err(wrong("an object")),
            (Shape::NameMap, Kind::Object) => cursor.members(|cursor, _| names(cursor)),
            (Shape::NameMap, _) => Err(wrong("an object of lists of names")),
            (Shape::Names, _) => names(cursor),
            (Shape::Types, Kind::Array) => cursor.elements(|cursor| type_name(cursor)),
            (Shape::Types, _) => type_name(cursor),
            (Shape::Values, Kind::Array) => pass_over(cursor),
            (Shape::Values, _) => Err(wrong("a list")),
            (Shape::Pattern, Kind::Text) => self.pattern(&cursor.text()),
            (Shape::Reference, Kind::Text) => self.reference(&cursor.text()),
            (Shape::Text, Kind::Text) => pass_over(cursor),
            (Shape::Text | Shape::Pattern | Shape::Reference, _) => Err(wrong("a string")),
            (Shape::Limit, Kind::Boolean) if self.bounds == Bounds::Flags => pass_over(cursor),
            (Shape::Number | Shape::Limit | Shape::Count, Kind::Number) => pass_over(cursor),
            (Shape::Number | Shape::Limit | Shape::Count, _) => Err(wrong("a number")),
            (Shape::Flag, Kind::Boolean) => pass_over(cursor),
            (Shape::Flag, _) => Err(wrong("true or false")),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), SchemaFault> {
        if looks_around(pattern) || self.patterns.compiles(pattern) {
            return Ok(());
        }
        Err(SchemaFault::Pattern(shortened(pattern, 80)))
    }

    fn reference(&mut self, reference: &str) -> Result<(), SchemaFault> {
        self.references += 1;
        if reference == "#" || reference.starts_with("#/") {
            return Ok(());
        }
        Err(SchemaFault::Remote(shortened(reference, 80)))
    }
}

/// What stands there may be anything.
fn pass_over(cursor: &mut Cursor<'_>) -> Result<(), SchemaFault> {
    cursor.skip();
    Ok(())
}

fn wrong(expected: &'static str) -> SchemaFault {
    SchemaFault::Keyword { place: String::new(), expected }
}

fn names(cursor: &mut Cursor<'_>) -> Result<(), SchemaFault> {
    if cursor.kind() != Kind::Array {
        return Err(wrong("a list of names"));
    }
    cursor.elements(|cursor| match cursor.kind() {
        Kind::Text => pass_over(cursor),
        _ => Err(wrong("a list of names")),
    })
}

fn type_name(cursor: &mut Cursor<'_>) -> Result<(), SchemaFault> {
    let known = ["string", "number", "integer", "boolean", "object", "array", "null"];
    if cursor.kind() == Kind::Text && known.contains(&&*cursor.text()) {
        return Ok(());
    }
    Err(wrong("a type's name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> String {
        let schema = RawJson::parse(text.to_owned()).expect("JSON");
        check(&schema, &mut Patterns::default()).map_or_else(|fault| fault.to_string(), |()| "sound".into())
    }

    #[test]
    fn sound_schemas_pass_and_broken_ones_say_why() {
        let cases = [
            (r#"{"type":"object","properties":{"a":{"type":["string","null"],"default":{}}}}"#, "sound"),
            (r#"{"properties":{"a":true,"b":{"items":[{},{}]},"c":{"x-own":[{"type":7}]}}}"#, "sound"),
            (r##"{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#"}}}}"##, "sound"),
            (r#"{"properties":{"a":{"pattern":"^(?!x)[a-z]+$"}}}"#, "sound"),
            (r#"{"$schema":"http://json-schema.org/draft-04/schema#","exclusiveMinimum":true}"#, "sound"),
            (r#"{"exclusiveMinimum":true}"#, "its schema is broken: `exclusiveMinimum/` must be a number"),
            (r#"{"type":"objekt"}"#, "its schema is broken: `type/` must be a type's name"),
            (
                r#"{"properties":{"a":{"required":true}}}"#,
                "its schema is broken: `properties/a/required/` must be a list of names",
            ),
            (
                r#"{"properties":{"a":"string"}}"#,
                "its schema is broken: `properties/a/` must be a schema: an object, or true or false",
            ),
            (r#"{"properties":[]}"#, "its schema is broken: `properties/` must be an object of schemas"),
            (r#"{"anyOf":[]}"#, "its schema is broken: `anyOf/` must be a list of at least one schema"),
            (
                r#"{"properties":{"a":{"pattern":"("}}}"#,
                "its schema has a pattern that does not compile: `(`",
            ),
            (
                r#"{"properties":{"a":{"pattern":"(\\w{1,200}){1,20}q"}}}"#,
                r"its schema has a pattern that does not compile: `(\w{1,200}){1,20}q`",
            ),
            (
                r#"{"$ref":"http://x.example/s"}"#,
                "its schema refers to `http://x.example/s`; only references within the schema (`#/…`) are followed",
            ),
            (
                r#"{"items":{"$ref":"file:///etc/passwd"}}"#,
                "its schema refers to `file:///etc/passwd`; only references within the schema (`#/…`) are followed",
            ),
            (r##"{"$ref":"#/$defs/no"}"##, "its schema refers to `#/$defs/no`, which is not there"),
            (r##"{"allOf":[{"$ref":"#"}]}"##, "its schema refers to itself without end"),
            (r##"{"$dynamicRef":"#x"}"##, "its schema uses `$dynamicRef`, which is not supported"),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(text).replace("/`", "`"), expected.replace("/`", "`"), "{text}");
        }
    }

    #[test]
    fn bombs_are_left_out_at_once() {
        let levels: Vec<String> = (0..30)
            .map(|n| {
                format!(
                    r##""l{n}":{{"anyOf":[{{"$ref":"#/$defs/l{m}"}},{{"$ref":"#/$defs/l{m}"}}]}}"##,
                    m = n + 1
                )
            })
            .collect();
        let doubling = format!(
            r##"{{"$ref":"#/$defs/l0","$defs":{{{},"l30":{{"type":"string"}}}}}}"##,
            levels.join(",")
        );
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(40), "}".repeat(40));
        let many: Vec<String> = (0..600).map(|n| format!(r#""p{n}":{{}}"#)).collect();
        let unevaluated =
            format!("{}{{}}{}", r#"{"unevaluatedProperties":false,"allOf":["#.repeat(20), "]}".repeat(20));
        let cases = [
            (doubling, SchemaFault::Branching),
            (deep, SchemaFault::TooDeep),
            (format!(r#"{{"properties":{{{}}}}}"#, many.join(",")), SchemaFault::TooMany),
            (format!(r#"{{"description":"{}"}}"#, "x".repeat(70_000)), SchemaFault::TooLarge(70_018)),
            (unevaluated, SchemaFault::Branching),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(&text), expected.to_string());
        }
    }
}
