//! The language model of a chat: where it is, and how its failures read.

use crate::failure::Failure;
use toolbooth_config::Settings;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_upstream::llm::{Llm, LlmError, Unanswered};

/// A model that can be asked.
#[derive(Debug)]
pub struct Model {
    /// Its endpoint.
    pub llm: Llm,
    /// Its name there.
    pub name: String,
    /// The most tokens of one turn.
    pub max_tokens: u32,
}

impl Model {
    /// The configured one, or another at the same endpoint.
    pub fn of(settings: &Settings, named: Option<&str>) -> Result<Self, Failure> {
        let llm = &settings.llm;
        let name = named.map(str::to_owned).or_else(|| llm.model.clone());
        let (url, name) = match (&llm.base_url, name) {
            (Some(url), Some(name)) => (url, name),
            (None, _) => return Err(missing("base_url")),
            (_, None) => return Err(missing("model")),
        };
        let endpoint = Llm::new(url.expose(), llm.api_key.as_ref(), llm.timeout_seconds);
        let llm_error = |error: LlmError| failure(error.into());
        Ok(Self { llm: endpoint.map_err(llm_error)?, name, max_tokens: llm.max_tokens })
    }
}

fn missing(key: &str) -> Failure {
    Failure::usage(Problem {
        code: "llm.not-configured",
        blame: Blame::Caller,
        message: format!("there is no language model to ask: `llm.{key}` is not set"),
        hint: Some(
            "set `llm.base_url` and `llm.model` in the configuration; any OpenAI-compatible endpoint will do"
                .into(),
        ),
    })
}

/// Why there is no answer, with what the endpoint said about it: whoever sits here set it up, and there is no log.
pub fn failure(unanswered: Unanswered) -> Failure {
    let Unanswered { error, said } = unanswered;
    let is_ours = matches!(error, LlmError::Refused { status: 401 | 403 | 404 } | LlmError::RateLimited);
    let failure = Failure::failed(Problem::of(&error));
    match (said, failure.trouble.hint.clone()) {
        (Some(said), Some(hint)) if is_ours => failure.hint(format!("{hint}; it said: {said}")),
        (Some(said), _) => failure.hint(format!("it said: {said}")),
        (None, _) if matches!(error, LlmError::Refused { status: 500.. }) => {
            failure.hint("try again in a while")
        }
        (None, _) if matches!(error, LlmError::Refused { .. } | LlmError::BadAnswer) => {
            failure.hint("look at `llm.base_url`: it ends where /chat/completions follows, mostly with /v1")
        }
        _ => failure,
    }
}
