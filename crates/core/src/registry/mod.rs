//! Registry queries: which tools of a caller's view are wanted, in which order, page by page.

mod cursor;
mod version;

pub use cursor::Cursor;
pub use version::VersionRange;

use crate::catalog::Tool;
use crate::manifest::{ProviderKind, ProviderSpec};
use crate::names::ServerName;
use crate::server::SideEffects;
use regex::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::sync::Arc;

/// The longest text that is looked for.
pub const MAX_TEXT: usize = 256;

crate::words::words! {
    /// What tools are ordered by.
    pub enum Order("order") {
        /// Their exposed names.
        Name = "name",
        /// Their servers, then their names.
        Server = "server",
        /// How often they were called.
        Calls = "calls",
        /// How often that went well.
        SuccessRate = "success_rate",
        /// What they cost a model.
        TokenCost = "token_cost",
    }
}

/// Which way an order runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From small to large.
    Up,
    /// From large to small.
    Down,
}

/// Whether tools that belong to no persona are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shared {
    /// They are.
    #[default]
    Wanted,
    /// Only tools of a persona are.
    LeftOut,
}

/// What becomes of tools that were never called, when a success rate is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uncalled {
    /// They are let through: nothing speaks against them.
    #[default]
    Include,
    /// They are left out.
    Exclude,
}

/// How a tool did lately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// How often it was called.
    pub calls: u64,
    /// The share of calls that went well, from 0 to 1.
    pub success_rate: f64,
}

/// What a query asks about a tool that is not in the catalog.
pub struct Lens<'a> {
    /// How it did lately; nothing where it was never called.
    pub record: &'a dyn Fn(&Tool) -> Option<Record>,
    /// Whether the caller may see a server.
    pub sees: &'a dyn Fn(&ServerName) -> bool,
}

/// What tools are wanted. Several values of one kind: any server, any side effect; every provider, every capability.
#[derive(Debug, Clone)]
pub struct ToolQuery {
    /// Servers.
    pub servers: Vec<String>,
    /// Providers, by id or kind.
    pub providers: Vec<String>,
    /// Capability tags, in their plain form.
    pub capabilities: Vec<String>,
    /// What they do to the world.
    pub side_effects: Vec<SideEffects>,
    /// Versions.
    pub version: Option<VersionRange>,
    /// The least success rate, and what holds for tools that have none.
    pub success: Option<(f64, Uncalled)>,
    /// A text in their definition.
    pub text: Option<TextPattern>,
    /// Whether shared tools are wanted.
    pub shared: Shared,
    /// What they are ordered by.
    pub order: (Order, Direction),
    /// How many at most.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<Cursor>,
}

/// Some of the tools that are wanted.
#[derive(Debug)]
pub struct ToolPage<'a> {
    /// The tools.
    pub tools: Vec<&'a Arc<Tool>>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// A text that is looked for, whatever its case.
#[derive(Debug, Clone)]
pub struct TextPattern(Regex);

