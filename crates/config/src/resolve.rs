//! Settings of all layers: merged, expanded, typed, and checked against each other.

use crate::checks;
use crate::dialect::FileKind;
use crate::environment::Argument;
use crate::expand::{self, Variables};
use crate::finding::Finding;
use crate::layer::Layer;
use crate::load::{Desk, Document, UntrustedSettings, unreadable};
use crate::merge::Merger;
use crate::node::{Key, Mark, Node, Step, TextId};
use crate::ownership;
use crate::parse;
use crate::read::{ReadErrorKind, read_all};
use crate::report::{self, Subject};
use crate::settings::{Rule, RuleLayer, Settings};
use crate::suggest::nearest;
use crate::trust;
use std::path::{Path, PathBuf};
use toolbooth_core::secret::SecretText;

/// Settings, and what is needed to explain them.
pub(crate) struct Resolved {
    pub settings: Settings,
    pub merged: Node,
    pub untrusted: Vec<UntrustedSettings>,
    pub trust_dir: PathBuf,
}

/// Settings that protect: with an error in one of these, going on with a default would open a door.
const PROTECTIVE: [&str; 17] = [
    "listen",
    "data_dir",
    "store",
    "blobs",
    "auth",
    "groups",
    "personas",
    "policy",
    "approval",
    "files",
    "dead_letters",
    "compliance",
    "allow_tools",
    "deny_tools",
    "environment",
    "allowed_hosts",
    "allowed_origins",
];

/// The settings that all layers together mean.
pub(crate) fn settings(
    desk: &mut Desk<'_>,
    documents: &[Document],
    arguments: Vec<Argument>,
    variables: &mut Variables,
) -> Resolved {
    let mut untrusted = Vec::new();
    let texts = desk.texts.clone();
    let mut merger = Merger::new(&texts, Mark::new(TextId(0), 0, 0));
    for document in documents {
        let settings = trusted_part(desk, document, &mut untrusted);
        merger.lay(document.layer, settings);
    }
    let mut trust_dir = own_data_dir(documents);
    for argument in arguments {
        if argument.path == ["data_dir"] {
            trust_dir = Some(argument.node.clone());
        }
        let mark = argument.node.mark;
        let path: Vec<&str> = argument.path.iter().map(String::as_str).collect();
        let mut settings = Node::empty_map(mark);
        settings.set(&path, mark, argument.node);
        merger.lay(Layer::CommandLine, settings);
    }
    let Merger { mut merged, rules, mut findings, .. } = merger;
    desk.findings.append(&mut findings);
    let written = merged.clone();
    env_files(desk, documents, &merged, variables);
    expand(desk, &mut merged, variables);
    let mut settings = typed(desk, &merged);
    settings.policy.layers = rules
        .into_iter()
        .filter_map(|(layer, node)| Some(RuleLayer { layer, rules: typed_rules(desk, node, variables)? }))
        .collect();
    place(desk, &merged, documents, &mut settings);
    checks::settings(desk, &merged, &settings);
    let trust_dir = data_dir(desk, trust_dir.as_ref(), variables);
    Resolved { settings, merged: written, untrusted, trust_dir }
}

/// The data directory that somebody other than a project file names.
fn own_data_dir(documents: &[Document]) -> Option<Node> {
    let own = documents.iter().rev().filter(|document| document.layer != Layer::Project);
    own.filter_map(|document| document.split.settings.get("data_dir")).next().cloned()
}

fn data_dir(desk: &Desk<'_>, written: Option<&Node>, variables: &Variables) -> PathBuf {
    let named = written.and_then(|node| {
        let text = node.text()?;
        let path = expand::expand(text, variables).ok()?.unwrap_or_else(|| text.to_owned());
        Some(resolve_path(desk, node.mark, Path::new(&path)))
    });
    match (&desk.sources.data_dir, named) {
        (Some(path), _) => desk.sources.absolute(path),
        (None, Some(path)) => path,
        (None, None) => desk.sources.default_data_dir(),
    }
}

