//! Changes that clients are notified of.

use std::sync::Arc;
use toolbooth_core::catalog::ListKind;
use toolbooth_core::exposure::LoadedTools;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;

/// A change that clients are notified of.
#[derive(Debug, Clone)]
pub enum ChangeNotice {
    /// The content of a list changed.
    List(ListKind),
    /// A session loaded tools, so its own list changed.
    Loaded(Arc<LoadedTools>),
    /// A resource changed.
    Resource {
        /// The server that has the resource.
        server: ServerName,
        /// The parameters of the server's notification.
        params: RawJson,
    },
}

impl ChangeNotice {
    /// The method of the notification.
    pub fn method(&self) -> &'static str {
        match self {
            Self::List(ListKind::Tools) | Self::Loaded(_) => "notifications/tools/list_changed",
            Self::List(ListKind::Prompts) => "notifications/prompts/list_changed",
            Self::List(ListKind::Resources | ListKind::Templates) => "notifications/resources/list_changed",
            Self::Resource { .. } => "notifications/resources/updated",
        }
    }
}
