//! Selects the effective entry of each server from all layers, and determines its state.

use crate::context::{ConfigDocument, LoadContext, ServerArguments};
use crate::dialect::{Flavor, RawServer};
use crate::digest;
use crate::entry::{self, EntryInputs, Expansion, Reveal};
use crate::expand::{self, Variables};
use crate::finding::Finding;
use crate::layer::{ConfigOrigin, Layer};
use crate::merge::merged_entry;
use crate::node::{MapKey, Mark, Node, Value};
use crate::suggest::nearest;
use crate::trust::{self, Preview, TrustChange};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{ServerEntry, Transport};

/// A server with its effective entry.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredServer {
    /// The name of the server.
    pub name: ServerName,
    /// The origin of the effective entry.
    pub origin: ConfigOrigin,
    /// The content hash of the normalised, expanded entry. A server with an equal hash is not restarted.
    pub hash: String,
    /// Whether the server can be started.
    pub state: ServerConfigState,
    /// Replaced entries with the same name, lowest layer first.
    pub shadowed: Vec<ConfigOrigin>,
    /// The project file that must be trusted before the server runs, if any.
    pub trust_file: Option<PathBuf>,
}

/// Whether a configured server can be started.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerConfigState {
    /// The server can be started.
    Ready(Box<ServerEntry>),
    /// The server is disabled.
    Disabled(Box<ServerEntry>),
    /// The entry comes from a project file and waits for trust.
    NeedsTrust {
        /// The preview that the user is asked to trust.
        entry_preview: Preview,
        /// The digest that trust would be bound to.
        digest: String,
        /// The differences from the entry that was trusted before; absent if it never was.
        changed_from: Option<Vec<TrustChange>>,
    },
    /// The entry is invalid, with the first error.
    Broken(Finding),
}

impl ServerConfigState {
    /// The name of the state.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Disabled(_) => "disabled",
            Self::NeedsTrust { .. } => "needs_trust",
            Self::Broken(_) => "config_error",
        }
    }

    /// The entry, if the server is ready or disabled.
    pub fn entry(&self) -> Option<&ServerEntry> {
        match self {
            Self::Ready(entry) | Self::Disabled(entry) => Some(entry),
            Self::NeedsTrust { .. } | Self::Broken(_) => None,
        }
    }
}

/// The entries that a server's effective entry was made from, for `config explain`.
#[derive(Debug, Clone)]
pub(crate) struct EntryHistory {
    /// The effective entry, as written.
    pub node: Node,
    /// The entries of all sources, lowest layer first.
    pub written: Vec<(Layer, Node)>,
}

/// All servers and their histories.
pub(crate) struct GatheredServers {
    pub servers: Vec<ConfiguredServer>,
    pub history: BTreeMap<ServerName, EntryHistory>,
}

/// The effective entry of a server so far.
struct ServerCandidate {
    layer: Layer,
    mark: Mark,
    node: Node,
    flavor: Flavor,
    enforced: bool,
    project_file: Option<PathBuf>,
    /// The error for a name that is defined twice in one file.
    duplicate: Option<Finding>,
    shadowed: Vec<(Layer, Mark)>,
    written: Vec<(Layer, Node)>,
}

/// Gathers the servers of all documents and determines the state of each.
pub(crate) fn gather(
    context: &mut LoadContext<'_>,
    documents: &[ConfigDocument],
    arguments: ServerArguments,
    variables: &Variables,
) -> GatheredServers {
    let mut candidates: BTreeMap<ServerName, ServerCandidate> = BTreeMap::new();
    for document in documents {
        for server in &document.split.servers {
            if let Some(name) = checked_name(context, &server.name) {
                add_candidate(context, &mut candidates, document, name, server);
            }
        }
    }
    apply_arguments(context, &mut candidates, arguments);
    let mut gathered = GatheredServers { servers: Vec::new(), history: BTreeMap::new() };
    for (name, candidate) in candidates {
        let server = configured_server(context, variables, &name, &candidate);
        gathered.servers.push(server);
        gathered.history.insert(name, EntryHistory { node: candidate.node, written: candidate.written });
    }
    gathered
}

fn checked_name(context: &mut LoadContext<'_>, key: &MapKey) -> Option<ServerName> {
    match key.text.parse() {
        Ok(_) if is_reserved(&key.text) => {
            let sentence =
                format!("`{}` is not a valid server name: it is reserved for the gateway", key.text);
            context.findings.push(Finding::error("config.bad-name", sentence).at(&context.texts, key.mark));
            None
        }
        Ok(name) => Some(name),
        Err(error) => {
            let finding = Finding::error(
                "config.bad-name",
                format!("`{}` is not a valid server name: {error}", key.text),
            );
            context.findings.push(finding.at(&context.texts, key.mark));
            None
        }
    }
}

