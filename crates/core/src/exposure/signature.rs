//! Signatures: a tool's name and typed parameters in one line.

use crate::catalog::Tool;
use crate::json::RawJson;
use crate::reference::{self, Targets};
use std::collections::{HashMap, HashSet};

/// The maximum length of a parameter name.
const MAX_NAME: usize = 64;
/// The maximum number of required parameters.
const MAX_REQUIRED: usize = 32;
/// The maximum length of a list of allowed values.
const MAX_VALUES: usize = 48;
/// The maximum nesting depth of a type.
const MAX_DEPTH: usize = 4;
/// The maximum number of references followed; many may lead to the same large part.
const MAX_REFERENCES: usize = 64;

/// The signature of a tool: required parameters first, then up to `most_optional` others. If some required ones are
/// left out, no optional ones are shown.
pub fn signature(tool: &Tool, most_optional: usize) -> String {
    let schema = tool.input_schema();
    let required: HashSet<String> =
        schema.member("required").and_then(|names| names.read().ok()).unwrap_or_default();
    let parameters = schema.member("properties").and_then(|all| all.members().ok()).unwrap_or_default();
    let (needed, optional): (Vec<_>, Vec<_>) =
        parameters.iter().partition(|parameter| required.contains(&*parameter.key));
    let mut types = Types::new(&schema);
    let mut parts: Vec<String> = needed
        .iter()
        .take(MAX_REQUIRED)
        .map(|parameter| format!("{}: {}", named(&parameter.key), types.kind(&parameter.value, 0)))
        .collect();
    let room = if needed.len() > MAX_REQUIRED { 0 } else { most_optional };
    for parameter in optional.iter().take(room) {
        parts.push(format!("{}?: {}", named(&parameter.key), types.kind(&parameter.value, 0)));
    }
    if parts.len() < parameters.len() {
        parts.push("…".into());
    }
    format!("{}({})", tool.exposed, parts.join(", "))
}

/// A text in one line, truncated between characters, with an ellipsis if something is missing.
pub fn cut(text: &str, most: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().nth(most).is_none() {
        return words;
    }
    let kept: String = words.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

fn named(name: &str) -> String {
    cut(name, MAX_NAME)
}

/// Short descriptions of the types in a schema.
struct Types<'a> {
    targets: Targets<'a>,
    /// The types of references, by target and depth.
    known: HashMap<(Vec<String>, usize), String>,
    references_left: usize,
}

impl<'a> Types<'a> {
    fn new(root: &'a RawJson) -> Self {
        Self { targets: Targets::new(root), known: HashMap::new(), references_left: MAX_REFERENCES }
    }

    /// The type of a value by its schema.
    fn kind(&mut self, schema: &RawJson, depth: usize) -> String {
        if depth >= MAX_DEPTH {
            return "any".into();
        }
        let [one_of, values, constant, reference, any_of, alternatives, items] =
            schema.pick(["type", "enum", "const", "$ref", "anyOf", "oneOf", "items"]);
        let part = |text: Option<&str>| text.map(|text| schema.share(text));
        if let Some(kind) = part(reference).and_then(|reference| self.referred(&reference, depth)) {
            return kind;
        }
        if let Some(values) = part(values).and_then(|values| values.elements().ok()) {
            let spelled = values.iter().map(RawJson::as_str).collect::<Vec<_>>().join("|");
            if !spelled.is_empty() && spelled.chars().count() <= MAX_VALUES {
                return cut(&spelled, MAX_VALUES);
            }
        }
        if let Some(constant) = constant {
            return cut(constant, MAX_VALUES);
        }
        if let Some(branches) = part(any_of.or(alternatives)).and_then(|branches| branches.elements().ok()) {
            return union(branches.iter().take(8).map(|branch| self.kind(branch, depth + 1)));
        }
        let Some(kinds) = part(one_of) else { return "any".into() };
        let items = part(items).filter(RawJson::is_object);
        match kinds.string() {
            Some(word) => self.worded(&word, items.as_ref(), depth),
            None => {
                let words: Vec<String> = kinds.read().unwrap_or_default();
                union(words.iter().take(8).map(|word| self.worded(word, items.as_ref(), depth)))
            }
        }
    }

    /// The type for a `type` keyword; an array includes the type of its items.
    fn worded(&mut self, word: &str, items: Option<&RawJson>, depth: usize) -> String {
        match (word, items) {
            ("array", Some(items)) => {
                let each = self.kind(items, depth + 1);
                if each.contains('|') { format!("({each})[]") } else { format!("{each}[]") }
            }
            ("array", None) => "any[]".into(),
            (word, _) => cut(word, MAX_NAME),
        }
    }

