//! Registry queries: filter, sort and page through the tools of a caller's view.

mod cursor;
mod version;

pub use cursor::PageCursor;
pub use version::VersionRange;

use crate::catalog::Tool;
use crate::manifest::{ProviderKind, ProviderSpec};
use crate::names::ServerName;
use crate::server::SideEffects;
use regex::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::sync::Arc;

/// The maximum length of a search text.
pub const MAX_TEXT: usize = 256;

crate::words::words! {
    /// The sort order of tools.
    pub enum ToolOrder("order") {
        /// By exposed name.
        Name = "name",
        /// By server, then by name.
        Server = "server",
        /// By number of calls.
        Calls = "calls",
        /// By success rate.
        SuccessRate = "success_rate",
        /// By token cost.
        TokenCost = "token_cost",
        /// By quality score.
        Quality = "quality",
    }
}

/// The direction of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Up,
    /// Descending.
    Down,
}

/// Whether a query includes tools that belong to no persona.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SharedTools {
    /// They are included.
    #[default]
    Included,
    /// Only tools of a persona are included.
    Excluded,
}

/// How a success-rate filter treats tools that were never called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uncalled {
    /// They are included.
    #[default]
    Include,
    /// They are excluded.
    Exclude,
}

/// Recent call statistics of a tool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallStatistics {
    /// The number of calls.
    pub calls: u64,
    /// The share of successful calls, from 0 to 1.
    pub success_rate: f64,
}

/// Lookups that a query needs besides the catalog.
pub struct QueryContext<'a> {
    /// The call statistics of a tool; `None` if it was never called.
    pub record: &'a dyn Fn(&Tool) -> Option<CallStatistics>,
    /// Whether the caller may see a server.
    pub sees: &'a dyn Fn(&ServerName) -> bool,
}

/// A query for tools. With several values, a tool must match any server and side effect, and every provider and
/// capability.
#[derive(Debug, Clone)]
pub struct ToolQuery {
    /// Servers.
    pub servers: Vec<String>,
    /// Providers, by id or kind.
    pub providers: Vec<String>,
    /// Capability tags, in canonical form.
    pub capabilities: Vec<String>,
    /// Side effects.
    pub side_effects: Vec<SideEffects>,
    /// Versions.
    pub version: Option<VersionRange>,
    /// The minimum success rate, and how tools without one are treated.
    pub success: Option<(f64, Uncalled)>,
    /// A text in the definition.
    pub text: Option<TextPattern>,
    /// Whether shared tools are included.
    pub shared: SharedTools,
    /// The sort order.
    pub order: (ToolOrder, Direction),
    /// The page size.
    pub limit: usize,
    /// The end of the previous page.
    pub after: Option<PageCursor>,
}

/// One page of the tools that match a query.
#[derive(Debug)]
pub struct QueryPage<'a> {
    /// The tools.
    pub tools: Vec<&'a Arc<Tool>>,
    /// The cursor of the next page, if there is one.
    pub next: Option<PageCursor>,
}

/// A search text, matched without regard to case.
#[derive(Debug, Clone)]
pub struct TextPattern(Regex);

