//! `toolbooth secrets`: the user's stored secrets, and the place of the key that seals them. It works on the files of this
//! machine; a running gateway watches them.

use super::in_runtime;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult, FaultReport};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::hidden_input::{HiddenInput, read_secret};
use crate::render::{self, Paint, Table, TableCell, Tone, line};
use crate::secrets::{KeyMove, KeyPlace, SecretFault, SecretFile, SecretFiles, SecretsKey};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use std::io::{IsTerminal, Read, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolbooth_config::parse::dotenv::is_variable_name;
use toolbooth_config::{Finding, LoadedConfig, Sources, ValueSealer, is_sealed, nearest};
use toolbooth_core::fault::Problem;

/// The longest value, in bytes.
const MAX_VALUE: u64 = 64 << 10;
/// The longest name of a variable.
const MAX_NAME: usize = 200;

/// Arguments of `toolbooth secrets`.
#[derive(Debug, Args)]
#[command(after_help = "\
An entry of a server uses a secret as ${NAME}. Values are sealed in ~/.config/toolbooth/secrets.env; their key is in the keyring of the \
operating system if there is one, else in a file that only you can read.")]
pub struct SecretsArguments {
    #[command(subcommand)]
    action: Option<SecretsAction>,
}

#[derive(Debug, Subcommand)]
enum SecretsAction {
    /// List names, files and the servers that use them, without values (the default).
    List,
    /// Store a secret, or replace it. The value is read from standard input, or asked for without being shown.
    #[command(after_help = "\
For example:
  toolbooth secrets set GITHUB_TOKEN            (asks for the value)
  pass show github | toolbooth secrets set GITHUB_TOKEN")]
    Set {
        /// Name of the variable.
        name: String,
    },
    /// Remove a secret from the files.
    #[command(alias = "delete")]
    Remove {
        /// Name of the variable.
        name: String,
    },
    /// Move the key of the secrets to the keyring, or to a file.
    Move {
        /// The new place of the key.
        #[arg(long, value_name = "PLACE")]
        to: KeyPlace,
    },
}

/// The context of an action.
struct SecretsContext<'a> {
    global: &'a GlobalOptions,
    sources: Sources,
    files: SecretFiles,
    key: Arc<SecretsKey>,
}

/// A stored secret, as it is listed.
#[derive(Debug, Serialize)]
struct ListedSecret {
    name: String,
    file: PathBuf,
    sealed: bool,
    /// Whether the value is sealed and cannot be opened; unknown if the configuration cannot be loaded.
    unopened: Option<bool>,
    /// The servers that use it; unknown if the configuration cannot be loaded.
    servers: Option<Vec<String>>,
}

/// Runs `toolbooth secrets`.
pub fn run(global: &GlobalOptions, arguments: SecretsArguments) -> CommandResult {
    if global.url.is_some() {
        return Err(CommandFailure::misuse(
            "secret.not-here",
            "`toolbooth secrets` works with the files of this machine",
            Some("leave out --url and TOOLBOOTH_URL"),
        ));
    }
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let (files, key) = (SecretFiles::of(&sources), SecretsKey::of(&sources));
    let context = SecretsContext { global, sources, files, key };
    match arguments.action.unwrap_or(SecretsAction::List) {
        SecretsAction::List => context.list(),
        SecretsAction::Set { name } => context.set(&name),
        SecretsAction::Remove { name } => context.remove(&name),
        SecretsAction::Move { to } => context.move_key(to),
    }
}

