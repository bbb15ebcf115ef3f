//! The lint: how well a tool's definition tells a model what it is for, from 0 to 100, and what is odd about it.
//!
//! Looked at is what clients are sent. Points go by a fixed table; other findings are told and cost nothing. One
//! pass over a definition of bounded length, by patterns that run in linear time.

mod characters;
mod identity;
mod names;
mod reported;
mod scored;
mod siblings;
#[cfg(test)]
mod tests;

pub use characters::{Suspect, Trick, revealed, suspect, suspicious, visible};
pub use identity::{identity_finding, unsupplied_identity};
pub use names::{RESERVED, disguise, reserved};
pub use siblings::Siblings;

use crate::catalog::Tool;
use crate::json::RawJson;
use crate::server::SideEffects;
use serde_json::Value;

/// The pass mark where nobody says another.
pub const PASS_MARK: u8 = 40;
/// The most findings of one tool that are told.
pub const MAX_FINDINGS: usize = 64;

crate::words::words! {
    /// What was found.
    pub enum Code("finding") {
        /// There is no description.
        NoDescription = "no-description",
        /// The description is shorter than 20 characters.
        ShortDescription = "short-description",
        /// The description says no more than the name.
        RestatesName = "restates-name",
        /// An argument has no description.
        UndescribedArgument = "undescribed-argument",
        /// Nothing says which arguments are required.
        NoRequired = "no-required",
        /// The name is neither in snake case nor prefixed.
        OddName = "odd-name",
        /// The description says when or how to use the tool.
        SaysUsage = "says-usage",
        /// The description or the schema has examples.
        HasExamples = "has-examples",
        /// The schema of the arguments is not that of an object.
        SchemaNotObject = "schema-not-object",
        /// A reference leads nowhere, or out of the definition.
        UnresolvableRef = "unresolvable-ref",
        /// The name is longer than clients take.
        LongName = "long-name",
        /// Another tool of the server has the same description.
        SameWording = "same-wording",
        /// A text gives orders to the model.
        AddressesModel = "addresses-model",
        /// An argument names a user, and the gateway does not supply it.
        UnsuppliedIdentity = "unsupplied-identity",
        /// Characters that nobody sees.
        HiddenCharacters = "hidden-characters",
        /// The name is easily taken for another.
        LookalikeName = "lookalike-name",
        /// The operator's label says that the tool changes nothing, and its name that it does.
        LabelBelowName = "label-below-name",
    }
}

crate::words::words! {
    /// How grave a finding is.
    pub enum Severity("severity") {
        /// The tool does not pass.
        Error = "error",
        /// It costs points, or may do harm.
        Warning = "warning",
        /// It is worth knowing.
        Note = "note",
    }
}

/// Something about a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub code: Code,
    /// How grave it is.
    pub severity: Severity,
    /// Where: a JSON pointer into the definition, safe to show.
    pub pointer: String,
    /// What it does to the score.
    pub points: i8,
    /// What was found, in words.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

/// How a definition did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// From 0 to 100.
    pub points: u8,
    /// What was found, in the order of the table.
    pub findings: Vec<Finding>,
}

impl Score {
    /// Whether this is good enough. A tool that does not say what it does never is.
    pub fn passes(&self, mark: u8) -> bool {
        self.points >= mark && !self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Adds what can only be told beside the tool's siblings.
    pub fn beside(mut self, subject: &Subject<'_>, siblings: &Siblings) -> Self {
        let description = subject.description().unwrap_or_default();
        let twin = siblings.twin(subject.server.unwrap_or_default(), subject.name, &description);
        self.findings.extend(twin.map(reported::same_wording));
        self.findings.extend(siblings.like(subject.name).map(reported::looks_like));
        self
    }
}

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The tool's server, where one is known.
    pub server: Option<&'a str>,
    /// The server's own name for the tool.
    pub name: &'a str,
    /// The definition.
    pub definition: &'a RawJson,
    /// What the operator says that the tool does, where anybody could have said it.
    pub label: Option<SideEffects>,
}

impl<'a> Subject<'a> {
    /// A tool of the catalog.
    pub fn of(tool: &'a Tool) -> Self {
        // A tool of a manifest stands on no server that it could be named after.
        let server = (!tool.server.is_virtual()).then(|| tool.server.name.as_str());
        let label = Some(tool.terms.side_effects);
        Self { server, name: &tool.name, definition: &tool.definition, label }
    }

    /// What it says of itself.
    pub fn description(&self) -> Option<String> {
        self.definition.member("description")?.string().map(|text| text.into_owned())
    }
}

/// Scores a tool of the catalog.
pub fn score(tool: &Tool) -> Score {
    examine(&Subject::of(tool))
}

/// How many points a tool of the catalog has; nothing is found out that costs none.
pub fn points(tool: &Tool) -> u8 {
    let subject = Subject::of(tool);
    scored(&subject, &read(&subject)).points
}

/// Scores a definition.
pub fn examine(subject: &Subject<'_>) -> Score {
    let definition = read(subject);
    let mut score = scored(subject, &definition);
    reported::look(subject, &definition, &mut score.findings);
    score.findings.truncate(MAX_FINDINGS);
    score
}

/// What cannot be read says nothing.
fn read(subject: &Subject<'_>) -> Value {
    subject.definition.read().unwrap_or_default()
}

/// What goes by points.
fn scored(subject: &Subject<'_>, definition: &Value) -> Score {
    let mut findings = scored::look(subject, definition);
    let lost: i32 = findings.iter().map(|finding| i32::from(finding.points)).sum();
    let before = (100 + lost).clamp(0, 100);
    let gained = scored::bonus(definition, 100 - before);
    let after = before + gained.iter().map(|finding| i32::from(finding.points)).sum::<i32>();
    findings.extend(gained);
    Score { points: u8::try_from(after.clamp(0, 100)).unwrap_or(0), findings }
}
