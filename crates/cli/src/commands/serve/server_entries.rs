//! Adding, changing and removing servers of a running gateway, for REST: the same changes of the same files as
//! `toolbooth servers add` and `servers remove`.

use super::project_trust::is_owners;
use crate::commands::explain;
use crate::commands::server_entry::{self, CheckedChange};
use crate::commands::server_entry_fields::WantedFields;
use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::Mutex;
use toolbooth_config::{LoadedConfig, ServerConfigState, Settings, Sources};
use toolbooth_core::audit::AuditKind;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::names::ServerName;
use toolbooth_engine::Act;
use toolbooth_server::mcp::FrontEndState;
use toolbooth_server::rest::{
    NewServerEntry, ServerEntries, ServerEntryChange, ServerEntryEdit, WrittenServerEntry,
    server_entries_local_only,
};

/// The configuration files of this gateway.
pub struct OwnerFiles {
    front_end: Arc<FrontEndState>,
    sources: Sources,
    /// Whether only the owner of the gateway is its user, since it started.
    is_owners: bool,
    // Locked during a change, so that two requests do not change the same text.
    changing: Mutex<()>,
}

impl OwnerFiles {
    /// The files that these sources lead to.
    pub fn new(front_end: Arc<FrontEndState>, sources: Sources, started: &Settings) -> Self {
        Self { front_end, sources, is_owners: is_owners(started), changing: Mutex::new(()) }
    }

    /// Loads the files as they are now and plans a change of them, on a thread that may wait for the disk.
    async fn plan<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Sources, &LoadedConfig) -> Result<T, CommandFailure> + Send + 'static,
    ) -> Result<T, Problem> {
        let (mut sources, was_owners) = (self.sources.clone(), self.is_owners);
        off_thread(move || {
            let loaded =
                toolbooth_config::load_with_trust(&mut sources).map_err(|failure| Problem::of(&failure))?;
            // A reload may choose a stricter mode; it cannot choose a weaker one.
            if !(was_owners && is_owners(&loaded.settings)) {
                return Err(server_entries_local_only());
            }
            change(&sources, &loaded).map_err(problem)
        })
        .await
    }

    /// Writes a planned change. Its audit row comes first: the gateway uses a file as soon as it is written.
    async fn write(
        &self,
        by: &str,
        outcome: &str,
        name: &ServerName,
        planned: CheckedChange,
    ) -> Result<(), Problem> {
        let file = planned.file().display().to_string();
        let act = |outcome, code| {
            let act = Act::new(AuditKind::Server, by, outcome).with(&[("file", &file)]);
            Act { server: Some(name), code, ..act }
        };
        let audit = self.front_end.engine.audit();
        audit.record_act(act(outcome, None)).await?;
        let written = off_thread(move || planned.save().map_err(problem)).await;
        if let Err(failure) = &written {
            audit.record_act(act("failed", Some(failure.code))).await?;
        }
        written
    }
}

/// Runs work with files on a thread of its own.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(Problem {
            code: "request.failed",
            blame: Blame::Gateway,
            message: "the request failed inside the gateway".into(),
            hint: Some("the gateway's log has the reason".into()),
        })
    })
}

#[async_trait]
impl ServerEntries for OwnerFiles {
    async fn add(&self, by: &str, entry: NewServerEntry) -> Result<ServerEntryChange, Problem> {
        let (name, entry) = planned(entry)?;
        let _changing = self.changing.lock().await;
        let added = name.to_string();
        let (checked, is_first) = self
            .plan(move |sources, loaded| {
                let file = server_entry::usual_file(sources, sources.config_files.last())?;
                let checked = server_entry::add(sources, loaded, &file, &added, &entry)?;
                Ok((checked, loaded.is_empty_of_servers()))
            })
            .await?;
        let file = checked.file().display().to_string();
        let mut notes = Vec::new();
        match &checked.state {
            Some(ServerConfigState::Broken(finding)) => {
                notes.push(format!("{}; until then it is not used", finding.message));
            }
            Some(_) => {}
            None => notes.push("the gateway does not read this file".to_owned()),
        }
        if is_first {
            notes.push("the bundled servers are offered only while no server is configured".to_owned());
        }
        self.write(by, "added", &name, checked).await?;
        Ok(ServerEntryChange { name: name.to_string(), file, notes })
    }

    async fn read(&self, name: &str) -> Result<WrittenServerEntry, Problem> {
        let known = name.parse::<ServerName>().map_err(|_| invalid_name(name))?;
        self.plan(move |_, loaded| {
            let (document, fields) = server_entry::open_entry(loaded, known.as_str())?;
            let WantedFields { command, url, cwd, env, headers } = fields.shown();
            Ok(WrittenServerEntry {
                name: known.to_string(),
                file: document.path().display().to_string(),
                version: fields.version(),
                command,
                url,
                cwd,
                env,
                headers,
                kept: fields.kept(),
            })
        })
        .await
    }

