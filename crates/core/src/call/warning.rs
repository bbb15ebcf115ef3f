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
}

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
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
