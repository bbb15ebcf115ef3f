//! The JSON-RPC envelope: parsed into requests, notifications and responses; payloads stay text.

use crate::codes::{INVALID_REQUEST, PARSE_ERROR, RpcError};
use crate::outline::Outline;
use crate::strict;
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use toolbooth_core::json::{RawJson, write_string};

/// The id of a request, as the sender spelled it: a string or an integer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(RawJson);

/// The longest id, quotes included.
const MAX_ID_BYTES: usize = 256;

impl Id {
    /// Creates an id from a number.
    pub fn number(number: u64) -> Self {
        Self(RawJson::trusted(number.to_string()))
    }

    /// Reads an id; `None` unless it is a string or an integer of at most 256 bytes. Its text is sent back unchanged.
    pub fn from_raw(raw: &RawJson) -> Option<Self> {
        if raw.as_bytes().len() > MAX_ID_BYTES {
            return None;
        }
        let first = *raw.as_bytes().first()?;
        let integer = |text: &[u8]| text.iter().all(|b| b.is_ascii_digit() || *b == b'-');
        (first == b'"' || integer(raw.as_bytes())).then(|| Self(raw.clone()))
    }

    /// Whether it equals this number.
    pub fn is(&self, number: u64) -> bool {
        self.as_number() == Some(number)
    }

    /// The number, if it is one; the gateway's own ids are numbers.
    pub fn as_number(&self) -> Option<u64> {
        self.0.as_str().parse().ok()
    }

    /// Its text.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// One message, in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A request, which expects a response.
    Request(Request),
    /// A notification, which does not.
    Notification(Notification),
    /// A response.
    Response(Response),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its id.
    pub id: Id,
    /// Its method.
    pub method: String,
    /// Its parameters: an object when present.
    pub params: Option<RawJson>,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Option<RawJson>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The id of the request; absent if the sender could not read it.
    pub id: Option<Id>,
    /// The result or the error.
    pub outcome: Result<RawJson, RpcError>,
}

#[derive(Deserialize)]
struct MessageFields<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<ErrorFields<'a>>,
}

#[derive(Deserialize)]
struct ErrorFields<'a> {
    code: i64,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Deserializes `null` as a present value.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The text is not a valid JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidMessage {
    /// The id for the error response, if it could be read.
    pub id: Option<Id>,
    /// The error to respond with.
    pub error: RpcError,
}

impl Message {
    /// Reads one message. Payloads share `text`.
    pub fn parse(text: &Bytes) -> Result<Self, InvalidMessage> {
        let text = &as_text(text)?;
        // Most messages have the usual form.
        match Outline::of(text).and_then(|outline| Self::outlined(text, outline)) {
            Some(message) => Ok(message),
            None => Self::parse_any(text),
        }
    }

    /// Reads a message from a client, which must also pass the [strict](crate::strict) check.
    pub fn parse_strictly(text: &Bytes) -> Result<Self, InvalidMessage> {
        let text = &as_text(text)?;
        // Usually one pass is enough for both.
        if let Some(message) = Outline::strict(text).and_then(|outline| Self::outlined(text, outline)) {
            return Ok(message);
        }
        strict::check(text.as_bytes()).map_err(|error| InvalidMessage { id: None, error })?;
        Self::parse_any(text)
    }

