//! The chat of the console: the model's next turn as a stream. The browser keeps the conversation and makes the calls
//! that the model requests with `POST /tools/{name}/call`, so they are ordinary calls of the signed-in user.

mod conversation;
mod stream;
mod turns;

pub use turns::ChatTurns;

use super::RestState;
use super::auth::RestCaller;
use super::extract::{JsonBody, NoQuery};
use super::problem::ProblemDocument;
use crate::event_stream;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use conversation::ChatBody;
use serde::Serialize;
use stream::{ChatEvent, ChatStream};
use utoipa::ToSchema;

/// The models of the chat.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatModelsView {
    /// The names, the default first. Empty if `llm` is not configured.
    models: Vec<String>,
}

/// Lists the models that the caller can chat with.
#[utoipa::path(
    get,
    path = "/chat",
    responses((status = 200, description = "The models.", body = ChatModelsView))
)]
pub async fn models(
    State(rest): State<RestState>,
    RestCaller(_): RestCaller,
    _: NoQuery,
) -> Json<ChatModelsView> {
    Json(ChatModelsView { models: rest.engine().calls().chat_models() })
}

/// Gets the model's next turn of a chat.
///
/// A stream of server-sent events. The gateway adds its own instructions and the meta tools `mcp_tool_search`,
/// `mcp_tool_list`, `mcp_tool_describe` and `mcp_tool_call`. It makes no calls: the client makes the requested ones and
/// sends their results as messages of role `tool`.
#[utoipa::path(
    post,
    path = "/chat",
    request_body(content = ChatBody, example = json!({ "messages": [{ "role": "user", "content": "hello" }] })),
    responses(
        (status = 200, description = "The stream. Each event has a `ChatEvent` as data.", content_type = "text/event-stream", body = ChatEvent),
        (status = 404, description = "`llm.not-configured` or `llm.unknown-model`."),
        (status = 429, description = "`llm.too-many-turns` or `sampling.over-budget`."),
        (status = 502, description = "The language model failed."),
    )
)]
pub async fn turn(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Response, ProblemDocument> {
    let request = conversation::read(&body)?;
    let slot = rest.chat_turns.begin(&caller.user)?;
    let mut stream = ChatStream::start(rest, caller, request, slot);
    stream.wait_for_first().await?;
    Ok(event_stream::response(Body::from_stream(stream.chunks())))
}
