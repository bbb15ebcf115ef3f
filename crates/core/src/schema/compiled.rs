//! A public schema, compiled: what a tool takes from its callers.

use super::explain::{MAX_OBJECTIONS, Objection, objection};
use super::fault::{SchemaFault, shortened};
use super::shape::Shape;
use super::survey::{looks_around, options};
use super::{cost, graph, unique};
use crate::json::RawJson;
use jsonschema::{Draft, Validator};
use serde_json::Value;

/// The schema of what callers may supply to a tool, ready to be asked.
#[derive(Debug)]
pub struct PublicSchema {
    shape: Shape,
    validator: Option<Validator>,
    /// The schema itself, kept where the cost of a check depends on the arguments.
    recursive: Option<Value>,
}

impl PublicSchema {
    /// Compiles a schema that was found sound.
    pub fn compile(schema: &RawJson) -> Result<Self, SchemaFault> {
        let text = schema.as_str();
        let shape = Shape::of(text);
        if shape.says_nothing {
            return Ok(Self { shape, validator: None, recursive: None });
        }
        let mut tree: Value = schema.read().map_err(|error| SchemaFault::Uncompiled(error.0))?;
        let draft = draft_of(&tree);
        if let Value::Object(keywords) = &mut tree {
            keywords.remove("$schema"); // The draft is chosen; its address must not be looked up.
            keywords.remove("$id");
        }
        leave_to_server(&mut tree);
        let refused = |error: jsonschema::ValidationError<'_>| {
            SchemaFault::Uncompiled(shortened(&error.masked().to_string(), 160))
        };
        let validator = options().with_draft(draft).build(&tree).map_err(refused)?;
        let recursive = graph::is_recursive(&tree).then_some(tree);
        Ok(Self { shape, validator: Some(validator), recursive })
    }

    /// Whether the schema names this argument.
    pub fn names(&self, key: &str) -> bool {
        self.shape.names(key)
    }

    /// Whether the schema has a place for this argument: by name, by pattern, or because any is welcome.
    pub fn takes(&self, key: &str) -> bool {
        self.shape.takes(key)
    }

    /// What the schema objects to in these arguments: nothing, or the first few things.
    pub fn objections(&self, arguments: &RawJson) -> Vec<Objection> {
        let Some(validator) = &self.validator else { return Vec::new() };
        let tree = match unique::read(arguments.as_bytes()) {
            Ok(tree) => tree,
            Err(error) => {
                return vec![whole(format!("they cannot be read: {}", shortened(&error.to_string(), 160)))];
            }
        };
        if self.recursive.as_ref().is_some_and(|schema| !cost::affordable(schema, &tree)) {
            return vec![whole(
                "they nest too deep to be checked against the tool's recursive schema".into(),
            )];
        }
        if validator.is_valid(&tree) {
            return Vec::new();
        }
        validator.iter_errors(&tree).take(MAX_OBJECTIONS).map(|error| objection(&error)).collect()
    }
}

fn whole(expected: String) -> Objection {
    Objection { pointer: String::new(), expected }
}

/// 2020-12 unless the schema says otherwise.
fn draft_of(tree: &Value) -> Draft {
    let named = tree.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let known = [
        ("draft-04", Draft::Draft4),
        ("draft-06", Draft::Draft6),
        ("draft-07", Draft::Draft7),
        ("2019-09", Draft::Draft201909),
    ];
    known.into_iter().find(|(mark, _)| named.contains(mark)).map_or(Draft::Draft202012, |(_, draft)| draft)
}

