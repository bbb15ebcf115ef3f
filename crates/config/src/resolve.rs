//! Resolves the settings of all layers: merges, expands, types and checks them.

use crate::bounded_file::{read_bounded, unreadable};
use crate::checks;
use crate::context::{ConfigDocument, LoadContext, UntrustedSettings};
use crate::dialect::FileKind;
use crate::environment::Argument;
use crate::expand::{self, Variables};
use crate::finding::Finding;
use crate::inputs::FileDiscovery;
use crate::layer::Layer;
use crate::layers;
use crate::manifest::ManifestFolders;
use crate::merge::SettingsMerger;
use crate::node::{MapKey, Mark, Node, PathStep, TextId};
use crate::ownership;
use crate::parse;
use crate::read::{ReadErrorKind, read_all};
use crate::report::{self, ReadSubject};
use crate::sealed_values::open_values;
use crate::settings::{ManifestSettings, RuleLayer, RuleSettings, Settings};
use crate::suggest::nearest;
use crate::trust;
use std::path::{Path, PathBuf};
use toolbooth_core::secret::SecretText;

/// The resolved settings, and the data that `config explain` needs.
pub(crate) struct ResolvedSettings {
    pub settings: Settings,
    pub merged: Node,
    /// The rules of each layer as written, lowest layer first.
    pub rules: Vec<(Layer, Node)>,
    pub untrusted: Vec<UntrustedSettings>,
    pub trust_dir: PathBuf,
}

/// Settings whose errors stop the load, because their defaults could be less restrictive.
const PROTECTIVE: [&str; 21] = [
    "hooks",
    "listen",
    "data_dir",
    "store",
    "blobs",
    "auth",
    "groups",
    "personas",
    "prompts",
    "policy",
    "approval",
    "files",
    "dead_letters",
    "compliance",
    "allow_tools",
    "deny_tools",
    "allow_server_tools",
    "deny_server_tools",
    "environment",
    "allowed_hosts",
    "allowed_origins",
];

/// Resolves the settings of all layers.
pub(crate) fn settings(
    context: &mut LoadContext<'_>,
    documents: &[ConfigDocument],
    arguments: Vec<Argument>,
    variables: &mut Variables,
) -> ResolvedSettings {
    let mut untrusted = Vec::new();
    let texts = context.texts.clone();
    let mut merger = SettingsMerger::new(&texts, Mark::new(TextId(0), 0, 0));
    for document in documents {
        let settings = trusted_part(context, document, &mut untrusted);
        merger.merge(document.layer, settings);
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
        merger.merge(Layer::CommandLine, settings);
    }
    let SettingsMerger { mut merged, rules, mut findings, .. } = merger;
    context.findings.append(&mut findings);
    let written = merged.clone();
    env_files(context, documents, &merged, variables);
    expand(context, &mut merged, variables);
    let mut settings = read_settings(context, &merged);
    settings.policy.layers = rules
        .iter()
        .filter_map(|(layer, node)| {
            let rules = read_rules(context, node.clone(), variables)?;
            Some(RuleLayer { layer: *layer, rules })
        })
        .collect();
    resolve_paths(context, &merged, documents, &mut settings);
    checks::settings(context, &merged, &settings);
    let trust_dir = data_dir(context, trust_dir.as_ref(), variables);
    ResolvedSettings { settings, merged: written, rules, untrusted, trust_dir }
}

/// The `data_dir` setting of the highest layer, ignoring project files.
fn own_data_dir(documents: &[ConfigDocument]) -> Option<Node> {
    let own = documents.iter().rev().filter(|document| document.layer != Layer::Project);
    own.filter_map(|document| document.split.settings.get("data_dir")).next().cloned()
}

fn data_dir(context: &LoadContext<'_>, written: Option<&Node>, variables: &Variables) -> PathBuf {
    let named = written.and_then(|node| {
        let text = node.text()?;
        let path = expand::expand(text, variables).ok()?.unwrap_or_else(|| text.to_owned());
        Some(resolve_path(context, node.mark, Path::new(&path)))
    });
    match (&context.sources.data_dir, named) {
        (Some(path), _) => context.sources.absolute(path),
        (None, Some(path)) => path,
        (None, None) => context.sources.default_data_dir(),
    }
}

