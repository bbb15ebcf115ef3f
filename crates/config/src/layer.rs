//! Layers: who says what, and who wins.

use crate::finding::Place;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// A layer of configuration; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// What the program does by itself.
    BuiltIn,
    /// The machine's.
    System,
    /// The user's.
    User,
    /// The project folder's: somebody else's until trusted.
    Project,
    /// `TOOLBOOTH_*` variables.
    Environment,
    /// Files and values named on the command line.
    CommandLine,
}

impl Layer {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a value or a server comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Which layer.
    pub layer: Layer,
    /// Which file, unless it was not in a file.
    pub file: Option<PathBuf>,
    /// The line, from one; zero means unknown.
    pub line: u32,
    /// The column in characters, from one.
    pub column: u32,
    /// What it stands in instead of a file, such as "variable `TOOLBOOTH_LISTEN`".
    pub via: Option<String>,
}

impl Origin {
    /// A place in a layer.
    pub fn new(layer: Layer, place: Place) -> Self {
        let Place { file, line, column, via } = place;
        Self { layer, file, line, column, via }
    }

    /// Where in the layer it stands.
    pub fn place(&self) -> Place {
        let Self { layer: _, file, line, column, via } = self;
        Place { file: file.clone(), line: *line, column: *column, via: via.clone() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.via) {
            (None, None) => f.write_str("built in"),
            _ => write!(f, "{} ({})", self.place(), self.layer),
        }
    }
}
