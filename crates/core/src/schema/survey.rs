//! The check at admission: for most schemas one pass over the text shows that all of it can be checked.

use super::checkable::checkable;
use super::coverage::Coverage;
use super::keyword::{KeywordValue, TYPES, keyword_value};
use super::pattern::Patterns;
use super::{MAX_BYTES, MAX_DEPTH, MAX_PATTERNS, MAX_SUBSCHEMAS};
use crate::json::{JsonCursor, JsonKind, RawJson};

/// Determines how much of a schema will be checked when its tool is called.
pub fn survey(schema: &RawJson, patterns: &mut Patterns) -> Coverage {
    let text = schema.as_str();
    let mut pass = SurveyPass { patterns, subschemas: 0, tried: 0 };
    if text.len() <= MAX_BYTES && pass.schema(&mut JsonCursor::new(text, 0), 0).is_ok() {
        return Coverage::Whole;
    }
    checkable(schema, patterns).map_or_else(Coverage::Nothing, |checkable| checkable.coverage)
}

/// The schema has a fault, or needs to be parsed into a tree: a full analysis is needed.
struct NeedsFullCheck;

struct SurveyPass<'p> {
    patterns: &'p mut Patterns,
    subschemas: usize,
    tried: usize,
}

impl SurveyPass<'_> {
    fn schema(&mut self, cursor: &mut JsonCursor<'_>, depth: usize) -> Result<(), NeedsFullCheck> {
        self.subschemas += 1;
        if self.subschemas > MAX_SUBSCHEMAS || depth > MAX_DEPTH {
            return Err(NeedsFullCheck);
        }
        match cursor.kind() {
            JsonKind::Object => {}
            JsonKind::Boolean | JsonKind::Null => return skip_value(cursor),
            _ => return Err(NeedsFullCheck),
        }
        cursor.members(|cursor, keyword| match keyword_value(&keyword) {
            Some(_) if keyword.starts_with("unevaluated") => Err(NeedsFullCheck),
            Some(keyword_value) => self.keyword(cursor, keyword_value, depth),
            None => skip_value(cursor),
        })
    }

    fn keyword(
        &mut self,
        cursor: &mut JsonCursor<'_>,
        keyword_value: KeywordValue,
        depth: usize,
    ) -> Result<(), NeedsFullCheck> {
        match (keyword_value, cursor.kind()) {
            (KeywordValue::Unsupported | KeywordValue::Reference, _)
            | (KeywordValue::Types, JsonKind::Null) => Err(NeedsFullCheck),
            (KeywordValue::Anything, _) | (_, JsonKind::Null) => skip_value(cursor),
            (KeywordValue::Schema | KeywordValue::SchemaOrSchemas, JsonKind::Object | JsonKind::Boolean) => {
                self.schema(cursor, depth + 1)
            }
            (KeywordValue::Schemas | KeywordValue::SchemaOrSchemas, JsonKind::Array) => {
                at_least_one(cursor, |cursor| self.schema(cursor, depth + 1))
            }
            (KeywordValue::SchemaMap, JsonKind::Object) => {
                cursor.members(|cursor, _| self.schema(cursor, depth + 1))
            }
            (KeywordValue::PatternMap, JsonKind::Object) => cursor.members(|cursor, pattern| {
                self.pattern(&pattern)?;
                self.schema(cursor, depth + 1)
            }),
            (KeywordValue::Dependencies | KeywordValue::NameMap, JsonKind::Object) => {
                cursor.members(|cursor, _| match cursor.kind() {
                    JsonKind::Array => cursor.elements(name),
                    _ if keyword_value == KeywordValue::Dependencies => self.schema(cursor, depth + 1),
                    _ => Err(NeedsFullCheck),
                })
            }
            (KeywordValue::Names, JsonKind::Array) => cursor.elements(name),
            (KeywordValue::Types, JsonKind::Array) => at_least_one(cursor, type_name),
            (KeywordValue::Types, JsonKind::Text) => type_name(cursor),
            (KeywordValue::Values, JsonKind::Array) => at_least_one(cursor, skip_value),
            (KeywordValue::Pattern, JsonKind::Text) => self.pattern(&cursor.text()),
            (KeywordValue::Number | KeywordValue::Limit, JsonKind::Number)
            | (KeywordValue::Flag | KeywordValue::Limit, JsonKind::Boolean) => skip_value(cursor),
            (KeywordValue::Count | KeywordValue::Step, JsonKind::Number) => {
                let digits = cursor.rest().bytes().take_while(u8::is_ascii_digit).count();
                let zero = cursor.rest().starts_with('0');
                let ends = !matches!(cursor.rest().as_bytes().get(digits), Some(b'.' | b'e' | b'E'));
                if digits == 0 || !ends || (zero && keyword_value == KeywordValue::Step) {
                    return Err(NeedsFullCheck);
                }
                skip_value(cursor)
            }
            _ => Err(NeedsFullCheck),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), NeedsFullCheck> {
        self.tried += 1;
        if self.tried <= MAX_PATTERNS && self.patterns.compiles(pattern) {
            Ok(())
        } else {
            Err(NeedsFullCheck)
        }
    }
}

/// Skips a value of any kind.
fn skip_value(cursor: &mut JsonCursor<'_>) -> Result<(), NeedsFullCheck> {
    cursor.skip();
    Ok(())
}

