//! Bounds: what narrows who may use one tool, beyond what holds for its server. The one decision reads them.

use super::tool::Tool;
use crate::manifest::ToolTerms;
use crate::server::ServerEntry;
use std::sync::Arc;

/// What narrows who may use one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bounds {
    /// Only callers of this persona.
    pub only_for: Option<Box<str>>,
    /// Not callers of these personas: they have a tool of this name of their own.
    pub shadowed_for: Vec<Box<str>>,
    /// Any of these groups admits; absent means that the server's decide alone.
    pub groups: Option<Vec<String>>,
    /// Only callers of one of these personas.
    pub personas: Option<Vec<String>>,
    /// Who serves it, one for each of the providers in its terms. A tool of a manifest is there for those who
    /// may use at least one of them.
    pub backing: Vec<Backing>,
}

/// Who stands behind a provider.
#[derive(Debug, Clone)]
pub enum Backing {
    /// A tool of a server; several where personas have versions of their own.
    Tools(Vec<Arc<Tool>>),
    /// The tool itself, on its own server.
    Itself,
    /// A server that has not told yet what it offers.
    Unheard(Arc<ServerEntry>),
    /// Nobody who could refuse a caller: an HTTP service, a model, the gateway itself.
    Open,
    /// Nobody: there is no such server, or it offers no such tool.
    Nobody,
}

impl PartialEq for Backing {
    /// A tool is itself: one that was discovered anew is another.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tools(a), Self::Tools(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
            }
            (Self::Unheard(a), Self::Unheard(b)) => a == b,
            (Self::Itself, Self::Itself) | (Self::Open, Self::Open) | (Self::Nobody, Self::Nobody) => true,
            _ => false,
        }
    }
}

impl Backing {
    /// The tools it stands for.
    pub fn tools(&self) -> &[Arc<Tool>] {
        match self {
            Self::Tools(tools) => tools,
            Self::Itself | Self::Unheard(_) | Self::Open | Self::Nobody => &[],
        }
    }
}

impl Bounds {
    /// The bounds that a tool's terms set; none where they set none.
    pub(super) fn of_terms(terms: &ToolTerms) -> Option<Self> {
        let bounds = Self {
            groups: terms.groups.clone(),
            personas: terms.persona_allowlist.clone(),
            ..Self::default()
        };
        (bounds != Self::default()).then_some(bounds)
    }
}

/// Whether the tools of a server are the same for all who may use the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evenness {
    /// They are.
    Even,
    /// Each must be asked about: some are for some callers only.
    Uneven,
}

impl Evenness {
    /// What holds for these tools.
    pub(super) fn of(tools: &[Arc<Tool>]) -> Self {
        if tools.iter().any(|tool| tool.bounds.is_some()) { Self::Uneven } else { Self::Even }
    }
}
