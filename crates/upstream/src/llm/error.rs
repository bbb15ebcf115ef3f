//! Errors between the gateway and a language model.

use serde_json::Value;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::redact;

/// Maximum length of a reason that is passed on.
const MAX_REASON_CHARS: usize = 300;

/// A request to a language model failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// The endpoint could not be reached.
    #[error("the language model cannot be reached: {reason}")]
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// The rate limit was exceeded.
    #[error("the language model limits the request rate (HTTP 429)")]
    RateLimited,
    /// The endpoint refused the request.
    #[error("the language model refused the request (HTTP {status})")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The response could not be parsed.
    #[error("the language model sent an unreadable answer")]
    BadAnswer,
    /// The response ended early.
    #[error("the language model's answer ended early")]
    CutOff,
    /// The endpoint reported an error in the middle of the response.
    #[error("the language model reported an error in the middle of its answer")]
    GaveUp,
    /// The response is too long.
    #[error("the language model's answer is too long")]
    TooLong,
    /// The request timed out.
    #[error("the language model did not answer within {} s", after.as_secs_f64())]
    Timeout {
        /// The timeout.
        after: Duration,
    },
}

impl LlmError {
    /// Whether the request failed before the model worked on it, so that it cost nothing.
    pub fn is_before_work(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::RateLimited | Self::Refused { .. })
    }
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
            Self::Unreachable { .. } => "check `llm.base_url`",
            Self::RateLimited => "wait, or request a higher limit from its operator",
            Self::Refused { status: 401 | 403 } => "check `llm.api_key`",
            Self::Refused { status: 404 } => {
                "check `llm.base_url` (it usually ends with /v1) and `llm.model`"
            }
            Self::Refused { .. } | Self::BadAnswer | Self::TooLong => {
                "the gateway's log contains the response"
            }
            Self::CutOff | Self::GaveUp => return None,
            Self::Timeout { .. } => "`llm.timeout_seconds` sets how long an answer may take",
        };
        Some(hint.into())
    }
}

/// A failed request with the endpoint's own reason, which is shown to the person but not part of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LlmFailure {
    /// What went wrong.
    pub error: LlmError,
    /// The endpoint's reason with secrets masked.
    pub reason: Option<String>,
}

impl From<LlmError> for LlmFailure {
    fn from(error: LlmError) -> Self {
        Self { error, reason: None }
    }
}

/// The reason in the body of an error response. Endpoints repeat keys in it, so anything that looks like one
/// is masked.
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
    let reason: String = masked.collect::<Vec<_>>().join(" ").chars().take(MAX_REASON_CHARS).collect();
    (!reason.is_empty()).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_a_reason_are_masked() {
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
