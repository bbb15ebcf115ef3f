//! Parses the query of a tool list strictly. Errors name the unknown part and the closest known one.

use super::super::detail::Detail;
use super::super::extract::bad_query;
use serde::Deserialize;
use serde_json::Value;
use toolbooth_core::fault::Problem;
use toolbooth_core::registry::{
    Direction, MAX_TEXT, PageCursor, SharedTools, TextPattern, ToolOrder, ToolQuery, Uncalled, VersionRange,
};
use toolbooth_core::server::SideEffects;
use utoipa::IntoParams;

/// Default number of tools per page.
const DEFAULT_PAGE: usize = 100;
/// Maximum number of tools per page.
const MAX_PAGE: usize = 1000;
/// The query for as many tools as a page may have; `/tools` has further pages.
const MOST_TOOLS: &str = "limit=1000";
/// Maximum number of parameters in a query.
const MAX_PARAMETERS: usize = 100;
/// Values of `persona` that exclude shared tools.
const NO_SHARED: [&str; 3] = ["-shared", "!shared", "no-shared"];
/// The labels of side effects.
const SIDE_EFFECTS: [&str; 8] =
    ["none", "read_external_service", "network", "filesystem", "write", "database", "compute", "system"];

/// Filters for a list of tools.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters for the OpenAPI document; `ToolListQuery::read` parses them")]
pub struct ToolParameters {
    /// Tools of any of these personas, and shared tools. `-shared` (also `!shared`, `no-shared`) excludes shared tools.
    /// Only personas that the caller may select.
    #[param(value_type = Option<Vec<String>>)]
    persona: Vec<String>,
    /// Tools of any of these servers.
    #[param(value_type = Option<Vec<String>>)]
    server: Vec<String>,
    /// Tools that have all of these providers: `mcp`, `http`, or an id such as `mcp:github`.
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
    /// Tools with at least this success rate: `0.8`, or `80` for percent.
    #[param(minimum = 0, maximum = 100)]
    min_success_rate: Option<f64>,
    /// Whether `min_success_rate` includes tools that were never called: `include` (the default) or `exclude`.
    #[param(inline)]
    unknown: Option<UnknownWord>,
    /// Tools whose name, description or arguments contain this text.
    #[param(max_length = 256)]
    q: Option<String>,
    /// The sort key: `name` (the default), `server`, `calls`, `success_rate`, `token_cost` or `quality`. A leading `-`
    /// reverses the order.
    #[param(inline)]
    sort: Option<SortWord>,
    /// Maximum number of tools. Values out of range are clamped (1 to 1000).
    limit: Option<u64>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// `summary` (the default) or `full`, which adds parameters, definition, credentials and providers.
    #[param(inline)]
    view: Option<ViewWord>,
}

#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the values of a parameter, for the OpenAPI document")]
enum UnknownWord {
    Include,
    Exclude,
}

#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the values of a parameter, for the OpenAPI document")]
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
    #[schema(rename = "quality")]
    Quality,
    #[schema(rename = "-quality")]
    QualityDown,
}

#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the values of a parameter, for the OpenAPI document")]
enum ViewWord {
    Summary,
    Full,
}

/// All parameters, for suggestions.
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

/// A parsed query.
pub struct ToolListQuery {
    /// The personas to use; if empty, the caller is unchanged.
    pub personas: Vec<String>,
    /// Filters and order.
    pub query: ToolQuery,
    /// The level of detail.
    pub detail: Detail,
}

impl ToolListQuery {
    /// Whether the response depends on recent calls and not only on the catalog.
    pub fn looks_at_records(&self) -> bool {
        self.query.success.is_some()
            || matches!(self.query.order.0, ToolOrder::Calls | ToolOrder::SuccessRate)
            || self.detail == Detail::Full
    }

