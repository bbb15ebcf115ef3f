//! References within a schema (`#/a/pointer`): their steps and targets.

use crate::json::RawJson;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// No admitted definition nests deeper.
const MAX_STEPS: usize = 100;

/// The keys and indexes of a reference; `None` if it leads out of the schema, or deeper than any definition. A
/// reference is resolved completely or not at all, because its first steps lead to a different target.
pub(crate) fn steps(reference: &str) -> Option<Vec<String>> {
    let pointer = percent_decoded(reference.strip_prefix('#')?)?;
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let steps = pointer.strip_prefix('/')?.split('/');
    let is_within = steps.clone().nth(MAX_STEPS).is_none();
    is_within.then(|| steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// Decodes `%XX`; `None` if a sequence is incomplete.
fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

/// The target of a reference within a schema.
pub(crate) fn target<'a>(schema: &'a Value, reference: &str) -> Option<&'a Value> {
    steps(reference)?.iter().try_fold(schema, |here, step| match here {
        Value::Object(members) => members.get(step),
        Value::Array(elements) => elements.get(index(step)?),
        _ => None,
    })
}

/// An array index, in the only valid spelling of a pointer.
fn index(step: &str) -> Option<usize> {
    let is_spelled_so = step == "0" || !step.starts_with(['0', '+']);
    step.parse().ok().filter(|_| is_spelled_so)
}

/// Resolves references within a schema's text. Each object on the way is parsed once, however many references use it.
#[derive(Debug)]
pub(crate) struct Targets<'a> {
    schema: &'a RawJson,
    parts: HashMap<Vec<String>, HashMap<String, RawJson>>,
}

impl<'a> Targets<'a> {
    pub(crate) fn new(schema: &'a RawJson) -> Self {
        Self { schema, parts: HashMap::new() }
    }

    /// The value at the end of these steps.
    pub(crate) fn find(&mut self, steps: &[String]) -> Option<RawJson> {
        let mut here = self.schema.clone();
        for (depth, step) in steps.iter().enumerate() {
            let way = &steps[..depth];
            if !self.parts.contains_key(way) {
                self.parts.insert(way.to_vec(), parts(&here));
            }
            here = self.parts.get(way)?.get(step)?.clone();
        }
        Some(here)
    }
}

/// The members of an object or the elements of an array, by the step that leads to each.
fn parts(value: &RawJson) -> HashMap<String, RawJson> {
    if value.is_object() {
        let members = value.members().unwrap_or_default();
        return members.into_iter().map(|member| (member.key, member.value)).collect();
    }
    let elements = value.elements().unwrap_or_default();
    elements.into_iter().enumerate().map(|(index, element)| (index.to_string(), element)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_the_same_target_in_text_and_value() {
        let text = r#"{"$defs":{"a/b":1,"c~d":2,"é":3,"~1":4,"x":{"y":{"z":{"w":{"v":5}}}}},"anyOf":[6,{"k":7}],"a%b":8,"":9}"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        let raw = RawJson::parse(text).expect("JSON");
        let mut targets = Targets::new(&raw);
        let cases = [
            ("#", Some(text)),
            ("#/$defs/a~1b", Some("1")),
            ("#/$defs/c~0d", Some("2")),
            ("#/%24defs/%C3%A9", Some("3")),
            ("#/$defs/~01", Some("4")),
            ("#/$defs/x/y/z/w/v", Some("5")),
            ("#/$defs/x/y/z/w/none", None),
            ("#/anyOf/0", Some("6")),
            ("#/anyOf/1/k", Some("7")),
            ("#/anyOf/2", None),
            ("#/anyOf/01", None),
            ("#/anyOf/+1", None),
            ("#/anyOf/-", None),
            ("#/a%25b", Some("8")),
            ("#/", Some("9")),
            ("#/anyOf/0/deeper", None),
            ("#anchor", None),
            ("#/%ff", None),
            ("#/%zz", None),
            ("https://x.example/s#/anyOf", None),
            ("", None),
        ];
        for (reference, expected) in cases {
            let in_value = target(&value, reference).map(Value::to_string);
            assert_eq!(in_value.as_deref(), expected, "{reference}");
            let in_text = steps(reference).and_then(|steps| targets.find(&steps));
            assert_eq!(in_text.as_ref().map(RawJson::as_str), expected, "{reference}");
        }
    }

    #[test]
    fn a_reference_deeper_than_any_definition_is_refused() {
        let of = |depth: usize| format!("#{}", "/a".repeat(depth));
        assert_eq!(steps(&of(MAX_STEPS)).map(|steps| steps.len()), Some(MAX_STEPS));
        assert_eq!(steps(&of(MAX_STEPS + 1)), None);
    }
}
