//! Gathers the manifests of jobs and tasks. One bad entry or file is left out with its reason; the others load.

use super::check::{CheckedManifests, is_json_schema, read_node};
use super::folder::{self, ManifestFolder};
use super::gather::{ManifestInputs, is_of_project, note_kept, trust_or_report};
use super::preview::{ShownEntries, shown_tools};
use super::{MAX_ENTRIES, MAX_FILES};
use crate::context::{LoadContext, UntrustedSettings};
use crate::digest;
use crate::finding::Finding;
use crate::inputs::Sources;
use crate::node::Node;
use crate::ownership;
use crate::texts::SourceTexts;
use crate::trust::Preview;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use toolbooth_core::job::{
    DefinitionFault, DefinitionSource, JobDefinition, JobManifest, ReadDefinition, TaskDefinition,
    TaskManifest, extended,
};
use toolbooth_core::manifest::ManifestScope;

/// The longest chain of `extends`.
const MAX_BASES: usize = 8;

/// The gathered jobs and tasks of a configuration.
#[derive(Debug, Default)]
pub(crate) struct GatheredWorkflows {
    /// The jobs, each with its file.
    pub jobs: Vec<(PathBuf, JobManifest)>,
    /// The tasks, each with its file.
    pub tasks: Vec<(PathBuf, TaskManifest)>,
    /// Files that are broken now, and whose last valid entries are in use.
    pub kept: Vec<PathBuf>,
}

/// Jobs or tasks.
#[derive(Clone, Copy, PartialEq)]
enum WorkflowKind {
    Job,
    Task,
}

impl WorkflowKind {
    fn noun(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Task => "task",
        }
    }

    /// The key of a list of entries, and the name of the folder of a persona.
    fn plural(self) -> &'static str {
        match self {
            Self::Job => "jobs",
            Self::Task => "tasks",
        }
    }
}

/// An entry as written.
struct RawWorkflow {
    file: PathBuf,
    name: String,
    scope: ManifestScope,
    members: Map<String, Value>,
    node: Node,
}

/// Gathers the jobs and tasks of all folders.
pub(crate) fn gather_workflows(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    untrusted: &mut Vec<UntrustedSettings>,
) -> GatheredWorkflows {
    let manifests = &inputs.settings.manifests;
    let mut gathered = GatheredWorkflows::default();
    for (kind, folders) in [(WorkflowKind::Job, &manifests.jobs), (WorkflowKind::Task, &manifests.tasks)] {
        let folders = all_folders(folders, &manifests.personas, kind);
        let (raw, broken) = read_folders(context, inputs, &folders, kind, untrusted);
        for entry in &raw {
            let start = context.findings.len();
            let read = with_bases(context, &raw, entry, kind).map(Value::Object);
            let origin = context.texts.location(entry.node.mark).to_string();
            let is_good = match kind {
                WorkflowKind::Job => {
                    let read = read.map(|value| JobDefinition::read(&value, DefinitionSource::Manifest));
                    let definition = read.and_then(|read| report(context, entry, kind, read));
                    let scope = entry.scope.clone();
                    let job = definition.map(|definition| JobManifest { scope, origin, definition });
                    let is_good = job.is_some();
                    gathered.jobs.extend(job.map(|job| (entry.file.clone(), job)));
                    is_good
                }
                WorkflowKind::Task => {
                    let read = read.map(|value| TaskDefinition::read(&value, DefinitionSource::Manifest));
                    let definition = read.and_then(|read| report(context, entry, kind, read));
                    let scope = entry.scope.clone();
                    let task = definition.map(|definition| TaskManifest { scope, origin, definition });
                    let is_good = task.is_some();
                    gathered.tasks.extend(task.map(|task| (entry.file.clone(), task)));
                    is_good
                }
            };
            if !is_good {
                gathered.keep(context, (kind, &entry.file), Some(entry), start);
            }
        }
        for (file, start) in broken {
            gathered.keep(context, (kind, &file), None, start);
        }
    }
    for named in inputs.waiting {
        for (kind, folders) in [(WorkflowKind::Job, &named.jobs), (WorkflowKind::Task, &named.tasks)] {
            for folder in all_folders(folders, &named.personas, kind) {
                check_waiting(context, inputs, &folder.path, kind, untrusted);
            }
        }
    }
    warn_of_tasks(context, &gathered);
    gathered
}

