//! The state that the parts of an entry share while it is converted.

use crate::dialect::Flavor;
use crate::expand::Variables;
use crate::finding::{Finding, Severity};
use crate::inputs::Sources;
use crate::node::{Mark, Node};
use crate::texts::SourceTexts;
use toolbooth_core::names::ServerName;

/// The inputs of normalisation besides the entry itself.
pub(crate) struct EntryInputs<'a> {
    pub sources: &'a Sources,
    pub texts: &'a SourceTexts,
    pub variables: &'a Variables,
    pub flavor: Flavor,
}

/// The state of the normalisation of one entry: its inputs and the findings so far.
pub(crate) struct EntryContext<'a> {
    pub inputs: &'a EntryInputs<'a>,
    pub name: &'a ServerName,
    pub node: &'a Node,
    pub findings: Vec<Finding>,
}

impl EntryContext<'_> {
    /// The location of a field, or of the entry if the field is missing.
    pub(crate) fn mark(&self, path: &[&str]) -> Mark {
        self.node.at(path).map_or(self.node.mark, |node| node.mark)
    }

    /// Adds a finding about a field.
    pub(crate) fn note(&mut self, severity: Severity, code: &'static str, path: &[&str], sentence: &str) {
        self.note_with(severity, code, path, sentence, None);
    }

    /// Adds a finding about a field, with an optional hint.
    pub(crate) fn note_with(
        &mut self,
        severity: Severity,
        code: &'static str,
        path: &[&str],
        sentence: &str,
        hint: Option<&str>,
    ) {
        let mark = self.mark(path);
        let mut finding = Finding::error(code, format!("server `{}`: {sentence}", self.name))
            .at(self.inputs.texts, mark)
            .about(dotted(self.name, path));
        finding.severity = severity;
        finding.hint = hint.map(str::to_owned);
        self.findings.push(finding);
    }

    pub(crate) fn error(&mut self, code: &'static str, path: &[&str], sentence: &str) {
        self.note(Severity::Error, code, path, sentence);
    }

    pub(crate) fn warn(&mut self, code: &'static str, path: &[&str], sentence: &str) {
        self.note(Severity::Warning, code, path, sentence);
    }
}

fn dotted(name: &ServerName, path: &[&str]) -> String {
    let mut key = format!("servers.{name}");
    for part in path {
        key.push('.');
        key.push_str(part);
    }
    key
}
