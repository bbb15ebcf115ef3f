//! Reads a long answer as a stream: it is either plain to its last byte, or joined and parsed as a whole.
//!
//! Most long results only need a new envelope. Such a result stays in the chunks in which it arrived. The chunks are
//! held until the last byte has shown that the text is one plain answer, so no byte of any other text is forwarded.
//! The envelope itself is never forwarded. An answer with any unusual feature (a second `id`, an escaped key, a `_meta`,
//! a question) is not decided here: it is joined, and the full parser reads it.

use crate::era::Era;
use bytes::{Bytes, BytesMut};
use std::ops::{ControlFlow, Range};
use toolbooth_core::json::{RawJson, Token, TokenError, TokenKind, Tokenizer};

/// The maximum nesting depth of a plain answer.
const MAX_DEPTH: usize = 100;
/// The most members of a plain result.
const MAX_MEMBERS: usize = 32;
/// Chunks of at least this length are kept without copying.
const LARGE_PIECE: usize = 4 << 10;
/// Members of a result that change how it is processed, so that it is not plain.
const DECISIVE: [&[u8]; 3] = [b"_meta", b"inputRequests", b"requestState"];

/// Reads an answer chunk by chunk.
#[derive(Debug)]
pub struct AnswerReader {
    tokens: Tokenizer,
    pieces: Vec<Bytes>,
    /// The latest small chunks, copied together: separate buffers would cost more memory than their text.
    small: BytesMut,
    length: usize,
    /// `None` once the answer is known not to be plain.
    check: Option<PlainCheck>,
}

/// The check that an answer is plain.
#[derive(Debug)]
struct PlainCheck {
    id: u64,
    era: Era,
    has_version: bool,
    has_id: bool,
    /// The current member of the envelope.
    next: EnvelopeField,
    result: Option<Range<usize>>,
    members: Vec<LongMember>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnvelopeField {
    None,
    Version,
    Id,
    Result,
}

/// One member of a long result. Positions count from the start of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongMember {
    /// Its key, which has no escapes.
    pub key: Box<str>,
    /// Its position: from its key's quote to its value's end.
    pub whole: Range<usize>,
    /// The first token of its value.
    pub kind: TokenKind,
    /// The value's text, if it is a short scalar.
    pub spelled: Option<Box<str>>,
}

/// A plain long result, in the chunks in which it arrived.
#[derive(Debug, Clone)]
pub struct LongResult {
    pieces: Vec<Bytes>,
    length: usize,
    members: Vec<LongMember>,
}

/// A complete long answer.
#[derive(Debug)]
pub enum LongAnswer {
    /// The final result of the request, without members that need processing.
    Plain(LongResult),
    /// Any other answer: the whole text.
    Gathered(Bytes),
}

impl AnswerReader {
    /// Creates a reader for the answer to request `id` from a server of this era.
    pub fn new(id: u64, era: Era) -> Self {
        let check = PlainCheck {
            id,
            era,
            has_version: false,
            has_id: false,
            next: EnvelopeField::None,
            result: None,
            members: Vec::new(),
        };
        Self {
            tokens: Tokenizer::new(MAX_DEPTH),
            pieces: Vec::new(),
            small: BytesMut::new(),
            length: 0,
            check: Some(check),
        }
    }

    /// The number of bytes read.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds the next chunk.
    pub fn push(&mut self, piece: Bytes) {
        if let Some(check) = &mut self.check
            && self.tokens.push(&piece, &mut |token: Token<'_>| check.take(&token)).is_err()
        {
            self.check = None;
        }
        self.length += piece.len();
        if piece.len() < LARGE_PIECE {
            self.small.extend_from_slice(&piece);
        } else {
            self.keep_small();
            self.pieces.push(piece);
        }
    }

    fn keep_small(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push(self.small.split().freeze());
        }
    }

