//! Warnings: what was left out of a call that went on all the same.

use crate::schema::shortened;
use serde::{Serialize, Serializer};
use std::fmt;

/// The most warnings about one call.
pub const MAX_WARNINGS: usize = 16;

/// Something a caller should know about a call that was made. Values are never shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The tool does not declare the argument.
    Undeclared(String),
    /// The argument is the gateway's to give.
    Reserved(String),
    /// The argument's name looks like one that is the gateway's to give.
    LookAlike(String),
    /// Whoever approved the call changed its arguments, to these.
    Edited(String),
    /// There were more.
    More(usize),
    /// A file that the tool returned was not kept.
    Artifact {
        /// Its name, or its place.
        name: String,
        /// Why.
        reason: String,
    },
    /// More files were not kept.
    MoreArtifacts(usize),
    /// What the tool wants shown is not shown, and why.
    Display(String),
    /// The structured content is not what the tool's output schema says, and where.
    Output(String),
    /// The result is longer than its budget and could not be kept aside, and why.
    NotKept(String),
}

/// The most refused files that are named.
const MAX_ARTIFACTS_NAMED: usize = 128;

impl Warning {
    /// Adds a warning about an argument, within the bound.
    pub(super) fn add(to: &mut Vec<Self>, make: fn(String) -> Self, argument: &str) {
        if let Some(Self::More(count)) = to.last_mut() {
            *count += 1;
        } else if to.len() + 1 >= MAX_WARNINGS {
            to.push(Self::More(1));
        } else {
            to.push(make(shortened(argument, 64)));
        }
    }

    /// Adds a warning about a file that was not kept, within a bound of its own.
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
            Self::Edited(arguments) => write!(f, "approved with other arguments: {arguments}"),
            Self::More(count) => write!(f, "{count} more arguments were dropped"),
            Self::Artifact { name, reason } => write!(f, "artifact {name:?} was refused: {reason}"),
            Self::MoreArtifacts(count) => write!(f, "{count} more artifacts were refused"),
            Self::Display(reason) => write!(f, "the display hints were dropped: {reason}"),
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