/// What of a file's settings counts now; the rest waits for trust.
fn trusted_part(desk: &mut Desk<'_>, document: &Document, untrusted: &mut Vec<UntrustedSettings>) -> Node {
    let settings = document.split.settings.clone();
    let (false, Some(file)) = (document.settings_trusted, &document.path) else { return settings };
    let preview = trust::preview_settings(&settings);
    let members = settings.members().unwrap_or_default();
    if members.is_empty() || desk.sources.trust.is_trusted(file, trust::SETTINGS, &preview.digest) {
        return settings;
    }
    let known = crate::schema::setting_names();
    let waiting: Vec<&Key> =
        members.iter().map(|(key, _)| key).filter(|key| known.contains(&key.text.as_str())).collect();
    check_untrusted(desk, document);
    if let Some(first) = waiting.first() {
        let keys: Vec<String> = waiting.iter().map(|key| key.text.clone()).collect();
        let sentence = format!("these settings of a project file wait for trust: `{}`", keys.join("`, `"));
        let finding = Finding::warning("config.needs-trust", sentence)
            .at(&desk.texts, first.mark)
            .hint("look at the file, then run `toolbooth trust`; or name it with --config");
        desk.findings.push(finding);
        untrusted.push(UntrustedSettings { file: file.clone(), preview, keys });
    }
    // Nothing of it counts: what looks harmless may change how the user's rules read.
    Node::empty_map(settings.mark)
}

/// Reports what is wrong with settings that wait for trust. Nothing in them is expanded, and no error in them stops
/// the load: they do not count.
fn check_untrusted(desk: &mut Desk<'_>, document: &Document) {
    let settings = &document.split.settings;
    let (read, errors) = read_all::<Settings>(settings);
    let subject = Subject { name: "", key: "", also_known: &crate::dialect::SERVER_KEYS };
    for error in &errors {
        // What a variable holds is not known here.
        let path: Vec<String> = error.path.iter().map(step_text).collect();
        if settings.at(&path).is_some_and(expand::refers) {
            continue;
        }
        let mut finding = report::finding(&desk.texts, &subject, error);
        let is_top = matches!(error.kind, ReadErrorKind::UnknownKey { .. }) && error.path.len() == 1;
        if is_top && document.kind == FileKind::Servers {
            finding.severity = crate::finding::Severity::Warning;
        }
        desk.findings.push(finding);
    }
    let rules = settings.at(&["policy", "rules"]);
    for (index, rule) in read.iter().flat_map(|read| &read.policy.rules).enumerate() {
        let node = rules.and_then(|rules| rules.elements()?.get(index));
        if let Some(node) = node.filter(|node| !expand::refers(node)) {
            let mut findings = checks::rule(desk, rule, node.mark);
            desk.findings.append(&mut findings);
        }
    }
}

fn step_text(step: &Step) -> String {
    match step {
        Step::Key(key) => key.clone(),
        Step::Index(index) => index.to_string(),
    }
}

/// Reads the variables of the files that settings name: those of every layer, higher ones first.
fn env_files(desk: &mut Desk<'_>, documents: &[Document], merged: &Node, variables: &mut Variables) {
    let trusted = documents.iter().filter(|document| is_trusted(desk, document) || document.path.is_none());
    let mut nodes: Vec<Node> =
        trusted.filter_map(|document| document.split.settings.get("env_file").cloned()).collect();
    nodes.extend(merged.get("env_file").cloned());
    let mut read: Vec<PathBuf> = Vec::new();
    for node in nodes.iter().rev() {
        let Some(written) = node.text() else { continue };
        let Ok(text) = expand::expand(written, variables) else { continue };
        let path = resolve_path(desk, node.mark, Path::new(text.as_deref().unwrap_or(written)));
        if read.contains(&path) {
            continue;
        }
        read.push(path.clone());
        env_file(desk, node.mark, path, variables);
    }
}

