//! Translates results and errors into the format of the client's era.

use super::client::McpClient;
use bytes::Bytes;
use std::borrow::Cow;
use toolbooth_core::call::Warning;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::HeldKind;
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, TokenKind, edit_object, with_members};
use toolbooth_engine::ResultFacts;
use toolbooth_upstream::connection::our_info;
use toolbooth_wire::codes::{
    INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, REFUSED, RESOURCE_NOT_FOUND,
    RpcError, UPSTREAM_FAILED, URL_ELICITATION_REQUIRED,
};
use toolbooth_wire::long::LongResult;
use toolbooth_wire::meta::{SERVER_INFO, strip_modern};
use toolbooth_wire::{Era, Revision};
use uuid::Uuid;

/// A `_meta` with the gateway's `serverInfo`.
macro_rules! our_meta {
    () => {
        concat!(
            r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbooth","title":"Toolbooth","version":""#,
            env!("CARGO_PKG_VERSION"),
            r#""}}"#
        )
    };
}

/// The end of a list for modern clients: result type, cache lifetime and scope, and the gateway's `serverInfo`.
pub const LIST_END: &str =
    concat!(r#","resultType":"complete","ttlMs":30000,"cacheScope":"private","#, our_meta!(), "}");

/// The key for a server's own `serverInfo` in a result for a modern client. The protocol's key has the gateway's.
pub const THEIR_INFO: &str = "toolbooth/serverInfo";

/// Writes a server's result for a client.
pub fn result(result: &RawJson, from: Era, facts: ResultFacts, client: &McpClient, method: &str) -> RawJson {
    match (client.era(), from) {
        (Era::Modern, Era::Modern) => complete_modern(&replace_server_info(result), method),
        (Era::Modern, Era::Legacy) => to_modern(result, method),
        (Era::Legacy, Era::Modern) if facts.has_extras => {
            for_revision(&strip_modern(result), facts, client.revision, method)
        }
        (Era::Legacy, Era::Modern) => for_revision(result, facts, client.revision, method),
        // Within one era the result is not changed.
        (Era::Legacy, Era::Legacy) => {
            for_revision(result, ResultFacts { odd_structure: false, ..facts }, client.revision, method)
        }
    }
}

/// The `_meta` key for warnings about arguments that were dropped.
pub const WARNINGS: &str = "toolbooth/warnings";

/// Adds warnings to a result's `_meta`. Without warnings the result is unchanged.
pub fn with_warnings(result: RawJson, warnings: &[Warning]) -> RawJson {
    if warnings.is_empty() || !result.is_object() {
        return result;
    }
    let meta = result.member("_meta").filter(RawJson::is_object).unwrap_or_else(RawJson::empty_object);
    let meta = with_members(&meta, &[(WARNINGS, RawJson::from_value(warnings))]);
    let with = meta.and_then(|meta| with_members(&result, &[("_meta", meta)]));
    with.unwrap_or(result)
}

/// Converts a legacy server's result to a modern one: complete, and with the gateway's `serverInfo`. Members that would
/// make it a question are removed, because a client would ask a person in the gateway's name.
fn to_modern(result: &RawJson, method: &str) -> RawJson {
    let [kind, requests, state, meta, ttl, scope] =
        result.holds(["resultType", "inputRequests", "requestState", "_meta", "ttlMs", "cacheScope"]);
    let cleaned = (kind || requests || state || meta).then(|| without_rounds(result));
    let text = cleaned.as_ref().unwrap_or(result).as_str();
    let Some(rest) = text.strip_prefix('{') else { return result.clone() };
    let cacheable = method == "resources/read";
    // Concatenated to its exact length: sharing a buffer with spare capacity would cost another allocation.
    let parts = [
        "{\"resultType\":\"complete\"",
        if cacheable && !ttl { ",\"ttlMs\":0" } else { "" },
        if cacheable && !scope { ",\"cacheScope\":\"private\"" } else { "" },
        if meta { "" } else { concat!(",", our_meta!()) },
        if rest.trim_ascii_start().starts_with('}') { "" } else { "," },
        rest,
    ];
    RawJson::trusted(parts.concat())
}

fn without_rounds(result: &RawJson) -> RawJson {
    let edited = edit_object(result, |key, value| match key {
        "resultType" | "inputRequests" | "requestState" => Edit::Drop,
        "_meta" => Edit::Replace(with_gateway_info(&result.share(value))),
        _ => Edit::Keep,
    });
    edited.unwrap_or_else(|_| RawJson::empty_object())
}

/// A server's `_meta` with the gateway's `serverInfo`.
fn with_gateway_info(meta: &RawJson) -> RawJson {
    let ours = (SERVER_INFO, our_info());
    let named = match meta.member(SERVER_INFO) {
        Some(theirs) => with_members(meta, &[ours, (THEIR_INFO, theirs)]),
        None => with_members(meta, &[ours]),
    };
    named.unwrap_or_else(|_| meta.clone())
}

/// Replaces the `serverInfo` of a modern server's result by the gateway's.
fn replace_server_info(result: &RawJson) -> Cow<'_, RawJson> {
    let has_info = result.member("_meta").is_some_and(|meta| meta.has(SERVER_INFO));
    if !has_info {
        return Cow::Borrowed(result);
    }
    let edited = edit_object(result, |key, value| match key {
        "_meta" => Edit::Replace(with_gateway_info(&result.share(value))),
        _ => Edit::Keep,
    });
    edited.map_or(Cow::Borrowed(result), Cow::Owned)
}

