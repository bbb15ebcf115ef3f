//! The manifests of a configuration: those of all folders, each name once.

use super::check::{Checked, duplicate, entries, read_node};
use super::claims::{Claim, Claims};
use super::folder::{self, Shelf};
use super::{GoodManifests, MAX_ENTRIES, MAX_FILES};
use crate::digest;
use crate::expand::Variables;
use crate::finding::Finding;
use crate::layer::Layer;
use crate::load::{Desk, Document, UntrustedSettings};
use crate::lookup::masked;
use crate::node::Node;
use crate::ownership;
use crate::settings::Settings;
use crate::trust::{Preview, SETTINGS};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolbooth_core::manifest::{Manifest, ProviderKind, Scope};
use toolbooth_core::names::ServerName;

/// What is gathered from.
pub(crate) struct Gathering<'a> {
    pub documents: &'a [Document],
    pub settings: &'a Settings,
    pub variables: &'a Variables,
    /// The servers that some file names.
    pub servers: Vec<&'a ServerName>,
}

/// The manifests of a configuration.
#[derive(Default)]
pub(crate) struct Manifests {
    pub entries: Vec<Manifest>,
    /// What each file held when it could be read.
    pub good: GoodManifests,
    /// Files of which the last good content counts.
    pub kept: Vec<PathBuf>,
}

/// Gathers the entries of all folders.
pub(crate) fn gather(
    desk: &mut Desk<'_>,
    gathering: &Gathering<'_>,
    untrusted: &mut Vec<UntrustedSettings>,
) -> Manifests {
    let mut shelves: Vec<Shelf> = Vec::new();
    let manifests = &gathering.settings.manifests;
    shelves
        .extend(manifests.tools.iter().map(|folder| Shelf { folder: folder.clone(), scope: Scope::Shared }));
    for folder in &manifests.personas {
        desk.files.push(folder.clone());
        shelves.extend(folder::personas(folder));
    }
    let mut all = Collected::default();
    let (mut good, mut kept) = (GoodManifests::new(), Vec::new());
    let mut count = 0;
    for shelf in shelves {
        desk.files.push(shelf.folder.clone());
        let files = folder::files(&shelf.folder);
        if !files.is_empty() {
            warn_of_persona(desk, gathering.settings, &shelf);
        }
        for file in files {
            desk.files.push(file.clone());
            count += 1;
            if count == MAX_FILES + 1 {
                let sentence =
                    format!("there are more than {MAX_FILES} manifests; this and what follows is left out");
                desk.findings.push(Finding::error("manifest.too-many", sentence).in_file(&file));
            }
            if count > MAX_FILES {
                break;
            }
            let Some((read, source)) = read_file(desk, gathering, &shelf, &file, untrusted) else { continue };
            if source == Source::Memory {
                kept.push(file.clone());
            }
            for entry in &read {
                all.take(desk, entry, &shelf.folder);
            }
            good.insert(file, read);
        }
    }
    warn_of_servers(desk, gathering, &all.entries);
    warn_of_aliases(desk, &all.entries);
    Manifests { entries: all.entries, good, kept }
}

/// Where the entries of a file come from.
#[derive(PartialEq)]
enum Source {
    File,
    Memory,
}

/// The entries of a file, the last good ones where it cannot be read any more.
fn read_file(
    desk: &mut Desk<'_>,
    gathering: &Gathering<'_>,
    shelf: &Shelf,
    file: &Path,
    untrusted: &mut Vec<UntrustedSettings>,
) -> Option<(Vec<Manifest>, Source)> {
    let is_of_project = is_of_project(gathering.documents, file);
    // A manifest of the operator's own sends data and secrets where it says, like a configuration file.
    let refusal = if is_of_project { None } else { ownership::refusal(desk.sources, file) };
    let read = refusal.map_or_else(|| read_node(&mut desk.texts, file), |refusal| Err(Box::new(refusal)));
    let node = match read {
        Ok(node) => node,
        Err(finding) => {
            let kept = desk.sources.good_manifests.get(file).cloned();
            let sentence = match &kept {
                Some(_) => format!("{}; what it said before stays in force", finding.message),
                None => finding.message.clone(),
            };
            desk.findings.push(Finding { message: sentence, ..*finding });
            return kept.map(|kept| (kept, Source::Memory));
        }
    };
    if is_of_project && !is_trusted(desk, file, &node, untrusted) {
        // An edit must not take away what was agreed to, such as who may use a tool; taking trust back does.
        let was_trusted = desk.sources.trust.knows(file, SETTINGS);
        let kept = desk.sources.good_manifests.get(file).filter(|_| was_trusted).cloned();
        return kept.map(|kept| (kept, Source::Memory));
    }
    let Checked { entries, findings, .. } = entries(&desk.texts, &node, &shelf.scope, gathering.variables);
    desk.findings.extend(findings);
    Some((entries, Source::File))
}

