//! Limits on the questions that a server may ask during one call.

use std::time::Duration;

/// How long an open question pauses the call's deadline.
pub const MAX_QUESTION: Duration = Duration::from_secs(600);
/// Maximum total time of a call's questions. If the server asks after that, the call fails.
pub const MAX_TIME_ASKED: Duration = Duration::from_secs(3600);
/// Maximum number of questions per call. If the server asks more, the call fails.
pub const MAX_QUESTIONS: u32 = 100;
