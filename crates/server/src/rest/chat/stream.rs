//! The model's turn as a stream of server-sent events.

use super::super::RestState;
use super::super::problem::{ProblemDocument, ProblemView};
use super::conversation::ChatCallRequest;
use super::turns::ChatTurnSlot;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_engine::ChatTurnRequest;
use toolbooth_upstream::llm::{AssistantTurn, Finish, ToolCall};
use toolbooth_wire::sse::{KEEP_ALIVE, write_event};
use utoipa::ToSchema;

/// How long an error can still be the answer to the request, before the stream starts.
const FIRST_PIECE: Duration = Duration::from_secs(10);

/// An event of the stream: the `data` of a server-sent event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ChatEvent {
    /// A piece of the text.
    Text {
        /// The piece.
        text: String,
    },
    /// The whole turn, as the last event.
    Turn {
        /// The text.
        text: String,
        /// The calls that the model requests.
        calls: Vec<ChatCallRequest>,
        /// The model that answered.
        model: String,
        /// `end`, or `length` if the answer reached the token limit.
        finish: &'static str,
        /// The tokens of the conversation.
        prompt_tokens: u64,
        /// The tokens of the answer.
        completion_tokens: u64,
    },
    /// The reason why the turn was not made, as the last event.
    Failed {
        /// The problem.
        problem: ProblemView,
    },
}

impl ChatEvent {
    fn of(turn: AssistantTurn) -> Self {
        let AssistantTurn { text, calls, model, finish, usage } = turn;
        let call = |ToolCall { id, name, arguments }| ChatCallRequest { id, name, arguments };
        Self::Turn {
            text,
            calls: calls.into_iter().map(call).collect(),
            model,
            finish: match finish {
                Finish::End => "end",
                Finish::Length => "length",
            },
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
        }
    }

    fn bytes(&self) -> Bytes {
        write_event(&serde_json::to_vec(self).unwrap_or_default(), None)
    }
}

/// A turn that is being received. Dropping it ends the request to the model.
pub(super) struct ChatStream {
    rest: RestState,
    work: Option<BoxFuture<'static, Result<AssistantTurn, Problem>>>,
    pieces: mpsc::UnboundedReceiver<String>,
    _slot: ChatTurnSlot,
    first: Option<ChatEvent>,
}

impl ChatStream {
    /// Asks the model.
    pub(super) fn start(
        rest: RestState,
        caller: Arc<Caller>,
        request: ChatTurnRequest,
        slot: ChatTurnSlot,
    ) -> Self {
        let calls = rest.engine().calls().clone();
        let (sender, pieces) = mpsc::unbounded_channel();
        let work = Box::pin(async move {
            // The stream was dropped if the piece cannot be sent, and then this future was, too.
            let on_text = |piece: &str| drop(sender.send(piece.to_owned()));
            calls.chat_turn(&caller, request, on_text).await
        });
        Self { rest, work: Some(work), pieces, _slot: slot, first: None }
    }

    /// Waits a while for the first event, so that an error can be the answer to the request.
    pub(super) async fn wait_for_first(&mut self) -> Result<(), Problem> {
        if let Ok(Some(event)) = timeout(FIRST_PIECE, self.next()).await {
            self.first = Some(event?);
        }
        Ok(())
    }

    /// The stream as the body of a response.
    pub(super) fn chunks(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures_util::stream::unfold(self, |mut stream| async move {
            if let Some(event) = stream.first.take() {
                return Some((Ok(event.bytes()), stream));
            }
            let interval = stream.rest.front_end.keep_alive;
            let chunk = match timeout(interval, stream.next()).await {
                Ok(event) => match event? {
                    Ok(event) => event.bytes(),
                    Err(problem) => {
                        let problem = ProblemDocument::from(problem).view();
                        ChatEvent::Failed { problem }.bytes()
                    }
                },
                Err(_) => Bytes::from_static(KEEP_ALIVE),
            };
            Some((Ok(chunk), stream))
        })
    }

    /// The next event; `None` after the last one. Cancel-safe.
    async fn next(&mut self) -> Option<Result<ChatEvent, Problem>> {
        let work = self.work.as_mut()?;
        tokio::select! {
            biased;
            Some(text) = self.pieces.recv() => Some(Ok(ChatEvent::Text { text })),
            turn = work => {
                self.work = None;
                Some(turn.map(ChatEvent::of))
            }
            () = self.rest.front_end.stop.cancelled() => {
                self.work = None;
                None
            }
        }
    }
}