fn env_file(desk: &mut Desk<'_>, mark: Mark, path: PathBuf, variables: &mut Variables) {
    desk.files.push(path.clone());
    // Its variables become parts of commands and addresses.
    if let Some(refusal) = ownership::refusal(desk.sources, &path) {
        desk.findings.push(refusal);
        return;
    }
    match std::fs::read(&path) {
        Ok(bytes) => match parse::dotenv::parse(&mut desk.texts, &path, &bytes) {
            Ok(more) => variables.add_missing(more),
            Err(finding) => desk.findings.push(*finding),
        },
        Err(error) => {
            let place = unreadable(&path, &error, "the file of `env_file`");
            let sentence = format!("{}: `{}`", place.message, path.display());
            let finding = Finding::error(place.code, sentence).at(&desk.texts, mark).about("env_file");
            desk.findings.push(finding);
        }
    }
}

fn expand(desk: &mut Desk<'_>, merged: &mut Node, variables: &Variables) {
    let mut errors = expand::expand_tree(merged, variables);
    // From the back, so that the indexes of lists stay true.
    errors.reverse();
    for expand::Unexpanded { path, mark, error } in errors {
        let key = crate::read::dotted(&path);
        let mut finding =
            Finding::error("config.variable", format!("`{key}`: {error}")).at(&desk.texts, mark).about(key);
        finding.hint = error.hint();
        note(desk, &path, finding);
        merged.prune(&path);
    }
}

/// An error in a protective setting stops the load; another leaves the default in place.
fn note(desk: &mut Desk<'_>, path: &[Step], finding: Finding) {
    let section = match path.first() {
        Some(Step::Key(key)) => key.as_str(),
        _ => "",
    };
    if PROTECTIVE.contains(&section) { desk.fatal(finding) } else { desk.findings.push(finding) }
}

fn typed(desk: &mut Desk<'_>, merged: &Node) -> Settings {
    let (settings, errors) = read_all::<Settings>(merged);
    let subject = Subject { name: "", key: "", also_known: &crate::dialect::SERVER_KEYS };
    for error in &errors {
        let finding = report::finding(&desk.texts, &subject, error);
        match (&error.kind, error.path.as_slice()) {
            (ReadErrorKind::UnknownKey { key, known }, [Step::Key(_)]) => {
                unknown_top(desk, merged, key, known, finding);
            }
            (_, path) => note(desk, path, finding),
        }
    }
    settings.unwrap_or_default()
}

fn unknown_top(desk: &mut Desk<'_>, merged: &Node, key: &str, known: &[&str], mut finding: Finding) {
    let foreign = finding.file.as_deref().map(crate::layers::kind_of) == Some(FileKind::Servers);
    if merged.get(key).is_some_and(|node| crate::dialect::looks_like_server(key, node)) {
        finding = finding.label("this looks like a server").hint("put it under `servers`");
    } else if foreign {
        // The file belongs to several programs.
        finding.severity = crate::finding::Severity::Warning;
    }
    let meant = nearest(key, known.iter().copied());
    match meant {
        Some(meant) if PROTECTIVE.contains(&meant) && finding.is_error() => desk.fatal(finding),
        _ => desk.findings.push(finding),
    }
}

fn typed_rules(desk: &mut Desk<'_>, mut node: Node, variables: &Variables) -> Option<Vec<Rule>> {
    for expand::Unexpanded { mark, error, .. } in expand::expand_tree(&mut node, variables) {
        let finding =
            Finding::error("config.variable", format!("`policy.rules`: {error}")).at(&desk.texts, mark);
        desk.fatal(finding);
    }
    let (rules, errors) = read_all::<Vec<Rule>>(&node);
    let subject = Subject { name: "", key: "policy.rules", also_known: &[] };
    for error in &errors {
        let finding = report::finding(&desk.texts, &subject, error);
        desk.fatal(finding);
    }
    for (index, rule) in rules.iter().flatten().enumerate() {
        let mark = node.elements().and_then(|rules| rules.get(index)).map_or(node.mark, |rule| rule.mark);
        for finding in checks::rule(desk, rule, mark) {
            desk.fatal(finding);
        }
    }
    rules
}

