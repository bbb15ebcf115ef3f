//! The outline of a message: the positions of its members, found in one pass that also checks that it is valid JSON.
//!
//! This is the fast path for messages in their usual form. A message with any unusual feature (escaped keys, errors,
//! duplicate members) has no outline, and the full parser in `envelope` accepts or rejects it. So this module rejects
//! no message, and a text with an outline is valid JSON.

use std::ops::{ControlFlow, Range};
use toolbooth_core::json::{Token, TokenKind, Tokenizer};

/// The positions of the members of a message.
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
        Self::read(text.as_bytes(), &mut AnyKeys)
    }

    /// The outline of a message from a client: one that passes the [strict](crate::strict) check.
    pub(crate) fn strict(text: &str) -> Option<Self> {
        Self::read(text.as_bytes(), &mut DistinctKeys { open: [0; _], depth: 0, keys: [(0, 0); _], count: 0 })
    }

    fn read<K: KeyCheck>(bytes: &[u8], keys: &mut K) -> Option<Self> {
        let mut builder =
            OutlineBuilder { outline: Self::default(), is_ours: false, field: MessageField::Other, from: 0 };
        let read =
            Tokenizer::read_all(bytes, K::MAX_DEPTH, |token| match builder.take(&token, bytes, keys) {
                Some(()) => ControlFlow::Continue(()),
                None => ControlFlow::Break(()),
            });
        read.ok().filter(|()| builder.is_ours)?;
        Some(builder.outline)
    }
}

/// Builds an outline from tokens.
struct OutlineBuilder {
    outline: Outline,
    is_ours: bool,
    /// The current member of the message, and where its value starts.
    field: MessageField,
    from: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageField {
    Version,
    Id,
    Method,
    Params,
    Result,
    Other,
}

impl OutlineBuilder {
    /// Takes a token; `None` if it is unusual.
    fn take(&mut self, token: &Token<'_>, bytes: &[u8], keys: &mut impl KeyCheck) -> Option<()> {
        match token.kind {
            TokenKind::ObjectStart => keys.open(),
            TokenKind::ObjectEnd => keys.close(),
            TokenKind::Key => keys.add(bytes, token)?,
            _ => {}
        }
        match (token.depth, token.kind) {
            (0, TokenKind::ObjectStart | TokenKind::ObjectEnd) => Some(()),
            (0, _) => None,
            (1, TokenKind::Key) => self.key(bytes, token),
            (1, TokenKind::ObjectStart | TokenKind::ArrayStart) => {
                self.from = token.range.start;
                Some(())
            }
            (1, TokenKind::ObjectEnd | TokenKind::ArrayEnd) => {
                self.value(bytes, token, self.from..token.range.end)
            }
            (1, _) => self.value(bytes, token, token.range.clone()),
            _ => Some(()),
        }
    }

    fn key(&mut self, bytes: &[u8], token: &Token<'_>) -> Option<()> {
        self.field = match &bytes[token.range.clone()] {
            _ if token.escaped => return None,
            b"\"jsonrpc\"" => MessageField::Version,
            b"\"id\"" => MessageField::Id,
            b"\"method\"" => MessageField::Method,
            b"\"params\"" => MessageField::Params,
            b"\"result\"" => MessageField::Result,
            // An error has its own members, and is rare.
            b"\"error\"" => return None,
            _ => MessageField::Other,
        };
        Some(())
    }

    /// Records the value of a member, which ends with this token.
    fn value(&mut self, bytes: &[u8], token: &Token<'_>, place: Range<usize>) -> Option<()> {
        let (slot, place) = match self.field {
            MessageField::Version => {
                let is_known = !self.is_ours && &bytes[place] == b"\"2.0\"";
                self.is_ours = true;
                return is_known.then_some(());
            }
            MessageField::Id => (&mut self.outline.id, place),
            MessageField::Method if token.kind == TokenKind::Text && !token.escaped => {
                (&mut self.outline.method, place.start + 1..place.end - 1)
            }
            MessageField::Method => return None,
            MessageField::Params => (&mut self.outline.params, place),
            MessageField::Result => (&mut self.outline.result, place),
            MessageField::Other => return Some(()),
        };
        slot.replace(place).is_none().then_some(())
    }
}

/// The requirements on the keys of objects and on the nesting depth.
trait KeyCheck {
    /// The maximum nesting depth, including the message; deeper values are unusual.
    const MAX_DEPTH: usize;

