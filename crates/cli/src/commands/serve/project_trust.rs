//! Trust in the project files of a running gateway, for REST.

use crate::commands::trust::{PendingTrust, pending};
use async_trait::async_trait;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;
use toolbooth_config::settings::{AuthMode, LocalUsersSetting};
use toolbooth_config::{LoadedConfig, Settings, Sources, TrustBook, TrustChange};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::audit_trust;
use toolbooth_server::mcp::FrontEndState;
use toolbooth_server::rest::{FieldChange, ProjectTrust, TrustRequest, WaitingEntry, trust_local_only};

/// The project files of this gateway.
pub struct ProjectFiles {
    front_end: Arc<FrontEndState>,
    // Locked while entries are trusted, so that two requests do not overwrite each other's trust.
    sources: Mutex<Sources>,
    /// Whether only the owner of the gateway is its user, since it started.
    is_owners: bool,
}

impl ProjectFiles {
    /// The files that these sources lead to.
    pub fn new(front_end: Arc<FrontEndState>, sources: Sources, started: &Settings) -> Self {
        Self { front_end, sources: Mutex::new(sources), is_owners: is_owners(started) }
    }

    /// Loads the files as they are now.
    fn load(&self, sources: &mut Sources) -> Result<LoadedConfig, Problem> {
        let loaded = toolbooth_config::load_with_trust(sources).map_err(|failure| Problem::of(&failure))?;
        // A reload may choose a stricter mode; it cannot choose a weaker one.
        match self.is_owners && is_owners(&loaded.settings) {
            true => Ok(loaded),
            false => Err(trust_local_only()),
        }
    }

    /// The trust file with these entries, and its folder.
    fn with(&self, sources: &mut Sources, entries: &[TrustRequest]) -> Result<(TrustBook, PathBuf), Problem> {
        let loaded = self.load(sources)?;
        // Read again: a damaged file must not be replaced by one without its entries.
        let mut book = TrustBook::load(&loaded.trust_dir).map_err(|error| Problem::of(&error))?;
        let waiting = pending(&loaded);
        for entry in entries {
            let mut same = waiting.iter().filter(|one| shows(one, entry));
            match (same.next(), same.next()) {
                (Some(one), None) => one.trust_into(&mut book),
                _ => return Err(changed(entry)),
            }
        }
        Ok((book, loaded.trust_dir.clone()))
    }
}

/// Whether every caller is the user who runs the gateway.
pub(super) fn is_owners(settings: &Settings) -> bool {
    settings.auth.mode == AuthMode::Local && settings.auth.local_users == LocalUsersSetting::Own
}

/// Whether an entry is the one that was shown, in the same version.
fn shows(one: &PendingTrust<'_>, entry: &TrustRequest) -> bool {
    one.file.display().to_string() == entry.file
        && one.name == entry.server.as_deref()
        && one.preview.digest == entry.digest
}

fn view(one: &PendingTrust<'_>) -> WaitingEntry {
    let change = |change: &TrustChange| FieldChange {
        field: change.field.clone(),
        before: change.before.clone(),
        after: change.after.clone(),
    };
    WaitingEntry {
        file: one.file.display().to_string(),
        server: one.name.map(str::to_owned),
        digest: one.preview.digest.clone(),
        fields: one.preview.fields.clone(),
        changes: one.changed.map(|changes| changes.iter().map(change).collect()),
    }
}

fn changed(entry: &TrustRequest) -> Problem {
    let cut = |text: &str| text.chars().take(200).collect::<String>();
    let noun = match &entry.server {
        Some(server) => format!("server `{}`", cut(server)),
        None => "the settings".to_owned(),
    };
    Problem {
        code: "trust.changed",
        blame: Blame::Caller,
        message: format!(
            "{noun} of `{}` does not wait for trust in this version; nothing was trusted",
            cut(&entry.file)
        ),
        hint: Some("read `GET /trust` again, and check the entry in its current version".into()),
    }
}

#[async_trait]
impl ProjectTrust for ProjectFiles {
    async fn waiting(&self) -> Result<Vec<WaitingEntry>, Problem> {
        let mut sources = self.sources.lock().await;
        let loaded = self.load(&mut sources)?;
        Ok(pending(&loaded).iter().map(view).collect())
    }

    async fn trust(&self, by: &str, entries: &[TrustRequest]) -> Result<(), Problem> {
        let mut sources = self.sources.lock().await;
        let (book, folder) = self.with(&mut sources, entries)?;
        // The row comes first: without it nothing is trusted.
        let (clock, store) = (self.front_end.engine.clock(), self.front_end.engine.store());
        audit_trust(clock, &**store, by, &book.entries()).await?;
        book.save(&folder).map_err(|error| Problem::of(&error))
    }
}
