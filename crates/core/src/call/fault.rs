//! What can go wrong with a call before a server has it.

use crate::fault::{Blame, Fault};

/// A call was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// No tool of this name for this caller.
    #[error("Unknown tool: {name}")]
    UnknownTool {
        /// The name that was asked for.
        name: String,
    },
    /// Several tools have this name.
    #[error("`{name}` names several tools: {}", candidates.join(", "))]
    AmbiguousName {
        /// The name that was asked for.
        name: String,
        /// Exposed names to choose from.
        candidates: Vec<String>,
    },
    /// Arguments that are no object.
    #[error("the arguments of `{name}` must be an object, but came as {found}")]
    ArgumentsNotObject {
        /// The tool.
        name: String,
        /// What came.
        found: &'static str,
    },
    /// The caller's level of data and the server's may not meet.
    #[error("`{name}` is not for data of the level `{level}`")]
    Compliance {
        /// The tool.
        name: String,
        /// The caller's level.
        level: String,
    },
    /// A policy said no.
    #[error("`{name}` was refused: {reason}")]
    Refused {
        /// The tool.
        name: String,
        /// Why.
        reason: String,
    },
}

impl Fault for CallFault {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "call.unknown-tool",
            Self::AmbiguousName { .. } => "call.ambiguous-name",
            Self::ArgumentsNotObject { .. } => "call.arguments-not-object",
            Self::Compliance { .. } => "call.compliance",
            Self::Refused { .. } => "call.refused",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownTool { .. } => Some("`toolbooth tools list` shows the tools you may use".into()),
            Self::AmbiguousName { .. } => Some("use one of the exposed names".into()),
            Self::ArgumentsNotObject { .. } => Some("give `arguments` as {\"name\": value, …}".into()),
            Self::Compliance { .. } => {
                Some("`compliance.levels` says in `allowed_with` which levels may be used".into())
            }
            Self::Refused { .. } => None,
        }
    }
}