    /// The type that a reference within the same schema leads to.
    fn referred(&mut self, reference: &RawJson, depth: usize) -> Option<String> {
        let place = (reference::steps(&reference.string()?)?, depth);
        if let Some(kind) = self.known.get(&place) {
            return Some(kind.clone());
        }
        self.references_left = self.references_left.checked_sub(1)?;
        let target = self.targets.find(&place.0)?;
        let kind = self.kind(&target, depth + 1);
        self.known.insert(place, kind.clone());
        Some(kind)
    }
}

/// Several types as one, without `null`.
fn union(kinds: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in kinds.filter(|word| word != "null") {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    match words.len() {
        0 => "any".into(),
        1..=3 => words.join("|"),
        _ => format!("{}|…", words[..3].join("|")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;
    use std::sync::Arc;

    fn tool(schema: &str) -> Tool {
        let mut tool = Tool::bare(Arc::new(entry("s")), "t", "s_t");
        tool.definition =
            RawJson::parse(format!(r#"{{"name":"s_t","inputSchema":{schema}}}"#)).expect("a definition");
        tool
    }

    #[test]
    fn parameters_have_their_types() {
        let cases = [
            (r#"{"type":"object"}"#, "s_t()"),
            (
                r#"{"properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}"#,
                "s_t(a: string, b?: integer)",
            ),
            (r#"{"properties":{"a":{"enum":["x","y"]}}}"#, r#"s_t(a?: "x"|"y")"#),
            (
                r#"{"properties":{"a":{"type":"array","items":{"type":["string","null"]}}}}"#,
                "s_t(a?: string[])",
            ),
            (
                r#"{"properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}}}"#,
                "s_t(a?: (string|number)[])",
            ),
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object"}}}"##,
                "s_t(a?: object)",
            ),
            (r##"{"properties":{"a":{"$ref":"#/properties/a"}}}"##, "s_t(a?: any)"),
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/x/y/z/w"}},"$defs":{"x":{"y":{"z":{"type":"object","w":{"type":"number"}}}}}}"##,
                "s_t(a?: number)", // and not a part on the way to it
            ),
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/x~1y"},"b":{"$ref":"#/%24defs/%C3%A9~0"}},"$defs":{"x/y":{"type":"object"},"é~":{"type":"integer"}}}"##,
                "s_t(a?: object, b?: integer)",
            ),
            (
                r##"{"properties":{"a":{"anyOf":[{"type":"boolean"}]},"b":{"$ref":"#/properties/a/anyOf/0"}}}"##,
                "s_t(a?: boolean, b?: boolean)",
            ),
            (r##"{"properties":{"a":{"$ref":"#/none","type":"string"}}}"##, "s_t(a?: string)"),
            (r#"{"properties":{"a\nb":true}}"#, "s_t(a b?: any)"),
            (r#"{"properties":7,"required":"x"}"#, "s_t()"),
        ];
        for (schema, expected) in cases {
            assert_eq!(signature(&tool(schema), 8), expected, "{schema}");
        }
        let many = tool(r#"{"properties":{"a":{},"b":{},"c":{}},"required":["c"]}"#);
        assert_eq!(signature(&many, 1), "s_t(c: any, a?: any, …)");
    }

    #[test]
    fn many_required_parameters_are_shortened() {
        let branches: Vec<String> = (0..8).map(|n| format!(r##"{{"$ref":"#/$defs/d{n}"}}"##)).collect();
        let branches = branches.join(",");
        let names: Vec<String> = (0..5_000).map(|n| format!("p{n:05}")).collect();
        let properties: Vec<String> =
            names.iter().map(|name| format!(r#""{name}":{{"anyOf":[{branches}]}}"#)).collect();
        let defs: Vec<String> = (0..5_000).map(|n| format!(r#""d{n}":{{"oneOf":[{branches}]}}"#)).collect();
        let (properties, defs) = (properties.join(","), defs.join(","));
        let schema =
            format!(r#"{{"required":{names:?},"properties":{{"o":true,{properties}}},"$defs":{{{defs}}}}}"#);
        let tool = tool(&schema);
        let times = (0..3).map(|_| {
            let start = std::time::Instant::now();
            let shown = signature(&tool, 8);
            assert!(shown.starts_with("s_t(p00000: any, ") && shown.ends_with("p00031: any, …)"), "{shown}");
            start.elapsed()
        });
        let least = times.min().expect("three"); // A busy machine is slow now and then.
        assert!(least.as_millis() < 1000, "{least:?}");
    }

    #[test]
    fn texts_are_truncated_between_characters() {
        let cases = [
            ("größe", 5, "größe"),
            ("größer", 5, "größ…"),
            ("a  b\nc", 9, "a b c"),
            ("ab cd", 4, "ab…"),
            ("", 3, ""),
        ];
        for (text, most, expected) in cases {
            assert_eq!(cut(text, most), expected, "{text:?}");
        }
    }
}
