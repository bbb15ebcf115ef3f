//! Why a command did not do its work: what went wrong, and the number the process ends with.

use crate::exit::Exit;
use serde::Serialize;
use toolbooth_config::LoadFailure;
use toolbooth_core::fault::Problem;

/// A fault as the command line passes it on. Its code may come from another gateway's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// The stable code.
    pub code: String,
    /// Who can do something about it.
    pub blame: String,
    /// One sentence for people.
    pub message: String,
    /// What to try next.
    pub hint: Option<String>,
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        let Problem { code, blame, message, hint } = problem;
        Self { code: code.to_owned(), blame: blame.as_str().to_owned(), message, hint }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub struct Failure {
    /// The number to end with.
    pub exit: Exit,
    /// What went wrong.
    pub trouble: Box<Trouble>,
    /// How it is drawn for people, where that is more than a sentence and a hint.
    pub drawn: Option<String>,
}

impl Failure {
    /// A failure with a number of its own.
    pub fn new(exit: Exit, trouble: impl Into<Trouble>) -> Self {
        Self { exit, trouble: Box::new(trouble.into()), drawn: None }
    }

    /// The command line or the configuration is wrong.
    pub fn usage(trouble: impl Into<Trouble>) -> Self {
        Self::new(Exit::Usage, trouble)
    }

    /// The thing itself failed.
    pub fn failed(trouble: impl Into<Trouble>) -> Self {
        Self::new(Exit::Failed, trouble)
    }

    /// The configuration cannot be used: every finding is drawn with its line.
    pub fn config(failure: &LoadFailure) -> Self {
        let findings: Vec<String> = failure.findings.iter().map(toolbooth_config::render).collect();
        Self { drawn: Some(findings.join("\n")), ..Self::usage(Problem::of(failure)) }
    }

    /// Something on the command line is wrong.
    pub fn misuse(code: &'static str, message: impl Into<String>, hint: Option<&str>) -> Self {
        let (message, hint) = (message.into(), hint.map(str::to_owned));
        Self::usage(Trouble { code: code.to_owned(), blame: "caller".to_owned(), message, hint })
    }

    /// The same with another hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.trouble.hint = Some(hint.into());
        self
    }
}

/// What a command gives back.
pub type Outcome = Result<Exit, Failure>;
