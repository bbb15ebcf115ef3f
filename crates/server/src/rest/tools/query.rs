//! The query of a list of tools, read strictly: what cannot be understood is named, with what may have been meant.

use super::super::asked::bad_query;
use serde::Deserialize;
use serde_json::Value;
use toolbooth_core::fault::Problem;
use toolbooth_core::registry::{
    Cursor, Direction, MAX_TEXT, Order, Shared, TextPattern, ToolQuery, Uncalled, VersionRange,
};
use toolbooth_core::server::SideEffects;
use utoipa::IntoParams;

/// How many tools a page holds when nobody says.
const USUAL_PAGE: usize = 100;
/// The most tools of a page.
const MAX_PAGE: usize = 1000;
/// The most parameters of a query.
const MAX_PARAMETERS: usize = 100;
/// Words that leave shared tools out.
const NO_SHARED: [&str; 3] = ["-shared", "!shared", "no-shared"];
/// The labels of side effects.
const SIDE_EFFECTS: [&str; 8] =
    ["none", "read_external_service", "network", "filesystem", "write", "database", "compute", "system"];

/// What a list of tools can be narrowed by.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters, for the document; `Narrowing::read` reads them")]
pub struct ToolParameters {
    /// Tools of these personas and shared ones; any of them, if there are several. `-shared` (also `!shared`,
    /// `no-shared`) leaves shared tools out. Only personas that the caller may take up.
    #[param(value_type = Option<Vec<String>>)]
    persona: Vec<String>,
    /// Tools of these servers.
    #[param(value_type = Option<Vec<String>>)]
    server: Vec<String>,
    /// Tools that all of these providers serve: `mcp`, `http`, or an id such as `mcp:github`.
    #[param(value_type = Option<Vec<String>>)]
    provider: Vec<String>,
    /// Tools with all of these capabilities.
    #[param(value_type = Option<Vec<String>>)]
    capability: Vec<String>,
    /// Tools with any of these labels: `none`, `read_external_service`, `network`, `filesystem`, `write`, `database`,
    /// `compute`, `system`.
    #[param(value_type = Option<Vec<String>>)]
    side_effects: Vec<String>,
    /// Tools whose version is in this range: `>=1.2, <2`, `^1.4`, `~1.2`, or one version. `1.2` means `1.2.0`.
    #[param(example = ">=1.2")]
    version: Option<String>,
    /// Tools of which at least this share of calls went well: `0.8`, or `80` in percent.
    #[param(minimum = 0, maximum = 100)]
    min_success_rate: Option<f64>,
    /// Whether tools that were never called count as good: `include` (the default) or `exclude`.
    #[param(inline)]
    unknown: Option<UnknownWord>,
    /// Tools whose name, description or arguments hold this text.
    #[param(max_length = 256)]
    q: Option<String>,
    /// The order: `name` (the default), `server`, `calls`, `success_rate` or `token_cost`; `-` in front turns it round.
    #[param(inline)]
    sort: Option<SortWord>,
    /// At most this many; brought into range (1 to 1000).
    limit: Option<u64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// `summary` (the default) or `full`: with parameters, definition, credentials and providers.
    #[param(inline)]
    view: Option<ViewWord>,
}

#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the words of a parameter, for the document")]
enum UnknownWord {
    Include,
    Exclude,
}

#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the words of a parameter, for the document")]
enum SortWord {
    #[schema(rename = "name")]
    Name,
    #[schema(rename = "-name")]
    NameDown,
    #[schema(rename = "server")]
    Server,
    #[schema(rename = "-server")]
    ServerDown,
    #[schema(rename = "calls")]
    Calls,
    #[schema(rename = "-calls")]
    CallsDown,
    #[schema(rename = "success_rate")]
    SuccessRate,
    #[schema(rename = "-success_rate")]
    SuccessRateDown,
    #[schema(rename = "token_cost")]
    TokenCost,
    #[schema(rename = "-token_cost")]
    TokenCostDown,
}

#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the words of a parameter, for the document")]
enum ViewWord {
    Summary,
    Full,
}

/// Every parameter, for those who mistype one.
pub(super) const PARAMETERS: [&str; 13] = [
    "persona",
    "server",
    "provider",
    "capability",
    "side_effects",
    "version",
    "min_success_rate",
    "unknown",
    "q",
    "sort",
    "limit",
    "cursor",
    "view",
];

