//! The look at admission: one pass over a schema's text tells of most that all of it can be checked.

use super::coverage::Coverage;
use super::keyword::{TYPES, Wanted, wanted};
use super::pattern::Patterns;
use super::sound::sound;
use super::{MAX_BYTES, MAX_DEPTH, MAX_PATTERNS, MAX_SUBSCHEMAS};
use crate::cursor::{Cursor, Kind};
use crate::json::RawJson;

/// Says how much of a schema will be checked when its tool is called.
pub fn survey(schema: &RawJson, patterns: &mut Patterns) -> Coverage {
    let text = schema.as_str();
    let mut look = Look { patterns, subschemas: 0, tried: 0 };
    if text.len() <= MAX_BYTES && look.schema(&mut Cursor::new(text, 0), 0).is_ok() {
        return Coverage::Whole;
    }
    sound(schema, patterns).map_or_else(Coverage::Nothing, |sound| sound.coverage)
}

/// Something is odd, or cannot be told without a tree: a second look is needed.
struct Odd;

struct Look<'p> {
    patterns: &'p mut Patterns,
    subschemas: usize,
    tried: usize,
}

impl Look<'_> {
    fn schema(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Odd> {
        self.subschemas += 1;
        if self.subschemas > MAX_SUBSCHEMAS || depth > MAX_DEPTH {
            return Err(Odd);
        }
        match cursor.kind() {
            Kind::Object => {}
            Kind::Boolean | Kind::Null => return pass_over(cursor),
            _ => return Err(Odd),
        }
        cursor.members(|cursor, keyword| match wanted(&keyword) {
            Some(_) if keyword.starts_with("unevaluated") => Err(Odd),
            Some(wanted) => self.keyword(cursor, wanted, depth),
            None => pass_over(cursor),
        })
    }

    fn keyword(&mut self, cursor: &mut Cursor<'_>, wanted: Wanted, depth: usize) -> Result<(), Odd> {
        match (wanted, cursor.kind()) {
            (Wanted::Never | Wanted::Reference, _) | (Wanted::Types, Kind::Null) => Err(Odd),
            (Wanted::Anything, _) | (_, Kind::Null) => pass_over(cursor),
            (Wanted::Schema | Wanted::SchemaOrSchemas, Kind::Object | Kind::Boolean) => {
                self.schema(cursor, depth + 1)
            }
            (Wanted::Schemas | Wanted::SchemaOrSchemas, Kind::Array) => {
                at_least_one(cursor, |cursor| self.schema(cursor, depth + 1))
            }
            (Wanted::SchemaMap, Kind::Object) => cursor.members(|cursor, _| self.schema(cursor, depth + 1)),
            (Wanted::PatternMap, Kind::Object) => cursor.members(|cursor, pattern| {
                self.pattern(&pattern)?;
                self.schema(cursor, depth + 1)
            }),
            (Wanted::Dependencies | Wanted::NameMap, Kind::Object) => {
                cursor.members(|cursor, _| match cursor.kind() {
                    Kind::Array => cursor.elements(name),
                    _ if wanted == Wanted::Dependencies => self.schema(cursor, depth + 1),
                    _ => Err(Odd),
                })
            }
            (Wanted::Names, Kind::Array) => cursor.elements(name),
            (Wanted::Types, Kind::Array) => at_least_one(cursor, type_name),
            (Wanted::Types, Kind::Text) => type_name(cursor),
            (Wanted::Values, Kind::Array) => at_least_one(cursor, pass_over),
            (Wanted::Pattern, Kind::Text) => self.pattern(&cursor.text()),
            (Wanted::Number | Wanted::Limit, Kind::Number)
            | (Wanted::Flag | Wanted::Limit, Kind::Boolean) => pass_over(cursor),
            (Wanted::Count | Wanted::Step, Kind::Number) => {
                let digits = cursor.rest().bytes().take_while(u8::is_ascii_digit).count();
                let nought = cursor.rest().starts_with('0');
                let ends = !matches!(cursor.rest().as_bytes().get(digits), Some(b'.' | b'e' | b'E'));
                if digits == 0 || !ends || (nought && wanted == Wanted::Step) {
                    return Err(Odd);
                }
                pass_over(cursor)
            }
            _ => Err(Odd),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), Odd> {
        self.tried += 1;
        if self.tried <= MAX_PATTERNS && self.patterns.compiles(pattern) { Ok(()) } else { Err(Odd) }
    }
}

/// What stands there may be anything.
fn pass_over(cursor: &mut Cursor<'_>) -> Result<(), Odd> {
    cursor.skip();
    Ok(())
}

fn at_least_one(
    cursor: &mut Cursor<'_>,
    mut each: impl FnMut(&mut Cursor<'_>) -> Result<(), Odd>,
) -> Result<(), Odd> {
    let mut any = false;
    cursor.elements(|cursor| {
        any = true;
        each(cursor)
    })?;
    if any { Ok(()) } else { Err(Odd) }
}

fn name(cursor: &mut Cursor<'_>) -> Result<(), Odd> {
    if cursor.kind() == Kind::Text { pass_over(cursor) } else { Err(Odd) }
}

fn type_name(cursor: &mut Cursor<'_>) -> Result<(), Odd> {
    if cursor.kind() == Kind::Text && TYPES.contains(&&*cursor.text()) { Ok(()) } else { Err(Odd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> String {
        let schema = RawJson::parse(text.to_owned()).expect("JSON");
        let found = survey(&schema, &mut Patterns::default());
        let said = |fault: &super::super::SchemaFault| fault.to_string().replace("its schema ", "");
        match found {
            Coverage::Whole => "whole".into(),
            Coverage::Part(faults) => faults.iter().map(said).collect::<Vec<_>>().join("; "),
            Coverage::Nothing(fault) => format!("NOTHING: {}", said(&fault)),
        }
    }

    #[test]
    fn what_is_not_checked_is_told_with_its_place() {
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
                is broken: `properties/b/minLength` must be a whole number, nought or more; \
                is broken: `properties/c/multipleOf` must be a number over nought; \
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
            (r##"{"$ref":"#/$defs/no"}"##, "refers to `#/$defs/no`, which is not there"),
            (r##"{"$ref":"#anchor"}"##, "refers to `#anchor`, which is not there"),
            (
                r##"{"$ref":"#/enum/0","enum":[{"type":"string"}]}"##,
                "refers to `#/enum/0`, which is not there",
            ),
            (r##"{"$dynamicRef":"#x"}"##, "uses `$dynamicRef`, which is not supported"),
            (
                r##"{"properties":{"a":{"$id":"x","items":{"$ref":"#/a"}}}}"##,
                "uses `$ref under an inner $id`, which is not supported",
            ),
            (r##"{"allOf":[{"$ref":"#"}]}"##, "NOTHING: refers to itself without end"),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(text), expected, "{text}");
        }
    }

    #[test]
    fn bombs_are_not_checked() {
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
            assert_eq!(verdict(&text), expected);
        }
    }
}
