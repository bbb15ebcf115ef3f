//! The outline of a message: where its members stand, in one pass that also makes sure that it is JSON throughout.
//!
//! It knows only messages as everybody writes them. Whatever is out of the ordinary has no outline, and the reader
//! that knows everything (`envelope`) says what it is, or what is wrong with it. So nothing is refused here, and
//! what has an outline is JSON to the letter.

use std::ops::Range;

/// How deep values may nest; deeper ones are out of the ordinary.
const MAX_DEPTH: u32 = 100;

/// Where the members of a message stand.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) id: Option<Range<usize>>,
    /// The method's text, without its quotes.
    pub(crate) method: Option<Range<usize>>,
    pub(crate) params: Option<Range<usize>>,
    pub(crate) result: Option<Range<usize>>,
}

impl Outline {
    /// The outline of a request, a notification or a result, of version 2.0.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut outline = Self::default();
        let mut is_ours = false;
        let mut at = space(bytes, 0);
        if *bytes.get(at)? != b'{' {
            return None;
        }
        at = space(bytes, at + 1);
        loop {
            let key = plain(bytes, at)?;
            at = space(bytes, key.end + 1);
            if *bytes.get(at)? != b':' {
                return None;
            }
            let from = space(bytes, at + 1);
            at = value(bytes, from)?;
            let slot = match &bytes[key] {
                b"jsonrpc" => {
                    if is_ours || &bytes[from..at] != b"\"2.0\"" {
                        return None;
                    }
                    is_ours = true;
                    None
                }
                b"id" => Some((&mut outline.id, from..at)),
                b"method" => {
                    Some((&mut outline.method, plain(bytes, from).filter(|text| text.end + 1 == at)?))
                }
                b"params" => Some((&mut outline.params, from..at)),
                b"result" => Some((&mut outline.result, from..at)),
                // An error has members of its own, and is seldom.
                b"error" => return None,
                _ => None,
            };
            if let Some((slot, range)) = slot
                && slot.replace(range).is_some()
            {
                return None;
            }
            at = space(bytes, at);
            match *bytes.get(at)? {
                b',' => at = space(bytes, at + 1),
                b'}' => break,
                _ => return None,
            }
        }
        (is_ours && space(bytes, at + 1) == bytes.len()).then_some(outline)
    }
}

/// A string without escapes at this place: what stands between its quotes.
fn plain(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let end = at + 1 + bytes[at + 1..].iter().position(|byte| is_special(*byte))?;
    (bytes[end] == b'"').then_some(at + 1..end)
}

/// Passes over the value that starts here; where it ends.
fn value(bytes: &[u8], mut at: usize) -> Option<usize> {
    // One bit for each value that is open: set for objects.
    let (mut open, mut depth) = (0_u128, 0_u32);
    'values: loop {
        at = space(bytes, at);
        match *bytes.get(at)? {
            b'"' => at = string(bytes, at + 1)?,
            byte @ (b'{' | b'[') => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return None;
                }
                open = (open << 1) | u128::from(byte == b'{');
                at = space(bytes, at + 1);
                // `}` and `]` stand two places behind what they close.
                if *bytes.get(at)? != byte + 2 {
                    if byte == b'{' {
                        at = key(bytes, at)?;
                    }
                    continue;
                }
                at += 1;
                depth -= 1;
                open >>= 1;
            }
            b't' => at = word(bytes, at, b"true")?,
            b'f' => at = word(bytes, at, b"false")?,
            b'n' => at = word(bytes, at, b"null")?,
            _ => at = number(bytes, at)?,
        }
        while depth > 0 {
            at = space(bytes, at);
            match (*bytes.get(at)?, open & 1) {
                (b',', 0) => {
                    at += 1;
                    continue 'values;
                }
                (b',', _) => {
                    at = key(bytes, space(bytes, at + 1))?;
                    continue 'values;
                }
                (b'}', 1) | (b']', 0) => {
                    at += 1;
                    depth -= 1;
                    open >>= 1;
                }
                _ => return None,
            }
        }
        return Some(at);
    }
}