/// How much of each tool is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What a list needs.
    Summary,
    /// Everything.
    Full,
}

/// A query, understood.
pub struct Narrowing {
    /// The personas to look through; none means as the caller is.
    pub personas: Vec<String>,
    /// What is wanted.
    pub query: ToolQuery,
    /// How much of it.
    pub detail: Detail,
}

impl Narrowing {
    /// Whether what is answered depends on more than the catalog.
    pub fn looks_at_records(&self) -> bool {
        self.query.success.is_some()
            || matches!(self.query.order.0, Order::Calls | Order::SuccessRate)
            || self.detail == Detail::Full
    }

    /// Reads the query of an address.
    pub fn read(query: &str) -> Result<Self, Problem> {
        let mut found = Found::default();
        for (count, (key, value)) in url::form_urlencoded::parse(query.as_bytes()).enumerate() {
            if count >= MAX_PARAMETERS {
                return Err(bad_query(format!("a query has at most {MAX_PARAMETERS} parameters")));
            }
            found.take(&key, value.into_owned())?;
        }
        found.understood()
    }
}

/// Parameters as they came.
#[derive(Default)]
struct Found {
    many: [Vec<String>; 5],
    one: [Option<String>; 8],
}

impl Found {
    fn take(&mut self, key: &str, value: String) -> Result<(), Problem> {
        let Some(at) = PARAMETERS.iter().position(|known| *known == key) else {
            let shown: String = key.chars().take(64).collect();
            let message = format!("there is no parameter `{shown}`{}", meant(key, &PARAMETERS));
            return Err(bad_query(message));
        };
        match at.checked_sub(self.many.len()) {
            None => self.many[at].push(value),
            Some(place) => {
                if self.one[place].replace(value).is_some() {
                    return Err(bad_query(format!("`{key}` stands twice")));
                }
            }
        }
        Ok(())
    }

    fn understood(self) -> Result<Narrowing, Problem> {
        let [personas, servers, providers, capabilities, side_effects] = self.many;
        let [version, rate, unknown, text, sort, limit, cursor, view] = self.one;
        let (negated, personas): (Vec<_>, Vec<_>) =
            personas.into_iter().partition(|name| NO_SHARED.contains(&name.as_str()));
        let uncalled = match unknown.as_deref() {
            None | Some("include") => Uncalled::Include,
            Some("exclude") => Uncalled::Exclude,
            Some(other) => return Err(no_word("unknown", other, &["include", "exclude"])),
        };
        let detail = match view.as_deref() {
            None | Some("summary") => Detail::Summary,
            Some("full") => Detail::Full,
            Some(other) => return Err(no_word("view", other, &["summary", "full"])),
        };
        let order = sort.as_deref().map_or(Ok((Order::Name, Direction::Up)), order)?;
        let query = ToolQuery {
            servers,
            providers,
            capabilities: toolbooth_core::manifest::tags(capabilities.iter().map(String::as_str)),
            side_effects: side_effects.iter().map(|label| side_effect(label)).collect::<Result<_, _>>()?,
            version: version.as_deref().map(range).transpose()?,
            success: rate.as_deref().map(least_rate).transpose()?.map(|rate| (rate, uncalled)),
            text: text.as_deref().map(pattern).transpose()?,
            shared: if negated.is_empty() { Shared::Wanted } else { Shared::LeftOut },
            order,
            limit: limit.as_deref().map_or(Ok(USUAL_PAGE), page_length)?,
            after: cursor.as_deref().map(|text| page_end(text, order)).transpose()?,
        };
        Ok(Narrowing { personas, query, detail })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// What may have been meant.
fn meant(word: &str, known: &[&str]) -> String {
    let near = known.iter().map(|known| (strsim::jaro_winkler(word, known), known));
    match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, known)) if likeness > 0.8 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

fn no_word(parameter: &str, word: &str, known: &[&str]) -> Problem {
    let near = meant(word, known);
    bad_query(format!("`{parameter}` is one of {}, not `{}`{near}", known.join(", "), shown(word)))
}

fn order(word: &str) -> Result<(Order, Direction), Problem> {
    let (plain, direction) = match word.strip_prefix('-') {
        Some(plain) => (plain, Direction::Down),
        None => (word, Direction::Up),
    };
    let known = Order::ALL.map(Order::as_str);
    plain.parse().map(|order| (order, direction)).map_err(|_| no_word("sort", word, &known))
}

fn side_effect(label: &str) -> Result<SideEffects, Problem> {
    SideEffects::deserialize(Value::from(label)).map_err(|_| no_word("side_effects", label, &SIDE_EFFECTS))
}

fn range(text: &str) -> Result<VersionRange, Problem> {
    VersionRange::read(text).ok_or_else(|| {
        bad_query(format!(
            "`version` is a range such as `>=1.2, <2`, `^1.4` or `1.2.0`, not `{}`",
            shown(text)
        ))
    })
}

/// A share, or a percentage: whatever is above one is meant in percent.
fn least_rate(text: &str) -> Result<f64, Problem> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        Ok(percent) if percent > 1.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err(bad_query(format!(
            "`min_success_rate` is a number from 0 to 1, or up to 100 in percent, not `{}`",
            shown(text)
        ))),
    }
}