impl GatheredWorkflows {
    /// Keeps the last valid version of an entry, or of all entries of a file, that an edit has broken. The finding about
    /// the error, which is the first one after a place, says so.
    fn keep(
        &mut self,
        context: &mut LoadContext<'_>,
        (kind, file): (WorkflowKind, &Path),
        entry: Option<&RawWorkflow>,
        start: usize,
    ) {
        let good = &context.sources.good_manifests;
        let is_wanted = |path: &Path, scope: &ManifestScope, name: &str| {
            path == file && entry.is_none_or(|entry| entry.scope == *scope && entry.name == name)
        };
        let count = self.jobs.len() + self.tasks.len();
        match kind {
            WorkflowKind::Job => {
                let kept = good.jobs.iter().filter(|(path, job)| {
                    let is_taken = self.jobs.iter().any(|(_, other)| {
                        other.scope == job.scope && other.definition.name == job.definition.name
                    });
                    is_wanted(path, &job.scope, &job.definition.name) && !is_taken
                });
                let kept: Vec<(PathBuf, JobManifest)> = kept.cloned().collect();
                self.jobs.extend(kept);
            }
            WorkflowKind::Task => {
                let kept = good.tasks.iter().filter(|(path, task)| {
                    let is_taken = self.tasks.iter().any(|(_, other)| {
                        other.scope == task.scope && other.definition.name == task.definition.name
                    });
                    is_wanted(path, &task.scope, &task.definition.name) && !is_taken
                });
                let kept: Vec<(PathBuf, TaskManifest)> = kept.cloned().collect();
                self.tasks.extend(kept);
            }
        }
        if self.jobs.len() + self.tasks.len() > count {
            note_kept(&mut context.findings, start);
            self.kept.push(file.to_owned());
        }
    }
}

/// Checks a file of jobs or tasks; `None` for other files. The name of the file or of its folder tells them apart.
pub(super) fn check_file(path: &Path) -> Option<CheckedManifests> {
    let parent = path.parent().and_then(Path::file_name);
    let names = [path.file_stem(), parent].into_iter().flatten().filter_map(|name| name.to_str());
    let kinds = [WorkflowKind::Job, WorkflowKind::Task];
    let kind = names
        .filter_map(|name| kinds.into_iter().find(|kind| name.eq_ignore_ascii_case(kind.plural())))
        .next()?;
    let sources = Sources::default();
    let mut context = LoadContext {
        sources: &sources,
        texts: SourceTexts::default(),
        findings: Vec::new(),
        fatal: false,
        files: Vec::new(),
    };
    let (mut valid, mut all) = (0, 0);
    match read_node(&mut context.texts, path) {
        Ok(node) if is_json_schema(&node) => {}
        Ok(node) => {
            let raw = entries(&mut context, (path, &node), &folder::scope_of(path), kind);
            all = raw.len();
            for entry in &raw {
                let Some(members) = with_bases(&mut context, &raw, entry, kind) else { continue };
                let value = Value::Object(members);
                let is_valid = match kind {
                    WorkflowKind::Job => {
                        let read = JobDefinition::read(&value, DefinitionSource::Manifest);
                        report(&mut context, entry, kind, read).is_some()
                    }
                    WorkflowKind::Task => {
                        let read = TaskDefinition::read(&value, DefinitionSource::Manifest);
                        report(&mut context, entry, kind, read).is_some()
                    }
                };
                valid += usize::from(is_valid);
            }
        }
        Err(finding) => context.findings.push(*finding),
    }
    let findings = context.findings;
    Some(CheckedManifests {
        workflows: valid,
        set_aside: all - valid,
        findings,
        ..CheckedManifests::default()
    })
}

