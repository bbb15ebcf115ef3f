//! The failure of a command: its fault and its exit code.

use crate::exit::Exit;
use serde::Serialize;
use toolbooth_config::LoadFailure;
use toolbooth_core::fault::Problem;

/// A fault as the command line reports it. Its code may come from the answer of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultReport {
    /// The stable code.
    pub code: String,
    /// Who can fix it.
    pub blame: String,
    /// One sentence that describes the fault.
    pub message: String,
    /// Suggested fix.
    pub hint: Option<String>,
}

impl From<Problem> for FaultReport {
    fn from(problem: Problem) -> Self {
        let Problem { code, blame, message, hint } = problem;
        Self { code: code.to_owned(), blame: blame.as_str().to_owned(), message, hint }
    }
}

/// The failure of a command.
#[derive(Debug)]
pub struct CommandFailure {
    /// The exit code.
    pub exit: Exit,
    /// The fault.
    pub fault: Box<FaultReport>,
    /// The rendered text, if it is more than a message and a hint.
    pub drawn: Option<String>,
}

impl CommandFailure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, fault: impl Into<FaultReport>) -> Self {
        Self { exit, fault: Box::new(fault.into()), drawn: None }
    }

    /// A failure because the command line or the configuration is not valid.
    pub fn usage(fault: impl Into<FaultReport>) -> Self {
        Self::new(Exit::Usage, fault)
    }

    /// A failure of the operation itself.
    pub fn failed(fault: impl Into<FaultReport>) -> Self {
        Self::new(Exit::Failed, fault)
    }

    /// A failure because the configuration cannot be loaded; every finding is rendered with its line.
    pub fn config(failure: &LoadFailure) -> Self {
        let findings: Vec<String> = failure.findings.iter().map(toolbooth_config::render).collect();
        Self { drawn: Some(findings.join("\n")), ..Self::usage(Problem::of(failure)) }
    }

    /// A failure because of an invalid argument.
    pub fn misuse(code: &'static str, message: impl Into<String>, hint: Option<&str>) -> Self {
        let (message, hint) = (message.into(), hint.map(str::to_owned));
        Self::usage(FaultReport { code: code.to_owned(), blame: "caller".to_owned(), message, hint })
    }

    /// Whether the gateway did not accept the credential, so that further requests would fail as well.
    pub fn is_unauthenticated(&self) -> bool {
        ["auth.required", "auth.refused", "gateway.not-admitted"].contains(&self.fault.code.as_str())
    }

    /// Replaces the hint. A rendered text keeps its own hint and gets this one as well.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        if let Some(drawn) = &mut self.drawn {
            drawn.push_str(&format!("\nhint: {hint}\n"));
        }
        self.fault.hint = Some(hint);
        self
    }
}

/// The result of a command.
pub type CommandResult = Result<Exit, CommandFailure>;
