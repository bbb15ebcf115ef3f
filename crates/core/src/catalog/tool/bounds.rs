//! Bounds: restrictions on who may use one tool, besides those of its server. The permission decision reads them.

use super::Tool;
use crate::manifest::ToolTerms;
use crate::server::ServerEntry;
use std::sync::Arc;

/// Restrictions on who may use one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bounds {
    /// Only callers of this persona.
    pub only_for: Option<Box<str>>,
    /// Not callers of these personas: they have their own tool of this name.
    pub shadowed_for: Vec<Box<str>>,
    /// A caller must be in one of these groups; absent means that only the server's groups decide.
    pub groups: Option<Vec<String>>,
    /// Only callers of one of these personas.
    pub personas: Option<Vec<String>>,
    /// The backing of each provider in its terms. A tool of a manifest is visible to callers who may use at least
    /// one of them.
    pub backing: Vec<Backing>,
    /// Only callers who may use one of these servers, which have precedence for the tool's plain name; empty means that
    /// this does not matter.
    pub only_with: Vec<Arc<ServerEntry>>,
    /// Only callers who may use none of these servers.
    pub only_without: Vec<Arc<ServerEntry>>,
}

/// The implementation behind a provider.
#[derive(Debug, Clone)]
pub enum Backing {
    /// A server's tool; several if personas have their own versions.
    Tools(Vec<Arc<Tool>>),
    /// The tool itself, on its own server.
    Itself,
    /// A configured server that has not listed its tools yet.
    Undiscovered(Arc<ServerEntry>),
    /// Something without access rules: an HTTP service, a model, or the gateway itself.
    Open,
    /// Nothing: the server does not exist, or does not have the tool.
    Missing,
}

impl PartialEq for Backing {
    /// Tools are compared by identity: a tool that was discovered again is a different one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tools(a), Self::Tools(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
            }
            (Self::Undiscovered(a), Self::Undiscovered(b)) => a == b,
            (Self::Itself, Self::Itself) | (Self::Open, Self::Open) | (Self::Missing, Self::Missing) => true,
            _ => false,
        }
    }
}

impl Backing {
    /// The server tools among it.
    pub fn tools(&self) -> &[Arc<Tool>] {
        match self {
            Self::Tools(tools) => tools,
            Self::Itself | Self::Undiscovered(_) | Self::Open | Self::Missing => &[],
        }
    }
}

impl Bounds {
    /// The bounds that a tool's terms set, if any.
    pub(in crate::catalog) fn of_terms(terms: &ToolTerms) -> Option<Self> {
        let bounds = Self {
            groups: terms.groups.clone(),
            personas: terms.persona_allowlist.clone(),
            ..Self::default()
        };
        (bounds != Self::default()).then_some(bounds)
    }
}

/// Whether the tools of a server have the same access rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAccess {
    /// All callers who may use the server may use all of its tools.
    Uniform,
    /// Some tools have their own bounds, so each must be checked.
    PerTool,
}

impl ToolAccess {
    /// The access rules of these tools.
    pub(in crate::catalog) fn of(tools: &[Arc<Tool>]) -> Self {
        if tools.iter().any(|tool| tool.bounds.is_some()) { Self::PerTool } else { Self::Uniform }
    }
}