    fn parse_any(text: &ByteString) -> Result<Self, InvalidMessage> {
        if let Some(other) = text.trim_ascii_start().bytes().next().filter(|first| *first != b'{') {
            return Err(InvalidMessage { id: None, error: not_an_object(text, other) });
        }
        let fields: MessageFields<'_> = serde_json::from_str(text).map_err(|error| InvalidMessage {
            id: None,
            error: match error.classify() {
                serde_json::error::Category::Data => {
                    RpcError::new(INVALID_REQUEST, format!("Invalid Request: {error}"))
                }
                _ => RpcError::new(PARSE_ERROR, format!("Parse error: {error}")),
            },
        })?;
        let raw = |value: &RawValue| RawJson::part_of(text, value);
        let id = fields.id.map(raw);
        let invalid = |why: &str| InvalidMessage {
            id: id.as_ref().and_then(Id::from_raw),
            error: RpcError::new(INVALID_REQUEST, format!("Invalid Request: {why}")),
        };
        if fields.jsonrpc.as_deref() != Some("2.0") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        let params = fields.params.map(raw);
        match (fields.method, fields.result, fields.error) {
            (Some(method), None, None) => {
                if params.as_ref().is_some_and(|params| !params.is_object()) {
                    return Err(invalid("`params` must be an object"));
                }
                let method = method.into_owned();
                match &id {
                    None => Ok(Self::Notification(Notification { method, params })),
                    Some(raw_id) => match Id::from_raw(raw_id) {
                        Some(id) => Ok(Self::Request(Request { id, method, params })),
                        None => Err(invalid("`id` must be a string or an integer of at most 256 bytes")),
                    },
                }
            }
            (None, Some(result), None) => Ok(Self::Response(Response {
                id: id.as_ref().and_then(Id::from_raw),
                outcome: Ok(raw(result)),
            })),
            (None, None, Some(error)) => Ok(Self::Response(Response {
                id: id.as_ref().and_then(Id::from_raw),
                outcome: Err(RpcError {
                    code: error.code,
                    message: error.message.into_owned(),
                    data: error.data.map(raw),
                }),
            })),
            _ => Err(invalid("exactly one of `method`, `result` and `error` is required")),
        }
    }
}

fn as_text(bytes: &Bytes) -> Result<ByteString, InvalidMessage> {
    ByteString::try_from(bytes.clone()).map_err(|_| InvalidMessage {
        id: None,
        error: RpcError::new(PARSE_ERROR, "Parse error: the message is not valid UTF-8"),
    })
}

/// The error for a text that does not start with an object.
fn not_an_object(text: &str, first: u8) -> RpcError {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return RpcError::new(PARSE_ERROR, format!("Parse error: {error}"));
    }
    let found = match first {
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        _ => "a number",
    };
    RpcError::new(INVALID_REQUEST, format!("Invalid Request: a message must be an object, not {found}"))
}

impl Message {
    /// Builds a message from its outline; `None` if it does not have the usual form.
    fn outlined(text: &ByteString, outline: Outline) -> Option<Self> {
        let part = |range: Range<usize>| RawJson::known_part(text, &text[range]);
        let Outline { id, method, params, result } = outline;
        match (method, result) {
            (Some(method), None) => {
                let params = params.map(part);
                if params.as_ref().is_some_and(|params| !params.is_object()) {
                    return None;
                }
                let method = text[method].to_owned();
                Some(match id {
                    None => Self::Notification(Notification { method, params }),
                    Some(id) => Self::Request(Request { id: Id::from_raw(&part(id))?, method, params }),
                })
            }
            (None, Some(result)) => {
                let id = id.map(part).as_ref().and_then(Id::from_raw);
                Some(Self::Response(Response { id, outcome: Ok(part(result)) }))
            }
            _ => None,
        }
    }
}

/// Writes a request.
pub fn write_request(id: u64, method: &str, params: Option<&RawJson>) -> Bytes {
    let mut out = BytesMut::with_capacity(96 + params.map_or(0, |params| params.as_bytes().len()));
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.to_string().as_bytes());
    write_method(&mut out, method, params);
    out.freeze()
}

/// Writes a notification.
pub fn write_notification(method: &str, params: Option<&RawJson>) -> Bytes {
    let mut out = BytesMut::with_capacity(64 + params.map_or(0, |params| params.as_bytes().len()));
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    write_method(&mut out, method, params);
    out.freeze()
}

fn write_method(out: &mut BytesMut, method: &str, params: Option<&RawJson>) {
    out.extend_from_slice(b",\"method\":");
    write_string(out, method);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.as_bytes());
    }
    out.extend_from_slice(b"}");
}

