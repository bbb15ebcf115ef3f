//! The lint: scores how well a definition tells a model what the tool is for, from 0 to 100, and reports oddities.
//!
//! It reads the definition that clients are sent. Points follow a fixed table; other findings are reported and cost
//! nothing. It takes one pass over a definition of limited length, with patterns that run in linear time.

mod characters;
mod identity;
mod names;
mod reported;
mod scored;
mod siblings;
#[cfg(test)]
mod tests;

pub use characters::{HiddenCharacter, HiddenKind, find_hidden, revealed, suspicious, visible};
pub use identity::{identity_finding, unsupplied_identity};
pub use names::{misleading_letters, reserved};
pub use siblings::Siblings;

use crate::json::RawJson;
use crate::server::SideEffects;
use serde_json::Value;

/// The default pass mark.
pub const PASS_MARK: u8 = 40;
/// Maximum number of findings reported for one tool.
pub const MAX_FINDINGS: usize = 64;

crate::words::words! {
    /// The kind of a finding.
    pub enum FindingCode("finding") {
        /// The description is missing.
        NoDescription = "no-description",
        /// The description is shorter than 20 characters.
        ShortDescription = "short-description",
        /// The description says no more than the name.
        RestatesName = "restates-name",
        /// An argument has no description.
        UndescribedArgument = "undescribed-argument",
        /// The schema does not say which arguments are required.
        NoRequired = "no-required",
        /// The name is neither in snake case nor prefixed.
        OddName = "odd-name",
        /// The description says when or how to use the tool.
        SaysUsage = "says-usage",
        /// The description or the schema has examples.
        HasExamples = "has-examples",
        /// The schema of the arguments is not that of an object.
        SchemaNotObject = "schema-not-object",
        /// The target of a reference does not exist, or is outside the definition.
        UnresolvableRef = "unresolvable-ref",
        /// The name is longer than clients accept.
        LongName = "long-name",
        /// Another tool of the server has the same description.
        SameWording = "same-wording",
        /// A text gives instructions to the model.
        AddressesModel = "addresses-model",
        /// An argument names a user, and the gateway does not supply it.
        UnsuppliedIdentity = "unsupplied-identity",
        /// The definition has invisible characters.
        HiddenCharacters = "hidden-characters",
        /// The name is easily mistaken for another.
        LookalikeName = "lookalike-name",
        /// The operator's label says that the tool changes nothing, but its name says that it does.
        LabelBelowName = "label-below-name",
    }
}

crate::words::words! {
    /// The severity of a finding.
    pub enum FindingSeverity("severity") {
        /// The tool does not pass.
        Error = "error",
        /// It costs points, or may do harm.
        Warning = "warning",
        /// Worth knowing.
        Note = "note",
    }
}

/// A finding about a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintFinding {
    /// The kind of finding.
    pub code: FindingCode,
    /// The severity.
    pub severity: FindingSeverity,
    /// The position: a JSON pointer into the definition, safe to display.
    pub pointer: String,
    /// The points added to the score.
    pub points: i8,
    /// The finding in words.
    pub message: String,
    /// How to fix it.
    pub hint: &'static str,
}

/// The result of a lint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// From 0 to 100.
    pub points: u8,
    /// The findings, in the order of the table.
    pub findings: Vec<LintFinding>,
}

impl Score {
    /// Whether the score is good enough. A tool without a description never passes.
    pub fn passes(&self, mark: u8) -> bool {
        self.points >= mark && !self.findings.iter().any(|finding| finding.severity == FindingSeverity::Error)
    }

    /// Adds the findings that need other tools for comparison.
    pub fn beside(mut self, subject: &LintSubject<'_>, siblings: &Siblings) -> Self {
        let description = subject.description().unwrap_or_default();
        let same =
            siblings.with_same_description(subject.server.unwrap_or_default(), subject.name, &description);
        self.findings.extend(same.map(reported::same_description));
        self.findings.extend(siblings.like(subject.name).map(reported::looks_like));
        self
    }
}

/// A tool definition to lint.
#[derive(Debug, Clone, Copy)]
pub struct LintSubject<'a> {
    /// The tool's server, if known.
    pub server: Option<&'a str>,
    /// The server's own name for the tool.
    pub name: &'a str,
    /// The definition.
    pub definition: &'a RawJson,
    /// The operator's label for the side effects, if there can be one.
    pub label: Option<SideEffects>,
}

impl LintSubject<'_> {
    /// The tool's description.
    pub fn description(&self) -> Option<String> {
        self.definition.member("description")?.string().map(|text| text.into_owned())
    }
}

/// The points of a definition; skips the findings that cost none.
pub fn points(subject: &LintSubject<'_>) -> u8 {
    scored(subject, &read(subject)).points
}

/// Scores a definition.
pub fn examine(subject: &LintSubject<'_>) -> Score {
    let definition = read(subject);
    let mut score = scored(subject, &definition);
    reported::add_findings(subject, &definition, &mut score.findings);
    score.findings.truncate(MAX_FINDINGS);
    score
}

/// The parsed definition; `null` if it cannot be parsed.
fn read(subject: &LintSubject<'_>) -> Value {
    subject.definition.read().unwrap_or_default()
}

/// Computes the points.
fn scored(subject: &LintSubject<'_>, definition: &Value) -> Score {
    let mut findings = scored::findings(subject, definition);
    let lost: i32 = findings.iter().map(|finding| i32::from(finding.points)).sum();
    let before = (100 + lost).clamp(0, 100);
    let gained = scored::bonus(definition, 100 - before);
    let after = before + gained.iter().map(|finding| i32::from(finding.points)).sum::<i32>();
    findings.extend(gained);
    Score { points: u8::try_from(after.clamp(0, 100)).unwrap_or(0), findings }
}
