//! Sealed values of environment files: `NAME=sealed:v1:...`. They are opened when the file is read, and a copy of the file
//! without the key reveals nothing.
//!
//! The crate has no key: the program that loads the configuration passes a [`ValueSealer`] in the sources.

use crate::expand::Variables;
use crate::finding::Finding;
use std::collections::BTreeMap;
use std::path::Path;
use toolbooth_core::fault::{Blame, Problem};

/// The beginning of a sealed value. The text after it is made and read by the [`ValueSealer`].
pub const SEALED_PREFIX: &str = "sealed:v1:";
/// The beginning of sealed values of every version. Those of a later version are not values to use as they are.
const ANY_VERSION: &str = "sealed:v";

/// Seals the values of variables, and opens them again.
pub trait ValueSealer: Send + Sync {
    /// Seals the value of a variable, as a text that begins with [`SEALED_PREFIX`] and has no space, quote or line break. It
    /// opens only as the value of the variable with this name.
    fn seal(&self, name: &str, value: &str) -> Result<String, Problem>;

    /// Opens a sealed value of the variable with this name.
    fn open(&self, name: &str, sealed: &str) -> Result<String, Problem>;
}

/// Whether the value of a variable in an environment file is sealed.
pub fn is_sealed(value: &str) -> bool {
    value.starts_with(ANY_VERSION)
}

/// Opens one value. A value that is not sealed is returned as it is.
pub(crate) fn open_value(
    sealer: Option<&dyn ValueSealer>,
    name: &str,
    value: String,
) -> Result<String, Problem> {
    match sealer {
        _ if !is_sealed(&value) => Ok(value),
        Some(sealer) => sealer.open(name, &value),
        None => Err(Problem {
            code: "secret.no-key",
            blame: Blame::Gateway,
            message: "there is no key for sealed values".into(),
            hint: None,
        }),
    }
}

/// Adds the variables of an environment file that are not set yet. A sealed value that cannot be opened is an error of the
/// variable: it counts as not set, and neither a file that is read later nor a default replaces it.
pub(crate) fn open_values(
    sealer: Option<&dyn ValueSealer>,
    path: &Path,
    values: BTreeMap<String, String>,
    variables: &mut Variables,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, value) in values {
        // A value that another one overrides is not opened, so that its key is not needed.
        if variables.is_settled(&name) {
            continue;
        }
        match open_value(sealer, &name, value) {
            Ok(value) => variables.set(name, value),
            Err(problem) => {
                findings.push(unopened(path, &name, &problem));
                variables.set_unopened(name);
            }
        }
    }
    findings
}

fn unopened(path: &Path, name: &str, problem: &Problem) -> Finding {
    let sentence = format!("the sealed value of `{name}` could not be opened: {}", problem.message);
    let finding = Finding::error(problem.code, sentence).in_file(path).about(name);
    Finding { hint: problem.hint.clone(), ..finding }
}