    /// Ends the answer.
    pub fn finish(mut self) -> LongAnswer {
        self.keep_small();
        let proven = self.check.take().and_then(|mut check| {
            let ended: Result<(), TokenError> =
                self.tokens.finish(&mut |token: Token<'_>| check.take(&token));
            ended.ok().and_then(|()| check.proven())
        });
        match proven {
            Some((place, members)) => {
                let length = place.len();
                let pieces = cut(&self.pieces, std::slice::from_ref(&place));
                LongAnswer::Plain(LongResult { pieces, length, members })
            }
            None => LongAnswer::Gathered(joined(self.pieces, self.length)),
        }
    }
}

impl PlainCheck {
    fn take(&mut self, token: &Token<'_>) -> ControlFlow<()> {
        let is_plain = match (token.kind, token.depth) {
            // JSON parsers differ here: one that compares keys as written must not be misled by an escape.
            (TokenKind::Key, _) if token.escaped => false,
            (_, 0) => matches!(token.kind, TokenKind::ObjectStart | TokenKind::ObjectEnd),
            (TokenKind::Key, 1) => self.field(inside(token)),
            (_, 1) => self.field_value(token),
            (TokenKind::Key, 2) if self.next == EnvelopeField::Result => self.member(token),
            (_, 2) => self.member_value(token),
            _ => true,
        };
        if is_plain { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Checks a key of the envelope: only these three are plain, each once.
    fn field(&mut self, key: &[u8]) -> bool {
        let (field, was_there) = match key {
            b"jsonrpc" => (EnvelopeField::Version, std::mem::replace(&mut self.has_version, true)),
            b"id" => (EnvelopeField::Id, std::mem::replace(&mut self.has_id, true)),
            b"result" => (EnvelopeField::Result, self.result.is_some()),
            _ => return false,
        };
        self.next = field;
        !was_there
    }

    fn field_value(&mut self, token: &Token<'_>) -> bool {
        match (self.next, token.kind) {
            (EnvelopeField::Version, TokenKind::Text) => token.spelled == Some(b"\"2.0\""),
            (EnvelopeField::Id, TokenKind::Number) => token.spelled == Some(self.id.to_string().as_bytes()),
            (EnvelopeField::Result, TokenKind::ObjectStart) => {
                self.result = Some(token.range.clone());
                true
            }
            (EnvelopeField::Result, TokenKind::ObjectEnd) => {
                if let Some(result) = &mut self.result {
                    result.end = token.range.end;
                }
                true
            }
            _ => false,
        }
    }

    /// Checks a key of the result.
    fn member(&mut self, token: &Token<'_>) -> bool {
        let Some(key) = std::str::from_utf8(inside(token)).ok() else { return false };
        let is_known = self.members.iter().any(|member| &*member.key == key);
        if is_known || self.members.len() == MAX_MEMBERS || DECISIVE.contains(&key.as_bytes()) {
            return false;
        }
        let whole = self.place(token);
        self.members.push(LongMember { key: key.into(), whole, kind: TokenKind::Null, spelled: None });
        true
    }

    /// Checks the value of a member, or its end.
    fn member_value(&mut self, token: &Token<'_>) -> bool {
        let place = self.place(token);
        let Some(member) = self.members.last_mut() else { return false };
        member.whole.end = place.end;
        if matches!(token.kind, TokenKind::ObjectEnd | TokenKind::ArrayEnd) {
            return true;
        }
        member.kind = token.kind;
        member.spelled = token.spelled.and_then(|text| std::str::from_utf8(text).ok()).map(Into::into);
        // Legacy has no `resultType`, and in the modern era only `complete` marks a final result.
        &*member.key != "resultType" || (self.era == Era::Modern && token.spelled == Some(b"\"complete\""))
    }

    /// The position of a token in the result.
    fn place(&self, token: &Token<'_>) -> Range<usize> {
        let from = self.result.as_ref().map_or(0, |result| result.start);
        token.range.start - from..token.range.end - from
    }

    fn proven(self) -> Option<(Range<usize>, Vec<LongMember>)> {
        let Self { has_version, has_id, result, members, .. } = self;
        let place = result.filter(|_| has_version && has_id && !members.is_empty())?;
        Some((place, members))
    }
}

/// A key's text between its quotes.
fn inside<'a>(token: &Token<'a>) -> &'a [u8] {
    token.spelled.and_then(|text| text.get(1..text.len().saturating_sub(1))).unwrap_or_default()
}

impl LongResult {
    /// The chunks of its text.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The chunks of its text, by value.
    pub fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }

    /// The length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Its members, in order. There is at least one, and the keys are distinct.
    pub fn members(&self) -> &[LongMember] {
        &self.members
    }

    /// One member by its key.
    pub fn member(&self, key: &str) -> Option<&LongMember> {
        self.members.iter().find(|member| &*member.key == key)
    }

    /// The result as one text.
    pub fn whole(&self) -> RawJson {
        RawJson::trusted(joined(self.pieces.clone(), self.length))
    }

    /// The chunks of the result without the members for which `removes` is true; other bytes are unchanged.
    pub fn without(&self, removes: impl Fn(&LongMember) -> bool) -> Vec<Bytes> {
        let places: Vec<Range<usize>> = self.members.iter().map(|member| member.whole.clone()).collect();
        let mut stays = Vec::new();
        let mut from = 0;
        for gap in toolbooth_core::json::cuts(&places, |index| removes(&self.members[index])) {
            stays.push(from..gap.start.max(from));
            from = gap.end.max(from);
        }
        stays.push(from..self.length);
        cut(&self.pieces, &stays)
    }
}

/// Cuts ranges out of a text in chunks; the ranges are in ascending order.
fn cut(pieces: &[Bytes], places: &[Range<usize>]) -> Vec<Bytes> {
    let mut out = Vec::with_capacity(pieces.len());
    let mut base = 0;
    for piece in pieces {
        for place in places {
            let from = place.start.clamp(base, base + piece.len()) - base;
            let to = place.end.clamp(base, base + piece.len()) - base;
            if from < to {
                out.push(piece.slice(from..to));
            }
        }
        base += piece.len();
    }
    out
}

