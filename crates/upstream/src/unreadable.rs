//! Unreadable answers: detects whether a text was meant as an answer, and to which call. The caller then
//! fails immediately instead of waiting for the deadline.

use bytes::Bytes;
use memchr::memmem::{find, rfind};
use std::ops::ControlFlow;
use toolbooth_core::json::{ANY_DEPTH, RawJson, Token, TokenKind, Tokenizer, decode};
use toolbooth_wire::codes::INVALID_REQUEST;
use toolbooth_wire::envelope::InvalidMessage;

/// How many bytes at each end of a text are searched for its id.
const EDGE_BYTES: usize = 256;

/// Whether an unreadable text was meant as an answer, as opposed to output that a server prints between
/// messages.
pub(crate) fn is_answer(text: &[u8], unreadable: &InvalidMessage) -> bool {
    if text.trim_ascii_start().first() != Some(&b'{') || find(text, b"\"jsonrpc\"").is_none() {
        return false;
    }
    // The text is JSON, so its members decide.
    if unreadable.error.code == INVALID_REQUEST
        && let Ok(text) = std::str::from_utf8(text)
        && let Ok(json) = RawJson::parse(text.to_owned())
    {
        return json.member("method").is_none();
    }
    !AnswerHead::of(text).has_method
}

/// The id of an unreadable answer, from either end of it.
pub(crate) fn id_of(text: &[u8], unreadable: &InvalidMessage) -> Option<u64> {
    let known = unreadable.id.as_ref().and_then(|id| number_of(id.raw()));
    let head = &text[..text.len().min(EDGE_BYTES)];
    let tail = &text[text.len().saturating_sub(EDGE_BYTES)..];
    known.or_else(|| answered_id(head)).or_else(|| id_at_end(tail))
}

/// The number that an answer's id represents, in any spelling.
pub(crate) fn spelled_id(text: &Bytes) -> Option<u64> {
    let answer = RawJson::parse(text.clone()).ok()?;
    answer.member("id").as_ref().and_then(number_of)
}

/// The answers in a text that is JSON but not a message: one without `jsonrpc`, or those inside a batch. Each
/// is given by the number that its id represents, if any.
pub(crate) fn malformed_answers(text: &Bytes) -> Vec<Option<u64>> {
    let Ok(json) = RawJson::parse(text.clone()) else { return Vec::new() };
    let found = match json.as_bytes().first() {
        Some(b'[') => json.elements().unwrap_or_default(),
        Some(b'{') => vec![json],
        _ => Vec::new(),
    };
    let answers = found.iter().filter(|one| has_outcome(one));
    answers.map(|one| one.member("id").as_ref().and_then(number_of)).collect()
}

/// Whether an object has the members of an answer: an id, and a result or an error.
fn has_outcome(object: &RawJson) -> bool {
    let [id, method, result] = object.holds(["id", "method", "result"]);
    let [error] = object.pick(["error"]);
    id && !method && (result || error.is_some())
}

/// The number that an id represents: the same for `7`, `"7"` and `7.0`.
fn number_of(id: &RawJson) -> Option<u64> {
    if let Some(text) = id.string() {
        // `+7` would also parse as a number.
        return text.parse().ok().filter(|_| text.starts_with(|first: char| first.is_ascii_digit()));
    }
    // A whole `f64` is formatted without a fraction.
    id.as_str().parse().ok().or_else(|| id.read::<f64>().ok()?.to_string().parse().ok())
}

/// The members of a message that can be read before its first fault, or before the end of the part that is known.
#[derive(Default)]
struct AnswerHead {
    id: Option<u64>,
    has_method: bool,
}