/// Adds required members that a modern server omitted.
fn complete_modern(result: &RawJson, method: &str) -> RawJson {
    let cacheable = method == "resources/read";
    let has = |key: &str| result.has(key);
    let mut missing: Vec<u8> = Vec::new();
    if !has("resultType") {
        missing.extend_from_slice(b"\"resultType\":\"complete\"");
    }
    if cacheable && !has("ttlMs") {
        missing.extend_from_slice(if missing.is_empty() { b"\"ttlMs\":0" } else { b",\"ttlMs\":0" });
    }
    if cacheable && !has("cacheScope") {
        if !missing.is_empty() {
            missing.push(b',');
        }
        missing.extend_from_slice(b"\"cacheScope\":\"private\"");
    }
    if missing.is_empty() || !result.is_object() {
        return result.clone();
    }
    let text = result.as_bytes();
    let mut out = Vec::with_capacity(text.len() + missing.len() + 1);
    out.push(b'{');
    out.extend_from_slice(&missing);
    if text[1..].iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(&text[1..]);
    RawJson::trusted(out)
}

/// Replaces the first byte of a long result that has no `resultType`.
const FINISHED: &[u8] = b"{\"resultType\":\"complete\",";

/// Translates a long result in chunks; `None` if it has to be translated as a whole.
///
/// The result was scanned before (`wire/long.rs`): it has no `_meta`, no duplicate key, no question, and at least one
/// member.
pub fn long(long: &LongResult, from: Era, client: &McpClient, method: &str) -> Option<Vec<Bytes>> {
    let is_cached = method == "resources/read";
    let must_be_rewritten = client.era() == Era::Legacy && client.revision != Revision::NEWEST_LEGACY;
    if is_cached || must_be_rewritten {
        return None;
    }
    match (client.era(), from) {
        (Era::Legacy, Era::Legacy) => Some(long.pieces().to_vec()),
        (Era::Legacy, Era::Modern) => Some(long.without(|member| match &*member.key {
            "resultType" | "ttlMs" | "cacheScope" => true,
            "structuredContent" => member.kind != TokenKind::ObjectStart,
            _ => false,
        })),
        (Era::Modern, _) if long.member("resultType").is_some() => Some(long.pieces().to_vec()),
        (Era::Modern, _) => {
            let (first, rest) = long.pieces().split_first()?;
            let front = [Bytes::from_static(FINISHED), first.slice(1..)];
            Some(front.into_iter().filter(|piece| !piece.is_empty()).chain(rest.iter().cloned()).collect())
        }
    }
}

/// Replaces content that older revisions do not support by text.
fn for_revision(result: &RawJson, facts: ResultFacts, revision: Revision, method: &str) -> RawJson {
    let whole = if facts.odd_structure { without_odd_structure(result) } else { result.clone() };
    if revision == Revision::NEWEST_LEGACY || method != "tools/call" {
        return whole;
    }
    let result = &whole;
    let Some(content) = result.member("content").and_then(|content| content.elements().ok()) else {
        return whole;
    };
    let blocks: Vec<RawJson> = content.iter().map(|block| block_for(block, revision)).collect();
    let joined = blocks.iter().map(RawJson::as_str).collect::<Vec<_>>().join(",");
    let edited = edit_object(result, |key, _| match key {
        "content" => Edit::Replace(RawJson::trusted(format!("[{joined}]"))),
        "structuredContent" if revision < Revision::V2025_06_18 => Edit::Drop,
        _ => Edit::Keep,
    });
    edited.unwrap_or_else(|_| result.clone())
}

