//! Assembles a model's answer from its chunks.

use super::calls::{CallPiece, ToolCallBuilder};
use super::conversation::{AssistantTurn, ChatRequest};
use super::error::LlmError;
use super::usage::{Finish, Usage};
use serde::Deserialize;
use toolbooth_core::sampling::Prompt;

/// Maximum text length.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The text.
    pub text: String,
    /// The model that answered.
    pub model: String,
    /// Why it stopped.
    pub finish: Finish,
    /// The token usage, estimated if the endpoint does not report it.
    pub usage: Usage,
}

/// Whether more chunks follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamProgress {
    More,
    Done,
}

/// An answer that is being received.
#[derive(Debug, Default)]
pub(super) struct AnswerBuilder {
    text: String,
    model: Option<String>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    has_content: bool,
    calls: ToolCallBuilder,
}

#[derive(Deserialize)]
struct CompletionChunk {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Vec<CompletionChoice>,
    #[serde(default)]
    usage: Option<UsageCounts>,
    #[serde(default)]
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    /// In a stream.
    #[serde(default)]
    delta: Option<MessageDelta>,
    /// In a response that is not streamed.
    #[serde(default)]
    message: Option<MessageDelta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct MessageDelta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct UsageCounts {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl AnswerBuilder {
    /// Adds a chunk: the data of an event, or a whole response.
    pub(super) fn take(
        &mut self,
        data: &[u8],
        on_text: &mut impl FnMut(&str),
    ) -> Result<StreamProgress, LlmError> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(StreamProgress::Done);
        }
        let piece: CompletionChunk = serde_json::from_slice(data).map_err(|_| LlmError::BadAnswer)?;
        if piece.error.is_some() {
            return Err(LlmError::GaveUp);
        }
        if let Some(model) = piece.model.filter(|model| !model.is_empty()) {
            self.model.get_or_insert(model.chars().take(100).collect());
        }
        if let Some(UsageCounts { prompt_tokens, completion_tokens }) = piece.usage {
            self.usage = Some(Usage { prompt: prompt_tokens, completion: completion_tokens });
        }
        if let Some(CompletionChoice { delta, message, finish_reason }) = piece.choices.into_iter().next() {
            self.has_content = true;
            let MessageDelta { content, tool_calls } = delta.or(message).unwrap_or_default();
            for call in tool_calls.into_iter().flatten() {
                self.calls.take(call)?;
            }
            if let Some(text) = content {
                if self.text.len() + text.len() > MAX_TEXT_BYTES {
                    return Err(LlmError::TooLong);
                }
                on_text(&text);
                self.text.push_str(&text);
            }
            if let Some(reason) = finish_reason {
                self.finish = Some(if reason == "length" { Finish::Length } else { Finish::End });
            }
        }
        Ok(StreamProgress::More)
    }

    /// Completes the answer to a prompt.
    pub(super) fn finish(self, prompt: &Prompt) -> Result<Completion, LlmError> {
        if !self.has_content {
            return Err(LlmError::BadAnswer);
        }
        let usage = self.usage.unwrap_or_else(|| self.estimated_usage(prompt.weight()));
        let model = self.model.unwrap_or_else(|| prompt.model.clone());
        Ok(Completion { text: self.text, model, finish: self.finish.unwrap_or(Finish::End), usage })
    }

    /// Completes the next turn of a conversation.
    pub(super) fn into_turn(self, conversation: &ChatRequest<'_>) -> Result<AssistantTurn, LlmError> {
        if !self.has_content {
            return Err(LlmError::BadAnswer);
        }
        let usage = self.usage.unwrap_or_else(|| self.estimated_usage(conversation.weight()));
        let model = self.model.unwrap_or_else(|| conversation.model.to_owned());
        let finish = self.finish.unwrap_or(Finish::End);
        Ok(AssistantTurn { text: self.text, calls: self.calls.finish()?, model, finish, usage })
    }

    /// Estimates the usage if the endpoint does not report it.
    fn estimated_usage(&self, prompt: u64) -> Usage {
        let completion = u64::try_from(self.text.len() / 3 + 1).unwrap_or(u64::MAX);
        Usage { prompt, completion }
    }
}
