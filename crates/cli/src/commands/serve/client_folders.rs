//! The servers of the folders that local clients work in, beside those of the gateway's own configuration.
//!
//! `toolbooth stdio` sends the folder of its client; clients over HTTP send it in their roots or in a header. The
//! servers in the `.mcp.json` of that folder run after trust, and only clients of the folder may use them. They stop some
//! time after the last of these clients disconnects.

use crate::gateway;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_config::{LoadedConfig, ServerConfigState, Sources};
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{ServerEntry, Transport};
use toolbooth_engine::{DesiredServer, Vaults};
use toolbooth_server::mcp::folder_servers::FolderServers;
use toolbooth_server::rest::{Reload, ReloadCause};

/// The maximum number of folders at the same time.
const MAX_FOLDERS: usize = 32;
/// How long the servers of a folder outlive its last client.
const LINGER: Duration = Duration::from_secs(30);
/// How long a client without a session counts as a client of its folder after a request.
const VISIT: Duration = Duration::from_secs(600);
/// The file of a folder whose servers are used.
const FILE: &str = ".mcp.json";
/// Files with settings, which would not be in force.
const SETTINGS: [&str; 4] = ["toolbooth.toml", "toolbooth.json", "toolbooth.yaml", "toolbooth.yml"];

/// The folders that clients work in now.
#[derive(Default)]
pub struct ClientFolders {
    /// The number of clients of each folder.
    clients: Mutex<BTreeMap<PathBuf, usize>>,
    /// The last request of a client without a session, by folder.
    visits: Mutex<BTreeMap<PathBuf, Instant>>,
    reload: OnceLock<Reload>,
    own: OnceLock<Weak<Self>>,
}

impl fmt::Debug for ClientFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFolders").finish_non_exhaustive()
    }
}

impl ClientFolders {
    /// No folders.
    pub fn new() -> Arc<Self> {
        let folders = Arc::new(Self::default());
        let _ = folders.own.set(Arc::downgrade(&folders));
        folders
    }

    /// Sets the function that applies a change.
    pub fn set_reload(&self, reload: Reload) {
        let _ = self.reload.set(reload);
    }

