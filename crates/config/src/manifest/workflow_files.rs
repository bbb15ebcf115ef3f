//! Reads the files of jobs and tasks that may be read, and asks for trust in those of a project.

use super::check::{is_json_schema, read_node};
use super::folder::{self, ManifestFolder};
use super::gather::{ManifestInputs, is_of_project, read_owned, trust_or_report};
use super::workflow_entry::{RawWorkflow, WorkflowKind, entries, preview};
use super::{MAX_ENTRIES, MAX_FILES};
use crate::context::{LoadContext, UntrustedSettings};
use crate::finding::Finding;
use crate::node::Node;
use std::path::{Path, PathBuf};

/// The entries of all folders, and the files that cannot be read, each with the place of its finding.
pub(super) fn read_folders(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    folders: &[ManifestFolder],
    kind: WorkflowKind,
    untrusted: &mut Vec<UntrustedSettings>,
) -> (Vec<RawWorkflow>, Vec<(PathBuf, usize)>) {
    let mut all: Vec<RawWorkflow> = Vec::new();
    let mut broken = Vec::new();
    let mut count = 0;
    for folder in folders {
        context.files.push(folder.path.clone());
        for file in folder::files(&folder.path) {
            context.files.push(file.clone());
            count += 1;
            if count > MAX_FILES {
                return (all, broken);
            }
            let node = match read_trusted(context, inputs, &file, kind, untrusted) {
                ReadFile::Entries(node) => node,
                ReadFile::LeftOut => continue,
                ReadFile::Broken => {
                    broken.push((file, context.findings.len().saturating_sub(1)));
                    continue;
                }
            };
            let Some(found) = entries(context, (&file, &node), &folder.scope, kind) else {
                broken.push((file, context.findings.len().saturating_sub(1)));
                continue;
            };
            for entry in found {
                let is_same = |other: &&RawWorkflow| other.name == entry.name && other.scope == entry.scope;
                if let Some(earlier) = all.iter().find(is_same) {
                    let place = context.texts.location(earlier.node.mark);
                    let sentence = format!(
                        "{} `{}` is defined twice; the first definition is at {place}",
                        kind.noun(),
                        entry.name
                    );
                    let finding = Finding::error("manifest.duplicate", sentence);
                    let finding = finding.at(&context.texts, entry.node.mark).hint("rename or remove one");
                    context.findings.push(finding);
                } else if all.len() < MAX_ENTRIES {
                    all.push(entry);
                }
            }
        }
    }
    (all, broken)
}

/// A file that was read.
enum ReadFile {
    /// Its content.
    Entries(Node),
    /// It is not trusted, or is not a manifest.
    LeftOut,
    /// It cannot be read.
    Broken,
}

/// The content of a file, if it can be read and is trusted.
fn read_trusted(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    file: &Path,
    kind: WorkflowKind,
    untrusted: &mut Vec<UntrustedSettings>,
) -> ReadFile {
    let is_of_project = is_of_project(inputs.documents, file);
    match read_owned(context, inputs, file) {
        Ok(node) if is_json_schema(&node) => ReadFile::LeftOut,
        Ok(node) if is_of_project && !trust_or_report(context, file, preview(&node, kind), untrusted) => {
            ReadFile::LeftOut
        }
        Ok(node) => ReadFile::Entries(node),
        Err(finding) => {
            context.findings.push(*finding);
            ReadFile::Broken
        }
    }
}

/// Adds files that a project file names while its settings wait for trust to what waits.
pub(super) fn check_waiting(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    folder: &Path,
    kind: WorkflowKind,
    untrusted: &mut Vec<UntrustedSettings>,
) {
    for file in folder::files(folder).into_iter().take(MAX_FILES) {
        if !is_of_project(inputs.documents, &file) {
            continue;
        }
        let is_known = context.files.contains(&file);
        if !is_known {
            context.files.push(file.clone());
        }
        match read_node(&mut context.texts, &file) {
            Ok(node) if is_json_schema(&node) => {}
            Ok(node) => {
                let preview = preview(&node, kind);
                // A file that is named for jobs and for tasks is shown as both.
                if !untrusted.iter().any(|one| one.file == file && one.preview == preview) {
                    trust_or_report(context, &file, preview, untrusted);
                }
            }
            Err(finding) if !is_known => context.findings.push(*finding),
            Err(_) => {}
        }
    }
}