/// Whether a file stands beside a project's configuration and not beside one of the user's own.
fn is_of_project(documents: &[Document], file: &Path) -> bool {
    let beside = |document: &&Document| {
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

/// A manifest of a project can send data and secrets anywhere, so each is agreed to as it stands.
fn is_trusted(desk: &mut Desk<'_>, file: &Path, node: &Node, untrusted: &mut Vec<UntrustedSettings>) -> bool {
    let preview = preview(node);
    if desk.sources.trust.is_trusted(file, SETTINGS, &preview.digest) {
        return true;
    }
    let sentence = "this manifest of a project waits for trust";
    let finding = Finding::warning("config.needs-trust", sentence).in_file(file);
    desk.findings.push(finding.hint("look at the file, then run `toolbooth trust`"));
    let keys = preview.fields.keys().cloned().collect();
    untrusted.push(UntrustedSettings { file: file.to_owned(), preview, keys });
    false
}

fn preview(node: &Node) -> Preview {
    let mut fields = BTreeMap::new();
    let list: Vec<&Node> = match (node.elements(), node.members()) {
        (Some(elements), _) => elements.iter().collect(),
        (None, Some(_)) if node.get("name").is_some() => vec![node],
        (None, members) => members.unwrap_or_default().iter().map(|(_, entry)| entry).collect(),
    };
    for (index, entry) in list.into_iter().enumerate().take(MAX_ENTRIES) {
        let name = entry
            .get("name")
            .and_then(Node::text)
            .map_or_else(|| format!("entry {}", index + 1), str::to_owned);
        let providers = entry
            .get("providers")
            .map_or_else(|| "an overlay".to_owned(), |node| masked("providers", node).to_string());
        fields.insert(name, providers);
    }
    Preview { fields, digest: digest::of(&node.shown()) }
}

fn warn_of_persona(desk: &mut Desk<'_>, settings: &Settings, shelf: &Shelf) {
    if let Scope::Persona(name) = &shelf.scope
        && !settings.personas.contains_key(name)
    {
        let sentence = format!("there is no persona `{name}`, so nobody can use its tools");
        let finding = Finding::warning("manifest.no-persona", sentence).in_file(&shelf.folder);
        desk.findings.push(finding.hint(format!("name it in the settings: [personas.{name}]")));
    }
}

fn warn_of_servers(desk: &mut Desk<'_>, gathering: &Gathering<'_>, all: &[Manifest]) {
    if gathering.servers.is_empty() {
        return;
    }
    for entry in all {
        for provider in &entry.providers {
            let ProviderKind::Mcp { server, .. } = &provider.kind else { continue };
            if gathering.servers.contains(&server) {
                continue;
            }
            let near =
                crate::suggest::nearest(server.as_str(), gathering.servers.iter().map(|name| name.as_str()));
            let sentence = format!("tool `{}`: there is no server `{server}`", entry.name);
            let mut finding = at_entry(Finding::warning("manifest.no-server", sentence), entry);
            finding.hint = near.map(|near| format!("did you mean `{near}`?"));
            desk.findings.push(finding);
        }
    }
}

/// Entries of other names for one tool. Each name is there once by now.
fn warn_of_aliases(desk: &mut Desk<'_>, all: &[Manifest]) {
    let mut claims = Claims::default();
    let clashes = all.iter().filter_map(|entry| Some(duplicate(entry, &claims.note(entry)?)));
    desk.findings.extend(clashes.collect::<Vec<_>>());
}

/// Puts a finding where an entry stands.
pub(super) fn at_entry(finding: Finding, entry: &Manifest) -> Finding {
    let mut parts = entry.origin.rsplitn(3, ':');
    let column = parts.next().and_then(|text| text.parse().ok());
    let line = parts.next().and_then(|text| text.parse().ok());
    match (parts.next(), line, column) {
        (Some(file), Some(line), Some(column)) => Finding { line, column, ..finding.in_file(file) },
        _ => finding.in_file(&entry.origin),
    }
}

/// The entries so far, and where each stands.
#[derive(Default)]
struct Collected {
    entries: Vec<Manifest>,
    places: BTreeMap<(Scope, String), (usize, PathBuf)>,
}

impl Collected {
    /// Takes an entry in. Of two in one folder the first counts; a later folder is of a higher layer, and wins.
    fn take(&mut self, desk: &mut Desk<'_>, entry: &Manifest, folder: &Path) {
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
            let earlier = Claim { name: entry.name.clone(), origin: other.clone() };
            desk.findings.push(duplicate(entry, &earlier));
            return;
        }
        let sentence = format!("tool `{}` replaces the one at {other}", entry.name);
        desk.findings.push(at_entry(Finding::warning("manifest.replaced", sentence), entry));
        let index = *index;
        self.entries[index] = entry.clone();
        self.places.insert(key, (index, folder.to_owned()));
    }
}
