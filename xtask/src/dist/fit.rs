//! Whether a profile fits a binary: the share of its busiest functions that the binary has.
//!
//! The compiler's names of functions depend on the versions and features of all dependencies. If one of them changes,
//! the profile names functions that no longer exist, and the compiler ignores it without an error.

use anyhow::{Context, Result, ensure};
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// The number of functions to look for.
const BUSIEST: usize = 1000;

/// The numbers of the busiest functions in a profile, and of those found in a binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileFit {
    expected: usize,
    found: usize,
}

impl ProfileFit {
    /// The share of functions that were found, between 0 and 1.
    pub fn share(self) -> f64 {
        if self.expected == 0 { 0.0 } else { self.found as f64 / self.expected as f64 }
    }
}

impl fmt::Display for ProfileFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.share() * 100.0;
        write!(
            f,
            "profile: {} of its {} busiest functions are in the binary ({percent:.0} %)",
            self.found, self.expected
        )
    }
}

/// Looks for the busiest functions of a profile in a binary with symbols.
pub fn measure(profile: &Path, program: &Path) -> Result<ProfileFit> {
    let topn = format!("--topn={BUSIEST}");
    let reader = super::profile_reader()?;
    let shown = output(Command::new(reader).args(["show", &topn]).arg(profile))?;
    let symbols = output(Command::new("nm").args(["--defined-only", "--format=posix"]).arg(program))?;
    let fit = compare(&shown, &symbols);
    ensure!(fit.expected > 0, "{} names no functions", profile.display());
    Ok(fit)
}

/// Checks that a profile can be read here: the programs of older LLVMs do not know its format.
pub fn check_reader(profile: &Path) -> Result<()> {
    let reader = super::profile_reader()?;
    output(Command::new(&reader).args(["show", "--topn=1"]).arg(profile)).map(drop).with_context(|| {
        format!(
            "{} does not read {}: run `rustup component add llvm-tools`, or install Debian's package llvm-19",
            reader.display(),
            profile.display()
        )
    })
}

fn compare(profile: &str, symbols: &str) -> ProfileFit {
    let defined: HashSet<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    let names: Vec<&str> = profile.lines().filter_map(function_name).collect();
    let found = names.iter().filter(|name| defined.contains(*name)).count();
    ProfileFit { expected: names.len(), found }
}

/// The name in a line such as `  _RNv4core5start, max count = 12`. Names of local functions have the file as a prefix.
fn function_name(line: &str) -> Option<&str> {
    let (name, _) = line.trim().split_once(", max count = ")?;
    Some(name.rsplit([';', ':']).next().unwrap_or(name))
}

fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("`{program}` did not start"))?;
    ensure!(output.status.success(), "`{program}` ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_names() {
        let profile = "Instrumentation level: IR\nTop 3 functions with the largest internal block counts: \n  \
                       _ZN4call3runE, max count = 90\n  lib.rs;_ZN4call4sendE, max count = 7\n  gone, max count = 1\n";
        let symbols = "_ZN4call3runE T 1000 20\n_ZN4call4sendE t 1020 8\nother D 0 1\n";
        assert_eq!(compare(profile, symbols), ProfileFit { expected: 3, found: 2 });
        assert_eq!(compare("no functions", symbols).share(), 0.0);
    }
}
