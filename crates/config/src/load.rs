//! Loads all configuration files into settings and servers, and collects the findings.

use crate::bounded_file::{read_bounded, unreadable};
use crate::context::{ConfigDocument, LoadContext};
use crate::dialect::{self, FileKind, SplitFile};
use crate::environment;
use crate::expand::Variables;
use crate::finding::Finding;
use crate::inputs::{GoodManifests, Sources};
use crate::layer::Layer;
use crate::layers::{self, FilePresence, PlannedFile};
use crate::loaded_config::LoadedConfig;
use crate::manifest::{self, GatheredManifests, GatheredSkills, GatheredWorkflows, ManifestInputs};
use crate::node::{Node, Value};
use crate::ownership;
use crate::parse;
use crate::sealed_values::open_values;
use crate::servers;
use crate::texts::SourceTexts;
use crate::trust::{TrustBook, TrustError};
use crate::{checks, resolve, schema};
use std::path::{Path, PathBuf};

/// A failed load. At least one finding is an error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", sentence(.findings))]
pub struct LoadFailure {
    /// The reasons.
    pub findings: Vec<Finding>,
    /// All files that were read or looked for; they are watched for changes.
    pub files: Vec<PathBuf>,
}

impl LoadFailure {
    /// Whether an error on the command line is among the reasons.
    pub fn is_misuse(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_error() && finding.is_on_command_line())
    }
}

fn sentence(findings: &[Finding]) -> String {
    let mut errors = findings.iter().filter(|finding| finding.is_error());
    match (errors.next(), errors.count()) {
        (Some(first), 0) => first.to_string(),
        (Some(first), more) => format!("{first} (and {more} more)"),
        (None, _) => "the configuration could not be loaded".to_owned(),
    }
}

impl toolbooth_core::fault::Fault for LoadFailure {
    fn code(&self) -> &'static str {
        self.findings
            .iter()
            .find(|finding| finding.is_error())
            .map_or("config.failed", |finding| finding.code)
    }

    fn blame(&self) -> toolbooth_core::fault::Blame {
        toolbooth_core::fault::Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        self.findings.iter().find(|finding| finding.is_error()).and_then(|finding| finding.hint.clone())
    }
}

/// Loads the configuration with the trust file of the user's data directory.
pub fn load_with_trust(sources: &mut Sources) -> Result<LoadedConfig, LoadFailure> {
    let first = load(sources)?;
    match TrustBook::load(&first.trust_dir).map(|book| book.with_mode_of(&sources.trust)) {
        Ok(book) if book == sources.trust => Ok(first),
        Ok(book) => {
            sources.trust = book;
            load(sources)
        }
        Err(error) => {
            let mut loaded = first;
            loaded.findings.push(trust_finding(&error));
            Ok(loaded)
        }
    }
}

fn trust_finding(error: &TrustError) -> Finding {
    use toolbooth_core::fault::Fault;
    let mut finding = Finding::error(error.code(), error.to_string());
    finding.hint = Fault::hint(error);
    finding
}

