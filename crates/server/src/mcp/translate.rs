//! Writing answers in the client's era.

use super::client::Client;
use bytes::Bytes;
use std::borrow::Cow;
use toolbooth_core::call::Warning;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::HeldKind;
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, edit_object, with_members};
use toolbooth_core::tokens::TokenKind;
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

/// A `_meta` that says whose answer it is.
macro_rules! our_meta {
    () => {
        concat!(
            r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbooth","title":"Toolbooth","version":""#,
            env!("CARGO_PKG_VERSION"),
            r#""}}"#
        )
    };
}

/// What ends a list for modern clients: fresh for a while, for this caller alone, and from whom. Ready bytes,
/// as the list before it.
pub const LIST_END: &str =
    concat!(r#","resultType":"complete","ttlMs":30000,"cacheScope":"private","#, our_meta!(), "}");

/// What a legacy server says of itself in a result for a modern client stands under this key; the protocol's own
/// is the gateway's.
pub const THEIR_INFO: &str = "toolbooth/serverInfo";

/// Writes a server's result for a client.
pub fn result(result: &RawJson, from: Era, facts: ResultFacts, client: &Client, method: &str) -> RawJson {
    match (client.era(), from) {
        (Era::Modern, Era::Modern) => complete_modern(&countersigned(result), method),
        (Era::Modern, Era::Legacy) => modernised(result, method),
        (Era::Legacy, Era::Modern) if facts.has_extras => {
            for_revision(&strip_modern(result), facts, client.revision, method)
        }
        (Era::Legacy, Era::Modern) => for_revision(result, facts, client.revision, method),
        // Within one era everything passes.
        (Era::Legacy, Era::Legacy) => {
            for_revision(result, ResultFacts { odd_structure: false, ..facts }, client.revision, method)
        }
    }
}

/// Where a result tells what was left out of its call.
pub const WARNINGS: &str = "toolbooth/warnings";

/// Adds warnings to a result's `_meta`. Without any the result stays the very same.
pub fn warned(result: RawJson, warnings: &[Warning]) -> RawJson {
    if warnings.is_empty() || !result.is_object() {
        return result;
    }
    let meta = result.member("_meta").filter(RawJson::is_object).unwrap_or_else(RawJson::empty_object);
    let meta = with_members(&meta, &[(WARNINGS, RawJson::from_value(warnings))]);
    let with = meta.and_then(|meta| with_members(&result, &[("_meta", meta)]));
    with.unwrap_or(result)
}

/// A legacy server's result as a modern one: finished, whatever it says of itself, and the gateway's own. What
/// would make it a question is left out: a client would put it to a person as the gateway's.
fn modernised(result: &RawJson, method: &str) -> RawJson {
    let [kind, requests, state, meta, ttl, scope] =
        result.holds(["resultType", "inputRequests", "requestState", "_meta", "ttlMs", "cacheScope"]);
    let cleaned = (kind || requests || state || meta).then(|| without_rounds(result));
    let text = cleaned.as_ref().unwrap_or(result).as_str();
    let Some(rest) = text.strip_prefix('{') else { return result.clone() };
    let cacheable = method == "resources/read";
    // Exactly as long as it gets: a buffer with room to spare is shared at the cost of another.
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
        "_meta" => Edit::Replace(signed(&result.share(value))),
        _ => Edit::Keep,
    });
    edited.unwrap_or_else(|_| RawJson::empty_object())
}

/// A legacy server's `_meta` with the gateway's name to it.
fn signed(meta: &RawJson) -> RawJson {
    let ours = (SERVER_INFO, our_info());
    let named = match meta.member(SERVER_INFO) {
        Some(theirs) => with_members(meta, &[ours, (THEIR_INFO, theirs)]),
        None => with_members(meta, &[ours]),
    };
    named.unwrap_or_else(|_| meta.clone())
}

/// A modern server's result, signed with the gateway's `serverInfo`.
fn countersigned(result: &RawJson) -> Cow<'_, RawJson> {
    let is_signed = result.member("_meta").is_some_and(|meta| meta.has(SERVER_INFO));
    if !is_signed {
        return Cow::Borrowed(result);
    }
    let edited = edit_object(result, |key, value| match key {
        "_meta" => Edit::Replace(signed(&result.share(value))),
        _ => Edit::Keep,
    });
    edited.map_or(Cow::Borrowed(result), Cow::Owned)
}

/// Adds what every modern result has and a modern server may have left out.
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

