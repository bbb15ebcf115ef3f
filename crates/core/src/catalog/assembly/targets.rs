//! Finds the discovered tool that a manifest entry refers to.

use super::{Assembler, ToolPosition};
use crate::catalog::naming::NamingStyle;
use crate::manifest::Manifest;
use crate::names::ServerName;

impl Assembler<'_> {
    /// The discovered tool that an entry refers to.
    pub(super) fn target(&self, manifest: &Manifest) -> Option<ToolPosition> {
        if let Some((server, tool)) = manifest.wrapped() {
            return self.find(server, tool);
        }
        let position = self
            .named(&manifest.name)
            .or_else(|| self.bound(manifest))
            .or_else(|| self.wrapped_by_shared(manifest))?;
        // With bare names, any server could take the name of a tool that others serve.
        let is_safe = manifest.providers.is_empty()
            || self.input.naming.style != NamingStyle::Bare
            || manifest.served_by().any(|(server, _)| *server == position.0);
        is_safe.then_some(position)
    }

    /// The only discovered tool whose own name an entry without providers has.
    fn bound(&self, manifest: &Manifest) -> Option<ToolPosition> {
        let only = self.bare.get(&*manifest.name).filter(|_| manifest.providers.is_empty())?.clone()?;
        (!self.names_other_server(&manifest.name, &only.0)).then_some(only)
    }

    /// The tool that the shared entry wraps whose fields an entry of a persona overrides.
    fn wrapped_by_shared(&self, manifest: &Manifest) -> Option<ToolPosition> {
        let (server, tool) = self.wrapped.get(&*manifest.name).filter(|_| manifest.providers.is_empty())?;
        self.find(server, tool)
    }

    /// Whether a name begins with another configured server's name. It means that server's tool, even if the tool is
    /// not listed yet: no server may take it by giving one of its tools such a name.
    fn names_other_server(&self, name: &str, found: &ServerName) -> bool {
        if name.starts_with("mcp.") || name.starts_with("mcp__") {
            return true;
        }
        let name = name.strip_prefix("mcp_").unwrap_or(name);
        let is_configured = |server: &ServerName| {
            self.input.base.contains_key(server) || (self.input.configured)(server).is_some()
        };
        name.char_indices().filter(|(_, c)| "_.".contains(*c)).any(|(at, _)| {
            name[..at].parse::<ServerName>().is_ok_and(|server| server != *found && is_configured(&server))
        })
    }

    fn named(&self, name: &str) -> Option<ToolPosition> {
        let discovered = |position: &ToolPosition| !self.input.base[&position.0].entry.is_own();
        if let Some(position) = self.exposed.get(name).filter(|position| discovered(position)) {
            return Some(position.clone());
        }
        if let Some(position) = self.long_names.get(name).filter(|position| discovered(position)) {
            return Some(position.clone());
        }
        let canonical = name.strip_prefix("mcp.")?;
        let mut named = self.input.base.keys().filter_map(|server| {
            let own = canonical.strip_prefix(server.as_str())?.strip_prefix('.')?;
            self.find(server, own).filter(discovered)
        });
        // Servers `a` and `a.b` may have tools with the same id, which is then ambiguous.
        named.next().filter(|_| named.next().is_none())
    }

    fn find(&self, server: &ServerName, own: &str) -> Option<ToolPosition> {
        let part = self.input.base.get(server).filter(|part| !part.entry.is_own())?;
        let index = part.tools.binary_search_by(|tool| (*tool.name).cmp(own)).ok()?;
        Some((server.clone(), index))
    }
}