    /// Parses a query that has only personas, as that of a list of all tools.
    pub fn of_personas(query: &str) -> Result<Self, Problem> {
        let mut names = url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
        if let Some(name) = names.find(|name| name != "persona") {
            let name: String = name.chars().take(64).collect();
            return Err(bad_query(format!("unknown query parameter `{name}`; expected `persona`")));
        }
        match query.is_empty() {
            true => Self::read(MOST_TOOLS),
            false => Self::read(&format!("{MOST_TOOLS}&{query}")),
        }
    }

    /// Parses a query string.
    pub fn read(query: &str) -> Result<Self, Problem> {
        let mut parameters = RawParameters::default();
        for (count, (key, value)) in url::form_urlencoded::parse(query.as_bytes()).enumerate() {
            if count >= MAX_PARAMETERS {
                return Err(bad_query(format!("a query may have at most {MAX_PARAMETERS} parameters")));
            }
            parameters.take(&key, value.into_owned())?;
        }
        parameters.parse()
    }
}

/// Parameters as text.
#[derive(Default)]
struct RawParameters {
    many: [Vec<String>; 5],
    one: [Option<String>; 8],
}

impl RawParameters {
    fn take(&mut self, key: &str, value: String) -> Result<(), Problem> {
        let Some(at) = PARAMETERS.iter().position(|known| *known == key) else {
            let shown: String = key.chars().take(64).collect();
            let message = format!("unknown query parameter `{shown}`{}", did_you_mean(key, &PARAMETERS));
            return Err(bad_query(message));
        };
        match at.checked_sub(self.many.len()) {
            None => self.many[at].push(value),
            Some(place) => {
                if self.one[place].replace(value).is_some() {
                    return Err(bad_query(format!("`{key}` is given twice")));
                }
            }
        }
        Ok(())
    }

    fn parse(self) -> Result<ToolListQuery, Problem> {
        let [personas, servers, providers, capabilities, side_effects] = self.many;
        let [version, rate, unknown, text, sort, limit, cursor, view] = self.one;
        let (negated, personas): (Vec<_>, Vec<_>) =
            personas.into_iter().partition(|name| NO_SHARED.contains(&name.as_str()));
        let uncalled = match unknown.as_deref() {
            None | Some("include") => Uncalled::Include,
            Some("exclude") => Uncalled::Exclude,
            Some(other) => return Err(unknown_value("unknown", other, &["include", "exclude"])),
        };
        let detail = match view.as_deref() {
            None | Some("summary") => Detail::Summary,
            Some("full") => Detail::Full,
            Some(other) => return Err(unknown_value("view", other, &["summary", "full"])),
        };
        let order = sort.as_deref().map_or(Ok((ToolOrder::Name, Direction::Up)), order)?;
        let query = ToolQuery {
            servers,
            providers,
            capabilities: toolbooth_core::manifest::tags(capabilities.iter().map(String::as_str)),
            side_effects: side_effects.iter().map(|label| side_effect(label)).collect::<Result<_, _>>()?,
            version: version.as_deref().map(range).transpose()?,
            success: rate.as_deref().map(least_rate).transpose()?.map(|rate| (rate, uncalled)),
            text: text.as_deref().map(pattern).transpose()?,
            shared: if negated.is_empty() { SharedTools::Included } else { SharedTools::Excluded },
            order,
            limit: limit.as_deref().map_or(Ok(DEFAULT_PAGE), page_length)?,
            after: cursor.as_deref().map(|text| page_end(text, order)).transpose()?,
        };
        Ok(ToolListQuery { personas, query, detail })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A suggestion of the closest known word.
fn did_you_mean(word: &str, known: &[&str]) -> String {
    let near = known.iter().map(|known| (strsim::jaro_winkler(word, known), known));
    match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, known)) if likeness > 0.8 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

fn unknown_value(parameter: &str, word: &str, known: &[&str]) -> Problem {
    let near = did_you_mean(word, known);
    bad_query(format!("`{parameter}` must be one of {}, not `{}`{near}", known.join(", "), shown(word)))
}

fn order(word: &str) -> Result<(ToolOrder, Direction), Problem> {
    let (plain, direction) = match word.strip_prefix('-') {
        Some(plain) => (plain, Direction::Down),
        None => (word, Direction::Up),
    };
    let known = ToolOrder::ALL.map(ToolOrder::as_str);
    plain.parse().map(|order| (order, direction)).map_err(|_| unknown_value("sort", word, &known))
}

fn side_effect(label: &str) -> Result<SideEffects, Problem> {
    SideEffects::deserialize(Value::from(label))
        .map_err(|_| unknown_value("side_effects", label, &SIDE_EFFECTS))
}

fn range(text: &str) -> Result<VersionRange, Problem> {
    VersionRange::read(text).ok_or_else(|| {
        bad_query(format!(
            "`version` must be a range such as `>=1.2, <2`, `^1.4` or `1.2.0`, not `{}`",
            shown(text)
        ))
    })
}

/// A rate from 0 to 1; values above 1 are percentages.
fn least_rate(text: &str) -> Result<f64, Problem> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        Ok(percent) if percent > 1.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err(bad_query(format!(
            "`min_success_rate` must be a number from 0 to 1, or a percentage up to 100, not `{}`",
            shown(text)
        ))),
    }
}