/// Removes structured content that is not an object, which legacy clients reject. The text content says the same.
fn without_odd_structure(result: &RawJson) -> RawJson {
    match result.member("structuredContent") {
        Some(value) if !value.is_object() => {
            let dropped =
                edit_object(
                    result,
                    |key, _| if key == "structuredContent" { Edit::Drop } else { Edit::Keep },
                );
            dropped.unwrap_or_else(|_| result.clone())
        }
        _ => result.clone(),
    }
}

fn block_for(block: &RawJson, revision: Revision) -> RawJson {
    let kind = block.member("type");
    let kind = kind.as_ref().and_then(RawJson::string);
    let text = match kind.as_deref() {
        Some("audio") if revision < Revision::V2025_03_26 => "[audio]".to_owned(),
        Some("resource_link") if revision < Revision::V2025_06_18 => {
            let uri = block.member("uri");
            format!("[resource {}]", uri.as_ref().and_then(RawJson::string).unwrap_or_default())
        }
        _ => return block.clone(),
    };
    let mut writer = ObjectWriter::default();
    writer.text("type", "text").text("text", &text);
    writer.finish()
}

/// Translates a server's error for a client. A missing resource has the legacy code here, whatever the server's era.
pub fn error(error: RpcError, client: &McpClient) -> RpcError {
    let code = match (client.era(), error.code) {
        (Era::Modern, URL_ELICITATION_REQUIRED) => return url_not_opened(error, client),
        (Era::Modern, RESOURCE_NOT_FOUND) => INVALID_PARAMS,
        (Era::Legacy, _) if error.is_modern() => INVALID_REQUEST,
        (_, code) => code,
    };
    RpcError { code, ..error }
}

