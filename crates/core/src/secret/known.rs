//! Masking of known secret values in text from outside, in plain and in encoded form.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Replaces every masked secret.
pub const MASK: &str = "[redacted]";
/// Shorter values are too common in ordinary text to be masked.
pub const MIN_SECRET_CHARS: usize = 8;
/// Of longer values, only the beginning is searched for.
const MAX_PATTERN_BYTES: usize = 4096;

/// Known secret values and a search automaton for them. Clones share it; `Debug` shows only a count.
#[derive(Clone, Default)]
pub struct KnownSecrets {
    search: Option<Arc<AhoCorasick>>,
    /// Whether one of them has a character that must be escaped in JSON.
    has_escaped_characters: bool,
}

impl fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownSecrets({})", self.search.as_ref().map_or(0, |search| search.patterns_len()))
    }
}

impl KnownSecrets {
    /// Searches for these values and their JSON-escaped, percent-encoded and base64 forms. Values under
    /// [`MIN_SECRET_CHARS`] characters are ignored.
    pub fn new<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut patterns = BTreeSet::new();
        for value in values {
            let value = value.as_ref().trim();
            if value.chars().count() >= MIN_SECRET_CHARS {
                add_forms(value, &mut patterns);
            }
        }
        if patterns.is_empty() {
            return Self::default();
        }
        // The longest match wins, so that no part of a longer secret remains after a shorter one.
        let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns);
        let is_escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
        let has_escaped_characters = patterns.iter().flatten().any(is_escaped);
        Self { search: built.ok().map(Arc::new), has_escaped_characters }
    }

    /// Whether there are no values to search for.
    pub fn is_empty(&self) -> bool {
        self.search.is_none()
    }

    /// Whether a text contains one of them.
    pub fn are_in(&self, text: &[u8]) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_match(text))
    }

    /// Whether JSON text that does not contain one of them as written may contain one behind escapes. `\/` and `\u` may
    /// represent any character; the other escapes only those that must be escaped.
    pub(super) fn may_be_escaped_in(&self, json: &[u8]) -> bool {
        memchr::memchr_iter(b'\\', json)
            .any(|at| self.has_escaped_characters || matches!(json.get(at + 1), Some(b'/' | b'u')))
    }

    /// The length of the longest form.
    pub fn longest_bytes(&self) -> usize {
        self.search.as_ref().map_or(0, |search| search.max_pattern_len())
    }

    /// Whether a text in pieces contains one of them, also across the boundaries.
    pub fn are_in_pieces<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let open = self.longest_bytes().saturating_sub(1);
        // The end of the text so far, in which a match may begin.
        let mut seam: Vec<u8> = Vec::new();
        for piece in pieces {
            seam.extend_from_slice(&piece[..piece.len().min(open)]);
            if self.are_in(&seam) || self.are_in(piece) {
                return true;
            }
            if piece.len() >= open {
                seam.clear();
                seam.extend_from_slice(&piece[piece.len() - open..]);
            } else {
                seam.drain(..seam.len().saturating_sub(open));
            }
        }
        false
    }

    /// The text with all of them masked; borrowed if it contains none.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.search {
            Some(search) if search.is_match(text) => {
                let mut masked = String::with_capacity(text.len());
                search.replace_all_with(text, &mut masked, |_, _, out| {
                    out.push_str(MASK);
                    true
                });
                Cow::Owned(masked)
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// Like [`Self::mask`], for bytes that need not be UTF-8.
    pub fn mask_bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.search {
            Some(search) if search.is_match(text) => {
                let mut masked = Vec::with_capacity(text.len());
                search.replace_all_with_bytes(text, &mut masked, |_, _, out| {
                    out.extend_from_slice(MASK.as_bytes());
                    true
                });
                Cow::Owned(masked)
            }
            _ => Cow::Borrowed(text),
        }
    }
}

/// Adds the forms in which a value may appear in text.
fn add_forms(value: &str, patterns: &mut BTreeSet<Vec<u8>>) {
    let mut add = |form: &str| {
        if form.len() >= MIN_SECRET_CHARS {
            patterns.insert(start_of(form).as_bytes().to_vec());
        }
    };
    add(value);
    let quoted = serde_json::Value::from(value).to_string();
    add(&quoted[1..quoted.len() - 1]);
    let percent = crate::percent::encoded(value);
    add(&percent);
    if percent != value {
        add(&lower_hex(&percent));
    }
    // Other text may precede it, as in `user:password`: base64 has three alignments, and at both ends a character that
    // also depends on the neighbour.
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(value.as_bytes());
        let whole = bytes.len() * 8 / 6;
        let skipped = (shift * 8).div_ceil(6);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            add(&engine.encode(&bytes)[skipped..whole]);
        }
    }
}

/// The part of a form that is searched for.
fn start_of(form: &str) -> &str {
    let mut end = form.len().min(MAX_PATTERN_BYTES);
    while !form.is_char_boundary(end) {
        end -= 1;
    }
    &form[..end]
}

/// Percent-encoded text with its hexadecimal digits in lower case.
fn lower_hex(percent: &str) -> String {
    let mut digits_left = 0_u8;
    let lower = |c: char| {
        let is_digit = digits_left > 0;
        digits_left = if c == '%' { 2 } else { digits_left.saturating_sub(1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    };
    percent.chars().map(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_secret_is_masked_in_every_form() {
        let secret = r#"hunter2/"x"+ü%correct"#;
        let known = KnownSecrets::new([secret, "short"]);
        let base64 = base64::engine::general_purpose::STANDARD.encode(format!("me:{secret}"));
        let forms = [
            secret.to_owned(),
            serde_json::Value::from(secret).to_string(),
            crate::percent::encoded(secret),
            lower_hex(&crate::percent::encoded(secret)),
            base64,
            URL_SAFE_NO_PAD.encode(format!("a{secret}b")),
        ];
        for form in forms {
            let masked = known.mask(&form);
            assert!(masked.contains(MASK), "{form} -> {masked}");
            assert!(masked.len() < MASK.len() + 12, "{form} -> {masked}");
            assert!(known.are_in(form.as_bytes()));
        }
        assert!(matches!(known.mask("a short text"), Cow::Borrowed(_)));
        assert_eq!(format!("{known:?}").find("hunter"), None);
    }

    #[test]
    fn bytes_that_are_not_text_are_masked_too() {
        let known = KnownSecrets::new(["correct-horse"]);
        assert_eq!(&*known.mask_bytes(b"\xff correct-horse \xfe"), b"\xff [redacted] \xfe");
        assert!(KnownSecrets::new(["tiny"]).is_empty());
    }

    #[test]
    fn pieces_are_searched_across_their_boundaries() {
        let known = KnownSecrets::new(["correct-horse-battery"]);
        let (with, without) =
            ("the key is correct-horse-battery, keep it", "the key is correct-horse-butter, keep it");
        for size in 1..with.len() {
            assert!(known.are_in_pieces(with.as_bytes().chunks(size)), "{size}");
            assert!(!known.are_in_pieces(without.as_bytes().chunks(size)), "{size}");
        }
    }
}