/// Passes over a key and its colon.
fn key(bytes: &[u8], at: usize) -> Option<usize> {
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let at = space(bytes, string(bytes, at + 1)?);
    (*bytes.get(at)? == b':').then_some(at + 1)
}

/// Passes over the rest of a string, its closing quote included.
fn string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += ordinary(&bytes[at..])?;
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => match *bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' => {
                    let digits = bytes.get(at + 2..at + 6)?;
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    at += 6;
                }
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// How many bytes stand before the first that is special in a string; nothing if none is.
fn ordinary(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The high bit of each byte that is zero, and perhaps of bytes above such a one: enough to stop at.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let special = (control | zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c))) & HIGH;
        if special != 0 {
            // The lowest mark is never one too many.
            return Some(number * 8 + special.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| is_special(*byte)).map(|at| words.len() * 8 + at)
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes[at..].starts_with(word).then_some(at + word.len())
}

fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    let digits = |at: usize| bytes[at.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    at += usize::from(bytes[at] == b'-');
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let part = digits(at + 1);
        if part == 0 {
            return None;
        }
        at += 1 + part;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        let power = digits(at);
        if power == 0 {
            return None;
        }
        at += power;
    }
    Some(at)
}

fn space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    #[test]
    fn ordinary_messages_have_one_and_others_have_none() {
        let has = [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#" { "id" : "a\"b" , "jsonrpc" : "2.0" , "result" : { "a" : [ 1 , -2.5e+3 , true , null , "é\u00e9" ] } } "#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"other":[[],{}]}"#,
        ];
        for text in has {
            assert!(Outline::of(text).is_some(), "{text}");
        }
        let none = [
            "",
            "{",
            "[]",
            "{}",
            "null",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"p\u0069ng"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":tru}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1 "b":2}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":01}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1,]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\tb\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\u{1}\",\"method\":\"x\"}",
        ];
        for text in none {
            assert_eq!(Outline::of(text), None, "{text}");
        }
        let deep =
            |depth| format!(r#"{{"jsonrpc":"2.0","result":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(Outline::of(&deep(100)).is_some() && Outline::of(&deep(101)).is_none());
    }

    /// Texts that are nearly messages.
    fn nearly() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            " ",
            "\"",
            "\\",
            "\\u00e9",
            "\\u12",
            "\"a\"",
            "\"jsonrpc\"",
            "\"2.0\"",
            "\"id\"",
            "\"method\"",
            "\"params\"",
            "\"result\"",
            "1",
            "-1",
            "0",
            "01",
            "1.5",
            "1.",
            "1e3",
            "-",
            "true",
            "nul",
            "null",
            "é",
            "\n",
            "\u{1}",
            "{}",
            "[]",
            "\"x\":1",
            "{\"a\":[1,{\"b\":null}]}",
        ]);
        prop::collection::vec(piece, 0..14).prop_map(|pieces| {
            let rest = pieces.concat();
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{rest}}}")
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]
        #[test]
        fn what_has_an_outline_is_json_and_stands_there(text in nearly()) {
            if let Some(outline) = Outline::of(&text) {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(&text).expect("JSON");
                let result = outline.result.map(|range| &text[range]);
                prop_assert_eq!(result, members.get("result").map(|value| value.get()));
            }
        }

        #[test]
        fn every_value_is_passed_over_to_its_end(value in "[a-z\"\\\\é\u{0}-\u{20}]{0,40}", n in any::<f64>()) {
            let value = serde_json::json!({"jsonrpc": "2.0", "method": "m", "params": {value.clone(): [value, n]}});
            let text = serde_json::to_string(&value).expect("JSON");
            let outline = Outline::of(&text).expect("an outline");
            let params: serde_json::Value = serde_json::from_str(&text[outline.params.expect("params")]).expect("JSON");
            prop_assert_eq!(&params, &value["params"]);
        }
    }
}