/// The error of a legacy server that requires a URL to be opened first, for a client that cannot be asked to do so.
fn url_not_opened(error: RpcError, client: &McpClient) -> RpcError {
    if client.facts.can_open_urls() {
        return RpcError { code: UPSTREAM_FAILED, ..error };
    }
    let needed = RawJson::trusted(&br#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#[..]);
    RpcError { code: MISSING_CAPABILITY, message: error.message, data: Some(needed) }
}

/// How a problem is reported to a client.
pub enum ProblemAnswer {
    /// As a protocol error.
    Error(RpcError),
    /// As a result that says that the tool failed, so that a model can read the reason.
    Result(RawJson),
}

/// Translates a problem for a client.
pub fn problem(problem: &Problem, method: &str) -> ProblemAnswer {
    let code = match problem.code {
        "call.unknown-tool"
        | "call.ambiguous-name"
        | "call.arguments-not-object"
        | "request.bad-params"
        | "prompt.unknown" => INVALID_PARAMS,
        "resource.unknown" => RESOURCE_NOT_FOUND,
        "request.unknown-method" => METHOD_NOT_FOUND,
        "call.refused" | "call.compliance" => REFUSED,
        _ => UPSTREAM_FAILED,
    };
    if method == "tools/call" && matches!(code, UPSTREAM_FAILED | REFUSED) || problem.code == "call.refused" {
        return ProblemAnswer::Result(failed_result(problem));
    }
    let message = match code {
        UPSTREAM_FAILED => problem.sentence(),
        _ => problem.message.clone(),
    };
    let data =
        RawJson::from_value(&serde_json::json!({"toolbooth": {"code": problem.code, "hint": problem.hint}}));
    ProblemAnswer::Error(RpcError::new(code, message).with_data(data))
}

fn failed_result(problem: &Problem) -> RawJson {
    RawJson::from_value(&serde_json::json!({
        "content": [{"type": "text", "text": problem.sentence()}],
        "isError": true,
        "_meta": {"toolbooth/fault": {"code": problem.code, "blame": problem.blame.as_str()}},
    }))
}

/// The result of a call that has not been made yet. A queued step of a plan is a success. A call that waits for
/// approval is an error, so that a model does not continue as if it were done.
pub fn held(id: Uuid, text: &str, kind: HeldKind) -> RawJson {
    RawJson::from_value(&serde_json::json!({
        "content": [{ "type": "text", "text": text }],
        "isError": kind == HeldKind::Approval,
        "_meta": { "toolbooth/held": { "id": id.to_string(), "kind": kind.as_str() } },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use toolbooth_core::caller::{Caller, ClientFacts};

    fn client(revision: Revision) -> McpClient {
        McpClient {
            caller: Arc::new(Caller::owner("me")),
            facts: Arc::new(ClientFacts::default()),
            revision,
            session: None,
        }
    }

    #[test]
    fn lists_have_the_same_server_info_as_the_handshake() {
        let list = RawJson::parse(format!("{{\"tools\":[]{LIST_END}")).expect("JSON");
        let info = list.at(&["_meta", SERVER_INFO]).expect("our own description");
        assert_eq!(info.as_str(), our_info().as_str());
    }

    #[test]
    fn warnings_are_added_to_the_meta_of_a_server() {
        let json = |text: &str| RawJson::parse(text.to_owned()).expect("JSON");
        let some = [Warning::Reserved("username".into())];
        let warnings =
            r#""toolbooth/warnings":["argument \"username\" was dropped: the gateway supplies it"]"#;
        let cases = [
            (r#"{"content":[ ]}"#, format!(r#"{{"content":[ ],"_meta":{{{warnings}}}}}"#)),
            (
                r#"{"_meta":{"a":1,"toolbooth/warnings":["forged"]},"b":2}"#,
                format!(r#"{{"_meta":{{"a":1,{warnings}}},"b":2}}"#),
            ),
            ("7", "7".to_owned()),
        ];
        for (given, expected) in cases {
            assert_eq!(with_warnings(json(given), &some).as_str(), expected);
            assert_eq!(with_warnings(json(given), &[]).as_str(), given);
        }
    }

    #[test]
    fn results_cross_the_eras_with_nothing_lost() {
        let modern = Revision::V2026_07_28;
        let legacy = Revision::V2025_11_25;
        let ours = our_meta!();
        let cases = [
            (
                Era::Legacy,
                modern,
                "tools/call",
                r#"{"content":[],"x":1.0}"#,
                r#"{"resultType":"complete",OURS,"content":[],"x":1.0}"#,
            ),
            (Era::Legacy, modern, "tools/call", "{}", r#"{"resultType":"complete",OURS}"#),
            (
                Era::Legacy,
                modern,
                "tools/call",
                r#"{"resultType":"complete","requestState":"s","content":[],"inputRequests":{"a":1},"resultType":"input_required"}"#,
                r#"{"resultType":"complete",OURS,"content":[]}"#,
            ),
            (
                Era::Legacy,
                modern,
                "prompts/get",
                r#"{"_meta":{"a":1},"\u0072esultType":"input_required"}"#,
                r#"{"resultType":"complete","_meta":{"a":1,INFO}}"#,
            ),
            (
                Era::Legacy,
                modern,
                "tools/call",
                r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}"#,
                r#"{"resultType":"complete","_meta":{INFO,"toolbooth/serverInfo":{"name":"s"}}}"#,
            ),
            (
                Era::Legacy,
                modern,
                "resources/read",
                r#"{"contents":[]}"#,
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private",OURS,"contents":[]}"#,
            ),
            (
                Era::Modern,
                modern,
                "tools/call",
                r#"{"content":[],"resultType":"complete"}"#,
                r#"{"content":[],"resultType":"complete"}"#,
            ),
            (
                Era::Modern,
                legacy,
                "tools/call",
                r#"{"content":[],"resultType":"complete"}"#,
                r#"{"content":[]}"#,
            ),
            (
                Era::Modern,
                legacy,
                "tools/call",
                r#"{"content":[],"structuredContent":[1]}"#,
                r#"{"content":[]}"#,
            ),
            (
                Era::Modern,
                Revision::V2025_06_18,
                "tools/call",
                r#"{"content":[],"structuredContent":[1]}"#,
                r#"{"content":[]}"#,
            ),
            (
                Era::Legacy,
                legacy,
                "tools/call",
                r#"{"content":[ ],"_meta":{"a":1}}"#,
                r#"{"content":[ ],"_meta":{"a":1}}"#,
            ),
            (
                Era::Legacy,
                Revision::V2024_11_05,
                "tools/call",
                r#"{"content":[{"type":"audio","data":""},{"type":"text","text":"t"}]}"#,
                r#"{"content":[{"type":"text","text":"[audio]"},{"type":"text","text":"t"}]}"#,
            ),
        ];
        for (from, revision, method, given, expected) in cases {
            let given = RawJson::parse(given.to_owned()).expect("JSON");
            let facts = ResultFacts {
                has_extras: true,
                odd_structure: given.as_str().contains(":[1]"),
                ..ResultFacts::default()
            };
            let info = ours.trim_start_matches("\"_meta\":{").trim_end_matches('}').to_owned() + "}";
            let expected = expected.replace("OURS", ours).replace("INFO", &info);
            assert_eq!(result(&given, from, facts, &client(revision), method).as_str(), expected);
        }
    }
}
