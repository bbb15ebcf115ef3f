//! The language model of a chat, and its errors as failures.

use crate::chat_models::{self, ModelFault};
use crate::failure::CommandFailure;
use toolbooth_config::Settings;
use toolbooth_core::fault::Problem;
use toolbooth_upstream::llm::{ChatModel, LlmError, LlmFailure};

/// The configured model, or the one with this name.
pub fn select(settings: &Settings, named: Option<&str>) -> Result<ChatModel, CommandFailure> {
    chat_models::select(settings, named).map_err(|fault| match fault {
        ModelFault::Endpoint(error) => failure(error.into()),
        ModelFault::NotConfigured { .. } | ModelFault::Unknown { .. } => {
            CommandFailure::usage(Problem::of(&fault))
        }
    })
}

/// Converts an error of the model to a failure. It includes the endpoint's own text, because there is no log to read.
pub fn failure(unanswered: LlmFailure) -> CommandFailure {
    let LlmFailure { error, reason } = unanswered;
    let is_ours = matches!(error, LlmError::Refused { status: 401 | 403 | 404 } | LlmError::RateLimited);
    let failure = CommandFailure::failed(Problem::of(&error));
    match (reason, failure.fault.hint.clone()) {
        (Some(reason), Some(hint)) if is_ours => failure.hint(format!("{hint}; its answer: {reason}")),
        (Some(reason), _) => failure.hint(format!("its answer: {reason}")),
        (None, _) if matches!(error, LlmError::Refused { status: 500.. }) => failure.hint("try again later"),
        (None, _) if matches!(error, LlmError::Refused { .. } | LlmError::BadAnswer) => {
            failure.hint("check `llm.base_url`: it usually ends with /v1")
        }
        _ => failure,
    }
}
