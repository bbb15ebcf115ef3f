//! Sampling in a client's stead: which servers may ask the gateway's own model, what they may ask, and how much.

use crate::fault::{Blame, Fault};
use crate::json::RawJson;
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;

/// The longest question, in bytes of its JSON.
pub const MAX_QUESTION_BYTES: usize = 1 << 20;
/// The most messages of one question.
const MAX_MESSAGES: usize = 256;
/// The most stop sequences that are passed on.
const MAX_STOPS: usize = 4;
const DAY_MS: i64 = 86_400_000;

/// What the operator allows.
#[derive(Debug, Clone)]
pub struct SamplingTerms {
    /// Globs of the servers that may ask.
    pub servers: GlobSet,
    /// The model that answers.
    pub model: String,
    /// Others that a server may prefer.
    pub models: Vec<String>,
    /// The most tokens of one answer.
    pub max_tokens: u32,
    /// The most questions of one call.
    pub requests_per_call: u32,
    /// The most tokens of a day, questions and answers together.
    pub tokens_per_day: u64,
}

/// Globs of servers, as they are configured.
pub fn servers(globs: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob)?);
    }
    set.build()
}

/// Why a question is not put to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SamplingFault {
    /// It cannot be read.
    #[error("the question to the model is wrong: {0}")]
    BadQuestion(String),
    /// It holds more than text.
    #[error("the gateway's model takes text alone, and the question holds {0}")]
    NotText(String),
    /// The call has asked enough.
    #[error("one call may ask the model {0} times")]
    TooOften(u32),
    /// The day's tokens are used up.
    #[error("the {0} tokens that servers may use in a day are used up")]
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

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Who says it.
    pub role: Role,
    /// What.
    pub text: String,
}

/// A question as the model gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The model.
    pub model: String,
    /// What it is told beforehand.
    pub system: Option<String>,
    /// The conversation so far.
    pub turns: Vec<Turn>,
    /// The most tokens of the answer.
    pub max_tokens: u32,
    /// How adventurous it may be.
    pub temperature: Option<f64>,
    /// Where it is to stop.
    pub stops: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    messages: Vec<Message>,
    #[serde(default)]
    model_preferences: Option<Preferences>,
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
struct Message {
    role: Role,
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    One(Block),
    Many(Vec<Block>),
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Default, Deserialize)]
struct Preferences {
    #[serde(default)]
    hints: Vec<Hint>,
}

#[derive(Deserialize)]
struct Hint {
    #[serde(default)]
    name: Option<String>,
}

impl SamplingTerms {
    /// Reads the parameters of `sampling/createMessage`. What a client would add of its own context is left out.
    pub fn prompt(&self, params: &RawJson) -> Result<Prompt, SamplingFault> {
        if params.as_bytes().len() > MAX_QUESTION_BYTES {
            return Err(SamplingFault::BadQuestion(format!("it is longer than {MAX_QUESTION_BYTES} bytes")));
        }
        let question: Question =
            params.read().map_err(|error| SamplingFault::BadQuestion(error.to_string()))?;
        if question.messages.is_empty() || question.messages.len() > MAX_MESSAGES {
            return Err(SamplingFault::BadQuestion(format!("it has 1 to {MAX_MESSAGES} messages")));
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

    /// The first hint that is part of an allowed model's name chooses it. Hints are wishes: one that nothing
    /// fits changes nothing.
    fn model_for(&self, hints: &[Hint]) -> &str {
        let names = hints.iter().filter_map(|hint| hint.name.as_deref()).filter(|name| !name.is_empty());
        let allowed = || std::iter::once(&self.model).chain(&self.models);
        let mut fitting = names.filter_map(|name| allowed().find(|model| model.contains(name)));
        fitting.next().unwrap_or(&self.model)
    }
}

fn turn(message: Message) -> Result<Turn, SamplingFault> {
    let blocks = match message.content {
        Content::One(block) => vec![block],
        Content::Many(blocks) => blocks,
    };
    let mut text = String::new();
    for Block { kind, text: words } in blocks {
        match (kind.as_str(), words) {
            ("text", Some(words)) => text.push_str(&words),
            (other, _) => return Err(SamplingFault::NotText(other.chars().take(40).collect())),
        }
    }
    Ok(Turn { role: message.role, text })
}

impl Prompt {
    /// About how many tokens the question has: a word too many rather than one too few.
    pub fn weight(&self) -> u64 {
        let turns = self.turns.iter().map(|turn| turn.text.len() + 16).sum::<usize>();
        let bytes = turns + self.system.as_ref().map_or(0, String::len);
        u64::try_from(bytes / 3 + 1).unwrap_or(u64::MAX)
    }
}

/// What servers have used of a day's tokens.
#[derive(Debug, Default)]
pub struct DayBook {
    day: i64,
    used: u64,
}

impl DayBook {
    /// Takes tokens for a question before it is put, at the most it can cost.
    pub fn reserve(&mut self, tokens: u64, now_ms: i64, terms: &SamplingTerms) -> Result<(), SamplingFault> {
        let day = now_ms.div_euclid(DAY_MS);
        if day != self.day {
            *self = Self { day, used: 0 };
        }
        let used = self.used.saturating_add(tokens);
        if used > terms.tokens_per_day {
            return Err(SamplingFault::OverBudget(terms.tokens_per_day));
        }
        self.used = used;
        Ok(())
    }

    /// Puts down what it has cost in truth.
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
    fn only_allowed_models_answer() {
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
    fn a_question_is_bounded_and_text_alone() {
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
    fn a_day_has_so_many_tokens_and_the_next_one_has_them_again() {
        let (terms, mut book) = (terms(), DayBook::default());
        assert_eq!(book.reserve(800, 1_000, &terms), Ok(()));
        assert_eq!(book.reserve(300, 1_000, &terms), Err(SamplingFault::OverBudget(1_000)));
        book.settle(800, 100);
        assert_eq!(book.reserve(300, 1_000, &terms), Ok(()));
        assert_eq!(book.reserve(900, 1_000, &terms), Err(SamplingFault::OverBudget(1_000)));
        assert_eq!(book.reserve(900, DAY_MS + 1, &terms), Ok(()));
    }
}