/// Loads the configuration.
pub fn load(sources: &Sources) -> Result<LoadedConfig, LoadFailure> {
    let mut context = LoadContext {
        sources,
        texts: SourceTexts::default(),
        findings: Vec::new(),
        fatal: false,
        files: Vec::new(),
    };
    let mut variables = context.variables();
    let documents = context.documents(&variables);
    let arguments = environment::from_arguments(&mut context.texts, &sources.overrides);
    if context.fatal {
        return Err(context.failure());
    }
    let (server_arguments, arguments) =
        arguments.into_iter().partition(|argument| argument.path[0] == "servers");
    let resolved = resolve::settings(&mut context, &documents, arguments, &mut variables);
    if context.fatal {
        return Err(context.failure());
    }
    let resolve::ResolvedSettings { settings, merged, rules, mut untrusted, trust_dir } = resolved;
    let gathered = servers::gather(&mut context, &documents, server_arguments, &variables);
    let servers::GatheredServers { mut servers, history } = gathered;
    checks::forwarded(&mut context, &settings, &mut servers);
    checks::compliance(&mut context, &settings, &servers, &history);
    let names = servers.iter().map(|server| &server.name).collect();
    let waiting = resolve::waiting_manifests(&context, &documents);
    let inputs = ManifestInputs {
        documents: &documents,
        waiting: &waiting,
        settings: &settings,
        variables: &variables,
        servers: names,
    };
    let gathered = manifest::gather(&mut context, &inputs, &mut untrusted);
    let GatheredManifests { entries: manifests, good: good_tools, kept: mut kept_manifests } = gathered;
    let gathered = manifest::gather_skills(&mut context, &inputs, &mut untrusted);
    let GatheredSkills { skills, good: good_skills, kept: kept_skills } = gathered;
    let workflows = manifest::gather_workflows(&mut context, &inputs, &mut untrusted);
    let GatheredWorkflows { jobs, tasks, kept: kept_workflows } = workflows;
    kept_manifests.extend(kept_skills.into_iter().chain(kept_workflows));
    kept_manifests.dedup();
    let good_manifests =
        GoodManifests { tools: good_tools, skills: good_skills, jobs: jobs.clone(), tasks: tasks.clone() };
    let jobs = jobs.into_iter().map(|(_, job)| job).collect();
    let tasks = tasks.into_iter().map(|(_, task)| task).collect();
    if context.command_line_is_wrong() {
        return Err(context.failure());
    }
    let LoadContext { texts, findings, files, .. } = context;
    Ok(LoadedConfig {
        settings,
        servers,
        findings: sorted(findings),
        files,
        variables,
        untrusted,
        manifests,
        skills,
        jobs,
        tasks,
        good_manifests,
        kept_manifests,
        trust_dir,
        texts,
        documents,
        merged,
        rules,
        history,
    })
}

/// Sorts findings by file and line, and removes duplicates.
fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.file.clone(), finding.line, finding.column);
        key(a).cmp(&key(b))
    });
    findings.dedup();
    findings
}