/// Names that the catalog uses for built-in tools and for tools of manifests.
fn is_reserved(name: &str) -> bool {
    matches!(name, "_toolbooth" | "_manifest") || name.starts_with("_manifest.")
}

fn is_true(node: &Node, key: &str) -> bool {
    node.get(key).and_then(Node::truth) == Some(true)
}

fn add_candidate(
    context: &mut LoadContext<'_>,
    candidates: &mut BTreeMap<ServerName, ServerCandidate>,
    document: &ConfigDocument,
    name: ServerName,
    server: &RawServer,
) {
    let RawServer { name: key, node, flavor } = server;
    let layer = document.layer;
    let project = layer == Layer::Project;
    let duplicate =
        document.split.duplicates.iter().find(|(duplicate, _)| *duplicate == key.text).map(|(_, second)| {
            let first = context.texts.location(key.mark);
            Finding::error("config.duplicate-name", format!("server `{name}` is defined twice in this file"))
                .at(&context.texts, *second)
                .about(format!("servers.{name}"))
                .hint(format!("the other one is at {}:{}; rename or remove one", first.line, first.column))
        });
    let earlier = candidates.remove(&name);
    let mut candidate = ServerCandidate {
        layer,
        mark: key.mark,
        node: node.clone(),
        flavor: *flavor,
        enforced: is_true(node, "enforced") && !project,
        project_file: document.path.clone().filter(|_| project),
        duplicate,
        shadowed: Vec::new(),
        written: vec![(layer, node.clone())],
    };
    let Some(earlier) = earlier else {
        candidates.insert(name, candidate);
        return;
    };
    if let Some(refusal) = refusal(context, &name, key, node, &earlier, layer) {
        context.findings.push(refusal);
        let mut earlier = earlier;
        earlier.written.push((layer, node.clone()));
        candidates.insert(name, earlier);
        return;
    }
    let is_merged = is_true(node, "merge");
    if is_merged {
        candidate.node = merged_entry(&earlier.node, node);
        candidate.project_file = candidate.project_file.or(earlier.project_file);
        candidate.enforced |= earlier.enforced;
        candidate.shadowed = earlier.shadowed;
        if earlier.flavor == Flavor::FlatAtlas {
            candidate.flavor = Flavor::FlatAtlas;
        }
    } else {
        let sentence = format!(
            "server `{name}` replaces the entry at {} completely",
            context.texts.location(earlier.mark)
        );
        let finding = Finding::warning("config.replaced", sentence)
            .at(&context.texts, key.mark)
            .about(format!("servers.{name}"))
            .hint(r#"add "merge": true here to merge the two entries field by field"#);
        context.findings.push(finding);
        candidate.shadowed = earlier.shadowed;
        candidate.shadowed.push((earlier.layer, earlier.mark));
    }
    candidate.written = earlier.written;
    candidate.written.push((layer, node.clone()));
    candidates.insert(name, candidate);
}

/// The reason why an entry of a project file may not replace an earlier entry, if there is one.
fn refusal(
    context: &LoadContext<'_>,
    name: &ServerName,
    key: &MapKey,
    node: &Node,
    earlier: &ServerCandidate,
    layer: Layer,
) -> Option<Finding> {
    if layer != Layer::Project || earlier.layer >= Layer::Project {
        return None;
    }
    let location = context.texts.location(earlier.mark);
    let (code, sentence) = if earlier.enforced {
        ("config.enforced", format!("a project file may not change server `{name}`: it is enforced"))
    } else if is_true(node, "merge") {
        // A project that could add `args` or `url` to the user's entry could read its secrets.
        (
            "config.merge-refused",
            format!("a project file may not merge into server `{name}` of the {} layer", earlier.layer),
        )
    } else {
        return None;
    };
    let finding =
        Finding::error(code, sentence).at(&context.texts, key.mark).about(format!("servers.{name}"));
    Some(finding.hint(format!("the entry at {location} remains in effect")))
}

/// Applies `servers.NAME.key=value` arguments of the command line.
fn apply_arguments(
    context: &mut LoadContext<'_>,
    candidates: &mut BTreeMap<ServerName, ServerCandidate>,
    arguments: ServerArguments,
) {
    for argument in arguments {
        let rest = argument.path[1..].join(".");
        // Names may contain dots, so the longest matching name wins.
        let name = candidates
            .keys()
            .filter(|name| rest.strip_prefix(name.as_str()).is_some_and(|key| key.starts_with('.')))
            .max_by_key(|name| name.as_str().len())
            .cloned();
        let Some((name, candidate)) = name.and_then(|name| Some((name.clone(), candidates.get_mut(&name)?)))
        else {
            let first = argument.path.get(1).map(String::as_str).unwrap_or_default();
            let mut finding = Finding::error("config.no-server", format!("there is no server `{first}`"))
                .at(&context.texts, argument.node.mark);
            finding.hint = nearest(first, candidates.keys().map(ServerName::as_str))
                .map(|near| format!("did you mean `{near}`?"));
            context.findings.push(finding);
            continue;
        };
        let key = rest[name.as_str().len() + 1..].to_owned();
        let path: Vec<&str> = key.split('.').collect();
        let mark = argument.node.mark;
        let mut fields = Node::empty_map(mark);
        fields.set(&path, mark, argument.node.clone());
        candidate.node.set(&path, mark, argument.node);
        candidate.written.push((Layer::CommandLine, fields));
    }
}

fn configured_server(
    context: &mut LoadContext<'_>,
    variables: &Variables,
    name: &ServerName,
    candidate: &ServerCandidate,
) -> ConfiguredServer {
    let origin = |layer, mark| ConfigOrigin::new(layer, context.texts.location(mark));
    let shadowed = candidate.shadowed.iter().map(|(layer, mark)| origin(*layer, *mark)).collect();
    let own = origin(candidate.layer, candidate.mark);
    let (state, mut findings) = state(context, variables, name, candidate);
    context.findings.append(&mut findings);
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

/// The real path of `cwd` in a project's entry, if it is not the folder beside the file: because of a symbolic link, or
/// because it is found from the folder that the gateway was started in. Trust is bound to it.
fn linked_cwd(context: &LoadContext<'_>, node: &Node) -> Option<PathBuf> {
    let written = node.get("cwd").or_else(|| node.get("working_directory"))?;
    let text = written.text().filter(|text| expand::references(text).is_empty())?;
    let beside = context.texts.folder(written.mark).unwrap_or(&context.sources.cwd);
    let beside = beside.canonicalize().unwrap_or_else(|_| beside.to_owned());
    let plain = context.sources.resolve(Path::new(text), &beside);
    let real = context.sources.cwd_of(Path::new(text), &beside).canonicalize().ok()?;
    (real != plain).then_some(real)
}

fn state(
    context: &LoadContext<'_>,
    variables: &Variables,
    name: &ServerName,
    candidate: &ServerCandidate,
) -> (ServerConfigState, Vec<Finding>) {
    if let Some(duplicate) = &candidate.duplicate {
        return (ServerConfigState::Broken(duplicate.clone()), vec![duplicate.clone()]);
    }
    if !matches!(candidate.node.value, Value::Map(_)) {
        let sentence = format!("server `{name}` must be a map of fields, found {}", candidate.node.kind());
        let finding = Finding::error("config.wrong-type", sentence).at(&context.texts, candidate.node.mark);
        return (ServerConfigState::Broken(finding.clone()), vec![finding]);
    }
    let inputs =
        EntryInputs { sources: context.sources, texts: &context.texts, variables, flavor: candidate.flavor };
    let pending = candidate.project_file.as_ref().and_then(|file| {
        let preview = trust::preview_entry(&candidate.node, linked_cwd(context, &candidate.node).as_deref());
        let trusted = context.sources.trust.is_trusted(file, name.as_str(), &preview.digest);
        (!trusted).then_some((file, preview))
    });
    let expansion = if pending.is_some() { Expansion::Withheld } else { Expansion::Strict };
    let (entry, findings) = entry::normalise(&inputs, name, &candidate.node, expansion);
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
        // The server runs in the trusted folder, even if the link changes later.
        *cwd = real;
    }
    let state = match (entry.enabled, pending) {
        (false, _) => ServerConfigState::Disabled(Box::new(entry)),
        (true, Some((file, preview))) => {
            let changed_from = context.sources.trust.changes(file, name.as_str(), &preview);
            let digest = preview.digest.clone();
            ServerConfigState::NeedsTrust { entry_preview: preview, digest, changed_from }
        }
        (true, None) => ServerConfigState::Ready(Box::new(entry)),
    };
    (state, findings)
}