/// The settings of a document if they are trusted, else an empty map; then reports that they wait for trust.
fn trusted_part(
    context: &mut LoadContext<'_>,
    document: &ConfigDocument,
    untrusted: &mut Vec<UntrustedSettings>,
) -> Node {
    let settings = document.split.settings.clone();
    let (false, Some(file)) = (document.settings_trusted, &document.path) else { return settings };
    let preview = trust::preview_settings(&settings);
    let members = settings.members().unwrap_or_default();
    if members.is_empty() || context.sources.trust.is_trusted(file, trust::SETTINGS, &preview.digest) {
        return settings;
    }
    let known = crate::schema::setting_names();
    let waiting: Vec<&MapKey> =
        members.iter().map(|(key, _)| key).filter(|key| known.contains(&key.text.as_str())).collect();
    check_untrusted(context, document);
    if let Some(first) = waiting.first() {
        let keys: Vec<String> = waiting.iter().map(|key| key.text.clone()).collect();
        let sentence = format!("these settings of a project file wait for trust: `{}`", keys.join("`, `"));
        let finding = Finding::warning("config.needs-trust", sentence)
            .at(&context.texts, first.mark)
            .hint("review the file, then run `toolbooth trust`, or name the file with --config");
        context.findings.push(finding);
        untrusted.push(UntrustedSettings { file: file.clone(), preview, keys });
    }
    // Ignore the whole file: even a harmless setting may change the effect of the user's rules.
    Node::empty_map(settings.mark)
}

/// Reports errors in settings that wait for trust. Their variables are not expanded, and their errors do not stop the
/// load, because the settings are not in effect.
fn check_untrusted(context: &mut LoadContext<'_>, document: &ConfigDocument) {
    let settings = &document.split.settings;
    let (read, errors) = read_all::<Settings>(settings);
    let subject = ReadSubject { name: "", key: "", also_known: &crate::dialect::SERVER_KEYS };
    for error in &errors {
        // The values of variables are not known here.
        let path: Vec<String> = error.path.iter().map(step_text).collect();
        if settings.at(&path).is_some_and(expand::refers) {
            continue;
        }
        let mut finding = report::finding(&context.texts, &subject, error);
        let is_top = matches!(error.kind, ReadErrorKind::UnknownKey { .. }) && error.path.len() == 1;
        if is_top && document.kind == FileKind::Servers {
            finding.severity = crate::finding::Severity::Warning;
        }
        context.findings.push(finding);
    }
    let rules = settings.at(&["policy", "rules"]);
    for (index, rule) in read.iter().flat_map(|read| &read.policy.rules).enumerate() {
        let node = rules.and_then(|rules| rules.elements()?.get(index));
        if let Some(node) = node.filter(|node| !expand::refers(node)) {
            let mut findings = checks::rule(context, rule, node.mark);
            context.findings.append(&mut findings);
        }
    }
}

fn step_text(step: &PathStep) -> String {
    match step {
        PathStep::Key(key) => key.clone(),
        PathStep::Index(index) => index.to_string(),
    }
}