fn pattern(text: &str) -> Result<TextPattern, Problem> {
    TextPattern::read(text).ok_or_else(|| bad_query(format!("`q` may have at most {MAX_TEXT} bytes")))
}

fn page_length(text: &str) -> Result<usize, Problem> {
    match text.parse::<u64>() {
        Ok(limit) => Ok(usize::try_from(limit).unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE)),
        Err(_) => Err(bad_query(format!("`limit` must be a number, not `{}`", shown(text)))),
    }
}

fn page_end(text: &str, order: (ToolOrder, Direction)) -> Result<PageCursor, Problem> {
    PageCursor::read(text, order)
        .ok_or_else(|| bad_query("`cursor` must be the `next_cursor` of a page in the same order".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::openapi::path::ParameterIn;

    #[test]
    fn errors_name_the_invalid_part() {
        let cases = [
            ("limt=3", "unknown query parameter `limt`; did you mean `limit`?"),
            ("colour=red", "unknown query parameter `colour`"),
            ("q=a&q=b", "`q` is given twice"),
            (
                "version=%3E%3Ex",
                "`version` must be a range such as `>=1.2, <2`, `^1.4` or `1.2.0`, not `>>x`",
            ),
            ("side_effects=netwrk", "not `netwrk`; did you mean `network`?"),
            (
                "sort=nmae",
                "`sort` must be one of name, server, calls, success_rate, token_cost, quality, not `nmae`; did you mean `name`?",
            ),
            ("min_success_rate=much", "not `much`"),
            ("min_success_rate=-1", "not `-1`"),
            ("min_success_rate=NaN", "not `NaN`"),
            ("unknown=maybe", "`unknown` must be one of include, exclude, not `maybe`"),
            ("view=all", "`view` must be one of summary, full, not `all`"),
            ("limit=-3", "`limit` must be a number, not `-3`"),
            ("cursor=x", "`cursor` must be the `next_cursor`"),
        ];
        for (query, expected) in cases {
            let problem = ToolListQuery::read(query).err().expect(query);
            assert_eq!(problem.code, "request.bad-query");
            assert!(problem.message.contains(expected), "{query}: {}", problem.message);
        }
    }

    #[test]
    fn repeated_parameters_are_combined() {
        let read = ToolListQuery::read("persona=a&persona=b&persona=-shared&capability=Web+Search&limit=0");
        let read = read.expect("a query");
        assert_eq!(read.personas, ["a", "b"]);
        assert_eq!(read.query.shared, SharedTools::Excluded);
        assert_eq!(read.query.capabilities, ["web_search"]);
        assert_eq!(read.query.limit, 1);
        let rates = ["0.8", "80"].map(|rate| ToolListQuery::read(&format!("min_success_rate={rate}")));
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
