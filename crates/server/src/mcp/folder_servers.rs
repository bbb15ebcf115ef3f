//! The servers of the folders that local clients work in.

use async_trait::async_trait;
use std::fmt;
use std::path::Path;

/// Makes the servers of a folder available to the clients that work in it. The command line implements it, because it
/// reads configuration files.
#[async_trait]
pub trait FolderServers: fmt::Debug + Send + Sync {
    /// A client of the folder has connected. Returns when the gateway knows the folder's servers.
    async fn open(&self, folder: &Path);

    /// A client of the folder has gone.
    fn close(&self, folder: &Path);

    /// A client without a session has named the folder in a request. Its servers stay available for some minutes.
    async fn visit(&self, folder: &Path);
}
