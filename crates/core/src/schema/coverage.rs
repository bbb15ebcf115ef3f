//! How much of a schema is checked.

use super::fault::SchemaFault;
use std::fmt;

/// The most faults that are told of one schema.
pub(super) const MAX_TOLD: usize = 4;

/// How much of a schema the gateway checks. The rest is the server's to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// All of it.
    Whole,
    /// All but some keywords; the first few reasons.
    Part(Vec<SchemaFault>),
    /// Nothing, and why.
    Nothing(SchemaFault),
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("all arguments are checked"),
            Self::Part(faults) => {
                f.write_str("listed, but not every argument is checked: ")?;
                for (index, fault) in faults.iter().enumerate() {
                    write!(f, "{}{fault}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Nothing(fault) => write!(f, "listed, but its arguments are not checked: {fault}"),
        }
    }
}
