//! What can go wrong between the gateway and a language model.

use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};

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
            Self::CutOff => "llm.cut-off",
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
            Self::CutOff => return None,
            Self::Timeout { .. } => "`llm.timeout_seconds` sets how long an answer may take",
        };
        Some(hint.into())
    }
}
