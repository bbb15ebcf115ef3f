//! Messages: the fast readers agree with serde_json and with each other.

use crate::mutate::{Random, chunks, corpus, fuzz};
use bytes::Bytes;
use serde_json::Value;
use std::path::Path;
use toolbooth_core::json::{check_strictly, decode};
use toolbooth_wire::envelope::InvalidMessage;
use toolbooth_wire::long::{AnswerReader, LongAnswer};
use toolbooth_wire::strict::MAX_DEPTH;
use toolbooth_wire::{Era, Message};

const FRAGMENTS: [&[u8]; 30] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u0061",
    b"\\ud800",
    b"\"jsonrpc\":\"2.0\",",
    b"\"jsonrpc\":\"1.0\"",
    b"\"id\":7,",
    b",\"id\":8",
    b"\"id\":\"7\"",
    b"\"\\u0069d\":9,",
    b"\"method\":\"ping\",",
    b",\"params\":{\"a\":1}",
    b",\"result\":{}",
    b"\"result\":{\"content\":[],\"resultType\":\"complete\"},",
    b"\"error\":{\"code\":1,\"message\":\"m\"},",
    b"\"_meta\":{},",
    b"\"requestState\":\"s\",",
    b"1",
    b"1.5",
    b"null",
    b"true",
    b" ",
    b"\xff",
    b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[1]}}",
];

#[test]
fn fast_readers_agree_with_the_full_parser() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/corpus/json/accepted");
    let corpus: Vec<Vec<u8>> = corpus(&folder).into_iter().map(|(_, text)| text).collect();
    fuzz(&corpus, &FRAGMENTS, |text, random| {
        let text = Bytes::copy_from_slice(text);
        let message = Message::parse(&text);
        check_message(&text, &message);
        check_strict(&text, &message);
        check_long(&text, &message, random);
    });
}

/// A message has the parts that serde_json finds.
fn check_message(text: &Bytes, message: &Result<Message, InvalidMessage>) {
    let Ok(message) = message else { return };
    // Values that serde_json cannot represent are passed on.
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return };
    assert_eq!(value["jsonrpc"], "2.0");
    let read = |raw: &toolbooth_core::json::RawJson| raw.read::<Value>().expect("JSON");
    let (id, method, params, result) = match message {
        Message::Request(request) => {
            (Some(&request.id), Some(&request.method), request.params.as_ref(), None)
        }
        Message::Notification(notification) => {
            (None, Some(&notification.method), notification.params.as_ref(), None)
        }
        Message::Response(response) => (response.id.as_ref(), None, None, response.outcome.as_ref().ok()),
    };
    if let Some(id) = id {
        assert_eq!(read(id.raw()), value["id"]);
    }
    assert_eq!(method.map(String::as_str), value.get("method").and_then(Value::as_str));
    if method.is_some() {
        assert_eq!(params.map(read).as_ref(), value.get("params"));
    }
    if let Some(result) = result {
        assert_eq!(Some(&read(result)), value.get("result"));
    }
}

/// A message from a client is accepted exactly if it is a message and passes the strict check.
fn check_strict(text: &Bytes, message: &Result<Message, InvalidMessage>) {
    let strict = Message::parse_strictly(text);
    let passes = check_strictly(text, MAX_DEPTH).is_ok();
    assert_eq!(strict.is_ok(), passes && message.is_ok());
    if strict.is_ok() {
        assert_eq!(&strict, message);
    }
}

/// A plain long answer is a response to its request, with the same result; any other answer is the same text.
fn check_long(text: &Bytes, message: &Result<Message, InvalidMessage>, random: &mut Random) {
    for era in [Era::Legacy, Era::Modern] {
        let mut reader = AnswerReader::new(7, era);
        chunks(text, random).into_iter().for_each(|chunk| reader.push(Bytes::copy_from_slice(chunk)));
        match reader.finish() {
            LongAnswer::Plain(long) => {
                let Ok(Message::Response(response)) = message else { panic!("not a response") };
                assert!(response.id.as_ref().is_some_and(|id| id.is(7)));
                let result = response.outcome.as_ref().expect("a result");
                assert_eq!(long.whole().as_str(), result.as_str());
                let keys: Vec<&str> = long.members().iter().map(|member| &*member.key).collect();
                let members = result.members().expect("an object");
                assert_eq!(keys, members.iter().map(|member| &*member.key).collect::<Vec<_>>());
                assert!(keys.iter().all(|key| decode(key).as_deref() == Ok(*key)), "no escapes");
            }
            LongAnswer::Gathered(whole) => assert_eq!(&whole, text),
        }
    }
}
