//! Places in a schema's text: what a reference leads to, and which parts look at the same object.

use super::{MAX_DEPTH, MAX_SUBSCHEMAS};
use crate::cursor::{Cursor, Kind};
use std::borrow::Cow;
use std::ops::Range;

/// Where a reference within the schema leads: `#` or `#/a/pointer`.
pub(crate) fn resolve(text: &str, reference: &str) -> Option<Range<usize>> {
    let mut here = Cursor::new(text, 0).skip();
    for step in steps(reference)? {
        let mut cursor = Cursor::new(text, here.start);
        here = match cursor.kind() {
            Kind::Object => cursor.spots().into_iter().rev().find(|spot| spot.key == step)?.value,
            Kind::Array => cursor.places().get(step.parse::<usize>().ok()?)?.clone(),
            _ => return None,
        };
    }
    Some(here)
}

/// The keys that a reference goes through; `None` when it is not one within the schema.
pub(super) fn steps(reference: &str) -> Option<Vec<String>> {
    let pointer = percent_decoded(reference.strip_prefix('#')?)?;
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let steps = pointer.strip_prefix('/')?.split('/');
    Some(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

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

/// The parts of a schema that look at the same object as its root does, the root first: what composition,
/// conditions and references lead to, and nothing further in.
pub(crate) fn in_place(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    gather(text, Cursor::new(text, 0).skip(), 0, &mut found);
    found
}

fn gather(text: &str, schema: Range<usize>, depth: usize, found: &mut Vec<Range<usize>>) {
    if depth > MAX_DEPTH || found.len() >= MAX_SUBSCHEMAS || found.contains(&schema) {
        return;
    }
    let mut cursor = Cursor::new(text, schema.start);
    if cursor.kind() != Kind::Object {
        return;
    }
    found.push(schema);
    for spot in cursor.spots() {
        let mut value = Cursor::new(text, spot.value.start);
        match (&*spot.key, value.kind()) {
            ("allOf" | "anyOf" | "oneOf", Kind::Array) => {
                value.places().into_iter().for_each(|part| gather(text, part, depth + 1, found));
            }
            ("if" | "then" | "else", Kind::Object) => gather(text, spot.value, depth + 1, found),
            ("dependentSchemas" | "dependencies", Kind::Object) => {
                value.spots().into_iter().for_each(|part| gather(text, part.value, depth + 1, found));
            }
            ("$ref", Kind::Text) => {
                if let Some(target) = resolve(text, &value.text()) {
                    gather(text, target, depth + 1, found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_to_places() {
        let text = r#"{"$defs":{"a/b":{"x":1},"é":[7,{"y":2}]}}"#;
        let cases = [
            ("#/$defs/a~1b", Some(r#"{"x":1}"#)),
            ("#/$defs/%C3%A9/1/y", Some("2")),
            ("#/%24defs/é/0", Some("7")),
            ("#", Some(text)),
            ("#/$defs/nothing", None),
            ("#anchor", None),
            ("http://x/y", None),
        ];
        for (reference, expected) in cases {
            assert_eq!(resolve(text, reference).map(|range| &text[range]), expected, "{reference}");
        }
    }

    #[test]
    fn only_what_looks_at_the_root_is_in_place() {
        let text = r##"{"$ref":"#/$defs/a","properties":{"p":{"allOf":[{"no":1}]}},"anyOf":[{"b":1},{"$ref":"#"}],
            "dependentSchemas":{"k":{"c":1}},"$defs":{"a":{"if":{"d":1}},"unused":{"no":1}}}"##;
        let found: Vec<&str> = in_place(text).into_iter().skip(1).map(|range| &text[range]).collect();
        assert_eq!(
            found,
            [r#"{"if":{"d":1}}"#, r#"{"d":1}"#, r#"{"b":1}"#, r##"{"$ref":"#"}"##, r#"{"c":1}"#]
        );
    }
}
