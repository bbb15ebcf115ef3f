//! The outline of a message: where its members stand, in one pass that also makes sure that it is JSON throughout.
//!
//! It knows only messages as everybody writes them. Whatever is out of the ordinary has no outline, and the reader
//! that knows everything (`envelope`) says what it is, or what is wrong with it. So nothing is refused here, and
//! what has an outline is JSON to the letter.

use std::ops::Range;
use toolbooth_core::scan::special;

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
        Self::read(text.as_bytes(), &mut Any)
    }

    /// The same for a message that comes in through a door: one that the [strict](crate::strict) look would pass.
    pub(crate) fn strict(text: &str) -> Option<Self> {
        Self::read(text.as_bytes(), &mut Distinct { open: [0; _], depth: 0, keys: [(0, 0); _], count: 0 })
    }

    fn read(bytes: &[u8], keys: &mut impl Keys) -> Option<Self> {
        let mut outline = Self::default();
        let mut is_ours = false;
        let mut at = space(bytes, 0);
        if *bytes.get(at)? != b'{' {
            return None;
        }
        keys.open();
        at = space(bytes, at + 1);
        loop {
            let key = plain(bytes, at)?;
            keys.add(bytes, key.clone())?;
            at = space(bytes, key.end + 1);
            if *bytes.get(at)? != b':' {
                return None;
            }
            let from = space(bytes, at + 1);
            at = value(bytes, from, keys)?;
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

/// What is asked of the keys of objects, and of how deep values nest.
trait Keys {
    /// How deep values may nest below the message; deeper ones are out of the ordinary.
    const MAX_DEPTH: u32;

    /// An object opens.
    fn open(&mut self);

    /// The innermost object has this key; nothing, where that is out of the ordinary.
    fn add(&mut self, bytes: &[u8], key: Range<usize>) -> Option<()>;

    /// The innermost object closes.
    fn close(&mut self);
}

/// Nothing is asked: servers may write what they like.
struct Any;

impl Keys for Any {
    const MAX_DEPTH: u32 = 100;

    fn open(&mut self) {}

    fn add(&mut self, _: &[u8], _: Range<usize>) -> Option<()> {
        Some(())
    }

    fn close(&mut self) {}
}

/// No key stands twice in one object, and none has to be decoded to tell.
struct Distinct {
    /// How many keys there were when each open object opened.
    open: [u8; crate::strict::MAX_DEPTH],
    depth: usize,
    /// Where the keys of all open objects stand, outermost first. More than these are out of the ordinary.
    keys: [(u32, u32); 24],
    count: usize,
}

impl Keys for Distinct {
    // The message itself is one of them.
    const MAX_DEPTH: u32 = crate::strict::MAX_DEPTH as u32 - 1;

    fn open(&mut self) {
        // There are fewer keys than a byte can count.
        self.open[self.depth] = self.count as u8;
        self.depth += 1;
    }

    fn add(&mut self, bytes: &[u8], key: Range<usize>) -> Option<()> {
        let text = &bytes[key.clone()];
        let before = &self.keys[self.open[self.depth - 1].into()..self.count];
        let is_known = |(start, end): &(u32, u32)| bytes[*start as usize..*end as usize] == *text;
        if before.iter().any(is_known) || text.contains(&b'\\') {
            return None;
        }
        *self.keys.get_mut(self.count)? = (u32::try_from(key.start).ok()?, u32::try_from(key.end).ok()?);
        self.count += 1;
        Some(())
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.count = self.open[self.depth].into();
    }
}

/// A string without escapes at this place: what stands between its quotes.
fn plain(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let end = at + 1 + special(&bytes[at + 1..])?;
    (bytes[end] == b'"').then_some(at + 1..end)
}

/// Passes over the value that starts here; where it ends.
fn value<K: Keys>(bytes: &[u8], mut at: usize, keys: &mut K) -> Option<usize> {
    // One bit for each value that is open: set for objects.
    let (mut open, mut depth) = (0_u128, 0_u32);
    'values: loop {
        at = space(bytes, at);
        match *bytes.get(at)? {
            b'"' => at = string(bytes, at + 1)?,
            byte @ (b'{' | b'[') => {
                depth += 1;
                if depth > K::MAX_DEPTH {
                    return None;
                }
                open = (open << 1) | u128::from(byte == b'{');
                at = space(bytes, at + 1);
                // `}` and `]` stand two places behind what they close.
                if *bytes.get(at)? != byte + 2 {
                    if byte == b'{' {
                        keys.open();
                        at = key(bytes, at, keys)?;
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
                    at = key(bytes, space(bytes, at + 1), keys)?;
                    continue 'values;
                }
                (b'}', 1) => {
                    keys.close();
                    at += 1;
                }
                (b']', 0) => at += 1,
                _ => return None,
            }
            depth -= 1;
            open >>= 1;
        }
        return Some(at);
    }
}

/// Passes over a key and its colon.
fn key(bytes: &[u8], at: usize, keys: &mut impl Keys) -> Option<usize> {
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let end = string(bytes, at + 1)?;
    keys.add(bytes, at + 1..end - 1)?;
    let at = space(bytes, end);
    (*bytes.get(at)? == b':').then_some(at + 1)
}

/// Passes over the rest of a string, its closing quote included.
fn string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += special(&bytes[at..])?;
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

#[inline]
fn space(bytes: &[u8], mut at: usize) -> usize {
    // Most messages have none.
    if bytes.get(at).is_some_and(|byte| *byte > b' ') {
        return at;
    }
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

    #[test]
    fn a_strict_one_has_every_key_once_in_each_object() {
        let params = |text: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{text}}}"#);
        let many = |keys: usize| {
            let keys: Vec<String> = (0..keys).map(|key| format!("\"k{key}\":1")).collect();
            params(&format!("{{{}}}", keys.join(",")))
        };
        let deep = |depth| params(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        let has = [
            params(r#"{"a":{"a":1},"b":[{"a":1},{"a":1}],"c":{}}"#),
            params(r#"{"a":{},"b":"a"}"#),
            many(20),
            deep(crate::strict::MAX_DEPTH - 1),
        ];
        for text in has {
            assert!(Outline::strict(&text).is_some(), "{text}");
        }
        let none = [
            params(r#"{"a":1,"a":2}"#),
            params(r#"{"b":[{"a":{"x":1},"c":{},"a":1}]}"#),
            params(r#"{"a":1,"\u0061":2}"#),
            params(r#"{"a\n":1}"#),
            r#"{"jsonrpc":"2.0","x":1,"method":"m","x":2}"#.to_owned(),
            many(21),
            deep(crate::strict::MAX_DEPTH),
        ];
        for text in none {
            assert_eq!(Outline::strict(&text), None, "{text}");
        }
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
            if let Some(strict) = Outline::strict(&text) {
                prop_assert_eq!(Some(strict), Outline::of(&text));
                prop_assert!(crate::strict::check(text.as_bytes()).is_ok());
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