impl SecretsContext<'_> {
    fn list(&self) -> CommandResult {
        let files = self.files.read().map_err(failed)?;
        let place = self.key.place().map_err(failed)?;
        let secrets = listed(&files, self.loaded().as_ref());
        if self.global.json {
            let file = (place == Some(KeyPlace::File)).then(|| self.key.file());
            let key = place.map(|place| json!({ "place": place, "file": file }));
            render::print_json(&json!({ "secrets": secrets, "key": key }));
            return Ok(Exit::Ok);
        }
        if secrets.is_empty() {
            render::print("No secrets are stored. `toolbooth secrets set NAME` stores one.\n");
            return Ok(Exit::Ok);
        }
        let mut table = Table::new(&["NAME", "STATE", "SERVERS", "FILE"]);
        for secret in &secrets {
            let state = match (secret.sealed, secret.unopened) {
                (true, Some(true)) => TableCell::toned("cannot be opened", Tone::Bad),
                (true, _) => TableCell::toned("sealed", Tone::Good),
                (false, _) => TableCell::toned("plain", Tone::Warn),
            };
            let servers = secret.servers.as_ref().map_or_else(|| "?".to_owned(), |names| names.join(", "));
            table.row([
                TableCell::toned(&line(&secret.name), Tone::Strong),
                state,
                line(&servers).as_str().into(),
                render::path(&secret.file).as_str().into(),
            ]);
        }
        render::print(&table.draw(Paint::stdout()));
        if secrets.iter().any(|secret| secret.unopened == Some(true)) {
            render::print("\n`toolbooth config check` shows why values cannot be opened.\n");
            return Ok(Exit::Ok);
        }
        match place {
            Some(KeyPlace::Keyring) => render::print("\nTheir key is in the keyring.\n"),
            Some(KeyPlace::File) => {
                render::print(&format!("\nTheir key is in {}.\n", render::path(&self.key.file())));
            }
            None => {}
        }
        Ok(Exit::Ok)
    }

    fn set(&self, name: &str) -> CommandResult {
        check_name(name)?;
        let Some(value) = read_value(name)? else { return Ok(Exit::Failed) };
        // A new key could not open sealed values in files that the settings name.
        if self.key.place().map_err(failed)?.is_none()
            && let Some(finding) = self.loaded().and_then(|loaded| missing_key(&loaded))
        {
            return Err(finding);
        }
        let sealed = self.key.seal(name, &value).map_err(CommandFailure::failed)?;
        let file = self.files.set(name, &sealed).map_err(failed)?;
        let loaded = self.loaded();
        let servers = loaded.as_ref().map(|loaded| users_of(loaded, name));
        if self.global.json {
            render::print_json(&json!({ "stored": { "name": name, "file": file, "servers": servers } }));
            return Ok(Exit::Ok);
        }
        let mut text = format!("Stored {name} in {}.\n", render::path(&file));
        let users = loaded.as_ref().map(|loaded| with_settings(loaded, name, servers.unwrap_or_default()));
        match users.as_deref() {
            Some([]) => text.push_str(&format!("No server uses it yet: an entry uses it as ${{{name}}}.\n")),
            Some(users) => text.push_str(&format!("Used by {}.\n", line(&users.join(", ")))),
            None => {}
        }
        render::print(&text);
        if let Some(why) = loaded.and_then(|loaded| why_not_used(&loaded, name, &value, &file)) {
            let text = render::wrap(&format!("this value is not used: {why}"), 9);
            render::complain(&format!("{}: {text}\n", Paint::stderr().tone(Tone::Warn, "warning")));
        }
        Ok(Exit::Ok)
    }

    fn remove(&self, name: &str) -> CommandResult {
        let files = self.files.remove(name).map_err(failed)?;
        if files.is_empty() {
            let known = self.files.read().map_err(failed)?;
            let names = known.iter().flat_map(|file| file.document.variables().map(|(name, _)| name));
            let similar = nearest(name, names).map(str::to_owned);
            return Err(failed(SecretFault::Unknown { name: line(name), similar }));
        }
        if self.global.json {
            render::print_json(&json!({ "removed": { "name": name, "files": files } }));
            return Ok(Exit::Ok);
        }
        let shown: Vec<String> = files.iter().map(|file| render::path(file)).collect();
        render::print(&format!("Removed {} from {}.\n", line(name), shown.join(" and ")));
        let users = |loaded: LoadedConfig| with_settings(&loaded, name, users_of(&loaded, name));
        if let Some(users) = self.loaded().map(users).filter(|users| !users.is_empty()) {
            render::print(&format!("Still used by {}.\n", line(&users.join(", "))));
        }
        Ok(Exit::Ok)
    }

    fn move_key(&self, to: KeyPlace) -> CommandResult {
        let done = self.key.move_to(to).map_err(failed)?;
        if self.global.json {
            let moved = done != KeyMove::None;
            render::print_json(&json!({ "key": { "place": to, "moved": moved } }));
            return Ok(Exit::Ok);
        }
        let place = match to {
            KeyPlace::Keyring => "the keyring".to_owned(),
            KeyPlace::File => render::path(&self.key.file()),
        };
        render::print(&match done {
            KeyMove::Created => format!("The key was created in {place}.\n"),
            KeyMove::None => format!("The key is already in {place}.\n"),
            KeyMove::Moved => format!("The key was moved to {place}.\n"),
        });
        Ok(Exit::Ok)
    }

    /// The configuration, if it can be loaded: it says which servers use a secret.
    fn loaded(&self) -> Option<LoadedConfig> {
        toolbooth_config::load_with_trust(&mut self.sources.clone()).ok()
    }
}