/// Reads the files with variables, so that the first one that sets a variable wins: those named in `env_file` by all layers,
/// highest layer first, then the user's secrets, then those of imports.
fn env_files(
    context: &mut LoadContext<'_>,
    documents: &[ConfigDocument],
    merged: &Node,
    variables: &mut Variables,
) {
    let trusted =
        documents.iter().filter(|document| is_trusted(context, document) || document.path.is_none());
    let mut nodes: Vec<Node> =
        trusted.filter_map(|document| document.split.settings.get("env_file").cloned()).collect();
    nodes.extend(merged.get("env_file").cloned());
    let secrets = context.sources.secrets_file();
    let imported = context.sources.imported_secrets_file();
    let mut read: Vec<PathBuf> = Vec::new();
    let mut imported_mark = None;
    for node in nodes.iter().rev() {
        let Some(written) = node.text() else { continue };
        let Ok(text) = expand::expand(written, variables) else { continue };
        let path = resolve_path(context, node.mark, Path::new(text.as_deref().unwrap_or(written)));
        if read.contains(&path) {
            continue;
        }
        // The file that an import wrote names it, and the user's secrets come first.
        if imported.as_ref() == Some(&path) {
            imported_mark = Some(node.mark);
            continue;
        }
        read.push(path.clone());
        env_file(context, Some(node.mark), path, variables);
    }
    if let Some(path) = secrets.filter(|path| !read.contains(path)) {
        optional_env_file(context, path, variables);
    }
    // The variables of imported entries may be added later, when the file with the entries does not name the other.
    let has_imported = documents.iter().any(|document| {
        let variables = document.path.as_deref().and_then(layers::imported_variables);
        document.layer == Layer::User && variables.is_some()
    });
    match imported {
        Some(path) if imported_mark.is_some() => env_file(context, imported_mark, path, variables),
        Some(path) if has_imported => optional_env_file(context, path, variables),
        _ => {}
    }
}

/// Reads a file with variables that need not exist; it is watched, because it may appear later.
fn optional_env_file(context: &mut LoadContext<'_>, path: PathBuf, variables: &mut Variables) {
    match path.exists() {
        true => env_file(context, None, path, variables),
        false => context.files.push(path),
    }
}

/// Reads a file with variables. `named` is the place that names it.
fn env_file(context: &mut LoadContext<'_>, named: Option<Mark>, path: PathBuf, variables: &mut Variables) {
    context.files.push(path.clone());
    // Its variables become parts of commands and URLs.
    if let Some(refusal) = ownership::refusal(context.sources, &path) {
        context.findings.push(refusal);
        return;
    }
    match read_bounded(&path) {
        Ok(bytes) => match parse::dotenv::parse(&mut context.texts, &path, &bytes) {
            Ok(more) => {
                let sealer = context.sources.sealer.as_deref();
                context.findings.extend(open_values(sealer, &path, more, variables));
            }
            Err(finding) => context.findings.push(*finding),
        },
        Err(error) => context.findings.push(match named {
            Some(mark) => {
                let cause = unreadable(&path, &error, "the file named in `env_file`");
                let sentence = format!("{}: `{}`", cause.message, path.display());
                Finding::error(cause.code, sentence).at(&context.texts, mark).about("env_file")
            }
            None => unreadable(&path, &error, "the file with secrets"),
        }),
    }
}

fn expand(context: &mut LoadContext<'_>, merged: &mut Node, variables: &Variables) {
    let mut errors = expand::expand_tree(merged, variables);
    // Prune from the end, so that list indexes remain valid.
    errors.reverse();
    for expand::Unexpanded { path, mark, error } in errors {
        let key = crate::read::dotted(&path);
        let mut finding = Finding::error("config.variable", format!("`{key}`: {error}"))
            .at(&context.texts, mark)
            .about(key);
        finding.hint = error.hint();
        note(context, &path, finding);
        merged.prune(&path);
    }
}

/// Adds a finding. An error in a protective setting stops the load; other settings keep their default.
fn note(context: &mut LoadContext<'_>, path: &[PathStep], finding: Finding) {
    let section = match path.first() {
        Some(PathStep::Key(key)) => key.as_str(),
        _ => "",
    };
    if PROTECTIVE.contains(&section) { context.fatal(finding) } else { context.findings.push(finding) }
}

fn read_settings(context: &mut LoadContext<'_>, merged: &Node) -> Settings {
    let (settings, errors) = read_all::<Settings>(merged);
    let subject = ReadSubject { name: "", key: "", also_known: &crate::dialect::SERVER_KEYS };
    for error in &errors {
        let finding = report::finding(&context.texts, &subject, error);
        match (&error.kind, error.path.as_slice()) {
            (ReadErrorKind::UnknownKey { key, known }, [PathStep::Key(_)]) => {
                unknown_top(context, merged, key, known, finding);
            }
            (_, path) => note(context, path, finding),
        }
    }
    settings.unwrap_or_default()
}

