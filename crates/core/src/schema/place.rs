//! Positions in a schema's text: the targets of references, and the parts that apply to the same object.

use super::{MAX_DEPTH, MAX_SUBSCHEMAS};
use crate::json::{JsonCursor, JsonKind};
use crate::reference::steps;
use std::ops::Range;

/// Maximum number of bytes read in search of one schema's parts; several references may lead to the same part.
const MAX_READ: usize = 32 * 1024 * 1024;

/// The target of a reference within the schema: `#` or `#/a/pointer`.
pub(crate) fn resolve(text: &str, reference: &str) -> Option<Range<usize>> {
    let mut here = JsonCursor::new(text, 0).skip();
    for step in steps(reference)? {
        let mut cursor = JsonCursor::new(text, here.start);
        here = match cursor.kind() {
            JsonKind::Object => cursor.member_spans().into_iter().rev().find(|spot| spot.key == step)?.value,
            JsonKind::Array => cursor.element_ranges().get(step.parse::<usize>().ok()?)?.clone(),
            _ => return None,
        };
    }
    Some(here)
}

/// The reference with these steps, in a spelling that every implementation accepts.
pub(super) fn canonical(steps: &[String]) -> String {
    let mut reference = String::from("#");
    for step in steps {
        reference.push('/');
        for byte in step.replace('~', "~0").replace('/', "~1").bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~$".contains(&byte) {
                reference.push(char::from(byte));
            } else {
                reference.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    reference
}

/// Whether all parts were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SchemaCompleteness {
    /// All parts were found.
    Complete,
    /// A reference cannot be resolved.
    Unresolved,
    /// There were too many parts, or they nested too deep.
    Truncated,
}

/// The parts of a schema that apply to the same object as its root, the root first: the targets of composition,
/// conditions and references, and nothing deeper.
pub(crate) fn in_place(text: &str) -> (Vec<Range<usize>>, SchemaCompleteness) {
    let mut search =
        InPlaceSearch { text, found: Vec::new(), left: MAX_READ, completeness: SchemaCompleteness::Complete };
    search.part(JsonCursor::new(text, 0).skip(), 0);
    (search.found, search.completeness)
}

struct InPlaceSearch<'t> {
    text: &'t str,
    found: Vec<Range<usize>>,
    /// Number of bytes that may still be read.
    left: usize,
    completeness: SchemaCompleteness,
}

impl InPlaceSearch<'_> {
    fn part(&mut self, schema: Range<usize>, depth: usize) {
        if self.found.contains(&schema) {
            return;
        }
        let mut cursor = JsonCursor::new(self.text, schema.start);
        if cursor.kind() != JsonKind::Object {
            return;
        }
        if depth > MAX_DEPTH || self.found.len() >= MAX_SUBSCHEMAS || !self.charge(schema.len()) {
            self.completeness = SchemaCompleteness::Truncated;
            return;
        }
        self.found.push(schema);
        for spot in cursor.member_spans() {
            let mut value = JsonCursor::new(self.text, spot.value.start);
            match (&*spot.key, value.kind()) {
                ("allOf" | "anyOf" | "oneOf", JsonKind::Array) => {
                    value.element_ranges().into_iter().for_each(|part| self.part(part, depth + 1));
                }
                ("if" | "then" | "else", JsonKind::Object) => self.part(spot.value, depth + 1),
                ("dependentSchemas" | "dependencies", JsonKind::Object) => {
                    value.member_spans().into_iter().for_each(|part| self.part(part.value, depth + 1));
                }
                ("$ref", JsonKind::Text) => self.reference(&value.text(), depth),
                ("$ref" | "$dynamicRef" | "$recursiveRef", _) => {
                    self.completeness = self.completeness.max(SchemaCompleteness::Unresolved)
                }
                _ => {}
            }
        }
    }

    fn reference(&mut self, reference: &str, depth: usize) {
        if !self.charge(self.text.len()) {
            self.completeness = SchemaCompleteness::Truncated;
            return;
        }
        match resolve(self.text, reference) {
            Some(target) => self.part(target, depth + 1),
            None => self.completeness = self.completeness.max(SchemaCompleteness::Unresolved),
        }
    }

    fn charge(&mut self, bytes: usize) -> bool {
        let enough = bytes <= self.left;
        self.left = self.left.saturating_sub(bytes);
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_to_positions() {
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
    fn only_parts_that_apply_to_the_root_are_in_place() {
        let text = r##"{"$ref":"#/$defs/a","properties":{"p":{"allOf":[{"no":1}]}},"anyOf":[{"b":1},{"$ref":"#"}],
            "dependentSchemas":{"k":{"c":1}},"$defs":{"a":{"if":{"d":1}},"unused":{"no":1}}}"##;
        let found: Vec<&str> = in_place(text).0.into_iter().skip(1).map(|range| &text[range]).collect();
        assert_eq!(
            found,
            [r#"{"if":{"d":1}}"#, r#"{"d":1}"#, r#"{"b":1}"#, r##"{"$ref":"#"}"##, r#"{"c":1}"#]
        );
    }
}
