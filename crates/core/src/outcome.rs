//! Outcomes of calls.

use crate::words::words;

words! {
    /// The outcome of a call.
    pub enum OutcomeKind ("kind of outcome") {
        /// The tool returned a result.
        Done = "done",
        /// The tool returned an error result.
        ToolError = "tool_error",
        /// No result was received, for a known reason.
        Failed = "failed",
        /// The caller disconnected or cancelled the call.
        Cancelled = "cancelled",
        /// The deadline passed.
        Timeout = "timeout",
        /// The gateway stopped during the call: it may or may not have happened.
        Unknown = "unknown",
    }
}