fn unknown_top(
    context: &mut LoadContext<'_>,
    merged: &Node,
    key: &str,
    known: &[&str],
    mut finding: Finding,
) {
    let foreign = finding.file.as_deref().map(layers::kind_of) == Some(FileKind::Servers);
    if merged.get(key).is_some_and(|node| crate::dialect::looks_like_server(key, node)) {
        finding = finding.label("this looks like a server").hint("put it under `servers`");
    } else if foreign {
        // Other programs may use the same file.
        finding.severity = crate::finding::Severity::Warning;
    }
    let meant = nearest(key, known.iter().copied());
    match meant {
        Some(meant) if PROTECTIVE.contains(&meant) && finding.is_error() => context.fatal(finding),
        _ => context.findings.push(finding),
    }
}

fn read_rules(
    context: &mut LoadContext<'_>,
    mut node: Node,
    variables: &Variables,
) -> Option<Vec<RuleSettings>> {
    for expand::Unexpanded { mark, error, .. } in expand::expand_tree(&mut node, variables) {
        let finding =
            Finding::error("config.variable", format!("`policy.rules`: {error}")).at(&context.texts, mark);
        context.fatal(finding);
    }
    let (rules, errors) = read_all::<Vec<RuleSettings>>(&node);
    let subject = ReadSubject { name: "", key: "policy.rules", also_known: &[] };
    for error in &errors {
        let finding = report::finding(&context.texts, &subject, error);
        context.fatal(finding);
    }
    for (index, rule) in rules.iter().flatten().enumerate() {
        let mark = node.elements().and_then(|rules| rules.get(index)).map_or(node.mark, |rule| rule.mark);
        for finding in checks::rule(context, rule, mark) {
            context.fatal(finding);
        }
    }
    rules
}

/// Resolves a path that is written at `mark`.
pub(crate) fn resolve_path(context: &LoadContext<'_>, mark: Mark, path: &Path) -> PathBuf {
    let folder = context.texts.folder(mark).unwrap_or(&context.sources.cwd);
    context.sources.resolve(path, folder)
}

/// Makes all paths absolute, and fills in the defaults that depend on the data directory.
fn resolve_paths(
    context: &mut LoadContext<'_>,
    merged: &Node,
    documents: &[ConfigDocument],
    settings: &mut Settings,
) {
    let mark = |path: &[&str]| merged.at(path).map_or(merged.mark, |node| node.mark);
    settings.data_dir = match (&context.sources.data_dir, merged.get("data_dir")) {
        (Some(path), _) => context.sources.absolute(path),
        (None, Some(node)) => resolve_path(context, node.mark, &settings.data_dir),
        (None, None) => context.sources.default_data_dir(),
    };
    let file =
        |context: &LoadContext<'_>, url: Option<SecretText>, scheme: &str, key: &str, default: &str| {
            let Some(url) = url else {
                let path = settings.data_dir.join(default);
                return Some(SecretText::plain(format!("{scheme}{}", path.display())));
            };
            match url.expose().strip_prefix(scheme) {
                Some(path) if !path.is_empty() => {
                    let whole = resolve_path(context, mark(&[key, "url"]), Path::new(path));
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
    settings.store.url = file(context, settings.store.url.take(), "sqlite:", "store", "toolbooth.db");
    settings.blobs.url = file(context, settings.blobs.url.take(), "file:", "blobs", "blobs");
    if let Some(path) = settings.env_file.take() {
        let whole = resolve_path(context, mark(&["env_file"]), Path::new(path.expose()));
        settings.env_file = Some(SecretText::plain(whole.to_string_lossy()));
    }
    manifests(context, merged, documents, settings);
}

/// Resolves the manifest folders: relative to the file that names them, or by default next to each `toolbooth.*` file and
/// in the user's configuration folder, which needs no such file.
fn manifests(
    context: &mut LoadContext<'_>,
    merged: &Node,
    documents: &[ConfigDocument],
    settings: &mut Settings,
) {
    let mut beside: Vec<PathBuf> = documents
        .iter()
        // A file without settings needs no trust; each manifest next to it still does.
        .filter(|document| {
            let is_bare = document.split.settings.members().is_none_or(|members| members.is_empty());
            document.kind == FileKind::Whole && (is_bare || is_trusted(context, document))
        })
        .filter_map(|document| Some(document.path.as_ref()?.parent()?.to_owned()))
        .fold(Vec::new(), |mut folders, folder| {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
            folders
        });
    let is_discovered = context.sources.discovery != FileDiscovery::NamedOnly;
    let own = context.sources.user_dir().filter(|own| is_discovered && !beside.contains(own));
    if let Some(own) = &own {
        // Before the folders of higher layers.
        let system = beside.iter().take_while(|folder| **folder == context.sources.system_dir).count();
        beside.insert(system, own.clone());
    }
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
            let mut folders = Vec::new();
            for folder in &beside {
                let usual = usual_folders(context, key, list, folder);
                let (found, missing): (Vec<PathBuf>, Vec<PathBuf>) = match own.as_ref() == Some(folder) {
                    true => usual.into_iter().partition(|path| path.is_dir()),
                    false => (usual, Vec::new()),
                };
                folders.extend(found);
                // It may be added.
                context.files.extend(missing);
            }
            *list = folders;
            continue;
        };
        for (index, path) in list.iter_mut().enumerate() {
            let mark = node.elements().and_then(|nodes| nodes.get(index)).map_or(node.mark, |node| node.mark);
            *path = resolve_path(context, mark, path);
            if !path.exists() {
                let sentence = format!("the folder `{}` of `manifests.{key}` does not exist", path.display());
                let finding = Finding::warning("config.no-folder", sentence).at(&context.texts, mark);
                context.findings.push(finding.about(format!("manifests.{key}")));
            }
        }
    }
}

