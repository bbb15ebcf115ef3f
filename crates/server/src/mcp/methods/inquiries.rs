//! Starts requests other than tool calls that a server answers: prompts, resources and completions.

use super::MethodOutcome;
use super::rounds::{ContinuableRequest, Params, RequestStart};
use crate::mcp::FrontEndState;
use crate::mcp::client::McpClient;
use crate::mcp::trace::continued;
use http::HeaderMap;
use std::sync::Arc;
use toolbooth_core::json::RawJson;
use toolbooth_engine::inquiry::progress_wanted;
use toolbooth_engine::parked::OngoingCall;
use toolbooth_engine::{Inquiry, QuestionHandling};
use toolbooth_upstream::CallLink;
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Era, Request, RpcError};

/// Starts an inquiry, or continues one with the client's answers.
pub(super) async fn inquire(
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    request: &Request,
    meta: RequestMeta,
    method: &'static str,
    headers: Option<&HeaderMap>,
) -> Result<MethodOutcome, RpcError> {
    let raw = request.params.clone().unwrap_or_else(RawJson::empty_object);
    let params = Params::of(&raw);
    let target = params.name.as_ref().or(params.uri.as_ref());
    let target = target.and_then(RawJson::string).unwrap_or_default().into_owned();
    let arguments = params.arguments.clone();
    let progress = progress_wanted(meta.progress_token.as_ref());
    let mut start = ContinuableRequest {
        front_end,
        client,
        request,
        method,
        target,
        arguments,
        progress_token: meta.progress_token,
        binding: None,
    }
    .bind();
    let round = match start.start(params).await? {
        RequestStart::New(round) => round,
        RequestStart::Continued(outcome) => return Ok(outcome),
    };
    let inquiry = Inquiry {
        caller: client.caller.clone(),
        client: client.facts.clone(),
        params: raw,
        meta: continued(meta.rest, headers),
        round,
        progress,
        questions: if client.era() == Era::Modern {
            QuestionHandling::Returned
        } else {
            QuestionHandling::DuringCall
        },
        only: None,
    };
    let (link, events) = CallLink::new();
    let inquiries = front_end.engine.inquiries().clone();
    let work = Box::pin(async move {
        match method {
            "prompts/get" => inquiries.get_prompt(inquiry, &link).await,
            "resources/read" => inquiries.read_resource(inquiry, &link).await,
            _ => inquiries.complete(inquiry, &link).await,
        }
    });
    Ok(MethodOutcome::Ongoing(start.run(OngoingCall { work, events })))
}
