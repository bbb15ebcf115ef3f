//! Who may see an event, by the current permissions on its server and tool.

use super::LiveCatalog;
use crate::events::StreamItem;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::Tool;
use toolbooth_core::event::Event;
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{EventSubjects, Permission, on_event};
use toolbooth_core::server::ServerEntry;

impl LiveCatalog {
    /// Whether a caller may see an event, by their current permissions.
    pub fn may_see_event(&self, caller: &Caller, event: &Event) -> bool {
        on_event(caller, event, self) == Permission::Granted
    }

    /// An item of a stream as a caller may see it; `None` if they may not.
    pub fn visible_item(&self, caller: &Caller, item: StreamItem) -> Option<StreamItem> {
        match item {
            StreamItem::Event(_, event) if !self.may_see_event(caller, &event) => None,
            // The number of other users' events is not shown.
            StreamItem::Gap { id, reason, .. } if caller.admin == Admin::No => {
                Some(StreamItem::Gap { id, reason, missed: None })
            }
            item => Some(item),
        }
    }
}

impl EventSubjects for LiveCatalog {
    fn server(&self, name: &str) -> Option<Arc<ServerEntry>> {
        let name: ServerName = name.parse().ok()?;
        self.shared.servers.entry(&name)
    }

    fn tool(&self, server: &str, name: &str) -> Option<Arc<Tool>> {
        let server: ServerName = server.parse().ok()?;
        let catalog = self.load();
        let part = catalog.servers().get(&server)?;
        part.tools.iter().find(|tool| *tool.name == *name).cloned()
    }
}
