//! Configuration layers, and the origin of a value.

use crate::texts::SourceLocation;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// A layer of the configuration. Later variants take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Built-in defaults.
    BuiltIn,
    /// Files of the machine.
    System,
    /// Files of the user.
    User,
    /// Files of the project folder, which the user must trust first.
    Project,
    /// `TOOLBOOTH_*` variables.
    Environment,
    /// Files and values named on the command line.
    CommandLine,
}

impl Layer {
    /// The name of the layer.
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

/// The layer and the location that a value or a server comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigOrigin {
    /// The layer.
    pub layer: Layer,
    /// The file, if the source is a file.
    pub file: Option<PathBuf>,
    /// The line, starting at one; zero means unknown.
    pub line: u32,
    /// The column in characters, starting at one.
    pub column: u32,
    /// The source if it is not a file, such as "variable `TOOLBOOTH_LISTEN`".
    pub via: Option<String>,
}

impl ConfigOrigin {
    /// Combines a layer and a location.
    pub fn new(layer: Layer, location: SourceLocation) -> Self {
        let SourceLocation { file, line, column, via } = location;
        Self { layer, file, line, column, via }
    }

    /// The location within the layer.
    pub fn location(&self) -> SourceLocation {
        let Self { layer: _, file, line, column, via } = self;
        SourceLocation { file: file.clone(), line: *line, column: *column, via: via.clone() }
    }
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.via) {
            (None, None) => f.write_str("built in"),
            _ => write!(f, "{} ({})", self.location(), self.layer),
        }
    }
}
