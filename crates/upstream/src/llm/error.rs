//! What can go wrong between the gateway and a language model.

use serde_json::Value;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::redact;

/// The longest reason that is passed on.
const LONGEST_REASON: usize = 300;

/// A model that was asked has not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// It could not be reached.
    #[error("the language model cannot be reached: {reason}")]
    Unreachable {
        /// Why, in our words.
        reason: String,
    },
    /// It wants to be asked less.
    #[error("the language model is asked too often just now (HTTP 429)")]
    RateLimited,
    /// It said no.
    #[error("the language model refused (HTTP {status})")]
    Refused {
        /// With which status.
        status: u16,
    },
    /// It said something else than an answer.
    #[error("the language model answered with something that is no answer")]
    BadAnswer,
    /// Its answer broke off.
    #[error("the language model's answer broke off")]
    CutOff,
    /// It said in the middle of its answer that it cannot go on.
    #[error("the language model gave up in the middle of its answer")]
    GaveUp,
    /// Its answer is too long.
    #[error("the language model's answer is too long")]
    TooLong,
    /// It took too long.
    #[error("the language model said nothing for {} s", after.as_secs_f64())]
    Timeout {
        /// How long it was given.
        after: Duration,
    },
}

impl Fault for LlmError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "llm.unreachable",
            Self::RateLimited => "llm.rate-limited",
            Self::Refused { .. } => "llm.refused",
            Self::BadAnswer | Self::TooLong => "llm.bad-answer",
            Self::CutOff | Self::GaveUp => "llm.cut-off",
            Self::Timeout { .. } => "llm.timeout",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unreachable { .. } => "look at `llm.base_url`",
            Self::RateLimited => "wait a while, or ask for a higher limit there",
            Self::Refused { status: 401 | 403 } => "look at `llm.api_key`",
            Self::Refused { status: 404 } => "look at `llm.base_url` (it ends with /v1) and `llm.model`",
            Self::Refused { .. } | Self::BadAnswer | Self::TooLong => "the gateway's log holds what it said",
            Self::CutOff | Self::GaveUp => return None,
            Self::Timeout { .. } => "`llm.timeout_seconds` sets how long an answer may take",
        };
        Some(hint.into())
    }
}

/// An answer that did not come, with what the endpoint said about it: for the person who asked, not for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// What went wrong.
    pub error: LlmError,
    /// The endpoint's own words, without secrets; they are not ours.
    pub said: Option<String>,
}

impl From<LlmError> for Unanswered {
    fn from(error: LlmError) -> Self {
        Self { error, said: None }
    }
}

/// The reason in the body of a refusal. Endpoints repeat keys in it, so what looks like one is masked.
pub(super) fn reason_in(body: &[u8], key: Option<&str>) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = &body["error"];
    let reason = error["message"].as_str().or(error.as_str()).or(body["message"].as_str())?;
    let reason = match key.filter(|key| key.len() >= 4) {
        Some(key) => reason.replace(key, "[redacted]"),
        None => reason.to_owned(),
    };
    let masked = reason.split_whitespace().map(|word| {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        if redact::is_secret("", bare) { "[redacted]" } else { word }
    });
    let reason: String = masked.collect::<Vec<_>>().join(" ").chars().take(LONGEST_REASON).collect();
    (!reason.is_empty()).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_holds_no_key() {
        let cases = [
            (
                r#"{"error":{"message":"Incorrect API key provided: sk-abc***."}}"#,
                Some("Incorrect API key provided: [redacted]"),
            ),
            (r#"{"error":"model \"x\" not found"}"#, Some("model \"x\" not found")),
            (r#"{"message":"the key k-123456 is old"}"#, Some("the key [redacted] is old")),
            (r#"{"error":{}}"#, None),
            ("<html>", None),
        ];
        for (body, expected) in cases {
            assert_eq!(reason_in(body.as_bytes(), Some("k-123456")).as_deref(), expected, "{body}");
        }
    }
}
