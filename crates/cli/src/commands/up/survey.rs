//! What `toolbooth up` found on this machine, and what it would change.

use crate::commands::connect;
use crate::failure::CommandFailure;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone, line};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toolbooth_config::clients::{
    ClientDocument, ClientId, EntryPlace, GATEWAY_NAME, GatewayEntry, admit_in_file, closed_lists, rewire,
    take_from_file,
};
use toolbooth_config::import::{ImportPlan, MovedSecret, PlannedServer, Skipped, plan_clients};
use toolbooth_config::{Finding, Sources};
use toolbooth_core::fault::Problem;

/// The clients of this machine and the planned changes.
pub struct ClientSurvey {
    /// The import of their servers.
    pub plan: ImportPlan,
    /// The files of installed clients, in the order of the table.
    pub files: Vec<SurveyedFile>,
    /// The gateway's entry in the clients' files.
    entry: GatewayEntry,
}

/// A file of an installed client.
pub struct SurveyedFile {
    /// The client.
    pub client: ClientId,
    /// The path as the client knows it.
    pub path: PathBuf,
    /// What the client keeps in it.
    pub content: SurveyedContent,
    /// The planned change.
    pub change: FileChange,
}

/// What a client keeps in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyedContent {
    /// Its servers.
    Servers,
    /// More servers; the gateway is in another file.
    MoreServers,
    /// Lists of allowed and disabled servers.
    Lists,
}

/// The planned change of a client's file.
pub enum FileChange {
    /// The file is written.
    Write {
        /// The file with links resolved.
        real: PathBuf,
        /// The new content.
        text: String,
        /// The names of the entries that the gateway replaces.
        replaced: Vec<String>,
        /// The lists of allowed or disabled servers that are changed for the gateway.
        lists: Vec<String>,
        /// Whether the file does not exist yet.
        is_new: bool,
    },
    /// The client is connected, and nothing is to be replaced.
    None,
    /// The file cannot be edited, and stays as it is.
    Impossible(String),
}

impl ClientSurvey {
    /// Looks at the clients; all of them if none is named.
    pub fn take(
        global: &GlobalOptions,
        sources: &Sources,
        clients: &[ClientId],
    ) -> Result<Self, CommandFailure> {
        let clients: Vec<ClientId> =
            ClientId::all().filter(|client| clients.is_empty() || clients.contains(client)).collect();
        let (plan, unreadable) =
            plan_clients(sources, &clients).map_err(|error| CommandFailure::failed(Problem::of(&error)))?;
        let entry = connect::stdio_entry(global, sources);
        let mut files = Vec::new();
        let mut known = BTreeSet::new();
        for client in clients {
            for path in client.installed_files(sources) {
                // One file may have two names.
                if !known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                    continue;
                }
                let fault = unreadable.iter().find(|file| file.path == path);
                let change = match fault {
                    Some(file) => FileChange::Impossible(without_file(&file.finding)),
                    None => planned_change(client, &path, &entry, &plan.covered),
                };
                files.push(SurveyedFile { client, path, content: SurveyedContent::Servers, change });
            }
            for path in client.folder_files(sources) {
                let change = match unreadable.iter().find(|file| file.path == path) {
                    Some(file) => FileChange::Impossible(without_file(&file.finding)),
                    None => planned_removal(client, &path, &plan.covered),
                };
                files.push(SurveyedFile { client, path, content: SurveyedContent::MoreServers, change });
            }
            let is_installed = files.last().is_some_and(|file: &SurveyedFile| file.client == client);
            for path in client.list_files(sources).into_iter().filter(|_| is_installed) {
                let change = planned_admission(client, &path, &entry);
                if !matches!(change, FileChange::None) {
                    files.push(SurveyedFile { client, path, content: SurveyedContent::Lists, change });
                }
            }
        }
        Ok(Self { plan, files, entry })
    }

    /// The change of a file as it is now: its client may have written it while the user read the plan.
    pub fn current_change(&self, file: &SurveyedFile) -> FileChange {
        match (&file.change, file.content) {
            (FileChange::Impossible(why), _) => FileChange::Impossible(why.clone()),
            (_, SurveyedContent::Lists) => planned_admission(file.client, &file.path, &self.entry),
            (_, SurveyedContent::MoreServers) => planned_removal(file.client, &file.path, &self.plan.covered),
            (_, SurveyedContent::Servers) => {
                planned_change(file.client, &file.path, &self.entry, &self.plan.covered)
            }
        }
    }

    /// Describes everything that was found and would be changed.
    pub fn describe(&self, paint: Paint) -> String {
        let mut text = String::new();
        for file in &self.files {
            let title = paint.tone(Tone::Strong, file.client.title());
            text.push_str(&format!("{title}  {}\n", paint.tone(Tone::Dim, &render::path(&file.path))));
            match file.content {
                SurveyedContent::Servers | SurveyedContent::MoreServers => {
                    text.push_str(&self.servers_of(&file.path));
                }
                SurveyedContent::Lists => text.push_str("  a list of allowed or disabled servers\n"),
            }
            if let FileChange::Impossible(why) = &file.change {
                text.push_str(&format!("  {}: {}\n", paint.tone(Tone::Bad, "stays as it is"), line(why)));
            }
        }
        text.push('\n');
        text.push_str(&self.steps());
        text
    }

    fn servers_of(&self, path: &Path) -> String {
        let own: Vec<&PlannedServer> =
            self.plan.servers.iter().filter(|server| server.from == path).collect();
        let skipped: Vec<&Skipped> =
            self.plan.skipped.iter().filter(|skipped| skipped.from == path).collect();
        let names = own.iter().map(|server| &server.name).chain(skipped.iter().map(|skipped| &skipped.name));
        let width = names.map(|name| line(name).chars().count()).max().unwrap_or(0).min(24);
        let mut text = String::new();
        for server in own {
            let PlannedServer { name, moved, notes, .. } = server;
            text.push_str(&format!("  + {:<width$}  {}\n", line(name), line(&server.command_line())));
            let pad = " ".repeat(width + 6);
            for MovedSecret { field, variable } in moved {
                text.push_str(&format!("{pad}`{}` moves to ${{{variable}}}\n", line(field)));
            }
            for note in notes {
                text.push_str(&format!("{pad}{}\n", line(note)));
            }
        }
        for Skipped { name, reason, .. } in skipped {
            text.push_str(&format!("  - {:<width$}  {}\n", line(name), line(reason)));
        }
        if text.is_empty() { "  no servers\n".to_owned() } else { text }
    }

    fn steps(&self) -> String {
        let mut lines = Vec::new();
        if !self.plan.servers.is_empty() {
            let count = render::count(self.plan.servers.len(), "server");
            lines.push(format!("import {count} into {}", render::path(&self.plan.target)));
        }
        if self.plan.servers.iter().any(|server| !server.moved.is_empty()) {
            lines.push(format!("move their secrets to {}, sealed", render::path(&self.plan.env_file)));
        }
        lines.push("start the gateway in the background, or reload it".to_owned());
        for file in &self.files {
            let FileChange::Write { replaced, lists, is_new, .. } = &file.change else { continue };
            let verb = if *is_new { "create" } else { "change" };
            let names: Vec<String> = replaced.iter().map(|name| line(name)).collect();
            let replaces = match names.is_empty() {
                true => String::new(),
                false => format!(" in place of {}", names.join(", ")),
            };
            let path = render::path(&file.path);
            match file.content {
                SurveyedContent::Servers => lines.push(format!("{verb} {path}: `{GATEWAY_NAME}`{replaces}")),
                SurveyedContent::MoreServers => {
                    lines.push(format!("change {path}: without {}", names.join(", ")))
                }
                SurveyedContent::Lists => {}
            }
            for list in lists {
                lines.push(format!("change {path}: `{}` allows `{GATEWAY_NAME}`", line(list)));
            }
        }
        lines.iter().map(|step| format!("  {}\n", render::wrap(step, 4))).collect()
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let files = self.files.iter().map(|file| match &file.change {
            FileChange::Write { replaced, lists, is_new, .. } => json!({
                "client": file.client, "file": file.path, "change": if *is_new { "create" } else { "change" },
                "replaced": replaced, "lists": lists,
            }),
            FileChange::None => json!({ "client": file.client, "file": file.path, "change": "none" }),
            FileChange::Impossible(why) => {
                json!({ "client": file.client, "file": file.path, "change": "impossible", "reason": why })
            }
        });
        json!({ "import": self.plan, "files": files.collect::<Vec<_>>() })
    }
}

