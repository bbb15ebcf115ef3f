//! Masking of known secret values in the strings of a JSON text.

use super::{KnownSecrets, MASK};
use crate::json::{ANY_DEPTH, RawJson, Token, TokenKind, Tokenizer, decode_lossily};
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

impl KnownSecrets {
    /// The JSON text with known secrets masked in its strings, however those are escaped; `None` if it contains none.
    /// Keys, numbers and base64 files stay unchanged, and every string without a secret keeps its bytes.
    pub fn mask_json(&self, json: &RawJson) -> Option<RawJson> {
        let text = json.as_str();
        let edits = self.edits(text);
        if edits.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for MaskEdit { place, masked } in edits {
            out.push_str(&text[from..place.start]);
            out.push_str(&serde_json::Value::from(masked).to_string());
            from = place.end;
        }
        out.push_str(&text[from..]);
        Some(RawJson::parse(out).unwrap_or_else(|_| RawJson::from_value(MASK)))
    }

    /// The strings to replace in a JSON text, in order. Servers choose the nesting depth of their results, so this takes
    /// one pass without recursion and without a limit on the depth.
    fn edits(&self, text: &str) -> Vec<MaskEdit> {
        let is_in_raw_text = self.are_in(text.as_bytes());
        if self.is_empty() || !(is_in_raw_text || self.may_be_escaped_in(text.as_bytes())) {
            return Vec::new();
        }
        let mut edits = Edits::default();
        let mut key: Cow<'_, str> = Cow::Borrowed("");
        let read = Tokenizer::read_all(text.as_bytes(), ANY_DEPTH, |token| {
            // Elements of an array have no key.
            match token.kind {
                TokenKind::ObjectStart | TokenKind::ArrayStart => {
                    edits.open.push(OpenContainer::default());
                    key = Cow::Borrowed("");
                }
                TokenKind::ObjectEnd | TokenKind::ArrayEnd => {
                    edits.close();
                    key = Cow::Borrowed("");
                }
                TokenKind::Key => key = decoded(text, &token),
                TokenKind::Text => {
                    let content = decoded(text, &token);
                    edits.note(&key, &content);
                    // A string without escapes contains no secret if the raw text contains none.
                    if (is_in_raw_text || token.escaped)
                        && let Cow::Owned(masked) = self.mask(&content)
                    {
                        edits.add(MaskEdit { place: token.range, masked }, file_place(&key, &content));
                    }
                }
                TokenKind::Number | TokenKind::True | TokenKind::False | TokenKind::Null => {}
            }
            ControlFlow::Continue(())
        });
        match read {
            Ok(()) => edits.in_order(),
            // Not JSON, which this type excludes: nothing of it is shown.
            Err(_) => vec![MaskEdit { place: 0..text.len(), masked: MASK.to_owned() }],
        }
    }
}

/// The decoded text of a key or string.
fn decoded<'a>(text: &'a str, token: &Token<'_>) -> Cow<'a, str> {
    let inside = &text[token.range.start + 1..token.range.end - 1];
    if token.escaped { decode_lossily(inside) } else { Cow::Borrowed(inside) }
}

/// A string to replace, by its position.
struct MaskEdit {
    place: Range<usize>,
    masked: String,
}

/// The strings to replace that were found so far.
#[derive(Default)]
struct Edits {
    found: Vec<MaskEdit>,
    /// The objects and arrays around the current position.
    open: Vec<OpenContainer>,
}

/// An object or array that is not closed yet.
#[derive(Default)]
struct OpenContainer {
    /// Whether one of its members so far marks its `data` as a file.
    is_file: bool,
    /// Strings to replace unless it turns out to be a file.
    unless_file: Vec<MaskEdit>,
}

impl Edits {
    fn close(&mut self) {
        let closed = self.open.pop().unwrap_or_default();
        if !closed.is_file {
            self.found.extend(closed.unless_file);
        }
    }

    /// Records whether a member marks its object as a file.
    fn note(&mut self, key: &str, content: &str) {
        let says_file = match key {
            "mimeType" | "mime" => true,
            "type" => matches!(content, "image" | "audio"),
            _ => false,
        };
        if let Some(parent) = self.open.last_mut() {
            parent.is_file |= says_file;
        }
    }

    fn add(&mut self, edit: MaskEdit, place: FilePlace) {
        match (place, self.open.last_mut()) {
            (FilePlace::Always, _) => {}
            (FilePlace::InFile, Some(parent)) => parent.unless_file.push(edit),
            (FilePlace::InFile | FilePlace::Never, _) => self.found.push(edit),
        }
    }

    fn in_order(mut self) -> Vec<MaskEdit> {
        self.found.sort_by_key(|edit| edit.place.start);
        self.found
    }
}

