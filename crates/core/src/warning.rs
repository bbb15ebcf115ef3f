//! Warnings: notes about calls that were made in spite of a problem.

use crate::schema::shortened;
use serde::{Serialize, Serializer};
use std::fmt;

/// The maximum number of warnings about one call.
pub const MAX_WARNINGS: usize = 16;

/// A note for the caller about a call that was made. The only values in it are names of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The tool does not declare the argument.
    Undeclared(String),
    /// Only the gateway may supply the argument.
    Reserved(String),
    /// The argument's name looks like one that only the gateway may supply.
    LookAlike(String),
    /// An argument for files has a value that is not one of the caller's files. It was sent as it is.
    NotAFile {
        /// The argument.
        argument: String,
        /// The value, shortened.
        value: String,
    },
    /// The number of further values that are not files.
    MoreNotFiles(usize),
    /// The approver changed the arguments, to these.
    Edited(String),
    /// The number of further warnings.
    More(usize),
    /// A file that the tool returned was not stored.
    Artifact {
        /// Its name or its position.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The number of further files that were not stored.
    MoreArtifacts(usize),
    /// The tool's display hints were dropped; the reason.
    Display(String),
    /// A part of the tool's display hints was dropped; the reason.
    DisplayPart(String),
    /// The structured content violates the tool's output schema; the place.
    Output(String),
    /// The result is over its budget and could not be stored separately; the reason.
    NotKept(String),
}

/// How many rejected files are named.
const MAX_ARTIFACTS_NAMED: usize = 128;

impl Warning {
    /// Adds a warning about an argument, up to the limit.
    pub(crate) fn add(to: &mut Vec<Self>, make: fn(String) -> Self, argument: &str) {
        if let Some(Self::More(count)) = to.last_mut() {
            *count += 1;
        } else if to.len() + 1 >= MAX_WARNINGS {
            to.push(Self::More(1));
        } else {
            to.push(make(shortened(argument, 64)));
        }
    }

    /// Adds a warning about a value that is not a file, up to the limit.
    pub(crate) fn add_not_a_file(to: &mut Vec<Self>, argument: &str, value: &str) {
        if let Some(Self::MoreNotFiles(count)) = to.last_mut() {
            *count += 1;
        } else if to.len() + 1 >= MAX_WARNINGS {
            to.push(Self::MoreNotFiles(1));
        } else {
            to.push(Self::NotAFile { argument: shortened(argument, 64), value: shortened(value, 80) });
        }
    }

    /// Adds a warning about a file that was not stored, up to a separate limit.
    pub fn add_artifact(to: &mut Vec<Self>, name: &str, reason: &str) {
        if let Some(Self::MoreArtifacts(count)) = to.last_mut() {
            *count += 1;
        } else if to.len() >= MAX_ARTIFACTS_NAMED {
            to.push(Self::MoreArtifacts(1));
        } else {
            to.push(Self::Artifact { name: shortened(name, 100), reason: shortened(reason, 200) });
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undeclared(name) => {
                write!(f, "argument {name:?} was dropped: the tool does not declare it")
            }
            Self::Reserved(name) => write!(f, "argument {name:?} was dropped: the gateway supplies it"),
            Self::LookAlike(name) => {
                write!(f, "argument {name:?} was dropped: it looks like one that the gateway supplies")
            }
            Self::NotAFile { argument, value } => {
                write!(f, "argument {argument:?} was sent as it is: {value:?} is not one of your files")
            }
            Self::MoreNotFiles(count) => {
                write!(f, "{count} more values are not files and were sent as they are")
            }
            Self::Edited(arguments) => write!(f, "approved with other arguments: {arguments}"),
            Self::More(count) => write!(f, "{count} more arguments were dropped"),
            Self::Artifact { name, reason } => write!(f, "artifact {name:?} was refused: {reason}"),
            Self::MoreArtifacts(count) => write!(f, "{count} more artifacts were refused"),
            Self::Display(reason) => write!(f, "the display hints were dropped: {reason}"),
            Self::DisplayPart(reason) => write!(f, "a display hint was dropped: {reason}"),
            Self::Output(place) => {
                write!(f, "the structured content breaks the tool's output schema {place}")
            }
            Self::NotKept(reason) => {
                write!(f, "the result is over its budget but could not be kept aside: {reason}")
            }
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
