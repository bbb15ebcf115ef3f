//! Gathers the manifests of jobs and tasks. One bad entry or file is left out with its reason; the others load.

use super::check::{CheckedManifests, is_json_schema, read_node};
use super::folder;
use super::gather::{ManifestInputs, note_kept};
use super::workflow_entry::{RawWorkflow, WorkflowKind, entries, report, with_bases};
use super::workflow_files::{check_waiting, read_folders};
use crate::context::{LoadContext, UntrustedSettings};
use crate::finding::Finding;
use crate::inputs::{GoodManifests, Sources};
use crate::texts::{SourceTexts, file_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use toolbooth_core::job::{
    DefinitionSource, JobDefinition, JobManifest, ReadDefinition, TaskDefinition, TaskManifest, WorkManifest,
};
use toolbooth_core::manifest::ManifestScope;

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

/// Jobs or tasks, each with its file.
type GatheredWork<D> = Vec<(PathBuf, WorkManifest<D>)>;

/// What differs between the definitions of jobs and of tasks.
trait WorkDefinition: Clone {
    const KIND: WorkflowKind;

    fn from_manifest(value: &Value) -> ReadDefinition<Self>;

    fn name(&self) -> &str;

    /// The last valid version of all manifests.
    fn last_valid(good: &GoodManifests) -> &[(PathBuf, WorkManifest<Self>)];
}

impl WorkDefinition for JobDefinition {
    const KIND: WorkflowKind = WorkflowKind::Job;

    fn from_manifest(value: &Value) -> ReadDefinition<Self> {
        Self::read(value, DefinitionSource::Manifest)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn last_valid(good: &GoodManifests) -> &[(PathBuf, JobManifest)] {
        &good.jobs
    }
}

impl WorkDefinition for TaskDefinition {
    const KIND: WorkflowKind = WorkflowKind::Task;

    fn from_manifest(value: &Value) -> ReadDefinition<Self> {
        Self::read(value, DefinitionSource::Manifest)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn last_valid(good: &GoodManifests) -> &[(PathBuf, TaskManifest)] {
        &good.tasks
    }
}

/// Gathers the jobs and tasks of all folders.
pub(crate) fn gather_workflows(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    untrusted: &mut Vec<UntrustedSettings>,
) -> GatheredWorkflows {
    let manifests = &inputs.settings.manifests;
    let mut kept = Vec::new();
    let jobs = gather_kind(context, inputs, &manifests.jobs, untrusted, &mut kept);
    let tasks = gather_kind(context, inputs, &manifests.tasks, untrusted, &mut kept);
    for named in inputs.waiting {
        for (kind, folders) in [(WorkflowKind::Job, &named.jobs), (WorkflowKind::Task, &named.tasks)] {
            for folder in folder::with_personas(folders, &named.personas, kind.plural()) {
                check_waiting(context, inputs, &folder.path, kind, untrusted);
            }
        }
    }
    let gathered = GatheredWorkflows { jobs, tasks, kept };
    warn_of_tasks(context, &gathered);
    gathered
}

/// Gathers the jobs, or the tasks, of the shared folders and of personas.
fn gather_kind<D: WorkDefinition>(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    folders: &[PathBuf],
    untrusted: &mut Vec<UntrustedSettings>,
    kept: &mut Vec<PathBuf>,
) -> GatheredWork<D> {
    let folders = folder::with_personas(folders, &inputs.settings.manifests.personas, D::KIND.plural());
    let (raw, broken) = read_folders(context, inputs, &folders, D::KIND, untrusted);
    let mut gathered: GatheredWork<D> = Vec::new();
    for entry in &raw {
        let start = context.findings.len();
        match read_definition::<D>(context, &raw, entry) {
            Some(definition) => {
                let origin = context.texts.location(entry.node.mark).to_string();
                let manifest = WorkManifest { scope: entry.scope.clone(), origin, definition };
                gathered.push((entry.file.clone(), manifest));
            }
            None => keep_last_valid(context, &mut gathered, (&entry.file, Some(entry)), start, kept),
        }
    }
    for (file, start) in broken {
        keep_last_valid(context, &mut gathered, (&file, None), start, kept);
    }
    gathered
}

/// The definition of an entry with the fields of its bases, if it has no error.
fn read_definition<D: WorkDefinition>(
    context: &mut LoadContext<'_>,
    all: &[RawWorkflow],
    entry: &RawWorkflow,
) -> Option<D> {
    let members = with_bases(context, all, entry, D::KIND)?;
    report(context, entry, D::KIND, D::from_manifest(&Value::Object(members)))
}

/// Keeps the last valid version of an entry, or of all entries of a file, that an edit has broken. The finding about
/// the error, which is the first one after a place, says so.
fn keep_last_valid<D: WorkDefinition>(
    context: &mut LoadContext<'_>,
    gathered: &mut GatheredWork<D>,
    (file, entry): (&Path, Option<&RawWorkflow>),
    start: usize,
    kept: &mut Vec<PathBuf>,
) {
    let count = gathered.len();
    for (path, last) in D::last_valid(&context.sources.good_manifests) {
        let is_same =
            |scope: &ManifestScope, name: &str| *scope == last.scope && name == last.definition.name();
        let is_wanted = path == file && entry.is_none_or(|entry| is_same(&entry.scope, &entry.name));
        let is_taken = gathered.iter().any(|(_, other)| is_same(&other.scope, other.definition.name()));
        if is_wanted && !is_taken {
            gathered.push((path.clone(), last.clone()));
        }
    }
    if gathered.len() > count {
        note_kept(&mut context.findings, start);
        kept.push(file.to_owned());
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
    Some(match kind {
        WorkflowKind::Job => check_entries::<JobDefinition>(path),
        WorkflowKind::Task => check_entries::<TaskDefinition>(path),
    })
}

fn check_entries<D: WorkDefinition>(path: &Path) -> CheckedManifests {
    let sources = Sources::default();
    let mut context = LoadContext {
        sources: &sources,
        texts: SourceTexts::default(),
        findings: Vec::new(),
        fatal: false,
        files: Vec::new(),
    };
    let raw = match read_node(&mut context.texts, path) {
        Ok(node) if is_json_schema(&node) => Vec::new(),
        Ok(node) => {
            let scope = folder::scope_of(path);
            entries(&mut context, (path, &node), &scope, D::KIND).unwrap_or_default()
        }
        Err(finding) => {
            context.findings.push(*finding);
            Vec::new()
        }
    };
    let valid = raw.iter().filter(|entry| read_definition::<D>(&mut context, &raw, entry).is_some()).count();
    CheckedManifests {
        workflows: valid,
        set_aside: raw.len() - valid,
        findings: context.findings,
        ..CheckedManifests::default()
    }
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
