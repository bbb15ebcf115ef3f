//! A compiled schema of the arguments that a tool takes from its callers.

use super::checkable::{CheckableSchema, checkable};
use super::coverage::Coverage;
use super::declared::DeclaredArguments;
use super::explain::{MAX_OBJECTIONS, Objection, objection};
use super::fast_path::FastPath;
use super::fault::{SchemaFault, shortened};
use super::pattern::{Patterns, options};
use super::{cost, graph, unique};
use crate::json::RawJson;
use jsonschema::Validator;
use serde_json::Value;

/// The compiled schema of the arguments that callers may supply to a tool.
#[derive(Debug)]
pub struct PublicSchema {
    declared: DeclaredArguments,
    /// Accepts most calls without a full check.
    fast_path: Option<FastPath>,
    validator: Option<Validator>,
    /// The schema itself, kept if the cost of a check depends on the arguments.
    recursive: Option<Value>,
    coverage: Coverage,
}

impl PublicSchema {
    /// Compiles a schema as far as it can be checked. The declared arguments are known in any case.
    pub fn compile(schema: &RawJson) -> Self {
        let declared = DeclaredArguments::of(schema.as_str());
        let unchecked = |declared, coverage| Self {
            declared,
            fast_path: None,
            validator: None,
            recursive: None,
            coverage,
        };
        if declared.has_no_constraints {
            return unchecked(declared, Coverage::Whole);
        }
        let CheckableSchema { tree, draft, coverage, refers } =
            match checkable(schema, &mut Patterns::default()) {
                Ok(checkable) => checkable,
                Err(fault) => return unchecked(declared, Coverage::Nothing(fault)),
            };
        match options().with_draft(draft).build(&tree) {
            Ok(validator) => {
                let fast_path = FastPath::of(&tree);
                let recursive = (refers && graph::is_recursive(&tree)).then_some(tree);
                Self { declared, fast_path, validator: Some(validator), recursive, coverage }
            }
            Err(error) => {
                let fault = SchemaFault::Uncompiled(shortened(&error.masked().to_string(), 160));
                unchecked(declared, Coverage::Nothing(fault))
            }
        }
    }

    /// How much of the schema is checked.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether the schema names this argument.
    pub fn names(&self, key: &str) -> bool {
        self.declared.names(key)
    }

    /// Whether the schema accepts an argument of this name: by name, by pattern, or because it accepts any.
    pub fn takes(&self, key: &str) -> bool {
        self.declared.takes(key)
    }

