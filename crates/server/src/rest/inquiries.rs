//! Requests to servers that are not calls of tools: prompts and resources.

use super::problem::server_error;
use serde_json::Value;
use std::sync::Arc;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_engine::{Answer, Inquiry, QuestionHandling};
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_wire::meta::strip_modern;

/// A request of a caller whose client cannot be asked.
pub(super) fn inquiry(caller: Arc<Caller>, params: &Value, only: Option<ServerName>) -> Inquiry {
    Inquiry {
        caller,
        client: ClientFacts::default().into(),
        params: RawJson::from_value(params),
        meta: Vec::new(),
        round: Round::default(),
        progress: ProgressMode::Observed,
        questions: QuestionHandling::DuringCall,
        only,
    }
}

/// The result in an answer, as REST shows it.
pub(super) fn result_of(answer: Answer) -> Result<RawJson, Problem> {
    let unanswered = |message| Problem {
        code: "call.server-error",
        blame: Blame::Upstream,
        message,
        hint: Some("use an MCP client that answers questions of servers".into()),
    };
    match answer {
        Answer::Result { result, .. } => Ok(strip_modern(&result)),
        Answer::Long { long, .. } => Ok(strip_modern(&long.whole())),
        Answer::Error(error) => Err(server_error(&error)),
        Answer::InputRequired { server, .. } => {
            Err(unanswered(format!("server `{server}` asks a question that only an MCP client can answer")))
        }
        Answer::Held { .. } => Err(unanswered("the request waits for a person".into())),
    }
}
