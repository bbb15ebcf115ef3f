//! Gathers the manifest entries of all folders, each name once.

use super::check::{
    CheckedManifests, ENTRY_LISTS, at_entry, duplicate, entries, is_json_schema, read_node, written,
};
use super::claims::{ToolClaim, ToolClaims};
use super::folder::{self, ManifestFolder};
use super::preview::ShownEntries;
use super::{MAX_ENTRIES, MAX_FILES};
use crate::context::{ConfigDocument, LoadContext, UntrustedSettings};
use crate::digest;
use crate::expand::Variables;
use crate::finding::Finding;
use crate::layer::Layer;
use crate::lookup::masked;
use crate::node::Node;
use crate::ownership;
use crate::settings::Settings;
use crate::trust::{Preview, SETTINGS};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolbooth_core::manifest::{Manifest, ManifestScope, ProviderKind};
use toolbooth_core::names::ServerName;

/// The inputs of gathering.
pub(crate) struct ManifestInputs<'a> {
    pub documents: &'a [ConfigDocument],
    /// The folders that settings which wait for trust name.
    pub waiting: &'a [ManifestFolders],
    pub settings: &'a Settings,
    pub variables: &'a Variables,
    /// The names of the configured servers.
    pub servers: Vec<&'a ServerName>,
}

/// The folders with manifests that one file names.
#[derive(Debug, Clone, Default)]
pub(crate) struct ManifestFolders {
    pub tools: Vec<PathBuf>,
    pub personas: Vec<PathBuf>,
    pub skills: Vec<PathBuf>,
    pub jobs: Vec<PathBuf>,
    pub tasks: Vec<PathBuf>,
}

/// The gathered manifests of a configuration.
#[derive(Default)]
pub(crate) struct GatheredManifests {
    pub entries: Vec<Manifest>,
    /// The last valid entries of each file.
    pub good: BTreeMap<PathBuf, Vec<Manifest>>,
    /// Files that are broken or not trusted now, and whose last valid entries are in use.
    pub kept: Vec<PathBuf>,
}

/// Gathers the entries of all folders.
pub(crate) fn gather(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    untrusted: &mut Vec<UntrustedSettings>,
) -> GatheredManifests {
    let manifests = &inputs.settings.manifests;
    let folders = list_folders(context, &manifests.tools, &manifests.personas);
    let mut all = Collected::default();
    let (mut good, mut kept) = (BTreeMap::new(), Vec::new());
    let mut count = 0;
    for folder in folders {
        context.files.push(folder.path.clone());
        let files = folder::files(&folder.path);
        if !files.is_empty() {
            warn_of_persona(context, inputs.settings, &folder);
        }
        for file in files {
            context.files.push(file.clone());
            count += 1;
            if count == MAX_FILES + 1 {
                let sentence = format!(
                    "there are more than {MAX_FILES} manifest files; this one and the following ones are ignored"
                );
                context.findings.push(Finding::error("manifest.too-many", sentence).in_file(&file));
            }
            if count > MAX_FILES {
                break;
            }
            let Some((read, source)) = read_file(context, inputs, &folder, &file, untrusted) else {
                continue;
            };
            if source == EntrySource::Memory {
                kept.push(file.clone());
            }
            for entry in &read {
                all.take(context, entry, &folder.path);
            }
            good.insert(file, read);
        }
    }
    for folders in inputs.waiting {
        check_waiting(context, inputs, folders, untrusted);
    }
    warn_of_servers(context, inputs, &all.entries);
    warn_of_aliases(context, &all.entries);
    GatheredManifests { entries: all.entries, good, kept }
}

fn list_folders(
    context: &mut LoadContext<'_>,
    tools: &[PathBuf],
    personas: &[PathBuf],
) -> Vec<ManifestFolder> {
    let shared = |folder: &PathBuf| ManifestFolder { path: folder.clone(), scope: ManifestScope::Shared };
    let mut folders: Vec<ManifestFolder> = tools.iter().map(shared).collect();
    for folder in personas {
        context.files.push(folder.clone());
        folders.extend(folder::personas(folder));
    }
    folders
}