/// What stands in front of a long result that does not say it is finished, in place of its first byte.
const FINISHED: &[u8] = b"{\"resultType\":\"complete\",";

/// Writes a long result for a client, as pieces; nothing if it must be written whole.
///
/// It was proven plain (`wire/long.rs`): no `_meta`, no key twice, no question, and at least one member.
pub fn long(long: &LongResult, from: Era, client: &Client, method: &str) -> Option<Vec<Bytes>> {
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

/// Content that older revisions do not know becomes text.
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

/// Legacy clients take only objects for structured content; the text beside it says the same.
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

/// Writes a server's own error for a client. That a resource is not there is said in the legacy way by now, whatever
/// the server's era.
pub fn error(error: RpcError, client: &Client) -> RpcError {
    let code = match (client.era(), error.code) {
        (Era::Modern, URL_ELICITATION_REQUIRED) => return unopened(error, client),
        (Era::Modern, RESOURCE_NOT_FOUND) => INVALID_PARAMS,
        (Era::Legacy, _) if error.is_modern() => INVALID_REQUEST,
        (_, code) => code,
    };
    RpcError { code, ..error }
}

/// A legacy server wants an address opened first, and the client could not be told as a question.
fn unopened(error: RpcError, client: &Client) -> RpcError {
    if client.facts.can_open_urls() {
        return RpcError { code: UPSTREAM_FAILED, ..error };
    }
    let needed = RawJson::trusted(&br#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#[..]);
    RpcError { code: MISSING_CAPABILITY, message: error.message, data: Some(needed) }
}

/// How a fault of the gateway reads to a client.
pub enum Told {
    /// As an error of the protocol.
    Error(RpcError),
    /// As a result that says the tool failed, so that a model can read why.
    Result(RawJson),
}

/// Writes a fault for a client.
pub fn problem(problem: &Problem, method: &str) -> Told {
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
        return Told::Result(failed_result(problem));
    }
    let message = match code {
        UPSTREAM_FAILED => problem.sentence(),
        _ => problem.message.clone(),
    };
    let data =
        RawJson::from_value(&serde_json::json!({"toolbooth": {"code": problem.code, "hint": problem.hint}}));
    Told::Error(RpcError::new(code, message).with_data(data))
}

fn failed_result(problem: &Problem) -> RawJson {
    RawJson::from_value(&serde_json::json!({
        "content": [{"type": "text", "text": problem.sentence()}],
        "isError": true,
        "_meta": {"toolbooth/fault": {"code": problem.code, "blame": problem.blame.as_str()}},
    }))
}

/// What a model is told of a call that was not made yet. A step of a plan is as it should be; a call that
/// waits is not done, and a model should not go on as if it were.
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

    fn client(revision: Revision) -> Client {
        Client {
            caller: Arc::new(Caller::owner("me")),
            facts: Arc::new(ClientFacts::default()),
            revision,
            session: None,
        }
    }

    #[test]
    fn lists_say_whose_they_are_as_the_handshake_does() {
        let list = RawJson::parse(format!("{{\"tools\":[]{LIST_END}")).expect("JSON");
        let info = list.at(&["_meta", SERVER_INFO]).expect("our own description");
        assert_eq!(info.as_str(), our_info().as_str());
    }

    #[test]
    fn warnings_stand_beside_what_a_server_says() {
        let json = |text: &str| RawJson::parse(text.to_owned()).expect("JSON");
        let some = [Warning::Reserved("username".into())];
        let told = r#""toolbooth/warnings":["argument \"username\" was dropped: the gateway supplies it"]"#;
        let cases = [
            (r#"{"content":[ ]}"#, format!(r#"{{"content":[ ],"_meta":{{{told}}}}}"#)),
            (
                r#"{"_meta":{"a":1,"toolbooth/warnings":["forged"]},"b":2}"#,
                format!(r#"{{"_meta":{{"a":1,{told}}},"b":2}}"#),
            ),
            ("7", "7".to_owned()),
        ];
        for (given, expected) in cases {
            assert_eq!(warned(json(given), &some).as_str(), expected);
            assert_eq!(warned(json(given), &[]).as_str(), given);
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
                is_error: false,
            };
            let info = ours.trim_start_matches("\"_meta\":{").trim_end_matches('}').to_owned() + "}";
            let expected = expected.replace("OURS", ours).replace("INFO", &info);
            assert_eq!(result(&given, from, facts, &client(revision), method).as_str(), expected);
        }
    }
}
