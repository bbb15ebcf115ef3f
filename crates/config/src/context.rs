//! The state of one load, and the documents and questions of trust that it collects.

use crate::dialect::{FileKind, SplitFile};
use crate::environment::Argument;
use crate::finding::Finding;
use crate::inputs::Sources;
use crate::layer::Layer;
use crate::texts::SourceTexts;
use crate::trust::Preview;
use std::path::PathBuf;

/// The state of one load: its sources, and the texts, findings and files collected so far.
pub(crate) struct LoadContext<'a> {
    pub sources: &'a Sources,
    pub texts: SourceTexts,
    pub findings: Vec<Finding>,
    /// Whether an error was found that stops the load.
    pub fatal: bool,
    pub files: Vec<PathBuf>,
}

impl LoadContext<'_> {
    /// Adds a finding that stops the load.
    pub(crate) fn fatal(&mut self, finding: Finding) {
        self.fatal = true;
        self.findings.push(finding);
    }
}

/// A file or another source of one layer, split into settings and servers.
#[derive(Debug, Clone)]
pub(crate) struct ConfigDocument {
    pub layer: Layer,
    pub path: Option<PathBuf>,
    pub kind: FileKind,
    pub split: SplitFile,
    /// Whether its settings and servers are trusted without a question to the user.
    pub settings_trusted: bool,
    /// Whether the file has no keys: it is empty, or has only comments.
    pub is_blank: bool,
}

/// A project file whose settings wait for trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedSettings {
    /// The file.
    pub file: PathBuf,
    /// The preview that the user is asked to trust.
    pub preview: Preview,
    /// The keys that are ignored until the file is trusted.
    pub keys: Vec<String>,
}

/// Command line arguments that set fields of servers.
pub(crate) type ServerArguments = Vec<Argument>;
