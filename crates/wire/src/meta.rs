//! The `_meta` object of requests and results.

use crate::codes::{INVALID_PARAMS, RpcError, UNSUPPORTED_VERSION};
use crate::era::{Era, Revision};
use std::borrow::Cow;
use toolbooth_core::elicitation::{ElicitationFault, screened, unambiguous};
use toolbooth_core::json::{Edit, JsonCursor, JsonKind, Member, ObjectWriter, RawJson, edit_object};

/// The protocol version of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The client's capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The least severe level of log messages that the client wants for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The server's name and version, in results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The id of the `subscriptions/listen` request to which a message belongs.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The token that links progress to its request.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// The caller's deadline of a tool call, in milliseconds.
pub const TIMEOUT_MS: &str = "toolbooth/timeout_ms";

/// The prefix of the gateway's own keys in `_meta`. Such keys from clients and servers are removed.
const GATEWAY_PREFIX: &str = "toolbooth/";

fn is_gateway_key(key: &str) -> bool {
    key.get(..GATEWAY_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(GATEWAY_PREFIX))
}

/// The `_meta` members that the gateway reads; the other members are forwarded as text.
#[derive(Debug, Clone, Default)]
pub struct RequestMeta {
    /// The version as it was sent.
    pub version: Option<String>,
    /// The capabilities, if they were an object.
    pub capabilities: Option<RawJson>,
    /// The client's name and version.
    pub client_info: Option<RawJson>,
    /// The least severe level of log messages to send.
    pub log_level: Option<String>,
    /// The token for progress notifications.
    pub progress_token: Option<RawJson>,
    /// The caller's deadline of a tool call, in milliseconds, as it was sent.
    pub timeout_ms: Option<RawJson>,
    /// All members that are neither the protocol's own nor the progress token.
    pub rest: Vec<Member>,
}

impl RequestMeta {
    /// Reads the `_meta` of a request's parameters; absent reads as empty.
    pub fn of(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let Some(params) = params else { return Ok(Self::default()) };
        // Most legacy requests have none, which one search in the text shows.
        if memchr::memmem::find(params.as_bytes(), b"_meta").is_none() && !params.as_str().contains('\\') {
            return Ok(Self::default());
        }
        match params.pick(["_meta"]) {
            [None] => Ok(Self::default()),
            [Some(meta)] => Self::read(&params.share(meta)),
        }
    }

