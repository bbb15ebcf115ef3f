//! What a modern request says about itself in `_meta`.

use crate::codes::{INVALID_PARAMS, RpcError, UNSUPPORTED_VERSION};
use crate::era::{Era, Revision};
use std::borrow::Cow;
use toolbooth_core::cursor::{Cursor, Kind};
use toolbooth_core::elicitation::{FormFault, screened, unambiguous};
use toolbooth_core::json::{Edit, Member, ObjectWriter, RawJson, edit_object};

/// The protocol version of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Which log messages the client wants for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is, in results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which `subscriptions/listen` request a message belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Ties progress to its request.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// What the gateway itself says in `_meta` is said under this prefix, and nobody else speaks under it.
const OURS: &str = "toolbooth/";

fn is_ours(key: &str) -> bool {
    key.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}

/// The `_meta` members the gateway reads; the rest travels on as text.
#[derive(Debug, Clone, Default)]
pub struct RequestMeta {
    /// The version as it was sent.
    pub version: Option<String>,
    /// The capabilities, if they were an object.
    pub capabilities: Option<RawJson>,
    /// The client's own description of itself.
    pub client_info: Option<RawJson>,
    /// The least severe log message wanted.
    pub log_level: Option<String>,
    /// The token under which progress is wanted.
    pub progress_token: Option<RawJson>,
    /// All members that are neither the protocol's own nor the progress token.
    pub rest: Vec<Member>,
}