/// Joins the chunks, without a copy if there is only one.
fn joined(mut pieces: Vec<Bytes>, length: usize) -> Bytes {
    if pieces.len() == 1
        && let Some(only) = pieces.pop()
    {
        return only;
    }
    let mut text = BytesMut::with_capacity(length);
    pieces.iter().for_each(|piece| text.extend_from_slice(piece));
    text.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, era: Era, size: usize) -> LongAnswer {
        let mut reader = AnswerReader::new(7, era);
        for piece in text.as_bytes().chunks(size) {
            reader.push(Bytes::copy_from_slice(piece));
        }
        assert_eq!(reader.length(), text.len());
        reader.finish()
    }

    fn answer(result: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#)
    }

    #[test]
    fn plain_answers_stay_in_pieces_in_every_order() {
        let result = r#"{ "content":[{"text":"a,\"resultType\":1}"}], "x" : 1.50,"isError":true }"#;
        let answers = [
            answer(result),
            format!(r#" {{ "result" : {result} , "id":7, "jsonrpc" : "2.0" }} "#),
            format!(r#"{{"id":7,"result":{result},"jsonrpc":"2.0"}}"#),
        ];
        for text in &answers {
            for size in 1..=text.len() {
                let LongAnswer::Plain(found) = read(text, Era::Legacy, size) else {
                    panic!("{text} by {size}")
                };
                assert_eq!(found.whole().as_str(), result, "by {size}");
                assert_eq!(found.length(), result.len());
                let keys: Vec<&str> = found.members().iter().map(|member| &*member.key).collect();
                assert_eq!(keys, ["content", "x", "isError"]);
                assert_eq!(&result[found.members()[1].whole.clone()], r#""x" : 1.50"#);
                assert_eq!(
                    found.member("isError").and_then(|member| member.spelled.as_deref()),
                    Some("true")
                );
            }
        }
    }

    #[test]
    fn unusual_answers_are_joined() {
        let pad = "x".repeat(200);
        let content = format!(r#""content":[{{"type":"text","text":"{pad}"}}]"#);
        let cases = [
            // H5: a second id, or other members, after the result.
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{content}}},"id":777}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{content}}},"\u0069d":777}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{content}}},"error":{{}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{content}}},"result":{{{content}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{content}}}}}{{"jsonrpc":"2.0"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{content}}}}},"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{content}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":8,"result":{{{content}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":"7","result":{{{content}}}}}"#),
            format!(r#"{{"jsonrpc":"1.0","id":7,"result":{{{content}}}}}"#),
            format!(r#"{{"id":7,"result":{{{content}}}}}"#),
            // Members that need processing: late, early or escaped.
            answer(&format!(r#"{{{content},"_meta":{{}}}}"#)),
            answer(&format!(r#"{{{content},"\u005fmeta":{{"\u0074oolbooth/held":1}}}}"#)),
            answer(&format!(r#"{{{content},"resultType":"input_required","requestState":"s"}}"#)),
            answer(&format!(r#"{{"requestState":"s",{content}}}"#)),
            answer(&format!(r#"{{{content},"inputRequests":{{}}}}"#)),
            answer(&format!(r#"{{{content},"resultType":"compl\u0065te"}}"#)),
            answer(&format!(r#"{{{content},"resultType":["complete"]}}"#)),
            answer(&format!(r#"{{{content},"x":{{"\u0061":1}}}}"#)),
            answer(&format!(r#"{{{content},"x":1,"x":2}}"#)),
            answer("[1]"),
            answer(&format!("{{{}}}", " ".repeat(100))),
            answer(&format!(r#"{{{content},"x":tru}}"#)),
            answer(&format!(r#"{{{content},"x":{}{}}}"#, "[".repeat(200), "]".repeat(200))),
        ];
        for text in &cases {
            for size in [1, 13, 4096] {
                let LongAnswer::Gathered(whole) = read(text, Era::Modern, size) else {
                    panic!("{text} by {size}")
                };
                assert_eq!(whole, text.as_bytes());
            }
        }
        let modern = answer(&format!(r#"{{{content},"resultType":"complete"}}"#));
        assert!(matches!(read(&modern, Era::Modern, 9), LongAnswer::Plain(_)));
        assert!(
            matches!(read(&modern, Era::Legacy, 9), LongAnswer::Gathered(_)),
            "legacy has no `resultType`"
        );
    }

    #[test]
    fn members_are_removed_with_one_comma() {
        let result =
            r#"{"resultType":"complete", "content" : [1] ,"ttlMs":0,"structuredContent":[1,{"a":2}]}"#;
        let text = answer(result);
        for size in 1..=text.len() {
            let LongAnswer::Plain(found) = read(&text, Era::Modern, size) else { panic!("by {size}") };
            let without = |keys: &[&str]| {
                let pieces = found.without(|member| keys.contains(&&*member.key));
                String::from_utf8(pieces.concat()).expect("text")
            };
            assert_eq!(without(&[]), result);
            assert_eq!(
                without(&["resultType", "ttlMs"]),
                r#"{"content" : [1] ,"structuredContent":[1,{"a":2}]}"#.replace(" ,\"s", ",\"s")
            );
            assert_eq!(
                without(&["structuredContent", "ttlMs"]),
                r#"{"resultType":"complete", "content" : [1]}"#
            );
        }
    }
}