    /// Reads a `_meta` object.
    pub fn read(meta: &RawJson) -> Result<Self, RpcError> {
        let wrong = |what: &str| RpcError::new(INVALID_PARAMS, format!("Invalid params: `_meta` {what}"));
        let mut cursor = JsonCursor::new(meta.as_str(), 0);
        if cursor.kind() != JsonKind::Object {
            return Err(wrong("must be an object"));
        }
        let mut found = Self::default();
        cursor.members(|cursor, key| {
            let value = meta.share(meta.as_str().get(cursor.skip()).unwrap_or_default());
            match &*key {
                PROTOCOL_VERSION => {
                    let version =
                        value.string().ok_or_else(|| wrong("has a version that is not a string"))?;
                    found.version = Some(version.into_owned());
                }
                CLIENT_CAPABILITIES => {
                    if !value.is_object() {
                        return Err(wrong("has client capabilities that are not an object"));
                    }
                    found.capabilities = Some(value);
                }
                CLIENT_INFO => found.client_info = Some(value),
                LOG_LEVEL => found.log_level = value.string().map(Cow::into_owned),
                PROGRESS_TOKEN => found.progress_token = Some(value),
                TIMEOUT_MS => found.timeout_ms = Some(value),
                // A server would take it for a key of the gateway.
                key if is_gateway_key(key) => {}
                _ => found.rest.push(Member { key: key.into_owned(), value }),
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether the request is modern: its `_meta` has the version.
    pub fn is_modern(&self) -> bool {
        self.version.is_some()
    }

    /// The revision, or the error that the protocol defines if it is not a supported modern one.
    pub fn modern_revision(&self) -> Result<Revision, RpcError> {
        let Some(version) = &self.version else {
            return Err(RpcError::new(
                INVALID_PARAMS,
                format!("Invalid params: `_meta` has no `{PROTOCOL_VERSION}`"),
            ));
        };
        let revision = match Revision::from_name(version) {
            Some(revision) if revision.era() == Era::Modern => revision,
            _ => return Err(unsupported_version(version)),
        };
        if self.capabilities.is_none() {
            return Err(RpcError::new(
                INVALID_PARAMS,
                format!("Invalid params: `_meta` has no `{CLIENT_CAPABILITIES}`"),
            ));
        }
        Ok(revision)
    }
}

/// The `_meta` of a request to a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutgoingMeta<'a> {
    /// The revision, for a modern server; without it the protocol's own members are omitted.
    pub revision: Option<Revision>,
    /// The client's name and version.
    pub client_info: Option<&'a RawJson>,
    /// The client's capabilities.
    pub capabilities: Option<&'a RawJson>,
    /// The least severe level of log messages to send.
    pub log_level: Option<&'a str>,
    /// The token for progress notifications.
    pub progress_token: Option<u64>,
    /// Other members that the client sent.
    pub rest: &'a [Member],
}

impl OutgoingMeta<'_> {
    /// Whether it has any member.
    pub fn has_content(&self) -> bool {
        self.revision.is_some() || !self.rest.is_empty() || self.progress_token.is_some()
    }

    /// The approximate size in bytes.
    pub fn size(&self) -> usize {
        let rest: usize =
            self.rest.iter().map(|member| member.key.len() + member.value.as_bytes().len() + 4).sum();
        let text = |text: Option<&RawJson>| text.map_or(0, |text| text.as_bytes().len());
        rest + text(self.client_info) + text(self.capabilities) + 224
    }

    /// Writes it as the member `_meta`, unless it is empty.
    pub fn write(&self, writer: &mut ObjectWriter) {
        if self.has_content() {
            writer.object("_meta", |meta| self.fill(meta));
        }
    }

    fn fill(&self, writer: &mut ObjectWriter) {
        if let Some(revision) = self.revision {
            writer.text(PROTOCOL_VERSION, revision.as_str());
            if let Some(info) = self.client_info {
                writer.raw(CLIENT_INFO, info);
            }
            writer.raw(CLIENT_CAPABILITIES, self.capabilities.unwrap_or(&RawJson::empty_object()));
            if let Some(level) = self.log_level {
                writer.text(LOG_LEVEL, level);
            }
        }
        if let Some(token) = self.progress_token {
            writer.number(PROGRESS_TOKEN, token);
        }
        for Member { key, value } in self.rest {
            writer.raw(key, value);
        }
    }
}

/// The error for an unsupported version, with the list of supported ones.
pub fn unsupported_version(requested: &str) -> RpcError {
    let supported: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
    RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(RawJson::from_value(&serde_json::json!({"supported": supported, "requested": requested})))
}

/// Removes the members of a result that only modern clients know.
pub fn strip_modern(result: &RawJson) -> RawJson {
    edit_object(result, |key, value| match key {
        "resultType" | "ttlMs" | "cacheScope" => Edit::Drop,
        "_meta" => match without_protocol_keys(&result.share(value)) {
            Some(meta) => Edit::Replace(meta),
            None => Edit::Drop,
        },
        _ => Edit::Keep,
    })
    .unwrap_or_else(|_| result.clone())
}

/// The id of a gateway instance, which prevents that a gateway is configured as its own server.
pub const INSTANCE: &str = "toolbooth/instance";

/// The key with which a server names its question; a modern client answers under that name.
pub const INPUT_KEY: &str = "toolbooth/inputKey";

/// The key that names the task of a message, in revision 2025-11-25.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Removes the gateway's own keys, subscription ids and task ids from the `_meta` of a server's parameters or result, so
/// that a server cannot forge them.
pub fn strip_gateway_meta(params: RawJson) -> RawJson {
    let text = params.as_bytes();
    if memchr::memmem::find(text, b"_meta").is_none() && memchr::memchr(b'\\', text).is_none() {
        return params;
    }
    // The id of the gateway's subscription or task at the server has no meaning for the client.
    let is_id =
        |key: &str| key.eq_ignore_ascii_case(SUBSCRIPTION_ID) || key.eq_ignore_ascii_case(RELATED_TASK);
    let is_removed = |key: &str| (is_gateway_key(key) && key != INPUT_KEY) || is_id(key);
    let mut count = 0;
    let mut is_clean = true;
    JsonCursor::new(params.as_str(), 0).each_member(|spot| {
        if spot.key == "_meta" {
            count += 1;
            JsonCursor::new(params.as_str(), spot.value.start)
                .each_member(|inner| is_clean &= !is_removed(&inner.key));
        }
    });
    // Without such keys the bytes stay unchanged.
    if is_clean && count < 2 {
        return params;
    }
    let plain =
        |meta: &RawJson| edit_object(meta, |key, _| if is_removed(key) { Edit::Drop } else { Edit::Keep });
    let mut left = count;
    let edited = edit_object(&params, |key, value| match key {
        "_meta" => {
            left -= 1;
            // JSON parsers usually take the last of several members, so only the last one is kept.
            match plain(&params.share(value)) {
                _ if left > 0 => Edit::Drop,
                Ok(meta) => Edit::Replace(meta),
                Err(_) => Edit::Keep,
            }
        }
        _ => Edit::Keep,
    });
    edited.unwrap_or(params)
}

/// Removes the gateway's own keys from the `data` of a server's error, so that a server cannot forge them.
pub fn strip_gateway_error_data(mut error: RpcError) -> RpcError {
    let forged =
        |key: &str| key.eq_ignore_ascii_case(GATEWAY_PREFIX.trim_end_matches('/')) || is_gateway_key(key);
    let Some(data) = error.data.as_ref().filter(|data| data.is_object()) else { return error };
    let mut is_forged = false;
    let edited = edit_object(data, |key, _| match forged(key) {
        true => {
            is_forged = true;
            Edit::Drop
        }
        false => Edit::Keep,
    });
    // Without such keys the bytes stay unchanged.
    if is_forged && let Ok(left) = edited {
        error.data = Some(left);
    }
    error
}

/// Screens the questions in a modern server's answer: removes the gateway's own keys, and checks forms with
/// `elicitation`.
pub fn screen_questions(requests: &RawJson, server: &str) -> Result<RawJson, ElicitationFault> {
    unambiguous(requests)?;
    let mut fault = None;
    let mut one = |request: &RawJson| {
        let method = request.member("method");
        let is_form =
            method.as_ref().and_then(RawJson::string).is_some_and(|method| method == "elicitation/create");
        edit_object(request, |key, value| match key {
            "params" => {
                let params = strip_gateway_meta(request.share(value));
                match if is_form { screened(server, params) } else { Ok(params) } {
                    Ok(params) => Edit::Replace(params),
                    Err(found) => {
                        fault = Some(found);
                        Edit::Drop
                    }
                }
            }
            _ => Edit::Keep,
        })
    };
    let edited =
        edit_object(requests, |_, request| one(&requests.share(request)).map_or(Edit::Keep, Edit::Replace));
    match fault {
        Some(fault) => Err(fault),
        None => Ok(edited.unwrap_or_else(|_| requests.clone())),
    }
}

/// A `_meta` without the keys `io.modelcontextprotocol/*`; `None` if it is empty then.
pub(crate) fn without_protocol_keys(meta: &RawJson) -> Option<RawJson> {
    let mut kept = 0;
    let left = edit_object(meta, |key, _| {
        if key.starts_with("io.modelcontextprotocol/") {
            return Edit::Drop;
        }
        kept += 1;
        Edit::Keep
    });
    left.ok().filter(|_| kept > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(text: &str) -> Result<RequestMeta, RpcError> {
        RequestMeta::of(Some(&RawJson::parse(format!(r#"{{"_meta":{text}}}"#)).expect("JSON")))
    }

    #[test]
    fn gateway_keys_from_clients_are_removed() {
        let read =
            meta(r#"{"toolbooth/user":"root","Toolbooth/held":1,"toolboothless":1,"x/y":2}"#).expect("read");
        let kept: Vec<_> = read.rest.iter().map(|member| member.key.as_str()).collect();
        assert_eq!(kept, ["toolboothless", "x/y"]);
    }

    #[test]
    fn gateway_keys_in_a_servers_question_are_removed() {
        let json = |text: &str| RawJson::parse(text.to_owned()).expect("JSON");
        let cases = [
            (
                r#"{"message":"?","_meta":{"toolbooth/held":"1", "x":1}}"#,
                r#"{"message":"?","_meta":{ "x":1}}"#,
            ),
            (r#"{"_meta":{"toolbooth/inputKey":"name"}}"#, r#"{"_meta":{"toolbooth/inputKey":"name"}}"#),
            (r#"{"\u005fmeta":{"TOOLBOOTH/held":1}}"#, r#"{"\u005fmeta":{}}"#),
            (r#"{"message":"toolbooth/held"}"#, r#"{"message":"toolbooth/held"}"#),
            (r#"{"_meta":{"toolbooth/held":1},"x":1,"_meta":{"y":1}}"#, r#"{"x":1,"_meta":{"y":1}}"#),
            (r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7,"y":1}}"#, r#"{"_meta":{"y":1}}"#),
            (r#"{"_meta":{"io.modelcontextprotocol/SubscriptionID":7,"y":1}}"#, r#"{"_meta":{"y":1}}"#),
        ];
        for (given, expected) in cases {
            let found: serde_json::Value = strip_gateway_meta(json(given)).read().expect("JSON");
            assert_eq!(found, json(expected).read::<serde_json::Value>().expect("JSON"), "{given}");
            let asked =
                screen_questions(&json(&format!(r#"{{"q":{{"method":"m","params":{given}}}}}"#)), "s");
            if given.matches("\"_meta\"").count() > 1 {
                assert!(asked.is_err(), "a question with a duplicate key is refused");
                continue;
            }
            let asked = asked.expect("questions");
            assert_eq!(
                asked.at(&["q", "params"]).expect("params").read::<serde_json::Value>().expect("JSON"),
                found
            );
        }
    }

    #[test]
    fn gateway_keys_in_a_servers_error_are_removed() {
        let cases = [
            (r#"{"toolbooth":{"code":"call.refused"},"x": 1.0}"#, r#"{"x": 1.0}"#),
            (r#"{"\u0074oolbooth":1}"#, "{}"),
            (r#"{ "tray" : 2 }"#, r#"{ "tray" : 2 }"#),
            (r#"["toolbooth"]"#, r#"["toolbooth"]"#),
        ];
        for (given, expected) in cases {
            let error = RpcError::new(-1, "m").with_data(RawJson::parse(given).expect("JSON"));
            let data = strip_gateway_error_data(error).data.expect("data");
            assert_eq!(data.as_str(), expected, "{given}");
        }
    }

    #[test]
    fn a_modern_request_needs_version_and_capabilities() {
        let cases = [
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#,
                None,
            ),
            (r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, Some(INVALID_PARAMS)),
            (r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#, Some(INVALID_PARAMS)),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"1900-01-01","io.modelcontextprotocol/clientCapabilities":{}}"#,
                Some(UNSUPPORTED_VERSION),
            ),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}"#,
                Some(UNSUPPORTED_VERSION),
            ),
        ];
        for (text, code) in cases {
            let revision = meta(text).and_then(|meta| meta.modern_revision());
            assert_eq!(revision.err().map(|e| e.code), code, "{text}");
        }
        assert!(meta("7").is_err());
        assert!(meta(r#"{"io.modelcontextprotocol/clientCapabilities":[]}"#).is_err());
    }

    #[test]
    fn other_members_of_the_client_are_forwarded() {
        let meta = meta(r#"{"progressToken":"p","traceparent":"00-a-b-01","x/y":{"z":1.0}}"#).expect("meta");
        let written = |stamp: OutgoingMeta<'_>| {
            let mut writer = ObjectWriter::default();
            stamp.write(&mut writer);
            writer.finish().to_string()
        };
        let stamp = OutgoingMeta { progress_token: Some(7), rest: &meta.rest, ..OutgoingMeta::default() };
        assert_eq!(
            written(stamp),
            r#"{"_meta":{"progressToken":7,"traceparent":"00-a-b-01","x/y":{"z":1.0}}}"#
        );
        assert_eq!(written(OutgoingMeta::default()), "{}");
    }

    #[test]
    fn results_for_legacy_clients_lose_only_the_modern_members() {
        let result = RawJson::parse(
            r#"{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{},"a":1},"x":2}"#,
        )
        .expect("JSON");
        assert_eq!(strip_modern(&result).as_str(), r#"{"content":[],"_meta":{"a":1},"x":2}"#);
    }
}
