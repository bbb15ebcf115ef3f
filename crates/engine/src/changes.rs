//! What clients are told of: lists that changed, resources that changed.

use std::sync::Arc;
use toolbooth_core::catalog::ListKind;
use toolbooth_core::exposure::Loaded;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;

/// A change that clients may want to hear of.
#[derive(Debug, Clone)]
pub enum Change {
    /// A list has another content.
    List(ListKind),
    /// A session has loaded tools: its own list has another content.
    Loaded(Arc<Loaded>),
    /// A resource has another content: the parameters of the server's notification.
    Resource {
        /// The server it is on.
        server: ServerName,
        /// The parameters.
        params: RawJson,
    },
}

impl Change {
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
