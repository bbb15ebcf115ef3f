//! Servers of all layers: which entry wins, and what state it is in.

use crate::dialect::RawServer;
use crate::digest;
use crate::entry::{self, Context, Expansion, Flavor, Reveal};
use crate::expand::{self, Variables};
use crate::finding::Finding;
use crate::layer::{Layer, Origin};
use crate::load::{Desk, Document, ServerArguments};
use crate::merge::merged_entry;
use crate::node::{Key, Mark, Node, Value};
use crate::suggest::nearest;
use crate::trust::{self, Change, Preview};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{ServerEntry, Transport};

/// A server that some file names.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredServer {
    /// Its name.
    pub name: ServerName,
    /// Where the winning entry stands.
    pub origin: Origin,
    /// The content hash of the normalised, expanded entry: equal hash means no restart.
    pub hash: String,
    /// What can be done with it.
    pub state: ServerConfigState,
    /// Entries of the same name that do not count, lowest layer first.
    pub shadowed: Vec<Origin>,
    /// The project file that must be trusted before it runs, if there is one.
    pub trust_file: Option<PathBuf>,
}

/// What can be done with a configured server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerConfigState {
    /// It can be started.
    Ready(Box<ServerEntry>),
    /// It is switched off.
    Disabled(Box<ServerEntry>),
    /// It comes from a project file that nobody has agreed to yet.
    NeedsTrust {
        /// What a person is asked.
        entry_preview: Preview,
        /// What trust would be bound to.
        digest: String,
        /// How it differs from what was trusted before; absent if it never was.
        changed_from: Option<Vec<Change>>,
    },
    /// It cannot be used as written; the first reason.
    Broken(Finding),
}

impl ServerConfigState {
    /// The word of the server's state.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Disabled(_) => "disabled",
            Self::NeedsTrust { .. } => "needs_trust",
            Self::Broken(_) => "config_error",
        }
    }

    /// The entry, if it could be read.
    pub fn entry(&self) -> Option<&ServerEntry> {
        match self {
            Self::Ready(entry) | Self::Disabled(entry) => Some(entry),
            Self::NeedsTrust { .. } | Self::Broken(_) => None,
        }
    }
}

/// How an entry came to be, for `config explain`.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// The entry that counts, as written.
    pub node: Node,
    /// What every file said, lowest layer first.
    pub said: Vec<(Layer, Node)>,
}

/// All servers.
pub(crate) struct Gathered {
    pub servers: Vec<ConfiguredServer>,
    pub history: BTreeMap<ServerName, History>,
}

/// The entry that counts so far.
struct Candidate {
    layer: Layer,
    mark: Mark,
    node: Node,
    flavor: Flavor,
    enforced: bool,
    project_file: Option<PathBuf>,
    /// Set when its name stands twice in its file.
    twice: Option<Finding>,
    shadowed: Vec<(Layer, Mark)>,
    said: Vec<(Layer, Node)>,
}

/// Takes the servers of all files and decides about each.
pub(crate) fn gather(
    desk: &mut Desk<'_>,
    documents: &[Document],
    arguments: ServerArguments,
    variables: &Variables,
) -> Gathered {
    let mut candidates: BTreeMap<ServerName, Candidate> = BTreeMap::new();
    for document in documents {
        for server in &document.split.servers {
            if let Some(name) = checked_name(desk, &server.name) {
                offer(desk, &mut candidates, document, name, server);
            }
        }
    }
    apply_arguments(desk, &mut candidates, arguments);
    let mut gathered = Gathered { servers: Vec::new(), history: BTreeMap::new() };
    for (name, candidate) in candidates {
        let server = decide(desk, variables, &name, &candidate);
        gathered.servers.push(server);
        gathered.history.insert(name, History { node: candidate.node, said: candidate.said });
    }
    gathered
}

fn checked_name(desk: &mut Desk<'_>, key: &Key) -> Option<ServerName> {
    match key.text.parse() {
        Ok(_) if is_reserved(&key.text) => {
            let sentence =
                format!("`{}` cannot name a server: the gateway itself goes by this name", key.text);
            desk.findings.push(Finding::error("config.bad-name", sentence).at(&desk.texts, key.mark));
            None
        }
        Ok(name) => Some(name),
        Err(error) => {
            let finding =
                Finding::error("config.bad-name", format!("`{}` cannot name a server: {error}", key.text));
            desk.findings.push(finding.at(&desk.texts, key.mark));
            None
        }
    }
}

/// Names under which the gateway's own tools and those of manifests stand in the catalog.
fn is_reserved(name: &str) -> bool {
    matches!(name, "_toolbooth" | "_manifest") || name.starts_with("_manifest.")
}