    /// An object opens.
    fn open(&mut self);

    /// The innermost object has this key; `None` if that is unusual.
    fn add(&mut self, bytes: &[u8], key: &Token<'_>) -> Option<()>;

    /// The innermost object closes.
    fn close(&mut self);
}

/// No requirements, for messages of servers.
struct AnyKeys;

impl KeyCheck for AnyKeys {
    const MAX_DEPTH: usize = 101;

    fn open(&mut self) {}

    fn add(&mut self, _: &[u8], _: &Token<'_>) -> Option<()> {
        Some(())
    }

    fn close(&mut self) {}
}

/// Requires that the keys of each object are distinct, without escapes.
struct DistinctKeys {
    /// The number of keys before each open object.
    open: [u8; crate::strict::MAX_DEPTH],
    depth: usize,
    /// The positions of the keys of all open objects, outermost first. More keys than fit are unusual.
    keys: [(u32, u32); 24],
    count: usize,
}

impl KeyCheck for DistinctKeys {
    const MAX_DEPTH: usize = crate::strict::MAX_DEPTH;

    fn open(&mut self) {
        // `keys` has fewer than 256 entries.
        self.open[self.depth] = self.count as u8;
        self.depth += 1;
    }

    fn add(&mut self, bytes: &[u8], key: &Token<'_>) -> Option<()> {
        let text = &bytes[key.range.clone()];
        let before = &self.keys[self.open[self.depth - 1].into()..self.count];
        let is_known = |(start, end): &(u32, u32)| bytes[*start as usize..*end as usize] == *text;
        if key.escaped || before.iter().any(is_known) {
            return None;
        }
        let Range { start, end } = key.range;
        *self.keys.get_mut(self.count)? = (u32::try_from(start).ok()?, u32::try_from(end).ok()?);
        self.count += 1;
        Some(())
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.count = self.open[self.depth].into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    #[test]
    fn only_usual_messages_have_an_outline() {
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
    fn a_strict_outline_has_distinct_keys_in_each_object() {
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

    /// Texts that are almost messages.
    fn nearly() -> impl Strategy<Value = String> {
        let values = r#"{ } [ ] , : " \ \u00e9 \u12 "a" 1 -1 0 01 1.5 1. 1e3 - true nul null é {} [] "x":1"#;
        let members = r#""jsonrpc" "2.0" "id" "method" "params" "result" {"a":[1,{"b":null}]}"#;
        let pieces = values.split(' ').chain(members.split(' ')).chain([" ", "\n", "\u{1}"]);
        let piece = prop::sample::select(pieces.collect::<Vec<&str>>());
        prop::collection::vec(piece, 0..14).prop_map(|pieces| {
            let rest = pieces.concat();
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{rest}}}")
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]
        #[test]
        fn a_text_with_an_outline_is_json_and_the_positions_are_right(text in nearly()) {
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
        fn values_are_skipped_to_their_end(value in "[a-z\"\\\\é\u{0}-\u{20}]{0,40}", n in any::<f64>()) {
            let value = serde_json::json!({"jsonrpc": "2.0", "method": "m", "params": {value.clone(): [value, n]}});
            let text = serde_json::to_string(&value).expect("JSON");
            let outline = Outline::of(&text).expect("an outline");
            let params: serde_json::Value = serde_json::from_str(&text[outline.params.expect("params")]).expect("JSON");
            prop_assert_eq!(&params, &value["params"]);
        }
    }
}
