//! Batches of messages, which only revision 2025-03-26 allows.

use super::FrontEndState;
use super::client::McpClient;
use super::immediate_reply::reply_chunks;
use super::long::joined;
use super::methods::{self, MethodOutcome};
use super::responses::{failure, json, plain};
use super::running_request::{FinalAnswer, RequestStep};
use super::session::LegacySession;
use super::session_lookup::{apply_notification, session_of};
use crate::body::ResponseBody;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use std::collections::VecDeque;
use std::sync::Arc;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::{Edit, RawJson, edit_object};
use toolbooth_wire::codes::{INVALID_REQUEST, RpcError};
use toolbooth_wire::envelope::{write_error, write_result};
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Message, Revision};

/// Maximum number of messages in a batch.
const MAX_MESSAGES: usize = 100;

fn refused(why: &str) -> RpcError {
    RpcError::new(INVALID_REQUEST, format!("Invalid Request: {why}"))
}

/// The error for a batch without a session.
pub(super) fn needs_session() -> RpcError {
    refused("batches need a session of revision 2025-03-26")
}

/// Serves a batch over HTTP.
pub(super) async fn serve(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    text: &Bytes,
) -> Response<ResponseBody> {
    let answered = match session_of(front_end, caller, headers, None).await {
        Ok(session) => answers(front_end, caller, session, text).await,
        Err(_) => Err(needs_session()),
    };
    match answered {
        Ok(Some(answers)) => json(StatusCode::OK, VecDeque::from([answers])),
        Ok(None) => plain(StatusCode::ACCEPTED),
        Err(error) => failure(StatusCode::BAD_REQUEST, None, &error),
    }
}

/// The answers to a batch; `None` if none of its messages needs one. Each request is served as if sent alone, except
/// that the client cannot be asked anything: the answers are sent together, so a question could not reach the client
/// before the answer that depends on it.
pub(super) async fn answers(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    session: Arc<LegacySession>,
    text: &Bytes,
) -> Result<Option<Bytes>, RpcError> {
    if session.revision != Revision::V2025_03_26 {
        return Err(refused("only revision 2025-03-26 has batches"));
    }
    let elements = match RawJson::parse(text.clone()).and_then(|whole| whole.elements()) {
        Ok(elements) if !elements.is_empty() && elements.len() <= MAX_MESSAGES => elements,
        _ => return Err(refused("a batch has 1 to 100 messages")),
    };
    let mut client = McpClient::of_session(session.clone(), caller);
    client.facts = Arc::new(unaskable(&client.facts));
    let each = elements.iter().map(|element| one_of_batch(front_end, &client, &session, element.bytes()));
    let each: Vec<Bytes> = futures_util::future::join_all(each).await.into_iter().flatten().collect();
    let Some((first, rest)) = each.split_first() else { return Ok(None) };
    let mut out = BytesMut::from(&b"["[..]);
    out.extend_from_slice(first);
    for answer in rest {
        out.extend_from_slice(b",");
        out.extend_from_slice(answer);
    }
    out.extend_from_slice(b"]");
    Ok(Some(out.freeze()))
}

/// The client's facts without the capabilities to be asked something.
fn unaskable(facts: &ClientFacts) -> ClientFacts {
    let rest = edit_object(&facts.capabilities, |key, _| match key {
        "elicitation" | "sampling" | "roots" => Edit::Drop,
        _ => Edit::Keep,
    });
    ClientFacts { capabilities: rest.unwrap_or_else(|_| RawJson::empty_object()), ..facts.clone() }
}

async fn one_of_batch(
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    session: &LegacySession,
    text: &Bytes,
) -> Option<Bytes> {
    let request = match Message::parse(text) {
        Err(unreadable) => return Some(write_error(unreadable.id.as_ref(), &unreadable.error)),
        Ok(Message::Notification(notification)) => {
            if let Some(request) = apply_notification(session, &notification) {
                front_end.cancel_elsewhere(session, &request).await;
            }
            return None;
        }
        Ok(Message::Response(response)) => {
            if let Some(id) = response.id {
                // A batch has no answer for a response.
                let _ = front_end.deliver_answer(session, &id, response.outcome).await;
            }
            return None;
        }
        Ok(Message::Request(request)) => request,
    };
    let meta = RequestMeta::of(request.params.as_ref()).unwrap_or_default();
    match methods::begin(front_end, client, &request, meta, None).await {
        Err(error) => Some(write_error(Some(&request.id), &error)),
        Ok(MethodOutcome::Ready(reply)) => {
            let chunks: Vec<Bytes> = reply_chunks(&request.id, reply, client.era()).into();
            Some(Bytes::from(chunks.concat()))
        }
        Ok(MethodOutcome::Listen(_)) => None,
        Ok(MethodOutcome::Ongoing(mut running)) => loop {
            match running.next().await {
                // Progress and log messages are dropped, because there is no stream for them.
                RequestStep::Message(_) => {}
                RequestStep::Done(FinalAnswer::Nothing) => return None,
                RequestStep::Done(FinalAnswer::Result(result)) => {
                    return Some(write_result(&request.id, &result));
                }
                RequestStep::Done(FinalAnswer::Error(error)) => {
                    return Some(write_error(Some(&request.id), &error));
                }
                RequestStep::Done(FinalAnswer::Long(chunks)) => return Some(joined(&request.id, &chunks)),
            }
        },
    }
}