impl RequestMeta {
    /// Reads the `_meta` of a request's parameters; absent reads as empty.
    pub fn of(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let Some(params) = params else { return Ok(Self::default()) };
        // Most legacy requests carry none: one search over the text settles them.
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
        let mut cursor = Cursor::new(meta.as_str(), 0);
        if cursor.kind() != Kind::Object {
            return Err(wrong("must be an object"));
        }
        let mut found = Self::default();
        cursor.members(|cursor, key| {
            let value = meta.share(meta.as_str().get(cursor.skip()).unwrap_or_default());
            match &*key {
                PROTOCOL_VERSION => {
                    let version = value.string().ok_or_else(|| wrong("holds a version that is no string"))?;
                    found.version = Some(version.into_owned());
                }
                CLIENT_CAPABILITIES => {
                    if !value.is_object() {
                        return Err(wrong("holds client capabilities that are no object"));
                    }
                    found.capabilities = Some(value);
                }
                CLIENT_INFO => found.client_info = Some(value),
                LOG_LEVEL => found.log_level = value.string().map(Cow::into_owned),
                PROGRESS_TOKEN => found.progress_token = Some(value),
                // A server would take it for the gateway's own word.
                key if is_ours(key) => {}
                _ => found.rest.push(Member { key: key.into_owned(), value }),
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether the request speaks the modern era: it carries the version in `_meta`.
    pub fn is_modern(&self) -> bool {
        self.version.is_some()
    }

    /// The revision, refused with the exact error if it is not a supported modern one.
    pub fn modern_revision(&self) -> Result<Revision, RpcError> {
        let Some(version) = &self.version else {
            return Err(RpcError::new(
                INVALID_PARAMS,
                format!("Invalid params: `_meta` lacks `{PROTOCOL_VERSION}`"),
            ));
        };
        let revision = match Revision::from_name(version) {
            Some(revision) if revision.era() == Era::Modern => revision,
            _ => return Err(unsupported_version(version)),
        };
        if self.capabilities.is_none() {
            return Err(RpcError::new(
                INVALID_PARAMS,
                format!("Invalid params: `_meta` lacks `{CLIENT_CAPABILITIES}`"),
            ));
        }
        Ok(revision)
    }
}

/// The `_meta` of a request to a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamp<'a> {
    /// The revision, for a modern server; a legacy one is told nothing of the protocol's own.
    pub revision: Option<Revision>,
    /// Who the client is.
    pub client_info: Option<&'a RawJson>,
    /// What it can do.
    pub capabilities: Option<&'a RawJson>,
    /// Which log messages it wants.
    pub log_level: Option<&'a str>,
    /// Under which token progress is told.
    pub progress_token: Option<u64>,
    /// What the client sent besides.
    pub rest: &'a [Member],
}

impl Stamp<'_> {
    /// Whether there is anything to say.
    pub fn says_something(&self) -> bool {
        self.revision.is_some() || !self.rest.is_empty() || self.progress_token.is_some()
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let rest: usize =
            self.rest.iter().map(|member| member.key.len() + member.value.as_bytes().len() + 4).sum();
        let text = |text: Option<&RawJson>| text.map_or(0, |text| text.as_bytes().len());
        rest + text(self.client_info) + text(self.capabilities) + 224
    }

    /// Writes it as the member `_meta`; nothing where there is nothing to say.
    pub fn write(&self, writer: &mut ObjectWriter) {
        if self.says_something() {
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

/// The error for a version that is not served, naming those that are.
pub fn unsupported_version(requested: &str) -> RpcError {
    let supported: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
    RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(RawJson::from_value(&serde_json::json!({"supported": supported, "requested": requested})))
}

/// Takes the members out of a result that only modern clients know.
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

/// Where a gateway says which one it is, so that it is not made its own server.
pub const INSTANCE: &str = "toolbooth/instance";

/// By this a server may name a question of its own; a modern client answers under that name.
pub const INPUT_KEY: &str = "toolbooth/inputKey";

/// What a server wrote, the parameters of a question or a result: nothing in its `_meta` may pass for the gateway's own.
pub fn of_a_server(params: RawJson) -> RawJson {
    let text = params.as_bytes();
    if memchr::memmem::find(text, b"_meta").is_none() && memchr::memchr(b'\\', text).is_none() {
        return params;
    }
    // The id of a subscription is between the two who made it.
    let is_subscription = |key: &str| key.eq_ignore_ascii_case(SUBSCRIPTION_ID);
    let goes = |key: &str| (is_ours(key) && key != INPUT_KEY) || is_subscription(key);
    let mut count = 0;
    let mut is_clean = true;
    Cursor::new(params.as_str(), 0).each_spot(|spot| {
        if spot.key == "_meta" {
            count += 1;
            Cursor::new(params.as_str(), spot.value.start).each_spot(|inner| is_clean &= !goes(&inner.key));
        }
    });
    // Not a byte is touched where nothing goes.
    if is_clean && count < 2 {
        return params;
    }
    let plain = |meta: &RawJson| edit_object(meta, |key, _| if goes(key) { Edit::Drop } else { Edit::Keep });
    let mut left = count;
    let edited = edit_object(&params, |key, value| match key {
        "_meta" => {
            left -= 1;
            // Of several the last one counts, as JSON readers take it; no client shall read another.
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

/// A server's own error, likewise: under this name the gateway says what went wrong with itself.
pub fn error_of_a_server(mut error: RpcError) -> RpcError {
    let forged = |key: &str| key.eq_ignore_ascii_case(OURS.trim_end_matches('/')) || is_ours(key);
    let Some(data) = error.data.as_ref().filter(|data| data.is_object()) else { return error };
    let mut is_forged = false;
    let edited = edit_object(data, |key, _| match forged(key) {
        true => {
            is_forged = true;
            Edit::Drop
        }
        false => Edit::Keep,
    });
    // Not a byte is touched where nothing goes.
    if is_forged && let Ok(left) = edited {
        error.data = Some(left);
    }
    error
}

/// The questions in a modern server's answer, likewise: each as `elicitation` lets it pass.
pub fn questions_of_a_server(requests: &RawJson, server: &str) -> Result<RawJson, FormFault> {
    unambiguous(requests)?;
    let mut fault = None;
    let mut one = |request: &RawJson| {
        let method = request.member("method");
        let is_form =
            method.as_ref().and_then(RawJson::string).is_some_and(|method| method == "elicitation/create");
        edit_object(request, |key, value| match key {
            "params" => {
                let params = of_a_server(request.share(value));
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

/// A `_meta` without `io.modelcontextprotocol/*`; `None` when nothing is left.
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
    fn nobody_else_speaks_in_the_gateways_name() {
        let read =
            meta(r#"{"toolbooth/user":"root","Toolbooth/held":1,"toolboothless":1,"x/y":2}"#).expect("read");
        let kept: Vec<_> = read.rest.iter().map(|member| member.key.as_str()).collect();
        assert_eq!(kept, ["toolboothless", "x/y"]);
    }

    #[test]
    fn a_servers_question_cannot_pass_for_the_gateways_own() {
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
            let found: serde_json::Value = of_a_server(json(given)).read().expect("JSON");
            assert_eq!(found, json(expected).read::<serde_json::Value>().expect("JSON"), "{given}");
            let asked =
                questions_of_a_server(&json(&format!(r#"{{"q":{{"method":"m","params":{given}}}}}"#)), "s");
            if given.matches("\"_meta\"").count() > 1 {
                assert!(asked.is_err(), "a question with a key twice is refused");
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
    fn a_servers_error_cannot_pass_for_the_gateways_own() {
        let cases = [
            (r#"{"toolbooth":{"code":"call.refused"},"x": 1.0}"#, r#"{"x": 1.0}"#),
            (r#"{"\u0074oolbooth":1}"#, "{}"),
            (r#"{ "tray" : 2 }"#, r#"{ "tray" : 2 }"#),
            (r#"["toolbooth"]"#, r#"["toolbooth"]"#),
        ];
        for (given, expected) in cases {
            let error = RpcError::new(-1, "m").with_data(RawJson::parse(given).expect("JSON"));
            let data = error_of_a_server(error).data.expect("data");
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
    fn the_clients_other_members_travel_on() {
        let meta = meta(r#"{"progressToken":"p","traceparent":"00-a-b-01","x/y":{"z":1.0}}"#).expect("meta");
        let written = |stamp: Stamp<'_>| {
            let mut writer = ObjectWriter::default();
            stamp.write(&mut writer);
            writer.finish().to_string()
        };
        let stamp = Stamp { progress_token: Some(7), rest: &meta.rest, ..Stamp::default() };
        assert_eq!(
            written(stamp),
            r#"{"_meta":{"progressToken":7,"traceparent":"00-a-b-01","x/y":{"z":1.0}}}"#
        );
        assert_eq!(written(Stamp::default()), "{}");
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