impl TextPattern {
    /// Reads it; nothing where it is too long.
    pub fn read(text: &str) -> Option<Self> {
        let fits = text.len() <= MAX_TEXT;
        let pattern = fits.then(|| RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build())?;
        pattern.ok().map(Self)
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl ToolQuery {
    /// The page of these tools, which stand in the order of their names.
    ///
    /// In that order nothing is looked at beyond the end of the page.
    pub fn page<'a>(&self, tools: impl Iterator<Item = &'a Arc<Tool>>, lens: &Lens<'_>) -> ToolPage<'a> {
        let wanted = tools.filter(|tool| self.wants(tool, lens));
        if self.order == (Order::Name, Direction::Up) {
            let after = self.after.as_ref().map(|cursor| cursor.name.as_str());
            let mut rest = wanted.skip_while(|tool| after.is_some_and(|after| *tool.exposed <= *after));
            let tools: Vec<_> = rest.by_ref().take(self.limit).collect();
            let more = rest.next().is_some();
            return self.cut(tools, more, lens);
        }
        let mut all: Vec<(String, &Arc<Tool>)> = wanted.map(|tool| (self.key(tool, lens), tool)).collect();
        if let Some(cursor) = &self.after {
            all.retain(|(key, tool)| {
                self.compare((key, &tool.exposed), (&cursor.key, &cursor.name)) == Ordering::Greater
            });
        }
        all.sort_unstable_by(|(a, one), (b, other)| self.compare((a, &one.exposed), (b, &other.exposed)));
        let more = all.len() > self.limit;
        self.cut(all.into_iter().take(self.limit).map(|(_, tool)| tool).collect(), more, lens)
    }

    fn cut<'a>(&self, tools: Vec<&'a Arc<Tool>>, more: bool, lens: &Lens<'_>) -> ToolPage<'a> {
        let next = tools.last().filter(|_| more).map(|last| Cursor {
            order: self.order,
            key: self.key(last, lens),
            name: last.exposed.to_string(),
        });
        ToolPage { tools, next }
    }

    /// What a tool is ordered by, as text: numbers with all their places, the unknown before everything.
    fn key(&self, tool: &Tool, lens: &Lens<'_>) -> String {
        match self.order.0 {
            Order::Name => String::new(),
            Order::Server => tool.server.name.to_string(),
            Order::Calls => (lens.record)(tool).map_or_else(String::new, |r| format!("{:020}", r.calls)),
            Order::SuccessRate => {
                let millionths = |record: Record| format!("{:07.0}", record.success_rate * 1e6);
                (lens.record)(tool).map_or_else(String::new, millionths)
            }
            Order::TokenCost => format!("{:010}", tool.token_cost()),
        }
    }

    fn compare(&self, a: (&String, &str), b: (&str, &str)) -> Ordering {
        let up = (a.0.as_str(), a.1).cmp(&b);
        if self.order.1 == Direction::Up { up } else { up.reverse() }
    }

    /// Whether a tool is wanted. What costs least is asked first.
    fn wants(&self, tool: &Tool, lens: &Lens<'_>) -> bool {
        let terms = &tool.terms;
        let is_server = |name: &String| tool.server.name.as_str() == name;
        let has_tag = |tag: &String| terms.capabilities.binary_search(tag).is_ok();
        (self.servers.is_empty() || self.servers.iter().any(is_server))
            && (self.side_effects.is_empty() || self.side_effects.contains(&terms.side_effects))
            && (self.shared == Shared::Wanted || !is_shared(tool))
            && self.capabilities.iter().all(has_tag)
            && self.version.as_ref().is_none_or(|range| range.holds(terms.version.as_ref()))
            && self.providers.iter().all(|wanted| is_served_by(tool, wanted, lens.sees))
            && self.text.as_ref().is_none_or(|text| text.is_in(tool.definition.as_str()))
            && self.success.is_none_or(|(least, uncalled)| match (lens.record)(tool) {
                Some(record) => record.success_rate >= least,
                None => uncalled == Uncalled::Include,
            })
    }
}

/// Whether a tool belongs to no persona.
pub fn is_shared(tool: &Tool) -> bool {
    tool.server.personas.is_empty() && tool.terms.persona_allowlist.is_none()
}

/// The word of a kind of provider.
pub fn kind_of(provider: &ProviderSpec) -> &str {
    match &provider.kind {
        ProviderKind::Mcp { .. } => "mcp",
        ProviderKind::Http(_) => "http",
        ProviderKind::Builtin(_) => "builtin",
        ProviderKind::OpenAi { .. } => "openai",
        ProviderKind::Unknown(kind) => kind,
    }
}

/// What a provider is called to somebody: another's server is nobody's business who may not use it.
pub fn shown_id<'a>(provider: &'a ProviderSpec, sees: &dyn Fn(&ServerName) -> bool) -> Option<&'a str> {
    match &provider.kind {
        ProviderKind::Mcp { server, .. } if !sees(server) => None,
        _ => Some(&provider.id),
    }
}

fn is_served_by(tool: &Tool, wanted: &str, sees: &dyn Fn(&ServerName) -> bool) -> bool {
    if tool.terms.providers.is_empty() {
        let server = tool.server.name.as_str();
        return wanted == "mcp" || wanted.strip_prefix("mcp:") == Some(server);
    }
    let is = |spec: &ProviderSpec| kind_of(spec) == wanted || shown_id(spec, sees) == Some(wanted);
    tool.terms.providers.iter().any(is)
}