/// The path that a text at `mark` means.
pub(crate) fn resolve_path(desk: &Desk<'_>, mark: Mark, path: &Path) -> PathBuf {
    let folder = desk.texts.folder(mark).unwrap_or(&desk.sources.cwd);
    desk.sources.resolve(path, folder)
}

/// Turns every path into a whole one, and fills in those that hang on the data directory.
fn place(desk: &mut Desk<'_>, merged: &Node, documents: &[Document], settings: &mut Settings) {
    let mark = |path: &[&str]| merged.at(path).map_or(merged.mark, |node| node.mark);
    settings.data_dir = match (&desk.sources.data_dir, merged.get("data_dir")) {
        (Some(path), _) => desk.sources.absolute(path),
        (None, Some(node)) => resolve_path(desk, node.mark, &settings.data_dir),
        (None, None) => desk.sources.default_data_dir(),
    };
    let file = |desk: &Desk<'_>, url: Option<SecretText>, scheme: &str, key: &str, default: &str| {
        let Some(url) = url else {
            let path = settings.data_dir.join(default);
            return Some(SecretText::plain(format!("{scheme}{}", path.display())));
        };
        match url.expose().strip_prefix(scheme) {
            Some(path) if !path.is_empty() => {
                let whole = resolve_path(desk, mark(&[key, "url"]), Path::new(path));
                let shown = if url.shown() == url.expose() {
                    format!("{scheme}{}", whole.display())
                } else {
                    url.shown().to_owned()
                };
                Some(SecretText::expanded(shown, format!("{scheme}{}", whole.display())))
            }
            _ => Some(url),
        }
    };
    settings.store.url = file(desk, settings.store.url.take(), "sqlite:", "store", "toolbooth.db");
    settings.blobs.url = file(desk, settings.blobs.url.take(), "file:", "blobs", "blobs");
    if let Some(path) = settings.env_file.take() {
        let whole = resolve_path(desk, mark(&["env_file"]), Path::new(path.expose()));
        settings.env_file = Some(SecretText::plain(whole.to_string_lossy()));
    }
    manifests(desk, merged, documents, settings);
}

/// Manifest folders stand beside the file that names them, or beside every file of ours when none does.
fn manifests(desk: &mut Desk<'_>, merged: &Node, documents: &[Document], settings: &mut Settings) {
    let beside: Vec<PathBuf> = documents
        .iter()
        // Where there is nothing to trust in the file itself, each manifest beside it still waits for trust.
        .filter(|document| {
            let is_bare = document.split.settings.members().is_none_or(|members| members.is_empty());
            document.kind == FileKind::Whole && (is_bare || is_trusted(desk, document))
        })
        .filter_map(|document| Some(document.path.as_ref()?.parent()?.to_owned()))
        .fold(Vec::new(), |mut folders, folder| {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
            folders
        });
    let lists = &mut settings.manifests;
    let named = [
        ("tools", &mut lists.tools),
        ("personas", &mut lists.personas),
        ("skills", &mut lists.skills),
        ("jobs", &mut lists.jobs),
        ("tasks", &mut lists.tasks),
    ];
    for (key, list) in named {
        let Some(node) = merged.at(&["manifests", key]) else {
            *list = beside
                .iter()
                .flat_map(|folder| list.iter().map(|path| desk.sources.resolve(path, folder)))
                .collect();
            continue;
        };
        for (index, path) in list.iter_mut().enumerate() {
            let mark = node.elements().and_then(|nodes| nodes.get(index)).map_or(node.mark, |node| node.mark);
            *path = resolve_path(desk, mark, path);
            if !path.exists() {
                let sentence = format!("the folder `{}` of `manifests.{key}` does not exist", path.display());
                let finding = Finding::warning("config.no-folder", sentence).at(&desk.texts, mark);
                desk.findings.push(finding.about(format!("manifests.{key}")));
            }
        }
    }
}

fn is_trusted(desk: &Desk<'_>, document: &Document) -> bool {
    let Some(path) = &document.path else { return false };
    let digest = || trust::preview_settings(&document.split.settings).digest;
    document.settings_trusted || desk.sources.trust.is_trusted(path, trust::SETTINGS, &digest())
}
