//! Entries of jobs and tasks as written in a file: their names, bases, faults, and what a person sees of them before trust.

use super::MAX_ENTRIES;
use super::check::written;
use super::preview::{ShownEntries, shown_tools};
use crate::context::LoadContext;
use crate::digest;
use crate::finding::Finding;
use crate::node::Node;
use crate::trust::Preview;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use toolbooth_core::job::{DefinitionFault, ReadDefinition, extended};
use toolbooth_core::manifest::ManifestScope;

/// The longest chain of `extends`.
const MAX_BASES: usize = 8;

/// Jobs or tasks.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum WorkflowKind {
    Job,
    Task,
}

impl WorkflowKind {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Task => "task",
        }
    }

    /// The key of a list of entries, and the name of the folder of a persona.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Job => "jobs",
            Self::Task => "tasks",
        }
    }
}

/// An entry as written.
pub(super) struct RawWorkflow {
    pub file: PathBuf,
    pub name: String,
    pub scope: ManifestScope,
    members: Map<String, Value>,
    pub node: Node,
}

/// Reads the entries of a file; `None` if its content is neither an entry nor a list or map of entries. Reports errors.
pub(super) fn entries(
    context: &mut LoadContext<'_>,
    (file, root): (&Path, &Node),
    scope: &ManifestScope,
    kind: WorkflowKind,
) -> Option<Vec<RawWorkflow>> {
    let spots = match written(root, &[kind.plural()]) {
        Ok(spots) => spots,
        Err(sentence) => {
            let finding = Finding::error("manifest.bad-entry", sentence);
            context.findings.push(finding.at(&context.texts, root.mark));
            return None;
        }
    };
    let mut found = Vec::new();
    // As many as the preview shows.
    for (index, (key, spot)) in spots.into_iter().enumerate().take(MAX_ENTRIES) {
        let node = spot.node;
        let Value::Object(mut members) = node.shown() else {
            let sentence = format!("{} {} must be a map, found {}", kind.noun(), index + 1, node.kind());
            let finding = Finding::error("manifest.bad-entry", sentence).at(&context.texts, node.mark);
            context.findings.push(finding);
            continue;
        };
        if let Some(key) = key {
            members.entry("name").or_insert_with(|| Value::from(key));
        }
        let name = members.get("name").and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned();
        let (file, scope) = (file.to_owned(), scope.clone());
        found.push(RawWorkflow { file, name, scope, members, node: node.clone() });
    }
    Some(found)
}

/// What a person sees before they trust a file: each entry with its summary, the time it runs, and the tools that its
/// plan calls.
pub(super) fn preview(node: &Node, kind: WorkflowKind) -> Preview {
    let mut entries = ShownEntries::default();
    let list = written(node, &[kind.plural()]).unwrap_or_default();
    for (index, (key, spot)) in list.into_iter().enumerate().take(MAX_ENTRIES) {
        let entry = spot.node;
        let text = |key: &str| entry.get(key).and_then(Node::text);
        let name = text("name").or(key).map_or_else(|| format!("entry {}", index + 1), str::to_owned);
        let cron = entry.at(&["recurrence", "cron"]).and_then(Node::text);
        let summary = text("summary").unwrap_or_default().chars().take(200).collect::<String>();
        let mut shown = match cron {
            Some(cron) => format!("{summary} ({})", cron.chars().take(64).collect::<String>()),
            None => summary,
        };
        shown.extend(shown_tools(entry.get("plan")));
        entries.add(&name, shown);
    }
    Preview { fields: entries.into_fields(), digest: digest::of(&node.shown()) }
}

/// The members of an entry and of its bases. A persona's entry also has the fields of the shared one with its name.
pub(super) fn with_bases(
    context: &mut LoadContext<'_>,
    all: &[RawWorkflow],
    entry: &RawWorkflow,
    kind: WorkflowKind,
) -> Option<Map<String, Value>> {
    let mut members = entry.members.clone();
    let mut last = entry;
    for _ in 0..MAX_BASES {
        let named = last.members.get("extends").and_then(Value::as_str);
        let base = match named {
            Some(name) => find_base(all, last, name),
            None => shared_version(all, last),
        };
        match (named, base) {
            (_, Some(base)) => {
                members = extended(&base.members, &members);
                last = base;
            }
            (None, None) => return Some(members),
            (Some(name), None) => {
                let shown: String = name.chars().take(64).collect();
                let sentence = format!(
                    "{} `{}`: there is no {} `{shown}` to extend",
                    kind.noun(),
                    entry.name,
                    kind.noun()
                );
                let finding = Finding::error("manifest.bad-entry", sentence);
                context.findings.push(finding.at(&context.texts, entry.node.mark).about("/extends"));
                return None;
            }
        }
    }
    let sentence = format!("{} `{}` has more than {MAX_BASES} bases", kind.noun(), entry.name);
    let finding = Finding::error("manifest.bad-entry", sentence).at(&context.texts, entry.node.mark);
    context.findings.push(finding.hint("`extends` must not lead back to the entry"));
    None
}

fn find_base<'a>(all: &'a [RawWorkflow], entry: &RawWorkflow, name: &str) -> Option<&'a RawWorkflow> {
    let is_other = |other: &&RawWorkflow| {
        other.name == name && !(other.name == entry.name && other.scope == entry.scope)
    };
    let own = all.iter().filter(is_other).find(|other| other.scope == entry.scope);
    own.or_else(|| all.iter().filter(is_other).find(|other| other.scope == ManifestScope::Shared))
}

fn shared_version<'a>(all: &'a [RawWorkflow], entry: &RawWorkflow) -> Option<&'a RawWorkflow> {
    if entry.scope == ManifestScope::Shared {
        return None;
    }
    all.iter().find(|other| other.name == entry.name && other.scope == ManifestScope::Shared)
}

/// Adds the faults of a definition to the findings, and returns the definition if it has no error.
pub(super) fn report<T>(
    context: &mut LoadContext<'_>,
    entry: &RawWorkflow,
    kind: WorkflowKind,
    read: ReadDefinition<T>,
) -> Option<T> {
    let subject = match entry.name.is_empty() {
        true => format!("a {} without a name", kind.noun()),
        false => format!("{} `{}`", kind.noun(), entry.name),
    };
    for DefinitionFault { pointer, message, is_unknown_field } in read.faults {
        let sentence = match is_unknown_field {
            true => format!("{subject}: {message} and ignored"),
            false => format!("{subject}: {message}"),
        };
        let finding = match is_unknown_field {
            true => Finding::warning("manifest.unknown-field", sentence),
            false => Finding::error("manifest.bad-entry", sentence),
        };
        let mark = nearest(&entry.node, &pointer).mark;
        context.findings.push(finding.at(&context.texts, mark).about(pointer));
    }
    read.definition
}

/// The value at a JSON pointer, or the innermost one around it that is written in the entry.
fn nearest<'n>(node: &'n Node, pointer: &str) -> &'n Node {
    let mut found = node;
    for part in pointer.split('/').skip(1) {
        match found.at(&[part.replace("~1", "/").replace("~0", "~")]) {
            Some(inside) => found = inside,
            None => break,
        }
    }
    found
}
