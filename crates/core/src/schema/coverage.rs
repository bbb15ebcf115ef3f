//! Schema coverage: how much of a schema is checked.

use super::fault::SchemaFault;
use std::fmt;

/// Maximum number of faults that are reported for one schema.
pub(super) const MAX_REPORTED: usize = 4;

/// How much of a schema the gateway checks. The server checks the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// The whole schema.
    Whole,
    /// The schema without some keywords, and the first few reasons.
    Part(Vec<SchemaFault>),
    /// Nothing, and the reason.
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
