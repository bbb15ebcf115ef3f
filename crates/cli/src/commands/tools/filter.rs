//! What a list of tools is narrowed by: the parameters of `GET /tools`, as options.

use crate::remote::segment;
use clap::Args;

/// Which tools are listed. Every option stands for the parameter of the same name.
#[derive(Debug, Clone, Default, Args)]
pub struct Filter {
    /// Only tools of this server; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub server: Vec<String>,
    /// Only tools whose name, description or arguments hold this text.
    #[arg(long, value_name = "TEXT")]
    pub q: Option<String>,
    /// Tools of any of these personas, and shared ones. (`--persona` looks through one, in every command.)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub personas: Vec<String>,
    /// Leave out tools that belong to no persona.
    #[arg(long)]
    pub no_shared: bool,
    /// Only tools with this provider: `mcp`, `http`, or an id such as `mcp:github`; several times: with all of them.
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Vec<String>,
    /// Only tools that can do this; several times: that can do all of it.
    #[arg(long, value_name = "TAG")]
    pub capability: Vec<String>,
    /// Only tools with this label: `none`, `network`, `write` and so on; several times: with any of them.
    #[arg(long, value_name = "LABEL")]
    pub side_effects: Vec<String>,
    /// Only tools of these versions: `>=1.2, <2`, `^1.4`, `~1.2`, or one version.
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// Only tools of which this share of calls went well: `0.8`, or `80` in percent.
    #[arg(long, value_name = "RATE")]
    pub min_success_rate: Option<String>,
    /// Whether tools that were never called count as good: `include` or `exclude`.
    #[arg(long, value_name = "WORD")]
    pub unknown: Option<String>,
    /// The order: `name`, `server`, `calls`, `success_rate`, `token_cost` or `quality`; `-` in front turns it round.
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// How much of each tool, with `--json`: `summary` or `full`.
    #[arg(long, value_name = "WORD")]
    pub view: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

impl Filter {
    /// The address of one page.
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

    /// Whether anything was asked for but a number.
    pub fn narrows(&self) -> bool {
        self.path(1, None) != Self::default().path(1, None)
    }

    /// The one server whose tools are wanted.
    pub fn only_server(&self) -> Option<&str> {
        match self.server.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }
}