impl LoadContext<'_> {
    /// Whether the command line contains an error. It stops the load: the user is present to correct it, and a gateway
    /// that ignored an argument would not do what was asked.
    fn command_line_is_wrong(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_error() && finding.is_on_command_line())
    }

    fn failure(self) -> LoadFailure {
        LoadFailure { findings: sorted(self.findings), files: self.files }
    }

    /// The environment, completed with the variables of `--env-file`.
    fn variables(&mut self) -> Variables {
        let mut variables = Variables::new(self.sources.env.clone());
        if let Some(path) = &self.sources.env_file {
            let path = self.sources.absolute(path);
            self.files.push(path.clone());
            if let Some(refusal) = ownership::refusal(self.sources, &path) {
                self.fatal(refusal);
                return variables;
            }
            match read_bounded(&path) {
                Ok(bytes) => match parse::dotenv::parse(&mut self.texts, &path, &bytes) {
                    Ok(more) => {
                        let sealer = self.sources.sealer.as_deref();
                        self.findings.extend(open_values(sealer, &path, more, &mut variables));
                        // A setting that cannot be opened must not be replaced by its default.
                        self.fatal |= variables.unopened().any(|name| name.starts_with(environment::PREFIX));
                    }
                    Err(finding) => self.fatal(*finding),
                },
                Err(error) => self.fatal(unreadable(&path, &error, "the env file")),
            }
        }
        variables
    }

    /// Reads the documents of all layers, lowest layer first.
    fn documents(&mut self, variables: &Variables) -> Vec<ConfigDocument> {
        let known = schema::setting_names();
        let mut documents = Vec::new();
        let mut with_environment = false;
        let planned = layers::plan(self.sources);
        for file in planned {
            if file.layer > Layer::Environment && !with_environment {
                with_environment = true;
                documents.extend(self.environment(variables));
            }
            documents.extend(self.document(file, &known));
        }
        if !with_environment {
            documents.extend(self.environment(variables));
        }
        self.missing_folders();
        self.warn_of_pairs(&documents);
        self.warn_of_unused();
        documents
    }

    fn document(&mut self, file: PlannedFile, known: &[&str]) -> Option<ConfigDocument> {
        let PlannedFile { path, layer, kind, presence } = file;
        self.files.push(path.clone());
        let proposed = self.sources.proposed_text(&path).map(|text| text.as_bytes().to_vec());
        let bytes = match proposed.map_or_else(|| read_bounded(&path), Ok) {
            Ok(bytes) => bytes,
            Err(error) if presence == FilePresence::Optional && is_absent(&error) => return None,
            Err(error) => {
                self.fatal(unreadable(&path, &error, "the configuration file"));
                return None;
            }
        };
        if layer != Layer::Project
            && let Some(refusal) = ownership::refusal(self.sources, &path)
        {
            self.fatal(refusal);
            return None;
        }
        let is_empty = bytes.iter().all(u8::is_ascii_whitespace);
        if is_empty && self.sources.filled_files.contains(&path) {
            self.fatal(emptied(&path));
            return None;
        }
        let node = match parse::parse(&mut self.texts, &path, &bytes) {
            Ok(node) => node,
            Err(finding) => {
                self.fatal(*finding);
                return None;
            }
        };
        if !matches!(node.value, Value::Map(_)) {
            let sentence = format!("a configuration file must contain a map, found {}", node.kind());
            let finding = Finding::error("config.wrong-type", sentence).at(&self.texts, node.mark);
            self.fatal(parse::without_quote(finding, &path));
            return None;
        }
        let is_blank = holds_no_key(&node);
        let mut split = dialect::split(&self.texts, node, kind, known);
        self.findings.append(&mut split.findings);
        let settings_trusted = layer != Layer::Project;
        Some(ConfigDocument { layer, path: Some(path), kind, split, settings_trusted, is_blank })
    }

    fn environment(&mut self, variables: &Variables) -> Option<ConfigDocument> {
        let env = variables.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (settings, mut findings) =
            environment::from_variables(&mut self.texts, &env, schema::setting_paths);
        self.findings.append(&mut findings);
        let split = SplitFile {
            settings: settings?,
            servers: Vec::new(),
            duplicates: Vec::new(),
            lists_servers: false,
            findings: Vec::new(),
        };
        let kind = FileKind::Whole;
        let layer = Layer::Environment;
        Some(ConfigDocument { layer, path: None, kind, split, settings_trusted: true, is_blank: false })
    }

    /// Reports folders that are given on the command line but do not exist, since a typo would go unnoticed.
    fn missing_folders(&mut self) {
        let named = [
            ("--config-dir", &self.sources.config_dir),
            ("--config-overrides", &self.sources.config_overrides),
        ];
        for (flag, path) in named {
            let Some(path) = path.as_ref().map(|path| self.sources.absolute(path)) else { continue };
            if !path.exists() {
                self.fatal(
                    Finding::error(
                        "config.no-folder",
                        format!("the folder given with {flag} does not exist"),
                    )
                    .in_file(path),
                );
            }
        }
    }

    /// Reports files of Atlas UI that have no effect here.
    fn warn_of_unused(&mut self) {
        for path in layers::unused(self.sources) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let sentence =
                format!("`{name}` is not used: the gateway has no document search and no file extractors");
            let finding = Finding::warning("config.unused-file", sentence).in_file(&path);
            self.findings.push(finding.hint("offer them to the model as tools of an MCP server"));
        }
    }

    fn warn_of_pairs(&mut self, documents: &[ConfigDocument]) {
        let whole: Vec<&Path> = documents
            .iter()
            .filter(|document| document.kind == FileKind::Whole)
            .filter_map(|document| document.path.as_deref())
            .filter(|path| path.file_stem().is_some_and(|stem| stem == "toolbooth"))
            .collect();
        for pair in whole.windows(2) {
            if pair[0].parent() == pair[1].parent() {
                let name = pair[0].file_name().unwrap_or_default().to_string_lossy();
                let sentence = format!(
                    "`{name}` is in the same folder; both files are read, and this one takes precedence"
                );
                self.findings.push(Finding::warning("config.two-files", sentence).in_file(pair[1]));
            }
        }
    }
}

/// Whether a file has no keys other than comments.
fn holds_no_key(node: &Node) -> bool {
    node.members().is_some_and(|members| members.iter().all(|(key, _)| dialect::is_comment(&key.text)))
}

/// The finding for a file that contained a configuration before and is empty now.
fn emptied(path: &Path) -> Finding {
    Finding::error("config.emptied", "this file is empty but contained a configuration before")
        .in_file(path)
        .hint(
            "if this is intended, leave only a comment in the file or remove it, then run `toolbooth reload`",
        )
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