const RESULT_HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
const RESULT: &[u8] = b",\"result\":";

/// The text before the result in a response to `id`; a `}` closes it.
pub fn result_head(id: &Id) -> Bytes {
    let id = id.raw().as_bytes();
    let mut out = Vec::with_capacity(RESULT_HEAD.len() + id.len() + RESULT.len());
    out.extend_from_slice(RESULT_HEAD);
    out.extend_from_slice(id);
    out.extend_from_slice(RESULT);
    out.into()
}

/// Writes a response with a result.
pub fn write_result(id: &Id, result: &RawJson) -> Bytes {
    // The exact capacity: sharing a buffer with spare capacity would need another allocation.
    let id = id.raw().as_bytes();
    let mut out =
        Vec::with_capacity(RESULT_HEAD.len() + id.len() + RESULT.len() + result.as_bytes().len() + 1);
    out.extend_from_slice(RESULT_HEAD);
    out.extend_from_slice(id);
    out.extend_from_slice(RESULT);
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
    out.into()
}

/// Writes a response with an error; its id is null if the request's id could not be read.
pub fn write_error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let mut out = BytesMut::with_capacity(96 + error.message.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    match id {
        Some(id) => {
            out.extend_from_slice(b",\"id\":");
            out.extend_from_slice(id.raw().as_bytes());
        }
        None => out.extend_from_slice(b",\"id\":null"),
    }
    out.extend_from_slice(b",\"error\":");
    error.write(&mut out);
    out.extend_from_slice(b"}");
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, InvalidMessage> {
        Message::parse(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn members_decide_the_kind_of_message() {
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Ok(Message::Request(_))));
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","method":"x"}"#), Ok(Message::Notification(_))));
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","id":"a","result":null}"#), Ok(Message::Response(_))));
        let Ok(Message::Response(response)) =
            parse(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":[1.0]}}"#)
        else {
            panic!("an error is a response")
        };
        assert_eq!(response.id, None);
        assert_eq!(response.outcome.expect_err("an error").data.map(|d| d.to_string()), Some("[1.0]".into()));
    }

    #[test]
    fn invalid_messages_get_the_right_code() {
        let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "i".repeat(MAX_ID_BYTES - 1));
        let fits = long_id.replacen('i', "", 2).replacen("d", "id", 1);
        assert!(matches!(parse(&fits), Ok(Message::Request(_))), "{fits}");
        let cases = [
            ("", PARSE_ERROR),
            ("{", PARSE_ERROR),
            ("not json", PARSE_ERROR),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x"} trailing"#, PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, INVALID_REQUEST),
            (&long_id, INVALID_REQUEST), // audit: a 1 MB id is echoed
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"Method":"x"}"#, INVALID_REQUEST), // wrong case
        ];
        for (text, code) in cases {
            assert_eq!(parse(text).expect_err(text).error.code, code, "{text}");
        }
    }

    #[test]
    fn the_error_names_the_kind_of_value_that_is_not_an_object() {
        let cases = [("7", "a number"), ("\"a\"", "a string"), (" null", "null"), ("true", "a boolean")];
        let batch = r#"["2.0",1,"ping"]"#;
        for (text, found) in cases.into_iter().chain([(batch, "an array")]) {
            let error = parse(text).expect_err(text).error;
            let expected = format!("Invalid Request: a message must be an object, not {found}");
            assert_eq!((error.code, error.message), (INVALID_REQUEST, expected));
        }
    }

    #[test]
    fn ids_are_sent_back_unchanged() {
        for id in ["1", "\"a\\u0041\"", "-7", "12345678901234567890123"] {
            let Ok(Message::Request(request)) =
                parse(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#))
            else {
                panic!("{id}")
            };
            let answer = write_result(&request.id, &RawJson::empty_object());
            assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
    }
}
