//! The outline of a message: where its members stand, in one pass that also makes sure that it is JSON throughout.
//!
//! It knows only messages as everybody writes them. Whatever is out of the ordinary has no outline, and the reader
//! that knows everything (`envelope`) says what it is, or what is wrong with it. So nothing is refused here, and
//! what has an outline is JSON to the letter.

use std::ops::{ControlFlow, Range};
use toolbooth_core::tokens::{Token, TokenKind, Tokenizer};

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

    fn read<K: Keys>(bytes: &[u8], keys: &mut K) -> Option<Self> {
        let mut drawing = Drawing { outline: Self::default(), is_ours: false, field: Field::Other, from: 0 };
        let read =
            Tokenizer::read_all(bytes, K::MAX_DEPTH, |token| match drawing.take(&token, bytes, keys) {
                Some(()) => ControlFlow::Continue(()),
                None => ControlFlow::Break(()),
            });
        read.ok().filter(|()| drawing.is_ours)?;
        Some(drawing.outline)
    }
}

/// An outline while it is drawn.
struct Drawing {
    outline: Outline,
    is_ours: bool,
    /// Which member of the message comes, and where its value starts.
    field: Field,
    from: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Version,
    Id,
    Method,
    Params,
    Result,
    Other,
}

impl Drawing {
    /// Takes a token; nothing, where it is out of the ordinary.
    fn take(&mut self, token: &Token<'_>, bytes: &[u8], keys: &mut impl Keys) -> Option<()> {
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
            b"\"jsonrpc\"" => Field::Version,
            b"\"id\"" => Field::Id,
            b"\"method\"" => Field::Method,
            b"\"params\"" => Field::Params,
            b"\"result\"" => Field::Result,
            // An error has members of its own, and is seldom.
            b"\"error\"" => return None,
            _ => Field::Other,
        };
        Some(())
    }

    /// The value of a member ends with this token.
    fn value(&mut self, bytes: &[u8], token: &Token<'_>, place: Range<usize>) -> Option<()> {
        let (slot, place) = match self.field {
            Field::Version => {
                let is_known = !self.is_ours && &bytes[place] == b"\"2.0\"";
                self.is_ours = true;
                return is_known.then_some(());
            }
            Field::Id => (&mut self.outline.id, place),
            Field::Method if token.kind == TokenKind::Text && !token.escaped => {
                (&mut self.outline.method, place.start + 1..place.end - 1)
            }
            Field::Method => return None,
            Field::Params => (&mut self.outline.params, place),
            Field::Result => (&mut self.outline.result, place),
            Field::Other => return Some(()),
        };
        slot.replace(place).is_none().then_some(())
    }
}

/// What is asked of the keys of objects, and of how deep values nest.
trait Keys {
    /// How deep values may nest, the message included; deeper ones are out of the ordinary.
    const MAX_DEPTH: usize;

    /// An object opens.
    fn open(&mut self);

    /// The innermost object has this key; nothing, where that is out of the ordinary.
    fn add(&mut self, bytes: &[u8], key: &Token<'_>) -> Option<()>;

    /// The innermost object closes.
    fn close(&mut self);
}

/// Nothing is asked: servers may write what they like.
struct Any;

impl Keys for Any {
    const MAX_DEPTH: usize = 101;

    fn open(&mut self) {}

    fn add(&mut self, _: &[u8], _: &Token<'_>) -> Option<()> {
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
    const MAX_DEPTH: usize = crate::strict::MAX_DEPTH;

    fn open(&mut self) {
        // There are fewer keys than a byte can count.
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
