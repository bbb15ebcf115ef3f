//! The files of one call: the names in its arguments are resolved to file URLs, which are valid until the call ends.
//!
//! The grant is a row in the store, written before the call is sealed; `seal` adds the signed URLs to the arguments. A
//! download checks the token, the file and the grant. When the call ends, however it ends, the grant is shortened to
//! the grace period.

use super::CallerFiles;
use std::sync::Arc;
use toolbooth_core::call::Draft;
use toolbooth_core::call::inject::{FileFault, FileUrlSource, SignedUrl, UnknownName, file_names};
use toolbooth_core::caller::Caller;
use toolbooth_core::clock::milliseconds;
use toolbooth_core::names::ServerName;
use uuid::Uuid;

/// The file URLs of one call. They stay valid while the grant exists, plus the grace period.
pub(crate) struct FileGrant {
    files: Arc<CallerFiles>,
    call: Uuid,
    found: Vec<(String, Result<SignedUrl, FileFault>)>,
    unknown: UnknownName,
    /// Whether the grant was written to the store.
    is_stored: bool,
}

impl CallerFiles {
    /// Looks up the files that a call names; `None` if it names none.
    pub(crate) async fn grant(self: &Arc<Self>, draft: &Draft, call: Uuid) -> Option<FileGrant> {
        let names = file_names(&draft.tool, &draft.arguments);
        if names.is_empty() {
            return None;
        }
        let terms = self.terms();
        let mut grant = FileGrant {
            files: self.clone(),
            call,
            found: Vec::with_capacity(names.len()),
            unknown: terms.unknown,
            is_stored: false,
        };
        let until_ms = self.clock.now_ms().saturating_add(milliseconds(terms.url_lives));
        for name in names {
            if is_url(&name) {
                grant.found.push((name, Err(FileFault::Unknown)));
                continue;
            }
            let url = match self.named(&draft.caller, &name).await {
                Ok(None) => Err(FileFault::Unknown),
                Ok(Some(file)) => {
                    let url = terms.public_url.as_deref().and_then(|base| {
                        self.file_url(base, &file, &draft.tool.server.name, call, until_ms / 1000)
                    });
                    url.ok_or(FileFault::Unavailable)
                }
                Err(problem) => {
                    tracing::warn!("a file could not be looked up: {problem}");
                    Err(FileFault::Unavailable)
                }
            };
            grant.found.push((name, url));
        }
        if grant.found.iter().any(|(_, url)| url.is_ok()) {
            if let Err(error) = self.store.open_grant(call, until_ms).await {
                tracing::warn!("file URLs could not be granted: {error}");
                grant.found.iter_mut().for_each(|(_, url)| *url = Err(FileFault::Unavailable));
            } else {
                grant.is_stored = true;
            }
        }
        Some(grant)
    }
}

impl FileUrlSource for FileGrant {
    fn url_for(&self, _: &Caller, name: &str, _: &ServerName, _: &str) -> Result<SignedUrl, FileFault> {
        let found = self.found.iter().find(|(known, _)| known == name);
        found.map_or(Err(FileFault::Unknown), |(_, url)| url.clone())
    }

    fn unknown_names(&self) -> UnknownName {
        self.unknown
    }
}

impl Drop for FileGrant {
    fn drop(&mut self) {
        // Runs however the call ended. If the gateway is killed, its next start ends all grants.
        if let (true, Ok(runtime)) = (self.is_stored, tokio::runtime::Handle::try_current()) {
            let (files, call) = (self.files.clone(), self.call);
            runtime.spawn(async move {
                let until_ms = files.clock.now_ms().saturating_add(milliseconds(files.terms().grace));
                if let Err(error) = files.store.end_grant(call, until_ms).await {
                    tracing::warn!("the file URLs of a call could not be revoked: {error}");
                }
            });
        }
    }
}

/// Whether a value is a URL, which never names a file, even if its path ends in a file's name.
fn is_url(name: &str) -> bool {
    name.contains("://")
}
