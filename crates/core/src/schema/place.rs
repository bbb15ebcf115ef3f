//! Places in a schema's text: what a reference leads to, and which parts look at the same object.

use super::{MAX_DEPTH, MAX_SUBSCHEMAS};
use crate::cursor::{Cursor, Kind};
use crate::reference::steps;
use std::ops::Range;

/// How many bytes are read in search of one schema's parts; references may lead to the same ones often.
const MAX_READ: usize = 32 * 1024 * 1024;

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

/// The reference that goes through these keys, spelled so that every reader takes it for one.
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

/// Whether the parts that were found are all there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// They are.
    Whole,
    /// A reference leads to where nothing can be read.
    Unread,
    /// There were too many, or they stood too deep.
    Cut,
}

/// The parts of a schema that look at the same object as its root does, the root first: what composition,
/// conditions and references lead to, and nothing further in.
pub(crate) fn in_place(text: &str) -> (Vec<Range<usize>>, Extent) {
    let mut search = Search { text, found: Vec::new(), left: MAX_READ, extent: Extent::Whole };
    search.part(Cursor::new(text, 0).skip(), 0);
    (search.found, search.extent)
}

struct Search<'t> {
    text: &'t str,
    found: Vec<Range<usize>>,
    /// How many bytes may still be read.
    left: usize,
    extent: Extent,
}

impl Search<'_> {
    fn part(&mut self, schema: Range<usize>, depth: usize) {
        if self.found.contains(&schema) {
            return;
        }
        let mut cursor = Cursor::new(self.text, schema.start);
        if cursor.kind() != Kind::Object {
            return;
        }
        if depth > MAX_DEPTH || self.found.len() >= MAX_SUBSCHEMAS || !self.pay(schema.len()) {
            self.extent = Extent::Cut;
            return;
        }
        self.found.push(schema);
        for spot in cursor.spots() {
            let mut value = Cursor::new(self.text, spot.value.start);
            match (&*spot.key, value.kind()) {
                ("allOf" | "anyOf" | "oneOf", Kind::Array) => {
                    value.places().into_iter().for_each(|part| self.part(part, depth + 1));
                }
                ("if" | "then" | "else", Kind::Object) => self.part(spot.value, depth + 1),
                ("dependentSchemas" | "dependencies", Kind::Object) => {
                    value.spots().into_iter().for_each(|part| self.part(part.value, depth + 1));
                }
                ("$ref", Kind::Text) => self.reference(&value.text(), depth),
                ("$ref" | "$dynamicRef" | "$recursiveRef", _) => {
                    self.extent = self.extent.max(Extent::Unread)
                }
                _ => {}
            }
        }
    }

    fn reference(&mut self, reference: &str, depth: usize) {
        if !self.pay(self.text.len()) {
            self.extent = Extent::Cut;
            return;
        }
        match resolve(self.text, reference) {
            Some(target) => self.part(target, depth + 1),
            None => self.extent = self.extent.max(Extent::Unread),
        }
    }

    fn pay(&mut self, bytes: usize) -> bool {
        let enough = bytes <= self.left;
        self.left = self.left.saturating_sub(bytes);
        enough
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
        let found: Vec<&str> = in_place(text).0.into_iter().skip(1).map(|range| &text[range]).collect();
        assert_eq!(
            found,
            [r#"{"if":{"d":1}}"#, r#"{"d":1}"#, r#"{"b":1}"#, r##"{"$ref":"#"}"##, r#"{"c":1}"#]
        );
    }
}
