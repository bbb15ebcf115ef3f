//! Checks files that the user names: manifests of tools, jobs and tasks.

use super::check::{CheckedManifests, duplicate, entries, is_json_schema, read_node};
use super::claims::ToolClaims;
use super::{folder, workflows};
use crate::expand::Variables;
use crate::texts::SourceTexts;
use std::path::Path;

/// Checks one file.
pub fn check(path: &Path, variables: &Variables) -> CheckedManifests {
    check_all(&[path], variables)
}

/// Checks files, and whether two of their entries describe the same tool.
pub fn check_all<P: AsRef<Path>>(paths: &[P], variables: &Variables) -> CheckedManifests {
    let mut all = CheckedManifests::default();
    let mut claims = ToolClaims::default();
    for path in paths.iter().map(AsRef::as_ref) {
        if let Some(checked) = workflows::check_file(path) {
            all.findings.extend(checked.findings);
            all.set_aside += checked.set_aside;
            all.workflows += checked.workflows;
            continue;
        }
        let mut texts = SourceTexts::default();
        let checked = match read_node(&mut texts, path) {
            Ok(node) if is_json_schema(&node) => CheckedManifests::default(),
            Ok(node) => entries(&texts, &node, &folder::scope_of(path), variables),
            Err(finding) => CheckedManifests { findings: vec![*finding], ..CheckedManifests::default() },
        };
        all.findings.extend(checked.findings);
        all.set_aside += checked.set_aside;
        for entry in checked.entries {
            match claims.note(&entry) {
                Some(earlier) => {
                    all.findings.push(duplicate(&entry, &earlier));
                    all.set_aside += 1;
                }
                None => all.entries.push(entry),
            }
        }
    }
    all
}