/// A finding about a file that is named beside it.
fn without_file(finding: &Finding) -> String {
    match (finding.line, finding.column) {
        (0, _) => finding.message.clone(),
        (row, column) => format!("{} (line {row}, column {column})", finding.message),
    }
}

/// The text of a file, and whether it does not exist yet. The error says why it cannot be edited.
fn read(real: &Path) -> Result<(String, bool), String> {
    match std::fs::read(real).map(String::from_utf8) {
        Ok(Ok(text)) => Ok((text, false)),
        Ok(Err(_)) => Err("it is not UTF-8 text".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((String::new(), true)),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

/// The change of a file with lists after which the client uses the gateway.
fn planned_admission(client: ClientId, path: &Path, entry: &GatewayEntry) -> FileChange {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(words) = client.spec().entry(GATEWAY_NAME, entry) else { return FileChange::None };
    match read(&real).and_then(|(text, _)| admit_in_file(client, path, &text, &words)) {
        Ok(Some((text, lists))) => {
            FileChange::Write { real, text, replaced: Vec::new(), lists, is_new: false }
        }
        Ok(None) => FileChange::None,
        Err(why) => FileChange::Impossible(why),
    }
}

/// The change that removes the entries that the gateway has.
fn planned_removal(client: ClientId, path: &Path, covered: &[EntryPlace]) -> FileChange {
    let places: Vec<EntryPlace> = covered.iter().filter(|place| place.file == path).cloned().collect();
    if places.is_empty() {
        return FileChange::None;
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let replaced = places.iter().map(|place| place.name.clone()).collect();
    match read(&real).and_then(|(text, _)| take_from_file(client, path, &text, &places)) {
        Ok(text) => FileChange::Write { real, text, replaced, lists: Vec::new(), is_new: false },
        Err(why) => FileChange::Impossible(why),
    }
}

/// The change that connects a client and removes the entries that the gateway has.
fn planned_change(client: ClientId, path: &Path, entry: &GatewayEntry, covered: &[EntryPlace]) -> FileChange {
    // Dotfiles are often links into a repository; the link must stay intact.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (text, is_new) = match read(&real) {
        Ok(read) => read,
        Err(why) => return FileChange::Impossible(why),
    };
    let places: Vec<EntryPlace> = covered.iter().filter(|place| place.file == path).cloned().collect();
    let lists = closed_lists(client, &text, entry);
    let is_connected = places.is_empty()
        && lists.is_empty()
        && ClientDocument::parse(client, text.trim_start_matches('\u{feff}'))
            .is_ok_and(|document| document.get(GATEWAY_NAME) == client.spec().entry(GATEWAY_NAME, entry));
    if is_connected {
        return FileChange::None;
    }
    let replaced = places.iter().map(|place| place.name.clone()).collect();
    match rewire(client, &text, entry, &places) {
        Ok(text) => FileChange::Write { real, text, replaced, lists, is_new },
        Err(why) => FileChange::Impossible(why),
    }
}