fn pattern(text: &str) -> Result<TextPattern, Problem> {
    TextPattern::read(text).ok_or_else(|| bad_query(format!("`q` holds at most {MAX_TEXT} bytes")))
}

fn page_length(text: &str) -> Result<usize, Problem> {
    match text.parse::<u64>() {
        Ok(limit) => Ok(usize::try_from(limit).unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE)),
        Err(_) => Err(bad_query(format!("`limit` is a number, not `{}`", shown(text)))),
    }
}

fn page_end(text: &str, order: (Order, Direction)) -> Result<Cursor, Problem> {
    Cursor::read(text, order)
        .ok_or_else(|| bad_query("`cursor` is the `next_cursor` of a page in the same order".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::openapi::path::ParameterIn;

    #[test]
    fn what_cannot_be_understood_is_named() {
        let cases = [
            ("limt=3", "there is no parameter `limt`; did you mean `limit`?"),
            ("colour=red", "there is no parameter `colour`"),
            ("q=a&q=b", "`q` stands twice"),
            ("version=%3E%3Ex", "`version` is a range such as `>=1.2, <2`, `^1.4` or `1.2.0`, not `>>x`"),
            ("side_effects=netwrk", "not `netwrk`; did you mean `network`?"),
            (
                "sort=nmae",
                "`sort` is one of name, server, calls, success_rate, token_cost, not `nmae`; did you mean `name`?",
            ),
            ("min_success_rate=much", "not `much`"),
            ("min_success_rate=-1", "not `-1`"),
            ("min_success_rate=NaN", "not `NaN`"),
            ("unknown=maybe", "`unknown` is one of include, exclude, not `maybe`"),
            ("view=all", "`view` is one of summary, full, not `all`"),
            ("limit=-3", "`limit` is a number, not `-3`"),
            ("cursor=x", "`cursor` is the `next_cursor`"),
        ];
        for (query, expected) in cases {
            let problem = Narrowing::read(query).err().expect(query);
            assert_eq!(problem.code, "request.bad-query");
            assert!(problem.message.contains(expected), "{query}: {}", problem.message);
        }
    }

    #[test]
    fn several_values_are_all_heeded() {
        let read = Narrowing::read("persona=a&persona=b&persona=-shared&capability=Web+Search&limit=0");
        let read = read.expect("a query");
        assert_eq!(read.personas, ["a", "b"]);
        assert_eq!(read.query.shared, Shared::LeftOut);
        assert_eq!(read.query.capabilities, ["web_search"]);
        assert_eq!(read.query.limit, 1);
        let rates = ["0.8", "80"].map(|rate| Narrowing::read(&format!("min_success_rate={rate}")));
        let [share, percent] = rates.map(|read| read.expect("a rate").query.success);
        assert_eq!(share, percent);
    }

    #[test]
    fn every_parameter_is_in_the_document() {
        let documented = ToolParameters::into_params(|| Some(ParameterIn::Query));
        let documented: Vec<String> = documented.into_iter().map(|parameter| parameter.name).collect();
        assert_eq!(documented, PARAMETERS);
    }
}