    /// The schema's objections to these arguments: none, or the first few.
    pub fn objections(&self, arguments: &RawJson) -> Vec<Objection> {
        let Some(validator) = &self.validator else { return Vec::new() };
        if self.fast_path.as_ref().is_some_and(|fast_path| fast_path.takes(arguments.as_str())) {
            return Vec::new();
        }
        let mut tree = match unique::read(arguments.as_bytes()) {
            Ok(tree) => tree,
            Err(error) => {
                return vec![whole(format!("they cannot be read: {}", shortened(&error.to_string(), 160)))];
            }
        };
        if self.recursive.as_ref().is_some_and(|schema| !cost::affordable(schema, &tree)) {
            // The server checks them as well, and knows how deep they may be.
            return Vec::new();
        }
        if validator.is_valid(&tree) {
            return Vec::new();
        }
        // Many clients send null for arguments that are not given, and servers accept it. It is sent unchanged.
        if let Some(members) = tree.as_object_mut() {
            members.retain(|_, value| !value.is_null());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn objections(schema: &str, arguments: &str) -> Vec<String> {
        let json = |text: &str| RawJson::parse(text.to_owned()).expect("JSON");
        let schema = PublicSchema::compile(&json(schema));
        schema.objections(&json(arguments)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn objections_name_the_position_and_the_expected_value() {
        let schema = r#"{"type":"object","required":["n","s"],"properties":{"n":{"type":"integer","minimum":1},
            "s":{"enum":["a","b"]},"l":{"type":"array","items":{"type":["string","null"]}},
            "m":{"anyOf":[{"type":"string"},{"type":"null"}]},"p":{"pattern":"^[a-z]+$"},
            "e":{"type":"string","pattern":"^(?!x)a"}}}"#;
        let cases = [
            (r#"{"n":1,"s":"a","e":"xx"}"#, vec![]),
            (r#"{"s":"a"}"#, vec![r#""n" is required"#]),
            (r#"{"n":"SECRET","s":"a"}"#, vec!["at `/n`: must be integer, but is a string"]),
            (r#"{"n":1,"s":"a","l":null,"p":null}"#, vec![]), // null counts as not given
            (r#"{"n":null,"s":"a"}"#, vec![r#""n" is required"#]),
            (r#"{"n":0,"s":"a"}"#, vec!["at `/n`: it is less than the minimum of 1"]),
            (r#"{"n":1,"s":"SECRET"}"#, vec![r#"at `/s`: must be one of ["a","b"]"#]),
            (r#"{"n":1,"s":"a","l":["x",7]}"#, vec!["at `/l/1`: must be null, string, but is a number"]),
            (
                r#"{"n":1,"s":"a","m":7}"#,
                vec!["at `/m`: must be string, but is a number, or must be null, but is a number"],
            ),
            (r#"{"n":1,"s":"a","p":"A"}"#, vec!["at `/p`: must match `^[a-z]+$`"]),
            (
                r#"{"n":1,"s":"a","x":{"y":1,"y":2}}"#,
                vec![r#"they cannot be read: the key "y" appears twice in one object at line 1 column 32"#],
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(objections(schema, arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn draft_7_and_2020_12_are_supported() {
        let tuple = r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"t":{"items":[{"type":"string"}]}}}"#;
        assert_eq!(objections(tuple, r#"{"t":[1]}"#), ["at `/t/0`: must be string, but is a number"]);
        let newer = r#"{"properties":{"t":{"prefixItems":[{"type":"string"}]}}}"#;
        assert_eq!(objections(newer, r#"{"t":[1]}"#), ["at `/t/0`: must be string, but is a number"]);
    }

    #[test]
    fn exponential_recursion_is_bounded_and_plain_recursion_is_checked() {
        let doubling = r##"{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["c"]}]}"##;
        let nested =
            |depth: usize| format!("{}{{\"c\":1}}{}", "{\"c\":1,\"a\":".repeat(depth), "}".repeat(depth));
        assert_eq!(objections(doubling, &nested(5)), Vec::<String>::new());
        assert_eq!(objections(doubling, &nested(60)), Vec::<String>::new(), "too expensive to check");
        let tree = r##"{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"},"n":{"type":"integer"}}}"##;
        let deep = format!("{}{{}}{}", r#"{"left":"#.repeat(60), "}".repeat(60));
        assert_eq!(objections(tree, &deep), Vec::<String>::new());
    }

    #[test]
    fn mistakes_forbid_nothing_and_the_rest_is_checked() {
        let integer = "must be integer, but is a string";
        let cases = [
            // (schema, arguments, objections)
            (
                r#"{"properties":{"a":{"type":"integer","required":true},"b":{"type":"int"}}}"#,
                r#"{"a":"x","b":[]}"#,
                format!("at `/a`: {integer}"),
            ),
            (
                r#"{"required":true,"properties":{"a":{"type":"integer"}}}"#,
                r#"{"a":"x"}"#,
                format!("at `/a`: {integer}"),
            ),
            (
                r#"{"properties":null,"type":"object","additionalProperties":{"type":"integer"}}"#,
                r#"{"a":"x"}"#,
                format!("at `/a`: {integer}"),
            ),
            (
                r#"{"properties":{"a":{"type":"string","nullable":true,"enum":["x"]}}}"#,
                r#"{"a":null}"#,
                String::new(),
            ),
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/d","nullable":true}},"$defs":{"d":{"type":"integer"}}}"##,
                r#"{"a":null}"#,
                String::new(),
            ),
            (
                r#"{"properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}"#,
                r#"{"a":1}"#,
                "at `/a`: it is less than or equal to the minimum of 1".into(),
            ),
            (
                r#"{"properties":{"a":{"items":[{"type":"integer"}],"additionalItems":false}}}"#,
                r#"{"a":["x"]}"#,
                format!("at `/a/0`: {integer}"),
            ),
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/no"},"b":{"$ref":"http://x.example/s"},"c":{"$ref":"#x"}}}"##,
                r#"{"a":1,"b":2,"c":3}"#,
                String::new(),
            ),
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/Box[int]"}},"$defs":{"Box[int]":{"type":"integer"}}}"##,
                r#"{"a":"x"}"#,
                format!("at `/a`: {integer}"),
            ),
            (r##"{"allOf":[{"$ref":"#"}],"required":["a"]}"##, "{}", String::new()),
            // Dropping part of a schema must not refuse more arguments.
            (r#"{"properties":{"a":{"not":{"pattern":"^(?=x)"}}}}"#, r#"{"a":"b"}"#, String::new()),
            (
                r#"{"properties":{"a":{"oneOf":[{"pattern":"^(?=x)"},{"type":"string"}]}}}"#,
                r#"{"a":"b"}"#,
                String::new(),
            ),
            (r#"{"properties":{"a":{"if":{"type":"strnig"},"then":false}}}"#, r#"{"a":"b"}"#, String::new()),
            (
                r#"{"properties":{"a":{"patternProperties":{"^(?!x)":{}},"additionalProperties":false}}}"#,
                r#"{"a":{"b":1}}"#,
                String::new(),
            ),
            (
                r#"{"properties":{"a":{"properties":[{"name":"b"}],"additionalProperties":false}}}"#,
                r#"{"a":{"b":1}}"#,
                String::new(),
            ),
            (r#"{"properties":{"a":{"prefixItems":{},"items":false}}}"#, r#"{"a":[1]}"#, String::new()),
            (
                r##"{"properties":{"a":{"$ref":"#/no","unevaluatedProperties":false}}}"##,
                r#"{"a":{"b":1}}"#,
                String::new(),
            ),
            (
                r##"{"properties":{"a":{"not":{"$ref":"#/$defs/d"}}},"$defs":{"d":{"type":"objekt"}}}"##,
                r#"{"a":1}"#,
                String::new(),
            ),
        ];
        for (schema, arguments, expected) in cases {
            assert_eq!(objections(schema, arguments).join("; "), expected, "{schema}");
        }
    }

    /// Compilers and validators follow references recursively: the longest chain fits into a small stack.
    #[test]
    fn the_longest_chain_of_references_is_followed() {
        let links: Vec<String> = (0..super::super::MAX_SUBSCHEMAS - 3)
            .map(|n| format!(r##""l{n}":{{"$ref":"#/$defs/l{}"}}"##, n + 1))
            .collect();
        let last = links.len();
        let schema = format!(
            r##"{{"properties":{{"a":{{"$ref":"#/$defs/l0"}}}},"$defs":{{{},"l{last}":{{"type":"integer"}}}}}}"##,
            links.join(",")
        );
        assert_eq!(objections(&schema, r#"{"a":"x"}"#), ["at `/a`: must be integer, but is a string"]);
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
            // A part that cannot be read may declare anything.
            (r##"{"$ref":"http://x.example/s","properties":{}}"##, "b", true),
            (r##"{"allOf":[{"$ref":"#/$defs/no"}],"properties":{}}"##, "b", true),
            (r##"{"$dynamicRef":"#x","properties":{}}"##, "b", true),
            (r#"{"patternProperties":{"^(?=x)":{}},"additionalProperties":false}"#, "b", true),
            (r#"{"properties":null}"#, "b", true),
            (r#"{"properties":{"a":{"type":"strnig"}},"required":true}"#, "b", false),
        ];
        for (schema, key, expected) in cases {
            let compiled = PublicSchema::compile(&json(schema));
            assert_eq!(compiled.takes(key), expected, "{schema} {key}");
        }
    }
}
