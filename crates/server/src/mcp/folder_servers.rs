//! The servers of the folders that local clients work in.

use async_trait::async_trait;
use std::fmt;
use std::path::Path;

/// Makes the servers of a folder available to the clients that work in it. The command line implements it, because it
/// reads configuration files.
#[async_trait]
pub trait FolderServers: fmt::Debug + Send + Sync {
    /// A client of the folder has connected. Returns whether it counts as one: only then [`Self::close`] must be called. It
    /// does not wait, so that the caller can note the client before it awaits [`Self::apply`].
    fn enter(&self, folder: &Path) -> bool;

    /// Returns when the gateway knows the servers of all folders. The work continues if the future is dropped.
    async fn apply(&self);

    /// A client of the folder has gone.
    fn close(&self, folder: &Path);

    /// A client without a session has named the folder in a request. Its servers stay available for some minutes.
    async fn visit(&self, folder: &Path);
}
