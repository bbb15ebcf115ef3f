//! What `toolbooth up` found on this machine, and what it would change.

use crate::commands::connect;
use crate::failure::CommandFailure;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone, line};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toolbooth_config::clients::{ClientDocument, ClientId, EntryPlace, GATEWAY_NAME, GatewayEntry, rewire};
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
    /// The planned change.
    pub change: FileChange,
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
                files.push(SurveyedFile { client, path, change });
            }
        }
        Ok(Self { plan, files, entry })
    }

    /// The change of a file as it is now: its client may have written it while the user read the plan.
    pub fn current_change(&self, file: &SurveyedFile) -> FileChange {
        match &file.change {
            FileChange::Impossible(why) => FileChange::Impossible(why.clone()),
            _ => planned_change(file.client, &file.path, &self.entry, &self.plan.covered),
        }
    }

    /// Describes everything that was found and would be changed.
    pub fn describe(&self, paint: Paint) -> String {
        let mut text = String::new();
        for file in &self.files {
            let title = paint.tone(Tone::Strong, file.client.title());
            text.push_str(&format!("{title}  {}\n", paint.tone(Tone::Dim, &render::path(&file.path))));
            text.push_str(&self.servers_of(&file.path));
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
            let FileChange::Write { replaced, is_new, .. } = &file.change else { continue };
            let verb = if *is_new { "create" } else { "change" };
            let names: Vec<String> = replaced.iter().map(|name| line(name)).collect();
            let replaces = match names.is_empty() {
                true => String::new(),
                false => format!(" in place of {}", names.join(", ")),
            };
            lines.push(format!("{verb} {}: `{GATEWAY_NAME}`{replaces}", render::path(&file.path)));
        }
        lines.iter().map(|step| format!("  {}\n", render::wrap(step, 4))).collect()
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let files = self.files.iter().map(|file| match &file.change {
            FileChange::Write { replaced, is_new, .. } => json!({
                "client": file.client, "file": file.path, "change": if *is_new { "create" } else { "change" },
                "replaced": replaced,
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

/// The change that connects a client and removes the entries that the gateway has.
fn planned_change(client: ClientId, path: &Path, entry: &GatewayEntry, covered: &[EntryPlace]) -> FileChange {
    // Dotfiles are often links into a repository; the link must stay intact.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (text, is_new) = match std::fs::read(&real).map(String::from_utf8) {
        Ok(Ok(text)) => (text, false),
        Ok(Err(_)) => return FileChange::Impossible("it is not UTF-8 text".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (String::new(), true),
        Err(error) => return FileChange::Impossible(format!("it cannot be read: {error}")),
    };
    let places: Vec<EntryPlace> = covered.iter().filter(|place| place.file == path).cloned().collect();
    let is_connected = places.is_empty()
        && ClientDocument::parse(client, text.trim_start_matches('\u{feff}'))
            .is_ok_and(|document| document.get(GATEWAY_NAME) == client.spec().entry(GATEWAY_NAME, entry));
    if is_connected {
        return FileChange::None;
    }
    let replaced = places.iter().map(|place| place.name.clone()).collect();
    match rewire(client, &text, entry, &places) {
        Ok(text) => FileChange::Write { real, text, replaced, is_new },
        Err(why) => FileChange::Impossible(why),
    }
}
