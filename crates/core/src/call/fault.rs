//! Errors of a call before it is sent to a server.

use crate::fault::{Blame, Fault};
use crate::schema::Objection;

/// A call was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// The caller has no tool of this name.
    #[error("Unknown tool: {name}")]
    UnknownTool {
        /// The requested name.
        name: String,
    },
    /// Several tools have this name.
    #[error("`{name}` names several tools: {}", candidates.join(", "))]
    AmbiguousName {
        /// The requested name.
        name: String,
        /// Exposed names to choose from.
        candidates: Vec<String>,
    },
    /// The arguments are not an object.
    #[error("the arguments of `{name}` must be an object, not {found}")]
    ArgumentsNotObject {
        /// The tool.
        name: String,
        /// The kind of value received.
        found: &'static str,
    },
    /// Arguments that do not fit the tool's schema.
    #[error("the arguments of `{name}` do not fit: {}", listed(objections))]
    InvalidArguments {
        /// The tool.
        name: String,
        /// The violations.
        objections: Vec<Objection>,
    },
    /// The tool declares the identity argument with a type other than text.
    #[error(
        "`{name}` declares `{argument}` as something other than text, so the caller's identity cannot be supplied"
    )]
    IdentityNotText {
        /// The tool.
        name: String,
        /// The argument.
        argument: String,
    },
    /// An argument that the gateway must supply was not supplied.
    #[error("`{name}` was not called: the gateway could not supply `{argument}`")]
    NotSupplied {
        /// The tool.
        name: String,
        /// The argument.
        argument: String,
    },
    /// An argument names a file that the caller does not have.
    #[error("`{name}` was not called: `{argument}` names the file {file:?}, which is not among your files")]
    UnknownFile {
        /// The tool.
        name: String,
        /// The argument.
        argument: String,
        /// The name, truncated.
        file: String,
    },
    /// An argument names a file that is not available at the moment.
    #[error("`{name}` was not called: the file {file:?} is not available now")]
    FileUnavailable {
        /// The tool.
        name: String,
        /// The name, truncated.
        file: String,
    },
    /// The compliance levels of the caller and the server are incompatible.
    #[error("`{name}` is not for data of the compliance level `{level}`")]
    Compliance {
        /// The tool.
        name: String,
        /// The caller's level.
        level: String,
    },
    /// A policy refused the call.
    #[error("`{name}` was refused: {reason}")]
    Refused {
        /// The tool.
        name: String,
        /// The reason.
        reason: String,
    },
}

fn listed(objections: &[Objection]) -> String {
    objections.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Fault for CallFault {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "call.unknown-tool",
            Self::AmbiguousName { .. } => "call.ambiguous-name",
            Self::ArgumentsNotObject { .. } => "call.arguments-not-object",
            Self::InvalidArguments { .. } => "call.invalid-arguments",
            Self::IdentityNotText { .. } => "call.identity-not-text",
            Self::NotSupplied { .. } => "call.not-supplied",
            Self::UnknownFile { .. } => "call.unknown-file",
            Self::FileUnavailable { .. } => "call.file-unavailable",
            Self::Compliance { .. } => "call.compliance",
            Self::Refused { .. } => "call.refused",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::IdentityNotText { .. } => Blame::Upstream,
            Self::NotSupplied { .. } | Self::FileUnavailable { .. } => Blame::Gateway,
            _ => Blame::Caller,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownTool { .. } => Some("`toolbooth tools list` shows the tools you may use".into()),
            Self::AmbiguousName { .. } => Some("use one of the exposed names".into()),
            Self::ArgumentsNotObject { .. } => Some("give `arguments` as {\"name\": value, …}".into()),
            Self::InvalidArguments { .. } => Some("correct these arguments and call again".into()),
            Self::IdentityNotText { argument, .. } => {
                Some(format!("take `{argument}` out of the server's `inject.identity`, or make it a string"))
            }
            Self::UnknownFile { .. } => Some("use the exact name of one of your files".into()),
            Self::FileUnavailable { .. } => {
                Some("try again; tools fetch files from a running gateway (`toolbooth serve`)".into())
            }
            Self::NotSupplied { .. } | Self::Refused { .. } => None,
            Self::Compliance { .. } => {
                Some("`allowed_with` in `compliance.levels` lists the levels that may be used".into())
            }
        }
    }
}
