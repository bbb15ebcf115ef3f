//! Batches: several messages in one request, which one revision allowed.

use super::Door;
use super::client::Client;
use super::follow::{Final, Step};
use super::http::{failure, heed, json, plain, reply_pieces, session_of};
use super::long::joined;
use super::methods::{self, Begun};
use super::session::Session;
use crate::body::Body;
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

/// The most messages in a batch.
const MOST: usize = 100;

fn refused(why: &str) -> RpcError {
    RpcError::new(INVALID_REQUEST, format!("Invalid Request: {why}"))
}

/// The refusal of a batch of somebody who has no session.
pub(super) fn needs_session() -> RpcError {
    refused("batches need a session of revision 2025-03-26")
}

/// Serves a batch over HTTP.
pub(super) async fn serve(
    door: &Arc<Door>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    text: &Bytes,
) -> Response<Body> {
    let answered = match session_of(door, caller, headers, None) {
        Ok(session) => answers(door, caller, session, text).await,
        Err(_) => Err(needs_session()),
    };
    match answered {
        Ok(Some(answers)) => json(StatusCode::OK, VecDeque::from([answers])),
        Ok(None) => plain(StatusCode::ACCEPTED),
        Err(error) => failure(StatusCode::BAD_REQUEST, None, &error),
    }
}

/// The answers to a batch; nothing where none of its messages wants one. Batches exist in one revision only; each
/// request in one is served as if it had come alone, but nobody is asked anything meanwhile: the answers come
/// together, so a question would stand behind what waits for it.
pub(super) async fn answers(
    door: &Arc<Door>,
    caller: &Arc<Caller>,
    session: Arc<Session>,
    text: &Bytes,
) -> Result<Option<Bytes>, RpcError> {
    if session.revision != Revision::V2025_03_26 {
        return Err(refused("batches belong to revision 2025-03-26 only"));
    }
    let elements = match RawJson::parse(text.clone()).and_then(|whole| whole.elements()) {
        Ok(elements) if !elements.is_empty() && elements.len() <= MOST => elements,
        _ => return Err(refused("a batch has 1 to 100 messages")),
    };
    let mut client = Client::of_session(session.clone(), caller);
    client.facts = Arc::new(unaskable(&client.facts));
    let each = elements.iter().map(|element| one_of_batch(door, &client, &session, element.bytes()));
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

/// The same client, for as long as it cannot be asked anything.
fn unaskable(facts: &ClientFacts) -> ClientFacts {
    let rest = edit_object(&facts.capabilities, |key, _| match key {
        "elicitation" | "sampling" | "roots" => Edit::Drop,
        _ => Edit::Keep,
    });
    ClientFacts { capabilities: rest.unwrap_or_else(|_| RawJson::empty_object()), ..facts.clone() }
}

async fn one_of_batch(door: &Arc<Door>, client: &Client, session: &Session, text: &Bytes) -> Option<Bytes> {
    let request = match Message::parse(text) {
        Err(unreadable) => return Some(write_error(unreadable.id.as_ref(), &unreadable.error)),
        Ok(Message::Notification(notification)) => {
            heed(session, &notification);
            return None;
        }
        Ok(Message::Response(response)) => {
            if let Some(id) = response.id {
                session.answered(&id, response.outcome);
            }
            return None;
        }
        Ok(Message::Request(request)) => request,
    };
    let meta = RequestMeta::of(request.params.as_ref()).unwrap_or_default();
    match methods::begin(door, client, &request, meta, None).await {
        Err(error) => Some(write_error(Some(&request.id), &error)),
        Ok(Begun::Ready(reply)) => {
            let pieces: Vec<Bytes> = reply_pieces(&request.id, reply, client.era()).into();
            Some(Bytes::from(pieces.concat()))
        }
        Ok(Begun::Listen(_)) => None,
        Ok(Begun::Ongoing(mut following)) => loop {
            match following.next().await {
                // Progress and log lines; there is no stream for them.
                Step::Message(_) => {}
                Step::Done(Final::Nothing) => return None,
                Step::Done(Final::Result(result)) => return Some(write_result(&request.id, &result)),
                Step::Done(Final::Error(error)) => return Some(write_error(Some(&request.id), &error)),
                Step::Done(Final::Long(pieces)) => return Some(joined(&request.id, &pieces)),
            }
        },
    }
}
