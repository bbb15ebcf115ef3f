//! Which tools of a server enter the catalog, and which of them need approval.

use super::patterns::ToolPatterns;
use crate::server::ServerEntry;

/// `tools.allow`, `tools.deny` and `tools.require_approval`, compiled. Deny wins. A pattern that does not compile
/// allows nothing, denies everything and requires approval for everything.
pub struct ServerToolFilter<'a> {
    server: &'a str,
    allow: Option<ToolPatterns>,
    deny: Option<ToolPatterns>,
    ask: Option<ToolPatterns>,
}

impl<'a> ServerToolFilter<'a> {
    /// The rules of a server's entry.
    pub fn of(entry: &'a ServerEntry) -> Self {
        let compile = |texts: &[String]| ToolPatterns::new(texts).ok();
        let rules = &entry.tools;
        Self {
            server: entry.name.as_str(),
            allow: compile(&rules.allow),
            deny: compile(&rules.deny),
            ask: compile(&rules.require_approval),
        }
    }

    /// Whether a tool with this name enters the catalog.
    pub fn admits(&self, own: &str) -> bool {
        let denied = self.deny.as_ref().is_none_or(|deny| deny.match_any_pair(self.server, own));
        // A glob such as `git_*` refers to own names here; matched on qualified names it would admit all tools of a
        // server `git`.
        let allowed = self.allow.as_ref().is_some_and(|allow| {
            allow.is_empty() || allow.match_own(self.server, own) || allow.equal_qualified(self.server, own)
        });
        !denied && allowed
    }

    pub(super) fn asks_about(&self, own: &str) -> bool {
        self.ask.as_ref().is_none_or(|ask| ask.match_any_pair(self.server, own))
    }
}