/// Reads manifests that a project file names while its settings wait for trust: reports their errors, and adds them to
/// what waits, so that one answer covers the file and its manifests. None of them comes into effect.
fn check_waiting(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    named: &ManifestFolders,
    untrusted: &mut Vec<UntrustedSettings>,
) {
    let folders = list_folders(context, &named.tools, &named.personas);
    let mut count = 0;
    for folder in folders {
        context.files.push(folder.path.clone());
        for file in folder::files(&folder.path) {
            let is_known = context.files.contains(&file);
            count += 1;
            // A file outside the project does not need trust, and an untrusted file must not have it read.
            if is_known || count > MAX_FILES || !is_of_project(inputs.documents, &file) {
                continue;
            }
            context.files.push(file.clone());
            match read_node(&mut context.texts, &file) {
                Ok(node) if is_json_schema(&node) => {}
                Ok(node) => {
                    if !is_trusted(context, &file, &node, untrusted) {
                        check_untrusted(context, &folder, &node);
                    }
                }
                Err(finding) => context.findings.push(*finding),
            }
        }
    }
}

/// Reports the errors of a manifest that waits for trust. Its variables are not expanded.
fn check_untrusted(context: &mut LoadContext<'_>, folder: &ManifestFolder, node: &Node) {
    let checked = entries(&context.texts, node, &folder.scope, &Variables::default());
    context.findings.extend(checked.findings.into_iter().filter(Finding::is_error));
}

/// The end of the message about a file or entry whose last valid version is in use.
const KEPT: &str = "; its previous version remains in effect";

/// Adds to the first error after a place that the previous version of the entry is in use.
pub(super) fn note_kept(findings: &mut [Finding], start: usize) {
    if let Some(error) = findings.iter_mut().skip(start).find(|finding| finding.is_error()) {
        error.message.push_str(KEPT);
    }
}

/// The source of the entries of a file.
#[derive(PartialEq)]
enum EntrySource {
    File,
    Memory,
}

/// The entries of a file, or its last valid entries if it cannot be read any more.
fn read_file(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    folder: &ManifestFolder,
    file: &Path,
    untrusted: &mut Vec<UntrustedSettings>,
) -> Option<(Vec<Manifest>, EntrySource)> {
    let is_of_project = is_of_project(inputs.documents, file);
    let node = match read_owned(context, inputs, file) {
        Ok(node) => node,
        Err(finding) => {
            let kept = context.sources.good_manifests.tools.get(file).cloned();
            let sentence = match &kept {
                Some(_) => format!("{}{KEPT}", finding.message),
                None => finding.message.clone(),
            };
            context.findings.push(Finding { message: sentence, ..*finding });
            return kept.map(|kept| (kept, EntrySource::Memory));
        }
    };
    if is_json_schema(&node) {
        return None;
    }
    if is_of_project && !is_trusted(context, file, &node, untrusted) {
        check_untrusted(context, folder, &node);
        // An edit must not remove trusted entries, which may restrict a tool. Revoking the trust does.
        let was_trusted = context.sources.trust.knows(file, SETTINGS);
        let kept = context.sources.good_manifests.tools.get(file).filter(|_| was_trusted).cloned();
        return kept.map(|kept| (kept, EntrySource::Memory));
    }
    let CheckedManifests { entries, findings, .. } =
        entries(&context.texts, &node, &folder.scope, inputs.variables);
    context.findings.extend(findings);
    Some((entries, EntrySource::File))
}

/// Parses a manifest. Outside a project it must belong to the right user: like a configuration file, a manifest of the
/// operator decides where data and secrets are sent.
pub(super) fn read_owned(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    file: &Path,
) -> Result<Node, Box<Finding>> {
    if !is_of_project(inputs.documents, file)
        && let Some(refusal) = ownership::refusal(context.sources, file)
    {
        return Err(Box::new(refusal));
    }
    read_node(&mut context.texts, file)
}

/// Whether a file belongs to a project: the nearest configuration file above it is a project file.
pub(super) fn is_of_project(documents: &[ConfigDocument], file: &Path) -> bool {
    let beside = |document: &&ConfigDocument| {
        let folder = document.path.as_deref().and_then(Path::parent);
        folder.is_some_and(|folder| file.starts_with(folder))
    };
    let nearest = documents.iter().filter(beside).max_by_key(|document| {
        let folder = document.path.as_deref().and_then(Path::parent);
        let depth = folder.map_or(0, |folder| folder.components().count());
        (depth, document.layer != Layer::Project)
    });
    nearest.is_some_and(|document| document.layer == Layer::Project)
}

/// Whether a project manifest is trusted; otherwise reports it. Each version needs trust, because a manifest can send
/// data and secrets anywhere.
fn is_trusted(
    context: &mut LoadContext<'_>,
    file: &Path,
    node: &Node,
    untrusted: &mut Vec<UntrustedSettings>,
) -> bool {
    trust_or_report(context, file, preview(node), untrusted)
}

