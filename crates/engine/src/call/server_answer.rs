//! What a server answers to a request: a result, an error, or questions for the client.

use crate::answer::{Answer, ResultFacts, ResultKind, ResultScan};
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::elicitation::screened;
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, edit_object, with_members};
use toolbooth_core::names::ServerName;
use toolbooth_upstream::connection::Connection;
use toolbooth_upstream::process::preview;
use toolbooth_upstream::{CallLink, PeerAnswer, UpstreamError};
use toolbooth_wire::meta::{screen_questions, strip_gateway_error_data, strip_gateway_meta};
use toolbooth_wire::{Era, RpcError};

/// The maximum number of URLs that a server may require to be opened first.
const MAX_URLS: usize = 16;

/// Reads a server's answer as far as its era requires.
pub(crate) fn read_answer(answer: PeerAnswer, connection: &Connection) -> Result<Answer, UpstreamError> {
    let era = connection.era;
    let result = match answer {
        PeerAnswer::Long(long) => {
            let facts = ResultFacts::of_long(&long);
            return Ok(Answer::Long { long, era, facts });
        }
        PeerAnswer::Whole(Err(error)) => return Ok(Answer::Error(strip_gateway_error_data(error))),
        PeerAnswer::Whole(Ok(result)) => result,
    };
    if !result.is_object() {
        let what = format!("a result that is not an object: {}", preview(result.as_bytes(), 64));
        return Err(UpstreamError::BadAnswer { server: connection.server.clone(), what });
    }
    let scan = ResultScan::of(&result);
    let (kind, facts) = (scan.kind(), scan.facts());
    // With a repeated key, the gateway might check one value and the client read the other.
    if let Some(key) = scan.repeated_key.filter(|_| era == Era::Modern) {
        let what = format!("a result with `{key}` twice");
        return Err(UpstreamError::BadAnswer { server: connection.server.clone(), what });
    }
    // Only the gateway may set its own `_meta` keys: they are removed from a server's result.
    let result = if scan.may_be_forged { strip_gateway_meta(result.clone()) } else { result };
    match kind {
        _ if era == Era::Legacy => Ok(Answer::Result { result, era, facts, warnings: Vec::new() }),
        ResultKind::Finished | ResultKind::Task => {
            Ok(Answer::Result { result, era, facts, warnings: Vec::new() })
        }
        ResultKind::InputRequired => input_required(&result, &connection.server),
        ResultKind::Unknown(other) => Err(UpstreamError::BadAnswer {
            server: connection.server.clone(),
            what: format!("a result of the unknown type {other:?}"),
        }),
    }
}

/// Reads the questions of a modern server, and screens them: forms name the server and must not ask for secrets.
pub(super) fn input_required(result: &RawJson, server: &str) -> Result<Answer, UpstreamError> {
    let bad = |what: String| UpstreamError::BadAnswer { server: server.to_owned(), what };
    let [requests, state] =
        result.pick(["inputRequests", "requestState"]).map(|part| part.map(|part| result.share(part)));
    let requests = match requests {
        Some(requests) => {
            let checked = screen_questions(&requests, server);
            Some(checked.map_err(|fault| bad(format!("a question that was refused: {fault}")))?)
        }
        None => None,
    };
    let asks =
        requests.as_ref().is_some_and(|requests| requests.members().is_ok_and(|asked| !asked.is_empty()));
    if !asks && state.is_none() {
        return Err(bad("`input_required` without questions and without a state".to_owned()));
    }
    Ok(Answer::InputRequired { requests: requests.filter(|_| asks), state, server: server.to_owned() })
}

/// Rejects questions that the client did not declare it can answer: the protocol forbids servers to ask them.
pub(crate) fn only_declared(answer: Answer, client: &ClientFacts) -> Result<Answer, UpstreamError> {
    let Answer::InputRequired { requests: Some(requests), server, .. } = &answer else { return Ok(answer) };
    for request in requests.members().unwrap_or_default() {
        let method = request.value.member("method");
        let method = method.as_ref().and_then(RawJson::string).unwrap_or_default();
        if !client.can_answer(&method, request.value.member("params").as_ref()) {
            let method = preview(method.as_bytes(), 100);
            let what = format!("a question that the client did not declare it can answer (`{method}`)");
            return Err(UpstreamError::BadAnswer { server: server.clone(), what });
        }
    }
    Ok(answer)
}

/// Asks the client all questions of a modern server at once, and collects the answers by key.
pub(crate) async fn put_questions(
    requests: &RawJson,
    server: &str,
    link: &CallLink,
) -> Result<RawJson, RpcError> {
    let members = requests
        .members()
        .map_err(|_| RpcError::new(toolbooth_wire::codes::INTERNAL_ERROR, "unreadable questions"))?;
    let answers = members.iter().map(|member| async move {
        let method = member.value.member("method");
        let method = method.as_ref().and_then(RawJson::string).unwrap_or_default();
        link.ask_for(server, &method, member.value.member("params")).await
    });
    let answers = futures_util::future::try_join_all(answers).await?;
    let mut writer = ObjectWriter::default();
    for (member, answer) in members.iter().zip(answers) {
        writer.raw(&member.key, &answer);
    }
    Ok(writer.finish())
}

/// Converts a legacy server's demand to open URLs first into questions for a modern client, which then repeats the
/// call. A client that cannot open URLs gets the error.
pub(crate) fn ask_to_open_urls(error: RpcError, client: &ClientFacts, server: &ServerName) -> Answer {
    let requests = if client.can_open_urls() { url_questions(&error, server.as_str()) } else { None };
    match requests {
        Some(requests) => {
            Answer::InputRequired { requests: Some(requests), state: None, server: server.to_string() }
        }
        None => Answer::Error(error),
    }
}

/// The URLs in an error, as questions. The modern era has no ids for them.
fn url_questions(error: &RpcError, server: &str) -> Option<RawJson> {
    let listed = error.data.as_ref()?.member("elicitations")?.elements().ok()?;
    if listed.is_empty() || listed.len() > MAX_URLS {
        return None;
    }
    let mut requests = ObjectWriter::default();
    for (index, one) in listed.into_iter().enumerate() {
        one.member("url").as_ref().and_then(RawJson::string)?;
        let params = edit_object(&strip_gateway_meta(one), |key, _| match key {
            "elicitationId" | "mode" => Edit::Drop,
            _ => Edit::Keep,
        });
        let mode = RawJson::trusted(&b"\"url\""[..]);
        let params = with_members(&params.ok()?, &[("mode", mode)]).ok()?;
        let params = screened(server, params).ok()?;
        let mut request = ObjectWriter::default();
        request.text("method", "elicitation/create").raw("params", &params);
        requests.raw(&format!("url-{}", index + 1), &request.finish());
    }
    Some(requests.finish())
}