/// The manifest folders beside a file that names none. ATLAS writes `Personas`.
fn usual_folders(context: &LoadContext<'_>, key: &str, list: &[PathBuf], folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = list.iter().map(|path| context.sources.resolve(path, folder)).collect();
    let capital = folder.join("Personas");
    let is_new = |path: &Path| {
        let real = path.canonicalize().ok();
        !folders.iter().any(|known| known.canonicalize().ok() == real)
    };
    if key == "personas" && capital.is_dir() && is_new(&capital) {
        folders.push(capital);
    }
    folders
}

/// The folders of tool manifests that project files name whose settings wait for trust.
pub(crate) fn waiting_manifests(
    context: &LoadContext<'_>,
    documents: &[ConfigDocument],
) -> Vec<ManifestFolders> {
    let waits = |document: &&ConfigDocument| {
        let has_settings = document.split.settings.members().is_some_and(|members| !members.is_empty());
        document.kind == FileKind::Whole
            && document.path.is_some()
            && has_settings
            && !is_trusted(context, document)
    };
    let usual = ManifestSettings::default();
    let of_document = |document: &ConfigDocument| {
        let beside = document.path.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
        let folders = |key: &str, list: &[PathBuf]| match document.split.settings.at(&["manifests", key]) {
            None => usual_folders(context, key, list, beside),
            Some(node) => {
                // Variables of an untrusted file are not expanded.
                let texts = node.elements().map_or_else(|| vec![node], |nodes| nodes.iter().collect());
                let plain = texts.into_iter().filter(|node| !expand::refers(node));
                plain
                    .filter_map(|node| Some(resolve_path(context, node.mark, Path::new(node.text()?))))
                    .collect()
            }
        };
        ManifestFolders {
            tools: folders("tools", &usual.tools),
            personas: folders("personas", &usual.personas),
            skills: folders("skills", &usual.skills),
            jobs: folders("jobs", &usual.jobs),
            tasks: folders("tasks", &usual.tasks),
        }
    };
    documents.iter().filter(waits).map(of_document).collect()
}

fn is_trusted(context: &LoadContext<'_>, document: &ConfigDocument) -> bool {
    let Some(path) = &document.path else { return false };
    let digest = || trust::preview_settings(&document.split.settings).digest;
    document.settings_trusted || context.sources.trust.is_trusted(path, trust::SETTINGS, &digest())
}
