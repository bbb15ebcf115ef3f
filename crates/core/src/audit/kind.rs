//! Kinds of audit rows.

use std::fmt;

/// The kind of an audit row. The word is the row's `kind` in the store, over REST and on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditKind {
    /// A call of a tool, with any outcome.
    Call,
    /// An answer to a held call, or its expiry.
    Decision,
    /// A consent was stored or revoked.
    Consent,
    /// Plan mode was switched on or off.
    Plan,
    /// A changed tool was accepted, or a tool was released from quarantine.
    Tool,
    /// A dead letter was replayed or dropped.
    DeadLetter,
    /// A server sent a request to the gateway's model.
    Sampling,
    /// A user asked the gateway's model in a chat of the console.
    Chat,
    /// A bearer token was created or revoked.
    Token,
    /// The configuration was reloaded.
    Config,
    /// The gateway signed in to a server, or signed out.
    Login,
    /// A user signed in to the console, or signed out.
    Session,
    /// A user gave a server a key of their own, or deleted it.
    Key,
    /// Files of a project were trusted, or the trust was revoked.
    Trust,
    /// A file was deleted.
    File,
    /// A server was connected, disconnected or restarted manually.
    Server,
    /// A job or task was created, changed, started or cancelled.
    Job,
    /// An administrator cancelled the call of another user.
    Cancellation,
    /// A request was refused before it became a call.
    Refusal,
}

impl AuditKind {
    /// The word for this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Decision => "decision",
            Self::Consent => "consent",
            Self::Plan => "plan",
            Self::Tool => "tool",
            Self::DeadLetter => "dead_letter",
            Self::Sampling => "sampling",
            Self::Chat => "chat",
            Self::Token => "token",
            Self::Config => "config",
            Self::Login => "login",
            Self::Session => "session",
            Self::Key => "key",
            Self::Trust => "trust",
            Self::File => "file",
            Self::Server => "server",
            Self::Job => "job",
            Self::Cancellation => "cancellation",
            Self::Refusal => "refusal",
        }
    }
}

impl fmt::Display for AuditKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
