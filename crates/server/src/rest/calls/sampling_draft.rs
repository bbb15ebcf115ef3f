//! Drafts of answers to sampling requests. Nothing is sent to the server before the person has sent the answer.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{self, NoQuery, PathParam, run_to_completion};
use super::super::problem::ProblemDocument;
use super::questions::no_question;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use toolbooth_engine::SamplingDraft;
use utoipa::ToSchema;

/// A draft of the gateway's model.
#[derive(Debug, Serialize, ToSchema)]
pub struct SamplingDraftView {
    /// The text. It was not sent to the server.
    text: String,
    /// The model that wrote it.
    model: String,
}

/// Has the gateway's model draft an answer to the sampling request of a call's server.
///
/// The draft is not sent to the server: `POST /calls/{id}/answer` sends it, changed or not. It counts against
/// `llm.tokens_per_day`, and `llm.requests_per_call` limits the drafts of a call.
#[utoipa::path(
    post,
    path = "/calls/{id}/draft",
    params(("id" = String, Path, description = "The id of the call.")),
    responses(
        (status = 200, description = "The draft.", body = SamplingDraftView),
        (status = 404, description = "`call.no-question`: the call does not wait for the answer to a sampling request. `llm.not-configured`."),
        (status = 429, description = "`sampling.over-budget`, `sampling.too-often` or `llm.too-many-turns`."),
        (status = 502, description = "The language model failed, or it cannot answer the request."),
    )
)]
pub async fn draft(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<SamplingDraftView>, ProblemDocument> {
    let id = extract::id(&id, "call.no-question", "call")?;
    // Drafts and turns of a chat have one limit: a user with many open calls must not occupy the model.
    let slot = rest.chat_turns.begin(&caller.user)?;
    let begun = rest.running_calls.begin_draft(id, &caller.user);
    let (asked, earlier) = begun.ok_or_else(|| no_question(id))?;
    let drafting = async move {
        let _slot = slot;
        let draft = rest.engine().calls().draft_sampling(&caller, &asked, earlier).await?;
        rest.running_calls.set_draft(id, &asked, draft.clone());
        Ok(draft)
    };
    let SamplingDraft { text, model } = run_to_completion(drafting).await?;
    Ok(Json(SamplingDraftView { text, model }))
}