/// Takes out the patterns that only the tool's server can check.
fn leave_to_server(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("pattern").and_then(Value::as_str).is_some_and(looks_around) {
                map.shift_remove("pattern");
            }
            map.values_mut().for_each(leave_to_server);
        }
        Value::Array(list) => list.iter_mut().for_each(leave_to_server),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(schema: &str, arguments: &str) -> Vec<String> {
        let json = |text: &str| RawJson::parse(text.to_owned()).expect("JSON");
        let schema = PublicSchema::compile(&json(schema)).expect("compiles");
        schema.objections(&json(arguments)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn objections_name_the_place_and_what_was_expected() {
        let schema = r#"{"type":"object","required":["n","s"],"properties":{"n":{"type":"integer","minimum":1},
            "s":{"enum":["a","b"]},"l":{"type":"array","items":{"type":["string","null"]}},
            "m":{"anyOf":[{"type":"string"},{"type":"null"}]},"p":{"pattern":"^[a-z]+$"},
            "e":{"type":"string","pattern":"^(?!x)a"}}}"#;
        let cases = [
            (r#"{"n":1,"s":"a","e":"xx"}"#, vec![]),
            (r#"{"s":"a"}"#, vec![r#""n" is required"#]),
            (r#"{"n":"SECRET","s":"a"}"#, vec!["at `/n`: must be integer, but a string came"]),
            (r#"{"n":0,"s":"a"}"#, vec!["at `/n`: it is less than the minimum of 1"]),
            (r#"{"n":1,"s":"SECRET"}"#, vec![r#"at `/s`: must be one of ["a","b"]"#]),
            (r#"{"n":1,"s":"a","l":["x",7]}"#, vec!["at `/l/1`: must be null, string, but a number came"]),
            (
                r#"{"n":1,"s":"a","m":7}"#,
                vec!["at `/m`: must be string, but a number came, or must be null, but a number came"],
            ),
            (r#"{"n":1,"s":"a","p":"A"}"#, vec!["at `/p`: must match `^[a-z]+$`"]),
            (
                r#"{"n":1,"s":"a","x":{"y":1,"y":2}}"#,
                vec![r#"they cannot be read: the key "y" stands twice in one object at line 1 column 32"#],
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(said(schema, arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn both_drafts_are_spoken() {
        let tuple = r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"t":{"items":[{"type":"string"}]}}}"#;
        assert_eq!(said(tuple, r#"{"t":[1]}"#), ["at `/t/0`: must be string, but a number came"]);
        let newer = r#"{"properties":{"t":{"prefixItems":[{"type":"string"}]}}}"#;
        assert_eq!(said(newer, r#"{"t":[1]}"#), ["at `/t/0`: must be string, but a number came"]);
    }

    #[test]
    fn recursion_that_doubles_is_bounded_and_plain_recursion_is_not() {
        let doubling = r##"{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["c"]}]}"##;
        let nested =
            |depth: usize| format!("{}{{\"c\":1}}{}", "{\"c\":1,\"a\":".repeat(depth), "}".repeat(depth));
        assert_eq!(said(doubling, &nested(5)), Vec::<String>::new());
        assert!(said(doubling, &nested(60))[0].contains("nest too deep"));
        let tree = r##"{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"},"n":{"type":"integer"}}}"##;
        let deep = format!("{}{{}}{}", r#"{"left":"#.repeat(60), "}".repeat(60));
        assert_eq!(said(tree, &deep), Vec::<String>::new());
    }

    #[test]
    fn declared_arguments_are_found_through_composition_and_reference() {
        let json = |text: &str| RawJson::parse(text.to_owned()).expect("JSON");
        let cases = [
            (r#"{"properties":{"a":{}}}"#, "a", true),
            (r#"{"properties":{"a":{}}}"#, "b", false),
            (r#"{"properties":{}}"#, "b", false),
            (r#"{"type":"object"}"#, "b", true),
            (r#"{"additionalProperties":false}"#, "b", false),
            (r#"{"properties":{},"additionalProperties":true}"#, "b", true),
            (r#"{"properties":{},"additionalProperties":{"type":"string"}}"#, "b", true),
            (r#"{"patternProperties":{"^x-":{}}}"#, "x-1", true),
            (r#"{"patternProperties":{"^x-":{}}}"#, "y-1", false),
            (r##"{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"b":{}}}}}"##, "b", true),
            (r#"{"properties":{},"anyOf":[{"properties":{"b":{}}},{}]}"#, "b", true),
            (r#"{"properties":{"c":{"properties":{"b":{}}}}}"#, "b", false),
        ];
        for (schema, key, expected) in cases {
            let compiled = PublicSchema::compile(&json(schema)).expect("compiles");
            assert_eq!(compiled.takes(key), expected, "{schema} {key}");
        }
    }
}