/// The shared folders, and those of personas: `jobs` or `Jobs` in the folder of each persona.
fn all_folders(shared: &[PathBuf], personas: &[PathBuf], kind: WorkflowKind) -> Vec<ManifestFolder> {
    let shared =
        shared.iter().map(|path| ManifestFolder { path: path.clone(), scope: ManifestScope::Shared });
    let mut folders: Vec<ManifestFolder> = shared.collect();
    for personas in personas {
        folders.extend(folder::personas_with(personas, kind.plural()));
    }
    folders
}

/// The entries of all folders, and the files that cannot be read, each with the place of its finding.
fn read_folders(
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
            for entry in entries(context, (&file, &node), &folder.scope, kind) {
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
    let refusal = if is_of_project { None } else { ownership::refusal(context.sources, file) };
    let read = refusal.map_or_else(|| read_node(&mut context.texts, file), |refusal| Err(Box::new(refusal)));
    match read {
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
fn check_waiting(
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

/// What a person sees before they trust a file: each entry with its summary, the time it runs, and the tools that its
/// plan calls.
fn preview(node: &Node, kind: WorkflowKind) -> Preview {
    let mut entries = ShownEntries::default();
    for (index, (key, entry)) in written(node, kind.plural()).into_iter().enumerate().take(MAX_ENTRIES) {
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

/// The entries of a file with their keys: one entry, a list, a list under the plural, or a map from names to entries.
fn written<'n>(root: &'n Node, plural: &str) -> Vec<(Option<&'n str>, &'n Node)> {
    if let Some(elements) = root.elements() {
        return elements.iter().map(|node| (None, node)).collect();
    }
    if root.get("name").is_some_and(|name| name.members().is_none()) {
        return vec![(None, root)];
    }
    if let Some(elements) = root.get(plural).and_then(Node::elements) {
        return elements.iter().map(|node| (None, node)).collect();
    }
    let members = root.members().unwrap_or_default().iter();
    members
        .filter(|(key, _)| key.text != "$schema")
        .map(|(key, node)| (Some(key.text.as_str()), node))
        .collect()
}

fn entries(
    context: &mut LoadContext<'_>,
    (file, root): (&Path, &Node),
    scope: &ManifestScope,
    kind: WorkflowKind,
) -> Vec<RawWorkflow> {
    let mut found = Vec::new();
    // As many as the preview shows.
    for (index, (key, node)) in written(root, kind.plural()).into_iter().enumerate().take(MAX_ENTRIES) {
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
    found
}

/// The members of an entry and of its bases. A persona's entry also has the fields of the shared one with its name.
fn with_bases(
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
fn report<T>(
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

/// Warns of jobs whose tasks are not there.
fn warn_of_tasks(context: &mut LoadContext<'_>, gathered: &GatheredWorkflows) {
    for (_, job) in &gathered.jobs {
        for node in &job.definition.task_graph {
            let fits = |task: &&TaskManifest| {
                task.definition.name == node.task
                    && (task.scope == ManifestScope::Shared || task.scope == job.scope)
            };
            if gathered.tasks.iter().any(|(_, task)| fits(&task)) {
                continue;
            }
            let sentence = format!("job `{}`: there is no task `{}`", job.definition.name, node.task);
            let finding = Finding::warning("manifest.no-task", sentence).in_file(file_of(&job.origin));
            context
                .findings
                .push(finding.hint("the job cannot run without it; `manifests.tasks` names the folders"));
        }
    }
}

fn file_of(origin: &str) -> &str {
    let mut parts = origin.rsplitn(3, ':');
    let (_, _) = (parts.next(), parts.next());
    parts.next().unwrap_or(origin)
}