    async fn replace(
        &self,
        by: &str,
        name: &str,
        edit: ServerEntryEdit,
    ) -> Result<ServerEntryChange, Problem> {
        let known = name.parse::<ServerName>().map_err(|_| invalid_name(name))?;
        let ServerEntryEdit { version, command, url, cwd, env, headers } = edit;
        let wanted = WantedFields { command, url, cwd, env, headers };
        let _changing = self.changing.lock().await;
        let changed = known.to_string();
        let checked = self
            .plan(move |sources, loaded| {
                let opened = server_entry::open_entry(loaded, &changed)?;
                if opened.1.version() != version {
                    return Err(entry_changed(&changed));
                }
                server_entry::edit(sources, loaded, opened, &wanted)
            })
            .await?;
        let file = checked.file().display().to_string();
        let notes = match &checked.state {
            Some(ServerConfigState::Broken(finding)) => {
                vec![format!("{}; until then it is not used", finding.message)]
            }
            Some(ServerConfigState::NeedsTrust { .. }) => {
                vec![
                    "its entry is in a project file, so it must be trusted again before it is used"
                        .to_owned(),
                ]
            }
            Some(ServerConfigState::Disabled(_)) => vec!["it is disabled, so it is not used".to_owned()],
            Some(ServerConfigState::Ready(_)) | None => Vec::new(),
        };
        self.write(by, "changed", &known, checked).await?;
        Ok(ServerEntryChange { name: known.to_string(), file, notes })
    }

    async fn remove(&self, by: &str, name: &str) -> Result<ServerEntryChange, Problem> {
        let known = name.parse::<ServerName>().map_err(|_| invalid_name(name))?;
        let _changing = self.changing.lock().await;
        let removed = known.to_string();
        let checked =
            self.plan(move |sources, loaded| server_entry::remove(sources, loaded, &removed)).await?;
        let file = checked.file().display().to_string();
        let remaining = checked.place.as_ref();
        let notes = remaining.map(|place| format!("the entry of this name in {place} is used now"));
        let notes = notes.into_iter().collect();
        self.write(by, "removed", &known, checked).await?;
        Ok(ServerEntryChange { name: known.to_string(), file, notes })
    }
}

/// The name and the entry of a new server.
fn planned(new: NewServerEntry) -> Result<(ServerName, Value), Problem> {
    let NewServerEntry { name, command, url, cwd, env, headers } = new;
    let name = name.or_else(|| url.as_deref().map(server_entry::name_of)).unwrap_or_default();
    let known = name.parse::<ServerName>().ok().filter(|name| server_entry::is_addressable(name.as_str()));
    let name = known.ok_or_else(|| invalid_name(&name))?;
    let mut entry = Map::new();
    let mut words = command.unwrap_or_default().into_iter();
    let fields = [
        ("command", words.next().map(Value::from)),
        ("args", Some(words.collect::<Vec<_>>()).filter(|words| !words.is_empty()).map(Value::from)),
        ("url", url.map(Value::from)),
        ("cwd", cwd.map(Value::from)),
        ("env", (!env.is_empty()).then(|| json!(env))),
        ("headers", (!headers.is_empty()).then(|| json!(headers))),
    ];
    entry.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    Ok((name, Value::Object(entry)))
}

/// The failure of a change that was made from an older version of the entry.
fn entry_changed(name: &str) -> CommandFailure {
    let message = format!("the entry of `{name}` has changed since it was read");
    CommandFailure::misuse("servers.changed", message, Some("read it again, and repeat the change"))
}

fn invalid_name(name: &str) -> Problem {
    Problem {
        code: "usage.server-name",
        blame: Blame::Caller,
        message: format!("`{}` is not a valid server name", name.chars().take(64).collect::<String>()),
        hint: Some("use 1 to 64 letters, digits, `_`, `-` and `.`".into()),
    }
}

/// The problem of a command's failure. Every code has a page, which has the code as a constant.
fn problem(failure: CommandFailure) -> Problem {
    let FaultReport { code, blame, message, hint } = *failure.fault;
    // What is wrong with an entry is in the request, although a file with it would be the gateway's problem.
    let is_callers = failure.exit == Exit::Usage || blame == Blame::Caller.as_str();
    let blame = if is_callers { Blame::Caller } else { Blame::Gateway };
    Problem { code: explain::known_code(&code).unwrap_or("servers.unwritable"), blame, message, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_written_as_the_command_writes_them() {
        let new = |body: Value| serde_json::from_value::<NewServerEntry>(body).expect("an entry");
        let cases = [
            (
                json!({ "name": "notes", "command": ["npx", "-y", "x"], "cwd": "/n", "env": { "K": "${K}" } }),
                "notes",
                json!({ "command": "npx", "args": ["-y", "x"], "cwd": "/n", "env": { "K": "${K}" } }),
            ),
            (json!({ "name": "one", "command": ["x"] }), "one", json!({ "command": "x" })),
            (
                json!({ "url": "https://mcp.tracker.example/mcp", "headers": { "A": "b" } }),
                "tracker",
                json!({ "url": "https://mcp.tracker.example/mcp", "headers": { "A": "b" } }),
            ),
        ];
        for (body, name, entry) in cases {
            let (planned_name, planned_entry) = planned(new(body.clone())).expect("valid");
            assert_eq!((planned_name.as_str(), &planned_entry), (name, &entry), "{body}");
        }
        let refused = planned(new(json!({ "name": "a b", "command": ["x"] }))).expect_err("a space");
        assert_eq!(refused.code, "usage.server-name");
    }

    #[test]
    fn problems_keep_the_code_of_the_command() {
        let failure = CommandFailure::misuse("servers.exists", "it exists", Some("choose another name"));
        let problem = problem(failure);
        assert_eq!((problem.code, problem.blame), ("servers.exists", Blame::Caller));
    }
}