fn at_least_one(
    cursor: &mut JsonCursor<'_>,
    mut each: impl FnMut(&mut JsonCursor<'_>) -> Result<(), NeedsFullCheck>,
) -> Result<(), NeedsFullCheck> {
    let mut any = false;
    cursor.elements(|cursor| {
        any = true;
        each(cursor)
    })?;
    if any { Ok(()) } else { Err(NeedsFullCheck) }
}

fn name(cursor: &mut JsonCursor<'_>) -> Result<(), NeedsFullCheck> {
    if cursor.kind() == JsonKind::Text { skip_value(cursor) } else { Err(NeedsFullCheck) }
}

fn type_name(cursor: &mut JsonCursor<'_>) -> Result<(), NeedsFullCheck> {
    if cursor.kind() == JsonKind::Text && TYPES.contains(&&*cursor.text()) {
        Ok(())
    } else {
        Err(NeedsFullCheck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(text: &str) -> String {
        let schema = RawJson::parse(text.to_owned()).expect("JSON");
        let found = survey(&schema, &mut Patterns::default());
        let message = |fault: &super::super::SchemaFault| fault.to_string().replace("its schema ", "");
        match found {
            Coverage::Whole => "whole".into(),
            Coverage::Part(faults) => faults.iter().map(message).collect::<Vec<_>>().join("; "),
            Coverage::Nothing(fault) => format!("NOTHING: {}", message(&fault)),
        }
    }

    #[test]
    fn unchecked_keywords_are_reported_with_their_position() {
        let cases = [
            (r#"{"type":"object","properties":{"a":{"type":["string","null"],"default":{}}}}"#, "whole"),
            (r#"{"properties":{"a":true,"b":{"items":[{},{}]},"c":{"x-own":[{"type":7}]}}}"#, "whole"),
            (r##"{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#"}}}}"##, "whole"),
            (r#"{"exclusiveMinimum":true,"minimum":1}"#, "whole"),
            (r#"{"properties":null,"required":null,"items":[],"description":7,"nullable":true}"#, "whole"),
            (r#"{"properties":{"a":null,"id":{"type":"string"},"$ref":{"type":"string"}}}"#, "whole"),
            (r#"{"properties":[]}"#, "whole"),
            (r#"{"type":"objekt"}"#, "is broken: `type` must be a type's name"),
            (r#"{"required":true}"#, "is broken: `required` must be a list of names"),
            (
                r#"{"properties":{"a":{"required":true}}}"#,
                "is broken: `properties/a/required` must be a list of names",
            ),
            (
                r#"{"properties":{"a":"string","b":{"minLength":-1},"c":{"multipleOf":0},"d":{"enum":[]},"e":{"anyOf":[]}}}"#,
                "is broken: `properties/a` must be a schema: an object, or true or false; \
                is broken: `properties/b/minLength` must be a whole number, 0 or greater; \
                is broken: `properties/c/multipleOf` must be a number greater than 0; \
                is broken: `properties/d/enum` must be a list of at least one value",
            ),
            (
                r#"{"properties":{"a":{"pattern":"^(?!x)[a-z]+$"},"b":{"pattern":"("}}}"#,
                "has a pattern that cannot be checked in bounded time: `^(?!x)[a-z]+$`; \
                has a pattern that cannot be checked in bounded time: `(`",
            ),
            (
                r#"{"properties":{"a":{"pattern":"(\\w{1,200}){1,20}q"}}}"#,
                r"has a pattern that cannot be checked in bounded time: `(\w{1,200}){1,20}q`",
            ),
            (
                r#"{"items":{"$ref":"file:///etc/passwd"}}"#,
                "refers to `file:///etc/passwd`; only references within the schema (`#/…`) are followed",
            ),
            (r##"{"$ref":"#/$defs/no"}"##, "refers to `#/$defs/no`, which does not exist"),
            (r##"{"$ref":"#anchor"}"##, "refers to `#anchor`, which does not exist"),
            (
                r##"{"$ref":"#/enum/0","enum":[{"type":"string"}]}"##,
                "refers to `#/enum/0`, which does not exist",
            ),
            (r##"{"$dynamicRef":"#x"}"##, "uses `$dynamicRef`, which is not supported"),
            (
                r##"{"properties":{"a":{"$id":"x","items":{"$ref":"#/a"}}}}"##,
                "uses `$ref under an inner $id`, which is not supported",
            ),
            (r##"{"allOf":[{"$ref":"#"}]}"##, "NOTHING: refers to itself endlessly"),
        ];
        for (text, expected) in cases {
            assert_eq!(coverage(text), expected, "{text}");
        }
    }

    #[test]
    fn exponential_schemas_are_not_checked() {
        let levels: Vec<String> = (0..30)
            .map(|n| {
                let next = n + 1;
                format!(r##""l{n}":{{"anyOf":[{{"$ref":"#/$defs/l{next}"}},{{"$ref":"#/$defs/l{next}"}}]}}"##)
            })
            .collect();
        let doubling = format!(
            r##"{{"$ref":"#/$defs/l0","$defs":{{{},"l30":{{"type":"string"}}}}}}"##,
            levels.join(",")
        );
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(40), "}".repeat(40));
        let many: Vec<String> = (0..MAX_SUBSCHEMAS).map(|n| format!(r#""p{n}":{{}}"#)).collect();
        let unevaluated =
            format!("{}{{}}{}", r#"{"unevaluatedProperties":false,"allOf":["#.repeat(20), "]}".repeat(20));
        let cases = [
            (doubling, "NOTHING: branches too often to be checked in reasonable time"),
            (deep, "NOTHING: nests deeper than 32"),
            (format!(r#"{{"properties":{{{}}}}}"#, many.join(",")), "NOTHING: has more than 1000 subschemas"),
            (
                format!(r#"{{"description":"{}"}}"#, "x".repeat(140_000)),
                "NOTHING: has 140018 bytes, over the limit of 131072",
            ),
            (unevaluated, "NOTHING: branches too often to be checked in reasonable time"),
        ];
        for (text, expected) in cases {
            assert_eq!(coverage(&text), expected);
        }
    }
}
