//! Answers that cannot be read: whether a text was meant as one, and whose it was. A caller whose answer came and
//! cannot be read is told so at once instead of waiting for the deadline.

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
    let known = unreadable.id.as_ref().and_then(toolbooth_wire::Id::as_number);
    let head = &text[..text.len().min(EDGE_BYTES)];
    let tail = &text[text.len().saturating_sub(EDGE_BYTES)..];
    known.or_else(|| answered_id(head)).or_else(|| id_at_end(tail))
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
    use bytes::Bytes;
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
}
