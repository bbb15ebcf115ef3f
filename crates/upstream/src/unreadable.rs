//! Answers that cannot be read: whether a text was meant as one, and whose it was. A caller whose answer came and
//! cannot be read is told so at once instead of waiting for the deadline.

use bytes::Bytes;
use memchr::memmem::{find, rfind};
use toolbooth_core::json::RawJson;
use toolbooth_wire::codes::INVALID_REQUEST;
use toolbooth_wire::envelope::Unreadable;

/// How much of both ends of a text is looked at for its id.
const EDGE_BYTES: usize = 256;

/// Whether a text that could not be read was meant as an answer. What servers print among their messages is not.
pub(crate) fn is_answer(text: &[u8], unreadable: &Unreadable) -> bool {
    if text.trim_ascii_start().first() != Some(&b'{') || find(text, b"\"jsonrpc\"").is_none() {
        return false;
    }
    // It is JSON, so its members tell.
    if unreadable.error.code == INVALID_REQUEST
        && let Ok(text) = std::str::from_utf8(text)
        && let Ok(json) = RawJson::parse(text.to_owned())
    {
        return json.member("method").is_none();
    }
    let outer = outer_head(text).unwrap_or(text);
    find(outer, b"\"method\"").is_none()
}

/// The id of an answer that could not be read, by either end of it.
pub(crate) fn id_of(text: &[u8], unreadable: &Unreadable) -> Option<u64> {
    let known = unreadable.id.as_ref().and_then(|id| number_of(id.raw()));
    let head = &text[..text.len().min(EDGE_BYTES)];
    let tail = &text[text.len().saturating_sub(EDGE_BYTES)..];
    known.or_else(|| answered_id(head)).or_else(|| id_at_end(tail))
}

/// The number that the id of an answer stands for, however it is spelled.
pub(crate) fn meant_id(text: &Bytes) -> Option<u64> {
    let answer = RawJson::parse(text.clone()).ok()?;
    answer.member("id").as_ref().and_then(number_of)
}

/// The answers in a text that is JSON but not a message: one without `jsonrpc`, or those inside a batch. Each by the
/// number that its id stands for, if it stands for one.
pub(crate) fn odd_answers(text: &Bytes) -> Vec<Option<u64>> {
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

/// The number that an id stands for: that of `7`, `"7"` and `7.0` is the same.
fn number_of(id: &RawJson) -> Option<u64> {
    if let Some(text) = id.string() {
        // `+7` would be read as a number, too.
        return text.parse().ok().filter(|_| text.starts_with(|first: char| first.is_ascii_digit()));
    }
    // A whole number is written without its fraction.
    id.as_str().parse().ok().or_else(|| id.read::<f64>().ok()?.to_string().parse().ok())
}

/// What stands before the first inner object or list.
fn outer_head(text: &[u8]) -> Option<&[u8]> {
    let open = memchr::memchr(b'{', text)? + 1;
    let inner = memchr::memchr2(b'{', b'[', &text[open..]).map_or(text.len(), |at| open + at);
    Some(&text[open..inner])
}

/// The id of a long answer, read from its first bytes, so that only its own caller is told. Only the
/// outermost object counts: an `id` inside the result is the server's own affair.
pub(crate) fn answered_id(head: &[u8]) -> Option<u64> {
    let outer = outer_head(head)?;
    number_after(&outer[find(outer, b"\"id\"")? + 4..])
}

/// The id in the last bytes of a long answer. Nothing tells whether it is the answer's own.
pub(crate) fn id_at_end(suffix: &[u8]) -> Option<u64> {
    number_after(&suffix[rfind(suffix, b"\"id\"")? + 4..])
}

fn number_after(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_wire::Message;

    #[test]
    fn the_id_of_a_long_answer_is_found_at_either_end() {
        let cases: [(&str, Option<u64>); 5] = [
            (r#"{"jsonrpc":"2.0","id":17,"result":{"content"#, Some(17)),
            (r#"{"id" : 3 , "jsonrpc":"2.0"#, Some(3)),
            (r#"{"jsonrpc":"2.0","result":{"id":5,"content"#, None), // the result's own
            (r#"{"jsonrpc":"2.0","id":"x","result"#, None),
            ("garbage", None),
        ];
        for (prefix, id) in cases {
            assert_eq!(answered_id(prefix.as_bytes()), id, "{prefix}");
        }
        assert_eq!(id_at_end(br#"xxx"}],"isError":false},"jsonrpc":"2.0","id":12}"#), Some(12));
    }

    #[test]
    fn an_unreadable_answer_is_told_from_noise() {
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

    // Audit: an id as a text or a fraction, a batch and a missing `jsonrpc` became time-outs.
    #[test]
    fn answers_that_are_no_messages_are_known_by_the_number_of_their_id() {
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
            assert_eq!(odd_answers(&Bytes::copy_from_slice(text.as_bytes())), expected, "{text}");
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
            assert_eq!(meant_id(&Bytes::from(text)), expected, "{id}");
        }
    }
}
