//! Sampling without the client: which servers may use the gateway's own model, for what, and how much.

use crate::fault::{Blame, Fault};
use crate::json::RawJson;
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;

/// The maximum size of a request, in bytes of JSON.
pub const MAX_QUESTION_BYTES: usize = 1 << 20;
/// The maximum number of messages of one request.
const MAX_MESSAGES: usize = 256;
/// The maximum number of stop sequences that are forwarded.
const MAX_STOPS: usize = 4;
const DAY_MS: i64 = 86_400_000;

/// The sampling settings.
#[derive(Debug, Clone)]
pub struct SamplingTerms {
    /// Globs of the servers that may use the model.
    pub servers: GlobSet,
    /// The default model.
    pub model: String,
    /// Other models that a server may prefer.
    pub models: Vec<String>,
    /// The token limit of one answer.
    pub max_tokens: u32,
    /// The maximum number of requests of one call.
    pub requests_per_call: u32,
    /// The token budget of a day, requests and answers together.
    pub tokens_per_day: u64,
}

/// Compiles the configured globs of servers.
pub fn servers(globs: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob)?);
    }
    set.build()
}

/// Why a request is not sent to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SamplingFault {
    /// It is invalid.
    #[error("the request to the model is invalid: {0}")]
    BadQuestion(String),
    /// It contains more than text.
    #[error("the gateway's model accepts only text, but the request contains {0}")]
    NotText(String),
    /// The call has reached its limit.
    #[error("the limit of requests to the model is {0} for each call")]
    TooOften(u32),
    /// The day's token budget is used up.
    #[error("the {0} tokens that may be used per day are used up")]
    OverBudget(u64),
}

impl Fault for SamplingFault {
    fn code(&self) -> &'static str {
        match self {
            Self::BadQuestion(_) => "sampling.bad-question",
            Self::NotText(_) => "sampling.not-text",
            Self::TooOften(_) => "sampling.too-often",
            Self::OverBudget(_) => "sampling.over-budget",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::BadQuestion(_) | Self::NotText(_) | Self::TooOften(_) => Blame::Upstream,
            Self::OverBudget(_) => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::BadQuestion(_) | Self::NotText(_) => None,
            Self::TooOften(_) => Some("`llm.requests_per_call` sets the limit".into()),
            Self::OverBudget(_) => Some("it is reset at midnight UTC; `llm.tokens_per_day` sets it".into()),
        }
    }
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// The author.
    pub role: MessageRole,
    /// The text.
    pub text: String,
}

/// A request as it is sent to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation so far.
    pub turns: Vec<PromptMessage>,
    /// The token limit of the answer.
    pub max_tokens: u32,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The stop sequences.
    pub stops: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SamplingParams {
    messages: Vec<SamplingMessage>,
    #[serde(default)]
    model_preferences: Option<ModelPreferences>,
    #[serde(default)]
    system_prompt: Option<String>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    stop_sequences: Vec<String>,
    #[serde(default)]
    tools: Option<RawJson>,
}

#[derive(Deserialize)]
struct SamplingMessage {
    role: MessageRole,
    content: SamplingContent,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SamplingContent {
    One(SamplingBlock),
    Many(Vec<SamplingBlock>),
}

#[derive(Deserialize)]
struct SamplingBlock {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Default, Deserialize)]
struct ModelPreferences {
    #[serde(default)]
    hints: Vec<ModelHint>,
}

#[derive(Deserialize)]
struct ModelHint {
    #[serde(default)]
    name: Option<String>,
}

impl SamplingTerms {
    /// Parses the parameters of `sampling/createMessage`. Context that a client would add is omitted.
    pub fn prompt(&self, params: &RawJson) -> Result<Prompt, SamplingFault> {
        if params.as_bytes().len() > MAX_QUESTION_BYTES {
            return Err(SamplingFault::BadQuestion(format!("it is longer than {MAX_QUESTION_BYTES} bytes")));
        }
        let question: SamplingParams =
            params.read().map_err(|error| SamplingFault::BadQuestion(error.to_string()))?;
        if question.messages.is_empty() || question.messages.len() > MAX_MESSAGES {
            return Err(SamplingFault::BadQuestion(format!("it must have 1 to {MAX_MESSAGES} messages")));
        }
        if question.tools.is_some() {
            return Err(SamplingFault::NotText("tools".into()));
        }
        let turns = question.messages.into_iter().map(turn).collect::<Result<Vec<_>, _>>()?;
        let hints = question.model_preferences.unwrap_or_default().hints;
        let wanted = question.max_tokens.unwrap_or(u64::from(self.max_tokens));
        let max_tokens = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, self.max_tokens.max(1));
        let stops = question.stop_sequences.into_iter().take(MAX_STOPS).collect();
        let temperature = question.temperature.filter(|value| (0.0..=2.0).contains(value));
        Ok(Prompt {
            model: self.model_for(&hints).to_owned(),
            system: question.system_prompt,
            turns,
            max_tokens,
            temperature,
            stops,
        })
    }

    /// The model to use: the first allowed one whose name contains a hint, otherwise the default. Hints are only
    /// preferences.
    fn model_for(&self, hints: &[ModelHint]) -> &str {
        let names = hints.iter().filter_map(|hint| hint.name.as_deref()).filter(|name| !name.is_empty());
        let allowed = || std::iter::once(&self.model).chain(&self.models);
        let mut fitting = names.filter_map(|name| allowed().find(|model| model.contains(name)));
        fitting.next().unwrap_or(&self.model)
    }
}

