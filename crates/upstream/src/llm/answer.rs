//! The answer of a model, put together from its pieces.

use super::calls::{CallPiece, Calls};
use super::conversation::{Conversation, Said as SaidAloud};
use super::error::LlmError;
use serde::Deserialize;
use toolbooth_core::sampling::Prompt;

/// The longest text taken.
const LONGEST_TEXT: usize = 1 << 20;

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It had said everything.
    End,
    /// It reached the limit.
    Length,
}

/// What an answer has cost, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The question.
    pub prompt: u64,
    /// The answer.
    pub completion: u64,
}

/// A finished answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// What was said.
    pub text: String,
    /// The model that said it.
    pub model: String,
    /// Why it stopped.
    pub finish: Finish,
    /// What it has cost; counted roughly where the endpoint does not say.
    pub usage: Usage,
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

/// An answer that is coming.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    model: Option<String>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    said_something: bool,
    calls: Calls,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Counted>,
    #[serde(default)]
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice {
    /// In a stream.
    #[serde(default)]
    delta: Option<Said>,
    /// In one piece.
    #[serde(default)]
    message: Option<Said>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct Counted {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl Answer {
    /// Takes a piece: the data of an event, or a whole answer.
    pub(super) fn take(&mut self, data: &[u8], told: &mut impl FnMut(&str)) -> Result<Progress, LlmError> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(Progress::Done);
        }
        let piece: Piece = serde_json::from_slice(data).map_err(|_| LlmError::BadAnswer)?;
        if piece.error.is_some() {
            return Err(LlmError::GaveUp);
        }
        if let Some(model) = piece.model.filter(|model| !model.is_empty()) {
            self.model.get_or_insert(model.chars().take(100).collect());
        }
        if let Some(Counted { prompt_tokens, completion_tokens }) = piece.usage {
            self.usage = Some(Usage { prompt: prompt_tokens, completion: completion_tokens });
        }
        if let Some(Choice { delta, message, finish_reason }) = piece.choices.into_iter().next() {
            self.said_something = true;
            let Said { content, tool_calls } = delta.or(message).unwrap_or_default();
            for call in tool_calls.into_iter().flatten() {
                self.calls.take(call)?;
            }
            if let Some(text) = content {
                if self.text.len() + text.len() > LONGEST_TEXT {
                    return Err(LlmError::TooLong);
                }
                told(&text);
                self.text.push_str(&text);
            }
            if let Some(reason) = finish_reason {
                self.finish = Some(if reason == "length" { Finish::Length } else { Finish::End });
            }
        }
        Ok(Progress::More)
    }

    /// The answer to a question.
    pub(super) fn finish(self, prompt: &Prompt) -> Result<Completion, LlmError> {
        if !self.said_something {
            return Err(LlmError::BadAnswer);
        }
        let usage = self.usage.unwrap_or_else(|| self.rough(prompt.weight()));
        let model = self.model.unwrap_or_else(|| prompt.model.clone());
        Ok(Completion { text: self.text, model, finish: self.finish.unwrap_or(Finish::End), usage })
    }

    /// The next turn of a conversation.
    pub(super) fn said(self, conversation: &Conversation<'_>) -> Result<SaidAloud, LlmError> {
        if !self.said_something {
            return Err(LlmError::BadAnswer);
        }
        let usage = self.usage.unwrap_or_else(|| self.rough(conversation.weight()));
        let model = self.model.unwrap_or_else(|| conversation.model.to_owned());
        let finish = self.finish.unwrap_or(Finish::End);
        Ok(SaidAloud { text: self.text, calls: self.calls.finish()?, model, finish, usage })
    }

    /// What it has cost, where nobody says.
    fn rough(&self, prompt: u64) -> Usage {
        let completion = u64::try_from(self.text.len() / 3 + 1).unwrap_or(u64::MAX);
        Usage { prompt, completion }
    }
}