/// Whether this version of a file is trusted; otherwise reports it.
pub(super) fn trust_or_report(
    context: &mut LoadContext<'_>,
    file: &Path,
    preview: Preview,
    untrusted: &mut Vec<UntrustedSettings>,
) -> bool {
    if context.sources.trust.is_trusted(file, SETTINGS, &preview.digest) {
        return true;
    }
    let sentence = "this project manifest waits for trust";
    let finding = Finding::warning("config.needs-trust", sentence).in_file(file);
    context.findings.push(finding.hint("review the file, then run `toolbooth trust`"));
    let keys = preview.fields.keys().cloned().collect();
    untrusted.push(UntrustedSettings { file: file.to_owned(), preview, keys });
    false
}

fn preview(node: &Node) -> Preview {
    let mut shown = ShownEntries::default();
    let list = written(node, &ENTRY_LISTS).unwrap_or_default();
    for (index, (key, spot)) in list.into_iter().enumerate().take(MAX_ENTRIES) {
        let entry = spot.node;
        let name = entry.get("name").and_then(Node::text).or(key);
        let name = name.map_or_else(|| format!("entry {}", index + 1), str::to_owned);
        let providers = entry
            .get("providers")
            .map_or_else(|| "an overlay".to_owned(), |node| masked("providers", node).to_string());
        shown.add(&name, providers);
    }
    Preview { fields: shown.into_fields(), digest: digest::of(&node.shown()) }
}

fn warn_of_persona(context: &mut LoadContext<'_>, settings: &Settings, folder: &ManifestFolder) {
    if let ManifestScope::Persona(name) = &folder.scope
        && !settings.personas.keys().any(|known| known.eq_ignore_ascii_case(name))
    {
        let sentence = format!("there is no persona `{name}`, so no caller can use its tools");
        let finding = Finding::warning("manifest.no-persona", sentence).in_file(&folder.path);
        context.findings.push(finding.hint(format!("add it to the settings: [personas.{name}]")));
    }
}

fn warn_of_servers(context: &mut LoadContext<'_>, inputs: &ManifestInputs<'_>, all: &[Manifest]) {
    if inputs.servers.is_empty() {
        return;
    }
    for entry in all {
        for provider in &entry.providers {
            let ProviderKind::Mcp { server, .. } = &provider.kind else { continue };
            if inputs.servers.contains(&server) {
                continue;
            }
            let near =
                crate::suggest::nearest(server.as_str(), inputs.servers.iter().map(|name| name.as_str()));
            let sentence = format!("tool `{}`: there is no server `{server}`", entry.name);
            let mut finding = at_entry(Finding::warning("manifest.no-server", sentence), entry);
            finding.hint = near.map(|near| format!("did you mean `{near}`?"));
            context.findings.push(finding);
        }
    }
}

/// Reports entries with different names for one tool. Duplicate names are already removed.
fn warn_of_aliases(context: &mut LoadContext<'_>, all: &[Manifest]) {
    let mut claims = ToolClaims::default();
    let clashes = all.iter().filter_map(|entry| Some(duplicate(entry, &claims.note(entry)?)));
    context.findings.extend(clashes.collect::<Vec<_>>());
}

/// The entries so far, with the folder of each.
#[derive(Default)]
struct Collected {
    entries: Vec<Manifest>,
    places: BTreeMap<(ManifestScope, String), (usize, PathBuf)>,
}

impl Collected {
    /// Adds an entry. Of two in one folder the first is used; an entry of a later folder, which belongs to a higher
    /// layer, replaces an earlier one.
    fn take(&mut self, context: &mut LoadContext<'_>, entry: &Manifest, folder: &Path) {
        if self.entries.len() >= MAX_ENTRIES {
            return;
        }
        let key = (entry.scope.clone(), entry.name.clone());
        let Some((index, earlier)) = self.places.get(&key) else {
            self.places.insert(key, (self.entries.len(), folder.to_owned()));
            self.entries.push(entry.clone());
            return;
        };
        let other = &self.entries[*index].origin;
        if *earlier == folder {
            let earlier = ToolClaim { name: entry.name.clone(), origin: other.clone() };
            context.findings.push(duplicate(entry, &earlier));
            return;
        }
        let sentence = format!("tool `{}` replaces the one at {other}", entry.name);
        context.findings.push(at_entry(Finding::warning("manifest.replaced", sentence), entry));
        let index = *index;
        self.entries[index] = entry.clone();
        self.places.insert(key, (index, folder.to_owned()));
    }
}
