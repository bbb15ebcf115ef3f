//! `cargo xtask names`: finds type names that are defined more than once in the workspace.
//!
//! A type name has one meaning, so `cargo xtask test` fails if a name is defined more than once.

use crate::sources::files_below;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Prints the repeated names with their files, and fails if there is any.
pub fn check(root: &Path) -> Result<()> {
    let repeated = repeated_names(root)?;
    for (name, files) in &repeated {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        println!("{name} {}: {}", files.len(), files.join(" "));
    }
    ensure!(repeated.is_empty(), "{} type names are defined more than once", repeated.len());
    Ok(())
}

/// Type names with more than one definition outside tests, and the files of the definitions.
fn repeated_names(root: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut names: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for folder in ["crates", "xtask", "bench"] {
        for path in files_below(&root.join(folder), "rs")? {
            let file = path.strip_prefix(root).unwrap_or(&path);
            if is_source(file) {
                let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                for name in type_names(&text) {
                    names.entry(name.to_owned()).or_default().push(file.to_path_buf());
                }
            }
        }
    }
    names.retain(|_, files| files.len() > 1);
    Ok(names)
}

/// Whether a file is below a folder `src` and is not a file of tests.
fn is_source(file: &Path) -> bool {
    let is_test = |part: &str| part == "tests" || part.ends_with("tests.rs");
    let mut parts = file.iter().filter_map(|part| part.to_str());
    parts.clone().any(|part| part == "src") && !parts.any(is_test)
}

/// The types that a file defines before its unit tests.
fn type_names(text: &str) -> impl Iterator<Item = &str> {
    let source = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    source.lines().filter_map(type_name)
}

/// The name in a line such as `pub(crate) struct Name<'a> {`.
fn type_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest =
            after.strip_prefix('(').and_then(|scope| scope.split_once(')')).map_or(after, |(_, after)| after);
    }
    let (keyword, rest) = rest.trim_start().split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        // An indented alias is an associated type.
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    (is_type && name.starts_with(|letter: char| letter.is_ascii_uppercase())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_recognised() {
        let cases = [
            ("struct Plan;", Some("Plan")),
            ("pub struct Plan<'a> {", Some("Plan")),
            ("    pub(in super::super) enum Plan {", Some("Plan")),
            ("type Plan = u8;", Some("Plan")),
            ("    type Plan = u8;", None),
            ("/// The struct Plan", None),
            ("impl Plan {", None),
            ("let public = 1;", None),
        ];
        for (line, expected) in cases {
            assert_eq!(type_name(line), expected, "{line}");
        }
        let text = "struct One;\n#[cfg(test)]\nmod tests {\n    struct Two;\n}\n";
        assert_eq!(type_names(text).collect::<Vec<_>>(), ["One"]);
    }

    #[test]
    fn tests_are_not_source() {
        let cases = [
            ("crates/core/src/plan.rs", true),
            ("xtask/src/names.rs", true),
            ("crates/core/src/plan/tests.rs", false),
            ("crates/core/src/admission_tests.rs", false),
            ("crates/store/tests/store/main.rs", false),
            ("crates/search/examples/search_eval/main.rs", false),
        ];
        for (file, expected) in cases {
            assert_eq!(is_source(Path::new(file)), expected, "{file}");
        }
    }
}