fn says(node: &Node, key: &str) -> bool {
    node.get(key).and_then(Node::truth) == Some(true)
}

fn offer(
    desk: &mut Desk<'_>,
    candidates: &mut BTreeMap<ServerName, Candidate>,
    document: &Document,
    name: ServerName,
    server: &RawServer,
) {
    let RawServer { name: key, node, flavor } = server;
    let layer = document.layer;
    let project = layer == Layer::Project;
    let twice = document.split.twice.iter().find(|(twice, _)| *twice == key.text).map(|(_, second)| {
        let first = desk.texts.place(key.mark);
        Finding::error("config.duplicate-name", format!("server `{name}` stands in this file twice"))
            .at(&desk.texts, *second)
            .about(format!("servers.{name}"))
            .hint(format!("the other one is at {}:{}; rename or remove one", first.line, first.column))
    });
    let earlier = candidates.remove(&name);
    let mut candidate = Candidate {
        layer,
        mark: key.mark,
        node: node.clone(),
        flavor: *flavor,
        enforced: says(node, "enforced") && !project,
        project_file: document.path.clone().filter(|_| project),
        twice,
        shadowed: Vec::new(),
        said: vec![(layer, node.clone())],
    };
    let Some(earlier) = earlier else {
        candidates.insert(name, candidate);
        return;
    };
    if let Some(refusal) = refused(desk, &name, key, node, &earlier, layer) {
        desk.findings.push(refusal);
        let mut earlier = earlier;
        earlier.said.push((layer, node.clone()));
        candidates.insert(name, earlier);
        return;
    }
    let merging = says(node, "merge");
    if merging {
        candidate.node = merged_entry(&earlier.node, node);
        candidate.project_file = candidate.project_file.or(earlier.project_file);
        candidate.enforced |= earlier.enforced;
        candidate.shadowed = earlier.shadowed;
        if earlier.flavor == Flavor::FlatAtlas {
            candidate.flavor = Flavor::FlatAtlas;
        }
    } else {
        let sentence =
            format!("server `{name}` replaces the one at {} whole", desk.texts.place(earlier.mark));
        let finding = Finding::warning("config.replaced", sentence)
            .at(&desk.texts, key.mark)
            .about(format!("servers.{name}"))
            .hint(r#"add "merge": true here to lay it over the other one field by field"#);
        desk.findings.push(finding);
        candidate.shadowed = earlier.shadowed;
        candidate.shadowed.push((earlier.layer, earlier.mark));
    }
    candidate.said = earlier.said;
    candidate.said.push((layer, node.clone()));
    candidates.insert(name, candidate);
}

/// Why a project's entry may not stand over an earlier one.
fn refused(
    desk: &Desk<'_>,
    name: &ServerName,
    key: &Key,
    node: &Node,
    earlier: &Candidate,
    layer: Layer,
) -> Option<Finding> {
    if layer != Layer::Project || earlier.layer >= Layer::Project {
        return None;
    }
    let place = desk.texts.place(earlier.mark);
    let (code, sentence) = if earlier.enforced {
        ("config.enforced", format!("a project file may not change server `{name}`: it is enforced"))
    } else if says(node, "merge") {
        // A project that could add `args` or `url` to the user's entry would also get its secrets.
        (
            "config.merge-refused",
            format!("a project file may not merge into server `{name}` of the {} layer", earlier.layer),
        )
    } else {
        return None;
    };
    let finding = Finding::error(code, sentence).at(&desk.texts, key.mark).about(format!("servers.{name}"));
    Some(finding.hint(format!("the entry at {place} stays in force")))
}

/// `servers.NAME.key=value` of the command line.
fn apply_arguments(
    desk: &mut Desk<'_>,
    candidates: &mut BTreeMap<ServerName, Candidate>,
    arguments: ServerArguments,
) {
    for argument in arguments {
        let rest = argument.path[1..].join(".");
        // Names may hold dots, so the longest that fits is meant.
        let name = candidates
            .keys()
            .filter(|name| rest.strip_prefix(name.as_str()).is_some_and(|key| key.starts_with('.')))
            .max_by_key(|name| name.as_str().len())
            .cloned();
        let Some((name, candidate)) = name.and_then(|name| Some((name.clone(), candidates.get_mut(&name)?)))
        else {
            let first = argument.path.get(1).map(String::as_str).unwrap_or_default();
            let mut finding = Finding::error("config.no-server", format!("there is no server `{first}`"))
                .at(&desk.texts, argument.node.mark);
            finding.hint = nearest(first, candidates.keys().map(ServerName::as_str))
                .map(|near| format!("did you mean `{near}`?"));
            desk.findings.push(finding);
            continue;
        };
        let key = rest[name.as_str().len() + 1..].to_owned();
        let path: Vec<&str> = key.split('.').collect();
        let mark = argument.node.mark;
        let mut said = Node::empty_map(mark);
        said.set(&path, mark, argument.node.clone());
        candidate.node.set(&path, mark, argument.node);
        candidate.said.push((Layer::CommandLine, said));
    }
}

fn decide(
    desk: &mut Desk<'_>,
    variables: &Variables,
    name: &ServerName,
    candidate: &Candidate,
) -> ConfiguredServer {
    let origin = |layer, mark| Origin::new(layer, desk.texts.place(mark));
    let shadowed = candidate.shadowed.iter().map(|(layer, mark)| origin(*layer, *mark)).collect();
    let own = origin(candidate.layer, candidate.mark);
    let (state, mut findings) = state(desk, variables, name, candidate);
    desk.findings.append(&mut findings);
    let hash = match &state {
        ServerConfigState::Ready(entry) | ServerConfigState::Disabled(entry) => {
            digest::of(&entry::view(entry, Reveal::Values))
        }
        ServerConfigState::NeedsTrust { digest, .. } => digest.clone(),
        ServerConfigState::Broken(finding) => {
            digest::of_bytes(format!("{} {}", finding.message, candidate.node.shown()).as_bytes())
        }
    };
    ConfiguredServer {
        name: name.clone(),
        origin: own,
        hash,
        state,
        shadowed,
        trust_file: candidate.project_file.clone(),
    }
}

/// Where `cwd` of a project's entry leads, if a link is on the way. Trust is bound to it.
fn linked_cwd(desk: &Desk<'_>, node: &Node) -> Option<PathBuf> {
    let written = node.get("cwd").or_else(|| node.get("working_directory"))?;
    let text = written.text().filter(|text| expand::references(text).is_empty())?;
    let beside = desk.texts.folder(written.mark).unwrap_or(&desk.sources.cwd);
    let beside = beside.canonicalize().unwrap_or_else(|_| beside.to_owned());
    let plain = desk.sources.resolve(Path::new(text), &beside);
    let real = plain.canonicalize().ok()?;
    (real != plain).then_some(real)
}

fn state(
    desk: &Desk<'_>,
    variables: &Variables,
    name: &ServerName,
    candidate: &Candidate,
) -> (ServerConfigState, Vec<Finding>) {
    if let Some(twice) = &candidate.twice {
        return (ServerConfigState::Broken(twice.clone()), vec![twice.clone()]);
    }
    if !matches!(candidate.node.value, Value::Map(_)) {
        let sentence = format!("server `{name}` is a map of fields, found {}", candidate.node.kind());
        let finding = Finding::error("config.wrong-type", sentence).at(&desk.texts, candidate.node.mark);
        return (ServerConfigState::Broken(finding.clone()), vec![finding]);
    }
    let context = Context { sources: desk.sources, texts: &desk.texts, variables, flavor: candidate.flavor };
    let pending = candidate.project_file.as_ref().and_then(|file| {
        let preview = trust::preview_entry(&candidate.node, linked_cwd(desk, &candidate.node).as_deref());
        let trusted = desk.sources.trust.is_trusted(file, name.as_str(), &preview.digest);
        (!trusted).then_some((file, preview))
    });
    let expansion = if pending.is_some() { Expansion::Withheld } else { Expansion::Strict };
    let (entry, findings) = entry::normalise(&context, name, &candidate.node, expansion);
    let Some(mut entry) = entry else {
        let first = findings.iter().find(|finding| finding.is_error()).cloned();
        let first =
            first.unwrap_or_else(|| Finding::error("config.broken", format!("server `{name}` is unusable")));
        return (ServerConfigState::Broken(first), findings);
    };
    if let (Some(_), Transport::Stdio { cwd: Some(cwd), .. }) =
        (&candidate.project_file, &mut entry.transport)
        && let Ok(real) = cwd.canonicalize()
    {
        // It runs where it was agreed to, wherever a link leads later.
        *cwd = real;
    }
    let state = match (entry.enabled, pending) {
        (false, _) => ServerConfigState::Disabled(Box::new(entry)),
        (true, Some((file, preview))) => {
            let changed_from = desk.sources.trust.changes(file, name.as_str(), &preview);
            let digest = preview.digest.clone();
            ServerConfigState::NeedsTrust { entry_preview: preview, digest, changed_from }
        }
        (true, None) => ServerConfigState::Ready(Box::new(entry)),
    };
    (state, findings)
}