fn listed(files: &[SecretFile], loaded: Option<&LoadedConfig>) -> Vec<ListedSecret> {
    let servers = loaded.map(LoadedConfig::servers_by_variable);
    let mut secrets = Vec::new();
    for file in files {
        for (name, value) in file.document.variables() {
            let users = |servers: &std::collections::BTreeMap<String, _>| names(servers.get(name));
            secrets.push(ListedSecret {
                name: name.to_owned(),
                file: file.path.clone(),
                sealed: is_sealed(value),
                unopened: loaded.map(|loaded| is_sealed(value) && loaded.variables.is_unopened(name)),
                servers: servers.as_ref().map(users),
            });
        }
    }
    secrets.sort_by(|a, b| a.name.cmp(&b.name));
    secrets
}

/// The servers that use a variable, and the settings if they do.
fn with_settings(loaded: &LoadedConfig, name: &str, mut servers: Vec<String>) -> Vec<String> {
    if loaded.settings_use(name) {
        servers.push("the settings".to_owned());
    }
    servers
}

/// The failure if a file that the settings name has sealed values without a key.
fn missing_key(loaded: &LoadedConfig) -> Option<CommandFailure> {
    let finding = loaded.findings.iter().find(|finding| finding.code == "secret.no-key")?;
    let file = finding.file.as_deref().map(render::path).unwrap_or_default();
    Some(CommandFailure::failed(FaultReport {
        code: finding.code.to_owned(),
        blame: "caller".to_owned(),
        message: format!("{file} has sealed values, and their key is not on this machine"),
        hint: Some(
            "bring the key from the machine where they were sealed, or remove them from the file".to_owned(),
        ),
    }))
}

/// Why a stored value is not the value of its variable, if it is not.
fn why_not_used(loaded: &LoadedConfig, name: &str, value: &str, file: &Path) -> Option<String> {
    if loaded.variables.get(name) == Some(value) {
        return None;
    }
    if std::env::var_os(name).is_some() {
        return Some(format!("`{name}` has another value in the environment, which comes first"));
    }
    let is_of_file = |finding: &&Finding| finding.is_error() && finding.file.as_deref() == Some(file);
    Some(match loaded.findings.iter().find(is_of_file) {
        Some(finding) => line(&finding.message),
        None => {
            format!(
                "`{name}` has another value in a file named by --env-file or `env_file`, which comes first"
            )
        }
    })
}

fn users_of(loaded: &LoadedConfig, name: &str) -> Vec<String> {
    names(loaded.servers_by_variable().get(name))
}

fn names(servers: Option<&std::collections::BTreeSet<toolbooth_core::names::ServerName>>) -> Vec<String> {
    servers.into_iter().flatten().map(ToString::to_string).collect()
}

fn check_name(name: &str) -> Result<(), CommandFailure> {
    match is_variable_name(name) && name.len() <= MAX_NAME {
        true => Ok(()),
        false => Err(CommandFailure::misuse(
            "usage.secret-name",
            "this is not the name of a variable",
            Some(
                "it has letters, digits and `_`, and does not start with a digit, such as GITHUB_TOKEN; the value is not an \
                 argument: it is asked for, or read from standard input",
            ),
        )),
    }
}

/// Reads the value: one line of a terminal, which is not shown, or everything from a pipe without its last line break. `None`
/// after Ctrl+C.
fn read_value(name: &str) -> Result<Option<String>, CommandFailure> {
    let value = match stdin().is_terminal() {
        true => match read_line(name)? {
            HiddenInput::Line(line) => line,
            HiddenInput::Interrupted => return Ok(None),
        },
        false => {
            let mut bytes = Vec::new();
            let bad = |why| failed(SecretFault::BadValue { why });
            stdin()
                .take(MAX_VALUE + 1)
                .read_to_end(&mut bytes)
                .map_err(|_| bad("standard input cannot be read"))?;
            if bytes.len() as u64 > MAX_VALUE {
                return Err(bad("it is longer than 64 KiB"));
            }
            String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8 text"))?
        }
    };
    let value = value.strip_suffix('\n').unwrap_or(&value);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.contains('\0') {
        return Err(failed(SecretFault::BadValue { why: "it contains a NUL character" }));
    }
    if value.is_empty() {
        return Err(CommandFailure::misuse(
            "usage.no-secret",
            "no value was given",
            Some("type it at the prompt, or send it to standard input"),
        ));
    }
    Ok(Some(value.to_owned()))
}

fn read_line(name: &str) -> Result<HiddenInput, CommandFailure> {
    let mut line = HiddenInput::Interrupted;
    in_runtime(async {
        line = read_secret(&format!("Value of {name}: ")).await?;
        Ok(Exit::Ok)
    })?;
    Ok(line)
}

fn failed(fault: SecretFault) -> CommandFailure {
    CommandFailure::failed(Problem::of(&fault))
}
