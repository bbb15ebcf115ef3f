//! A tool in one line: its name and its typed parameters, as a person would write them down.

use crate::catalog::Tool;
use crate::json::RawJson;
use std::collections::HashSet;

/// The longest name of a parameter that is shown.
const MAX_NAME: usize = 64;
/// The longest list of allowed values that is shown, in characters.
const MAX_VALUES: usize = 48;
/// How deep a type is looked into.
const MAX_DEPTH: usize = 4;

/// The signature of a tool: required parameters first, then as many optional ones as are wanted.
pub fn signature(tool: &Tool, most_optional: usize) -> String {
    let schema = tool.input_schema();
    let required: HashSet<String> =
        schema.member("required").and_then(|names| names.read().ok()).unwrap_or_default();
    let parameters = schema.member("properties").and_then(|all| all.members().ok()).unwrap_or_default();
    let (needed, optional): (Vec<_>, Vec<_>) =
        parameters.iter().partition(|parameter| required.contains(&*parameter.key));
    let mut parts: Vec<String> = needed
        .iter()
        .map(|parameter| format!("{}: {}", named(&parameter.key), kind(&parameter.value, &schema, 0)))
        .collect();
    for parameter in optional.iter().take(most_optional) {
        parts.push(format!("{}?: {}", named(&parameter.key), kind(&parameter.value, &schema, 0)));
    }
    if optional.len() > most_optional {
        parts.push("…".into());
    }
    format!("{}({})", tool.exposed, parts.join(", "))
}

/// A text in one line, cut between characters, with an ellipsis where something is missing.
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

/// The type of a value by its schema, in a word or a few.
fn kind(schema: &RawJson, root: &RawJson, depth: usize) -> String {
    if depth >= MAX_DEPTH {
        return "any".into();
    }
    let [one_of, values, constant, reference, any_of, alternatives, items] =
        schema.pick(["type", "enum", "const", "$ref", "anyOf", "oneOf", "items"]);
    let part = |text: Option<&str>| text.map(|text| schema.share(text));
    if let Some(target) = part(reference).and_then(|reference| refers_to(&reference, root)) {
        return kind(&target, root, depth + 1);
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
        return union(branches.iter().take(8).map(|branch| kind(branch, root, depth + 1)));
    }
    let Some(said) = part(one_of) else { return "any".into() };
    let of = |word: &str| match word {
        "array" => match part(items).filter(RawJson::is_object) {
            Some(items) => {
                let each = kind(&items, root, depth + 1);
                if each.contains('|') { format!("({each})[]") } else { format!("{each}[]") }
            }
            None => "any[]".into(),
        },
        word => cut(word, MAX_NAME),
    };
    match said.string() {
        Some(word) => of(&word),
        None => {
            let words: Vec<String> = said.read().unwrap_or_default();
            union(words.iter().take(8).map(|word| of(word)))
        }
    }
}

/// Several types as one; that a value may also be `null` says little.
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

/// What a reference within the same schema refers to.
fn refers_to(reference: &RawJson, root: &RawJson) -> Option<RawJson> {
    let path = reference.string()?;
    let names: Vec<&str> = path.strip_prefix("#/")?.split('/').take(MAX_DEPTH).collect();
    root.at(&names)
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
    fn texts_are_cut_between_characters() {
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