    fn visits(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Instant>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no request has named the folder for a while, and forgets it.
    async fn visits_end(&self, folder: &Path) {
        loop {
            let Some(last) = self.visits().get(folder).copied() else { return };
            tokio::time::sleep_until(last + VISIT).await;
            let mut visits = self.visits();
            if visits.get(folder) == Some(&last) {
                visits.remove(folder);
                return;
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<PathBuf, usize>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers of all folders; `taken` are the names of the other servers. The files are not watched: they are read
    /// with every reload, and when a client connects.
    pub fn servers(
        &self,
        sources: &Sources,
        loaded: &LoadedConfig,
        vaults: &Vaults,
        taken: Vec<ServerName>,
    ) -> Vec<DesiredServer> {
        let folders: Vec<PathBuf> = self.clients().keys().cloned().collect();
        let mut taken: BTreeSet<ServerName> = taken.into_iter().collect();
        let mut servers = Vec::new();
        for folder in folders {
            let file = folder.join(FILE);
            if loaded.files.contains(&file) {
                // The gateway's own configuration has them already.
                continue;
            }
            for (entry, hash) in entries(sources, &folder, &file) {
                let Some(name) = free_name(&entry.name, &folder, &taken) else { continue };
                taken.insert(name.clone());
                let entry = ServerEntry { name: name.clone(), ..entry };
                let hash = format!("{hash} {}", folder.display());
                servers.push(DesiredServer { name, hash, state: gateway::run(&entry, vaults) });
            }
        }
        servers
    }
}

#[async_trait]
impl FolderServers for ClientFolders {
    fn enter(&self, folder: &Path) -> bool {
        if !folder.is_absolute() || !folder.is_dir() {
            return false;
        }
        let mut clients = self.clients();
        if clients.len() >= MAX_FOLDERS && !clients.contains_key(folder) {
            tracing::warn!("more than {MAX_FOLDERS} folders have clients; {} is left out", folder.display());
            return false;
        }
        *clients.entry(folder.to_owned()).or_default() += 1;
        true
    }

    async fn apply(&self) {
        let Some(reload) = self.reload.get() else { return };
        // In a task: a client that disconnects must not stop a reload in the middle.
        let applied = tokio::spawn(reload(ReloadCause::ClientFolder)).await;
        if let Ok(Err(problem)) = applied {
            tracing::warn!("the servers of a client's folder were not applied: {}", problem.sentence());
        }
    }

    fn close(&self, folder: &Path) {
        let is_last = match self.clients().get_mut(folder) {
            Some(count) => {
                *count = count.saturating_sub(1);
                *count == 0
            }
            None => false,
        };
        let Some(own) = self.own.get().and_then(Weak::upgrade).filter(|_| is_last) else { return };
        let folder = folder.to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            let is_over = {
                let mut clients = own.clients();
                let is_over = clients.get(&folder) == Some(&0);
                if is_over {
                    clients.remove(&folder);
                }
                is_over
            };
            if is_over {
                own.apply().await;
            }
        });
    }

    async fn visit(&self, folder: &Path) {
        let Some(own) = self.own.get().and_then(Weak::upgrade) else { return };
        {
            let mut visits = self.visits();
            if let Some(last) = visits.get_mut(folder) {
                *last = Instant::now();
                return;
            }
            if visits.len() >= MAX_FOLDERS || !self.enter(folder) {
                return;
            }
            visits.insert(folder.to_owned(), Instant::now());
        }
        // Before the reload, which the request may not wait for.
        let folder = folder.to_owned();
        tokio::spawn(async move {
            own.visits_end(&folder).await;
            own.close(&folder);
        });
        // Also for a folder that is open: its file or the trust in it may have changed.
        self.apply().await;
    }
}

/// The trusted servers of a folder's file, with the hashes of their entries.
fn entries(sources: &Sources, folder: &Path, file: &Path) -> Vec<(ServerEntry, String)> {
    if SETTINGS.iter().any(|name| folder.join(name).exists()) {
        // Its servers could rely on rules that this gateway does not apply.
        tracing::warn!("{} has settings of its own, so its servers are not added", folder.display());
        return Vec::new();
    }
    let mut theirs = in_folder(sources, folder);
    let loaded = match toolbooth_config::load_with_trust(&mut theirs) {
        Ok(loaded) => loaded,
        Err(failure) => {
            tracing::warn!("the files of {} cannot be read: {failure}", folder.display());
            return Vec::new();
        }
    };
    let of_folder = loaded.servers.iter().filter(|server| server.trust_file.as_deref() == Some(file));
    let ready = of_folder.filter_map(|server| match &server.state {
        ServerConfigState::Ready(entry) => Some((placed(entry, folder), server.hash.clone())),
        _ => None,
    });
    ready.collect()
}

/// The sources as if the gateway had been started in the folder.
fn in_folder(sources: &Sources, folder: &Path) -> Sources {
    let whole = |path: &Option<PathBuf>| path.as_ref().map(|path| sources.absolute(path));
    Sources {
        config_files: sources.config_files.iter().map(|path| sources.absolute(path)).collect(),
        config_dir: whole(&sources.config_dir),
        config_overrides: whole(&sources.config_overrides),
        mcp_config: whole(&sources.mcp_config),
        llm_config: whole(&sources.llm_config),
        env_file: whole(&sources.env_file),
        data_dir: whole(&sources.data_dir),
        cwd: folder.to_owned(),
        ..sources.clone()
    }
}

/// The entry for clients of the folder only. Its process runs in the folder.
fn placed(entry: &ServerEntry, folder: &Path) -> ServerEntry {
    let mut entry = entry.clone();
    entry.folder = Some(folder.to_string_lossy().into());
    if let Transport::Stdio { cwd, .. } = &mut entry.transport {
        cwd.get_or_insert_with(|| folder.to_owned());
    }
    entry
}

/// The name of a server, or one with the name of its folder if another server has it.
fn free_name(name: &ServerName, folder: &Path, taken: &BTreeSet<ServerName>) -> Option<ServerName> {
    if !taken.contains(name) {
        return Some(name.clone());
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '-' };
    let last = folder.file_name().map(|last| last.to_string_lossy().chars().map(plain).collect::<String>());
    let base: String = format!("{name}-{}", last.unwrap_or_default()).chars().take(58).collect();
    let numbered = (2..100).map(|number| format!("{base}-{number}"));
    let mut candidates = std::iter::once(base.clone()).chain(numbered);
    candidates.find_map(|text| text.parse::<ServerName>().ok().filter(|name| !taken.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use toolbooth_core::fault::Problem;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_dropped_gives_its_folder_back() {
        type EndlessReload = Pin<Box<dyn Future<Output = Result<serde_json::Value, Problem>> + Send>>;
        let folders = ClientFolders::new();
        folders.set_reload(Arc::new(|_| -> EndlessReload { Box::pin(std::future::pending()) }));
        let folder = std::env::temp_dir();
        // The reload does not end, so the request is dropped while it waits for it.
        let visit = tokio::time::timeout(Duration::from_secs(1), folders.visit(&folder)).await;
        assert!(visit.is_err());
        assert_eq!((folders.visits().len(), folders.clients().get(&folder).copied()), (1, Some(1)));
        tokio::time::sleep(VISIT + LINGER + Duration::from_secs(1)).await;
        assert!(folders.visits().is_empty() && folders.clients().is_empty());
        // A folder that does not exist takes no place.
        folders.visit(&folder.join("toolbooth-no-such-folder")).await;
        assert!(folders.visits().is_empty() && folders.clients().is_empty());
    }

    #[test]
    fn a_taken_name_gets_the_name_of_the_folder() {
        let name = |text: &str| text.parse::<ServerName>().expect("a name");
        let folder = Path::new("/home/ann/my app");
        let mut taken = BTreeSet::new();
        for expected in ["db", "db-my-app", "db-my-app-2"] {
            let found = free_name(&name("db"), folder, &taken).expect("a free name");
            assert_eq!(found, name(expected));
            taken.insert(found);
        }
    }
}