/// Whether a string may be a base64 file.
enum FilePlace {
    /// Yes, because of its key.
    Always,
    /// Yes, if its object is a file.
    InFile,
    Never,
}

fn file_place(key: &str, content: &str) -> FilePlace {
    let is_base64_byte = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=' | b'\r' | b'\n')
    };
    match key {
        // Log messages also have a `data` member, which is text.
        "data" | "blob" | "b64" if !content.bytes().all(is_base64_byte) => FilePlace::Never,
        "blob" | "b64" => FilePlace::Always,
        "data" => FilePlace::InFile,
        _ => FilePlace::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(known: &KnownSecrets, text: &str) -> Option<String> {
        let json = RawJson::parse(text.to_owned()).expect("JSON");
        known.mask_json(&json).map(|json| json.to_string())
    }

    #[test]
    fn secrets_are_masked_only_in_strings() {
        let known = KnownSecrets::new(["correct-horse", "1234567890", r#"a","b":"c"#]);
        let cases = [
            (r#"{"a":"x correct-horse"}"#, Some(r#"{"a":"x [redacted]"}"#)),
            (
                r#" ["correct-horse", {"b" : "correct-horse"}] "#,
                Some(r#"["[redacted]", {"b" : "[redacted]"}]"#),
            ),
            (r#""correct-horse""#, Some(r#""[redacted]""#)),
            (r#"{"n":"1234567890"}"#, Some(r#"{"n":"[redacted]"}"#)),
            // Numbers and keys are not masked.
            (r#"{"n":1234567890}"#, None),
            (r#"{"correct-horse" : 1,"correct-horse":{"a":[]}}"#, None),
            (r#"{"x":"a","b":"c"}"#, None),
            (r#"{"x":"a\",\"b\":\"c"}"#, Some(r#"{"x":"[redacted]"}"#)),
            (r#"{"plain":true}"#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(masked(&known, text).as_deref(), expected, "{text}");
        }
    }

    // Some encoders escape more characters than necessary.
    #[test]
    fn escaped_secrets_are_masked() {
        let known = KnownSecrets::new(["a/b&c=d\u{e4}fgh"]);
        let cases = [
            (
                r#"{"k\/":"\u00e9 a\/b\u0026c\u003dd\u00e4fgh","z":"\/"}"#,
                Some(r#"{"k\/":"é [redacted]","z":"\/"}"#),
            ),
            (
                r#"["a/b\u0026c=däfgh","\ud800 \u0061\/b&c=d\u00E4fgh"]"#,
                Some("[\"[redacted]\",\"\u{fffd} [redacted]\"]"),
            ),
            (r#"["line\nline \/ \u0026"]"#, None),
            (r#"["line\n\"line\""]"#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(masked(&known, text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn secrets_with_characters_that_must_be_escaped_are_masked() {
        let known = KnownSecrets::new(["correct\n\"horse\\"]);
        let cases = [r#"["correct\n\"horse\\"]"#, r#"["correct\u000a\u0022horse\u005c"]"#];
        for text in cases {
            assert_eq!(masked(&known, text).as_deref(), Some(r#"["[redacted]"]"#), "{text}");
        }
    }

    // Masking within base64 would break the file.
    #[test]
    fn base64_files_are_unchanged() {
        let known = KnownSecrets::new(["correct-horse"]);
        // The base64 of `my correct-horse!`.
        let file = "bXkgY29ycmVjdC1ob3JzZSE=";
        let untouched = [
            format!(r#"{{"type":"image","data":"{file}","mimeType":"image/png"}}"#),
            format!(r#"{{"data":"{file}","type":"audio"}}"#),
            format!(r#"[{{"resource":{{"uri":"file:///a","blob":"{file}"}}}}]"#),
            format!(r#"{{"artifacts":[{{"name":"a","b64":"{file}"}}]}}"#),
        ];
        for text in untouched {
            assert_eq!(masked(&known, &text), None, "{text}");
        }
        let touched = [
            format!(r#"{{"type":"text","text":"Basic {file}"}}"#),
            format!(r#"{{"level":"info","data":"{file}"}}"#),
            r#"{"level":"info","data":"correct-horse","x":{"mimeType":"a/b"}}"#.to_owned(),
            r#"{"blob":"the correct-horse"}"#.to_owned(),
            r#"[{"blob":""},"correct-horse"]"#.to_owned(),
        ];
        for text in touched {
            assert!(masked(&known, &text).is_some_and(|masked| masked.contains(MASK)), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_safe() {
        let known = KnownSecrets::new(["correct-horse"]);
        let deep = format!("{}\"correct-horse\"{}", "[".repeat(100), "]".repeat(100));
        assert!(masked(&known, &deep).is_some_and(|masked| masked.contains("[[\"[redacted]\"]]")));
    }
}