impl AnswerHead {
    fn of(text: &[u8]) -> Self {
        let valid = match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        };
        let mut head = Self::default();
        let mut is_id = false;
        // A fault ends the head. The text is not finished: digits may follow a number at its end.
        let _ = Tokenizer::new(ANY_DEPTH).push(valid.as_bytes(), &mut |token: Token<'_>| {
            match (token.depth, token.kind) {
                (1, TokenKind::Key) => {
                    let key = decode(&valid[token.range.start + 1..token.range.end - 1]);
                    is_id = key.as_deref() == Ok("id");
                    head.has_method |= key.as_deref() == Ok("method");
                }
                (1, TokenKind::Number) if is_id && head.id.is_none() => {
                    head.id = valid[token.range].parse().ok();
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        head
    }
}

/// The id in the first bytes of a long answer, so that only its own call fails. Only the outermost object
/// counts: an `id` inside the result belongs to the server.
pub(crate) fn answered_id(head: &[u8]) -> Option<u64> {
    AnswerHead::of(head).id
}

/// The id in the last bytes of a long answer: a guess, since the text before them is not known. It may belong to a
/// nested object. A wrong guess fails another call of the same server.
pub(crate) fn id_at_end(suffix: &[u8]) -> Option<u64> {
    let after_key = &suffix[rfind(suffix, b"\"id\"")? + 4..];
    let digits = after_key.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_wire::Message;

    #[test]
    fn the_id_of_a_long_answer_is_found_at_either_end() {
        let cases: [(&str, Option<u64>); 10] = [
            (r#"{"jsonrpc":"2.0","id":17,"result":{"content"#, Some(17)),
            (r#"{"id" : 3 , "jsonrpc":"2.0"#, Some(3)),
            (r#"{"jsonrpc":"2.0","result":{},"\u0069d":3,"x"#, Some(3)),
            (r#"{"jsonrpc":"2.0","x":"\"id\":5,","y":"id","id":6}"#, Some(6)), // not inside a string
            (r#"{"jsonrpc":"2.0","id":12"#, None),                             // digits may follow
            (r#"{"jsonrpc":"2.0","id":1.5,"result""#, None),
            (r#"[{"jsonrpc":"2.0","id":1,"result""#, None),
            (r#"{"jsonrpc":"2.0","result":{"id":5,"content"#, None), // belongs to the result
            (r#"{"jsonrpc":"2.0","id":"x","result"#, None),
            ("garbage", None),
        ];
        for (prefix, id) in cases {
            assert_eq!(answered_id(prefix.as_bytes()), id, "{prefix}");
        }
        assert_eq!(id_at_end(br#"xxx"}],"isError":false},"jsonrpc":"2.0","id":12}"#), Some(12));
    }

    #[test]
    fn an_unreadable_answer_is_distinguished_from_noise() {
        let cases: [(&[u8], Option<Option<u64>>); 8] = [
            (br#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"m"}}"#, Some(Some(7))),
            (br#"{"jsonrpc":"2.0","id":7}"#, Some(Some(7))),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"text\":\"\xff\"}}", Some(Some(7))),
            (b"{\"jsonrpc\":\"2.0\",\"result\":{\"text\":\"\0\"},\"id\":7}", Some(Some(7))),
            (b"{\"jsonrpc\":\"2.0\",\"result\":{\"text\":\"\0\"}}", Some(None)),
            (br#"{"jsonrpc":"2.0","id":7,"params":[],"method":"x"}"#, None),
            (br#"{"half": "#, None),
            (b"Listening on 8080", None),
        ];
        for (text, expected) in cases {
            let unreadable = Message::parse(&Bytes::copy_from_slice(text)).expect_err("unreadable");
            let found = is_answer(text, &unreadable).then(|| id_of(text, &unreadable));
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
        }
    }

    // Cases: an id as a string or fraction, a batch, and a missing `jsonrpc`. Without a match, the request would time out.
    #[test]
    fn answers_that_are_not_messages_are_matched_by_their_id() {
        let cases: [(&str, &[Option<u64>]); 13] = [
            (r#"{"id":7,"result":{}}"#, &[Some(7)]),
            (r#" {"error":{"code":1,"message":"m"},"id":"7"}"#, &[Some(7)]),
            (r#"{"id":7,"result":{},"error":null}"#, &[Some(7)]),
            (r#"{"id":"x","result":{}}"#, &[None]),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{}},{"id":8.0,"result":null}]"#, &[Some(7), Some(8)]),
            (r#"[{"jsonrpc":"2.0","method":"notifications/message"},{"id":70e-1,"result":1}]"#, &[Some(7)]),
            (r#"[{"id":7,"method":"ping","result":1}]"#, &[]),
            (r#"{"id":7,"error":null}"#, &[]),
            (r#"{"id":7,"message":"started"}"#, &[]),
            (r#"{"result":{"id":7}}"#, &[]),
            ("[]", &[]),
            ("[7]", &[]),
            ("Listening on 8080", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(malformed_answers(&Bytes::copy_from_slice(text.as_bytes())), expected, "{text}");
        }
        let ids = [
            ("7", Some(7)),
            (r#""7""#, Some(7)),
            (r#""\u0037""#, Some(7)),
            ("7.0", Some(7)),
            ("7.5", None),
            ("-7", None),
            (r#""+7""#, None),
            (r#"" 7""#, None),
            (r#""""#, None),
            ("1e400", None),
            ("null", None),
            ("{}", None),
            ("true", None),
        ];
        for (id, expected) in ids {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            assert_eq!(spelled_id(&Bytes::from(text)), expected, "{id}");
        }
    }
}
