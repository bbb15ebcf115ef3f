//! The options that filter a list of tools: the query parameters of `GET /tools`.

use crate::remote_gateway::segment;
use clap::Args;

/// Filters of a list of tools. Every option is the query parameter of the same name.
#[derive(Debug, Clone, Default, Args)]
pub struct ToolListFilter {
    /// Only tools of this server; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub server: Vec<String>,
    /// Only tools whose name, description or arguments contain this text.
    #[arg(long, value_name = "TEXT")]
    pub q: Option<String>,
    /// Tools of any of these personas, and shared ones. (`--persona` selects the view of one persona.)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub personas: Vec<String>,
    /// Exclude tools that do not belong to a persona.
    #[arg(long)]
    pub no_shared: bool,
    /// Only tools with this provider: `mcp`, `http`, or an id such as `mcp:github`; if repeated, with all of them.
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Vec<String>,
    /// Only tools with this capability; if repeated, with all of them.
    #[arg(long, value_name = "TAG")]
    pub capability: Vec<String>,
    /// Only tools with this label: `none`, `network`, `write` and so on; if repeated, with any of them.
    #[arg(long, value_name = "LABEL")]
    pub side_effects: Vec<String>,
    /// Only tools in this version range: `>=1.2, <2`, `^1.4`, `~1.2`, or one version.
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// Only tools with at least this success rate: `0.8`, or `80` in percent.
    #[arg(long, value_name = "RATE")]
    pub min_success_rate: Option<String>,
    /// Whether to list tools that were never called: `include` or `exclude`.
    #[arg(long, value_name = "WORD")]
    pub unknown: Option<String>,
    /// Sort by `name`, `server`, `calls`, `success_rate`, `token_cost` or `quality`; a leading `-` reverses the order.
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Level of detail with `--json`: `summary` or `full`.
    #[arg(long, value_name = "WORD")]
    pub view: Option<String>,
    /// Maximum number of tools.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

impl ToolListFilter {
    /// The path of one page.
    pub fn path(&self, limit: usize, cursor: Option<&str>) -> String {
        let Self {
            server,
            q,
            personas,
            no_shared,
            provider,
            capability,
            side_effects,
            version,
            min_success_rate,
            unknown,
            sort,
            view,
            limit: _,
        } = self;
        let mut path = format!("/tools?limit={limit}");
        let mut say = |key: &str, value: &str| path.push_str(&format!("&{key}={}", segment(value)));
        let many = [
            ("server", server),
            ("persona", personas),
            ("provider", provider),
            ("capability", capability),
            ("side_effects", side_effects),
        ];
        for (key, values) in many {
            values.iter().for_each(|value| say(key, value));
        }
        if *no_shared {
            say("persona", "-shared");
        }
        let one = [
            ("q", q),
            ("version", version),
            ("min_success_rate", min_success_rate),
            ("unknown", unknown),
            ("sort", sort),
            ("view", view),
        ];
        for (key, value) in one {
            value.iter().for_each(|value| say(key, value));
        }
        cursor.iter().for_each(|cursor| say("cursor", cursor));
        path
    }

    /// Whether any filter other than the limit is set.
    pub fn narrows(&self) -> bool {
        self.path(1, None) != Self::default().path(1, None)
    }

    /// The server, if the filter names exactly one.
    pub fn only_server(&self) -> Option<&str> {
        match self.server.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }
}
