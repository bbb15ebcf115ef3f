//! What becomes of a call.

use crate::words::words;

words! {
    /// What became of a call.
    pub enum OutcomeKind ("kind of outcome") {
        /// The tool answered.
        Done = "done",
        /// The tool answered that it failed.
        ToolError = "tool_error",
        /// No answer came, for a known reason.
        Failed = "failed",
        /// The caller hung up or took the call back.
        Cancelled = "cancelled",
        /// The deadline passed.
        Timeout = "timeout",
        /// The gateway died in between: it may or may not have happened.
        Unknown = "unknown",
    }
}
