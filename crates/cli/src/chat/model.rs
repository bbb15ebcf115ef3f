//! The language model of a chat, and its errors as failures.

use crate::failure::CommandFailure;
use toolbooth_config::Settings;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_upstream::llm::{LlmClient, LlmError, LlmFailure};

/// A model at an endpoint.
#[derive(Debug)]
pub struct ChatModel {
    /// The endpoint.
    pub llm: LlmClient,
    /// Name of the model.
    pub name: String,
    /// The maximum number of tokens of an answer.
    pub max_tokens: u32,
}

impl ChatModel {
    /// The configured model, or another one at the same endpoint.
    pub fn of(settings: &Settings, named: Option<&str>) -> Result<Self, CommandFailure> {
        let llm = &settings.llm;
        let name = named.map(str::to_owned).or_else(|| llm.model.clone());
        let (url, name) = match (&llm.base_url, name) {
            (Some(url), Some(name)) => (url, name),
            (None, _) => return Err(missing("base_url")),
            (_, None) => return Err(missing("model")),
        };
        let endpoint = LlmClient::new(url.expose(), llm.api_key.as_ref(), llm.timeout_seconds);
        let llm_error = |error: LlmError| failure(error.into());
        Ok(Self { llm: endpoint.map_err(llm_error)?, name, max_tokens: llm.max_tokens })
    }
}

fn missing(key: &str) -> CommandFailure {
    CommandFailure::usage(Problem {
        code: "llm.not-configured",
        blame: Blame::Caller,
        message: format!("no language model is configured: `llm.{key}` is not set"),
        hint: Some(
            "set `llm.base_url` and `llm.model` in the configuration; any OpenAI-compatible endpoint works"
                .into(),
        ),
    })
}

/// Converts an error of the model to a failure. It includes the endpoint's own text, because there is no log to read.
pub fn failure(unanswered: LlmFailure) -> CommandFailure {
    let LlmFailure { error, said } = unanswered;
    let is_ours = matches!(error, LlmError::Refused { status: 401 | 403 | 404 } | LlmError::RateLimited);
    let failure = CommandFailure::failed(Problem::of(&error));
    match (said, failure.fault.hint.clone()) {
        (Some(said), Some(hint)) if is_ours => failure.hint(format!("{hint}; its answer: {said}")),
        (Some(said), _) => failure.hint(format!("its answer: {said}")),
        (None, _) if matches!(error, LlmError::Refused { status: 500.. }) => {
            failure.hint("try again in a while")
        }
        (None, _) if matches!(error, LlmError::Refused { .. } | LlmError::BadAnswer) => failure
            .hint("check `llm.base_url`: it is the URL without /chat/completions, and mostly ends with /v1"),
        _ => failure,
    }
}
