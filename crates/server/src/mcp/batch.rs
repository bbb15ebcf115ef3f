//! Batches: several messages in one request, which one revision allowed.

use super::Door;
use super::client::Client;
use super::follow::{Final, Step};
use super::http::{failure, heed, json, plain, reply_pieces, session_of};
use super::long::gathered;
use super::methods::{self, Begun};
use super::session::Session;
use crate::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use std::collections::VecDeque;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_wire::codes::{INVALID_REQUEST, RpcError};
use toolbooth_wire::envelope::{write_error, write_result};
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Message, Revision};

/// Batches exist in one revision only; each request in one is served as if it had come alone.
pub(super) async fn serve(
    door: &Arc<Door>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    text: &Bytes,
) -> Response<Body> {
    let refuse = |why: &str| {
        failure(
            StatusCode::BAD_REQUEST,
            None,
            &RpcError::new(INVALID_REQUEST, format!("Invalid Request: {why}")),
        )
    };
    let session = match session_of(door, caller, headers) {
        Ok(session) if session.revision == Revision::V2025_03_26 => session,
        Ok(_) => return refuse("batches belong to revision 2025-03-26 only"),
        Err(_) => return refuse("batches need a session of revision 2025-03-26"),
    };
    let elements = match RawJson::parse(text.clone()).and_then(|whole| whole.elements()) {
        Ok(elements) if !elements.is_empty() && elements.len() <= 100 => elements,
        _ => return refuse("a batch has 1 to 100 messages"),
    };
    let client = Client::of_session(session.clone(), caller);
    let answers = elements.iter().map(|element| one_of_batch(door, &client, &session, element.bytes()));
    let answers: Vec<Bytes> = futures_util::future::join_all(answers).await.into_iter().flatten().collect();
    if answers.is_empty() {
        return plain(StatusCode::ACCEPTED);
    }
    let mut out = BytesMut::from(&b"["[..]);
    for (index, answer) in answers.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b",");
        }
        out.extend_from_slice(answer);
    }
    out.extend_from_slice(b"]");
    json(StatusCode::OK, VecDeque::from([out.freeze()]))
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
                Step::Message(_) => {}
                Step::Done(Final::Nothing) => return None,
                Step::Done(Final::Result(result)) => return Some(write_result(&request.id, &result)),
                Step::Done(Final::Error(error)) => return Some(write_error(Some(&request.id), &error)),
                Step::Done(Final::Stream(stream, dress)) => {
                    return Some(gathered(&request.id, stream, dress).await);
                }
            }
        },
    }
}
