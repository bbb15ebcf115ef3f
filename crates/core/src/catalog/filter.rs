//! Which tools of a server enter the catalog, and which of them are asked about.

use crate::server::ServerEntry;
use globset::{Glob, GlobSet, GlobSetBuilder};

/// `tools.allow`, `tools.deny` and `tools.require_approval`, compiled. Deny wins. A pattern that does not
/// compile admits nothing, denies everything and asks about everything.
pub(super) struct Filter {
    allow: Option<GlobSet>,
    deny: Option<GlobSet>,
    ask: Option<GlobSet>,
}

impl Filter {
    pub(super) fn of(entry: &ServerEntry) -> Self {
        let compile = |patterns: &[String]| {
            let mut builder = GlobSetBuilder::new();
            for pattern in patterns {
                builder.add(Glob::new(pattern).ok()?);
            }
            builder.build().ok()
        };
        let rules = &entry.tools;
        let allow = if rules.allow.is_empty() { everything() } else { compile(&rules.allow) };
        Self { allow, deny: compile(&rules.deny), ask: compile(&rules.require_approval) }
    }

    pub(super) fn admits(&self, own: &str) -> bool {
        let denied = self.deny.as_ref().is_none_or(|deny| deny.is_match(own));
        !denied && self.allow.as_ref().is_some_and(|allow| allow.is_match(own))
    }

    pub(super) fn asks_about(&self, own: &str) -> bool {
        self.ask.as_ref().is_none_or(|ask| ask.is_match(own))
    }
}

fn everything() -> Option<GlobSet> {
    GlobSetBuilder::new().add(Glob::new("*").ok()?).build().ok()
}