fn turn(message: SamplingMessage) -> Result<PromptMessage, SamplingFault> {
    let blocks = match message.content {
        SamplingContent::One(block) => vec![block],
        SamplingContent::Many(blocks) => blocks,
    };
    let mut text = String::new();
    for SamplingBlock { kind, text: words } in blocks {
        match (kind.as_str(), words) {
            ("text", Some(words)) => text.push_str(&words),
            (other, _) => return Err(SamplingFault::NotText(other.chars().take(40).collect())),
        }
    }
    Ok(PromptMessage { role: message.role, text })
}

impl Prompt {
    /// An upper estimate of the number of tokens.
    pub fn weight(&self) -> u64 {
        let turns = self.turns.iter().map(|turn| turn.text.len() + 16).sum::<usize>();
        let bytes = turns + self.system.as_ref().map_or(0, String::len);
        u64::try_from(bytes / 3 + 1).unwrap_or(u64::MAX)
    }
}

/// The daily token budget of servers and of chats in the console: how much of it is used.
#[derive(Debug, Default)]
pub struct TokenBudget {
    day: i64,
    used: u64,
}

impl TokenBudget {
    /// Reserves tokens before a request, at its maximum cost.
    pub fn reserve(&mut self, tokens: u64, now_ms: i64, per_day: u64) -> Result<(), SamplingFault> {
        let day = now_ms.div_euclid(DAY_MS);
        if day != self.day {
            *self = Self { day, used: 0 };
        }
        let used = self.used.saturating_add(tokens);
        if used > per_day {
            return Err(SamplingFault::OverBudget(per_day));
        }
        self.used = used;
        Ok(())
    }

    /// Replaces the reservation with the actual cost.
    pub fn settle(&mut self, reserved: u64, cost: u64) {
        self.used = self.used.saturating_sub(reserved).saturating_add(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn terms() -> SamplingTerms {
        SamplingTerms {
            servers: servers(&["plan*".into()]).expect("globs"),
            model: "small-1".into(),
            models: vec!["large-1".into()],
            max_tokens: 100,
            requests_per_call: 2,
            tokens_per_day: 1_000,
        }
    }

    fn asked(more: serde_json::Value) -> Result<Prompt, SamplingFault> {
        let mut question = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]});
        for (key, value) in more.as_object().into_iter().flatten() {
            question[key] = value.clone();
        }
        terms().prompt(&RawJson::from_value(&question))
    }

    #[test]
    fn only_allowed_models_are_used() {
        let hints = |names: &[&str]| {
            let hints: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
            asked(json!({"modelPreferences": {"hints": hints}})).map(|prompt| prompt.model)
        };
        let cases: [(&[&str], &str); 5] = [
            (&[], "small-1"),
            (&["large"], "large-1"),
            (&["huge-9"], "small-1"),
            (&["huge-9", "large-1"], "large-1"),
            (&[""], "small-1"),
        ];
        for (names, expected) in cases {
            assert_eq!(hints(names).as_deref(), Ok(expected), "{names:?}");
        }
    }

    #[test]
    fn a_request_is_limited_and_only_text() {
        assert_eq!(asked(json!({"maxTokens": 9_999})).map(|prompt| prompt.max_tokens), Ok(100));
        assert_eq!(asked(json!({"maxTokens": 7})).map(|prompt| prompt.max_tokens), Ok(7));
        assert_eq!(asked(json!({"temperature": 9.5})).map(|prompt| prompt.temperature), Ok(None));
        let image = json!({"messages": [{"role": "user", "content": [{"type": "image", "data": "AA=="}]}]});
        let cases = [
            (json!({"messages": []}), "sampling.bad-question"),
            (json!({"messages": 3}), "sampling.bad-question"),
            (
                json!({"messages": [{"role": "system", "content": {"type": "text", "text": "x"}}]}),
                "sampling.bad-question",
            ),
            (image, "sampling.not-text"),
            (json!({"tools": []}), "sampling.not-text"),
        ];
        for (more, expected) in cases {
            assert_eq!(asked(more.clone()).map_err(|fault| fault.code()), Err(expected), "{more}");
        }
    }

    #[test]
    fn the_daily_token_budget_is_reset_every_day() {
        let (per_day, mut book) = (terms().tokens_per_day, TokenBudget::default());
        assert_eq!(book.reserve(800, 1_000, per_day), Ok(()));
        assert_eq!(book.reserve(300, 1_000, per_day), Err(SamplingFault::OverBudget(1_000)));
        book.settle(800, 100);
        assert_eq!(book.reserve(300, 1_000, per_day), Ok(()));
        assert_eq!(book.reserve(900, 1_000, per_day), Err(SamplingFault::OverBudget(1_000)));
        assert_eq!(book.reserve(900, DAY_MS + 1, per_day), Ok(()));
    }
}