impl TextPattern {
    /// Compiles a text; `None` if it is too long.
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
    /// The page of these tools, which must be sorted by name.
    ///
    /// In that order, no tool beyond the end of the page is examined.
    pub fn page<'a>(
        &self,
        tools: impl Iterator<Item = &'a Arc<Tool>>,
        context: &QueryContext<'_>,
    ) -> QueryPage<'a> {
        let wanted = tools.filter(|tool| self.wants(tool, context));
        if self.order == (ToolOrder::Name, Direction::Up) {
            let after = self.after.as_ref().map(|cursor| cursor.name.as_str());
            let mut rest = wanted.skip_while(|tool| after.is_some_and(|after| *tool.exposed <= *after));
            let tools: Vec<_> = rest.by_ref().take(self.limit).collect();
            let more = rest.next().is_some();
            return self.cut(tools, more, context);
        }
        let mut all: Vec<(String, &Arc<Tool>)> = wanted.map(|tool| (self.key(tool, context), tool)).collect();
        if let Some(cursor) = &self.after {
            all.retain(|(key, tool)| {
                self.compare((key, &tool.exposed), (&cursor.key, &cursor.name)) == Ordering::Greater
            });
        }
        all.sort_unstable_by(|(a, one), (b, other)| self.compare((a, &one.exposed), (b, &other.exposed)));
        let more = all.len() > self.limit;
        self.cut(all.into_iter().take(self.limit).map(|(_, tool)| tool).collect(), more, context)
    }

    fn cut<'a>(&self, tools: Vec<&'a Arc<Tool>>, more: bool, context: &QueryContext<'_>) -> QueryPage<'a> {
        let next = tools.last().filter(|_| more).map(|last| PageCursor {
            order: self.order,
            key: self.key(last, context),
            name: last.exposed.to_string(),
        });
        QueryPage { tools, next }
    }

    /// The sort key of a tool as text: numbers are zero-padded, unknown values sort first.
    fn key(&self, tool: &Tool, context: &QueryContext<'_>) -> String {
        match self.order.0 {
            ToolOrder::Name => String::new(),
            ToolOrder::Server => tool.server.name.to_string(),
            ToolOrder::Quality => format!("{:03}", tool.quality()),
            ToolOrder::Calls => {
                (context.record)(tool).map_or_else(String::new, |r| format!("{:020}", r.calls))
            }
            ToolOrder::SuccessRate => {
                let millionths = |record: CallStatistics| format!("{:07.0}", record.success_rate * 1e6);
                (context.record)(tool).map_or_else(String::new, millionths)
            }
            ToolOrder::TokenCost => format!("{:010}", tool.token_cost()),
        }
    }

    fn compare(&self, a: (&String, &str), b: (&str, &str)) -> Ordering {
        let up = (a.0.as_str(), a.1).cmp(&b);
        if self.order.1 == Direction::Up { up } else { up.reverse() }
    }

    /// Whether a tool matches. Cheap conditions are checked first.
    fn wants(&self, tool: &Tool, context: &QueryContext<'_>) -> bool {
        let terms = &tool.terms;
        let is_server = |name: &String| tool.server.name.as_str() == name;
        let has_tag = |tag: &String| terms.capabilities.binary_search(tag).is_ok();
        (self.servers.is_empty() || self.servers.iter().any(is_server))
            && (self.side_effects.is_empty() || self.side_effects.contains(&terms.side_effects))
            && (self.shared == SharedTools::Included || !is_shared(tool))
            && self.capabilities.iter().all(has_tag)
            && self.version.as_ref().is_none_or(|range| range.holds(terms.version.as_ref()))
            && self.providers.iter().all(|wanted| is_served_by(tool, wanted, context.sees))
            && self.text.as_ref().is_none_or(|text| text.is_in(tool.definition.as_str()))
            && self.success.is_none_or(|(least, uncalled)| match (context.record)(tool) {
                Some(record) => record.success_rate >= least,
                None => uncalled == Uncalled::Include,
            })
    }
}

/// Whether a tool belongs to no persona.
pub fn is_shared(tool: &Tool) -> bool {
    tool.server.personas.is_empty() && tool.terms.persona_allowlist.is_none() && version_of(tool).is_none()
}

/// The persona that owns a tool: the one whose manifest defines it or has its own version of it, or the only one of
/// its server. `None` for a shared tool.
pub fn owner_of(tool: &Tool) -> Option<&str> {
    version_of(tool).or_else(|| match tool.server.personas.as_slice() {
        [only] => Some(only.as_str()),
        _ => None,
    })
}

/// The persona that this version of a tool is for, if others have another one.
fn version_of(tool: &Tool) -> Option<&str> {
    tool.bounds.as_deref()?.only_for.as_deref()
}

/// The word for the kind of a provider.
pub fn kind_of(provider: &ProviderSpec) -> &str {
    match &provider.kind {
        ProviderKind::Mcp { .. } => "mcp",
        ProviderKind::Http(_) => "http",
        ProviderKind::Builtin(_) => "builtin",
        ProviderKind::OpenAi { .. } => "openai",
        ProviderKind::Skill(_) => "skill",
        ProviderKind::Unknown(kind) => kind,
    }
}

/// The id of a provider, unless it names a server that the caller may not see.
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
