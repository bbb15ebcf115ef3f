//! Surfaces: definitions in the form for a mode and a client, and their token cost.

use super::Mode;
use super::choice::{ExposureTerms, Size};
use super::signature::cut;
use crate::caller::Caller;
use crate::catalog::{Catalog, Tool};
use crate::clients::{Dialect, InputSchemas, ListedTaskSupport, OutputSchemas};
use crate::json::{Edit, Member, ObjectWriter, RawJson, edit_object, with_members};
use crate::own_names;
use crate::weigh;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Keywords that are not allowed at the top of a plain schema.
const COMBINED: [&str; 3] = ["anyOf", "oneOf", "allOf"];
/// The maximum number of branches of a combined schema whose properties are shown.
const MAX_BRANCHES: usize = 64;
/// The maximum number of properties shown from such branches.
const MAX_ADDED: usize = 1000;

/// The form of a list: everything that its bytes depend on, besides the catalog and the caller.
#[derive(Debug, Clone, Copy)]
pub struct ListShape<'a> {
    /// The mode.
    pub mode: Mode,
    /// The limits of the client's tool definitions.
    pub dialect: Dialect,
    /// The exposure settings.
    pub terms: &'a ExposureTerms,
}

/// The cache key of a form.
pub(super) type ShapeKey = (Mode, Dialect, u64);

impl ListShape<'_> {
    pub(super) fn key(&self) -> ShapeKey {
        (self.mode, self.dialect, self.terms.key())
    }

    /// Whether the list of these tools equals the catalog's own.
    pub(super) fn is_plain<'t>(&self, mut tools: impl Iterator<Item = &'t Arc<Tool>>) -> bool {
        let Dialect { output, tasks, .. } = self.dialect;
        let is_adapted = |tool: &Arc<Tool>| {
            (output == OutputSchemas::Objects && has_odd_output(&tool.definition))
                || execution_for(&tool.definition, tasks).is_some()
        };
        let rest = Dialect { output: OutputSchemas::Any, tasks: ListedTaskSupport::AsServed, ..self.dialect };
        let takes_all = self.dialect == rest;
        self.mode == Mode::Full && rest == Dialect::ANY && (takes_all || !tools.any(is_adapted))
    }

    /// The entry of a tool in the list, or `None` if it is not listed. `loaded` are the names a session has loaded.
    pub(super) fn entry<'t>(&self, tool: &'t Tool, loaded: &[Box<str>]) -> Option<Cow<'t, RawJson>> {
        let entry = self.served_entry(tool, loaded)?;
        Some(with_task_support(entry, self.dialect.tasks))
    }

    /// The same without the announcement of tasks.
    fn served_entry<'t>(&self, tool: &'t Tool, loaded: &[Box<str>]) -> Option<Cow<'t, RawJson>> {
        if tool.server.is_own() {
            let is_listed = match self.mode {
                Mode::Search => own_names::is_listed(&tool.name),
                Mode::Full | Mode::Summary => !tool.is_meta(),
            };
            return is_listed.then_some(Cow::Borrowed(&tool.definition));
        }
        let is_pinned = || self.terms.pins.match_any(tool);
        match self.mode {
            Mode::Full => Some(adapted(tool, &self.dialect)),
            Mode::Summary if is_pinned() => Some(adapted(tool, &self.dialect)),
            Mode::Summary => {
                let name = name_for(tool, &self.dialect);
                Some(Cow::Owned(summary(tool, &name, self.terms.description_limit)))
            }
            Mode::Search if loaded.contains(&tool.exposed) || is_pinned() => {
                Some(adapted(tool, &self.dialect))
            }
            Mode::Search => None,
        }
    }
}

/// A short definition: the name, the start of the description, and the smallest valid schema.
pub fn summary(tool: &Tool, name: &str, limit: usize) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(name.len() + limit + 64);
    writer.text("name", name);
    if let Some(description) = tool.description() {
        writer.text("description", &cut(&description, limit));
    }
    writer.raw("inputSchema", &RawJson::trusted(&br#"{"type":"object"}"#[..]));
    writer.finish()
}

/// The name of a tool for a client.
fn name_for<'t>(tool: &'t Tool, dialect: &Dialect) -> Cow<'t, str> {
    match dialect.longest_name {
        Some(limit) if tool.exposed.len() > limit => Cow::Owned(tool.shortened(limit)),
        _ => Cow::Borrowed(&tool.exposed),
    }
}

/// The definition adapted to a client; borrowed if it needs no change.
fn adapted<'t>(tool: &'t Tool, dialect: &Dialect) -> Cow<'t, RawJson> {
    let name = match name_for(tool, dialect) {
        Cow::Owned(name) => Some(RawJson::from_value(&name)),
        Cow::Borrowed(_) => None,
    };
    let schema = match dialect.input {
        InputSchemas::Any => None,
        InputSchemas::Plain => plain(&tool.input_schema()),
    };
    let loses_output = dialect.output == OutputSchemas::Objects && has_odd_output(&tool.definition);
    if name.is_none() && schema.is_none() && !loses_output {
        return Cow::Borrowed(&tool.definition);
    }
    let edited = edit_object(&tool.definition, |key, _| match (key, &name, &schema) {
        ("name", Some(name), _) => Edit::Replace(name.clone()),
        ("inputSchema", _, Some(schema)) => Edit::Replace(schema.clone()),
        ("outputSchema", ..) if loses_output => Edit::Drop,
        _ => Edit::Keep,
    });
    edited.map_or(Cow::Borrowed(&tool.definition), Cow::Owned)
}

/// A definition with the `execution` that the client is shown; unchanged if it has that already.
fn with_task_support(definition: Cow<'_, RawJson>, shown: ListedTaskSupport) -> Cow<'_, RawJson> {
    let Some(execution) = execution_for(&definition, shown) else { return definition };
    match with_members(&definition, &[("execution", execution)]) {
        Ok(listed) => Cow::Owned(listed),
        Err(_) => definition,
    }
}

/// The `execution` of a definition for a client; `None` if it stays as it is.
fn execution_for(definition: &RawJson, shown: ListedTaskSupport) -> Option<RawJson> {
    if shown == ListedTaskSupport::AsServed {
        return None;
    }
    let [execution] = definition.pick(["execution"]);
    let execution = execution.map(|execution| definition.share(execution)).filter(RawJson::is_object);
    let [support] = execution.as_ref().map_or([None], |execution| execution.pick(["taskSupport"]));
    let is_changed = match shown {
        ListedTaskSupport::AsServed => false,
        ListedTaskSupport::NotRequired => support == Some("\"required\""),
        ListedTaskSupport::Optional => support != Some("\"optional\""),
    };
    let optional = RawJson::trusted(&br#""optional""#[..]);
    let given = execution.clone().unwrap_or_else(RawJson::empty_object);
    is_changed.then(|| with_members(&given, &[("taskSupport", optional)]).ok()).flatten()
}

/// Whether a definition has an output schema that is not declared as an object.
fn has_odd_output(definition: &RawJson) -> bool {
    let [output] = definition.pick(["outputSchema"]);
    output.is_some_and(|output| {
        let schema = definition.share(output);
        schema.pick(["type"]) != [Some("\"object\"")]
    })
}

/// A schema without the combining keywords at its top; `None` if it has none. Arguments that only a branch declares
/// are added to the properties. The gateway itself still checks the original schema.
fn plain(schema: &RawJson) -> Option<RawJson> {
    let [dialect, any, one, all, properties] =
        schema.pick(["$schema", "anyOf", "oneOf", "allOf", "properties"]);
    dialect.or(any).or(one).or(all)?;
    let without = edit_object(schema, |key, _| match key {
        "$schema" => Edit::Drop,
        key if COMBINED.contains(&key) => Edit::Drop,
        _ => Edit::Keep,
    });
    let without = without.ok()?;
    let own = properties.and_then(|properties| schema.share(properties).members().ok()).unwrap_or_default();
    let branches =
        [any, one, all].into_iter().flatten().filter_map(|list| schema.share(list).elements().ok());
    let object = RawJson::trusted(&br#""object""#[..]);
    let set: &[(&str, RawJson)] = match gathered(own, branches.flatten()) {
        Some(gathered) => &[("type", object), ("properties", gathered)],
        None => &[("type", object)],
    };
    with_members(&without, set).ok()
}

/// A schema's own properties, followed by those that only its branches declare. `None` if the branches add none.
fn gathered(own: Vec<Member>, branches: impl Iterator<Item = RawJson>) -> Option<RawJson> {
    let mut seen: HashSet<String> = own.iter().map(|declared| declared.key.clone()).collect();
    let added: Vec<Member> = branches
        .take(MAX_BRANCHES)
        .filter_map(|branch| branch.member("properties")?.members().ok())
        .flatten()
        .filter(|declared| seen.insert(declared.key.clone()))
        .take(MAX_ADDED)
        .collect();
    if added.is_empty() {
        return None;
    }
    let mut writer = ObjectWriter::default();
    for declared in own.iter().chain(&added) {
        writer.raw(&declared.key, &declared.value);
    }
    Some(writer.finish())
}

/// The token cost of each mode for a caller's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeCosts {
    /// The number of tools.
    pub tools: usize,
    /// The full list.
    pub full: u64,
    /// The list of summaries.
    pub summary: u64,
    /// The meta tools and pinned ones.
    pub search: u64,
}

impl ModeCosts {
    /// Computes the costs of a caller's tools. Counts every tool, so it is not for every list.
    pub fn of(catalog: &Catalog, caller: &Caller, dialect: Dialect, terms: &ExposureTerms) -> Self {
        let mut weights = Self { tools: catalog.tools(caller).count(), full: 0, summary: 0, search: 0 };
        let shape = |mode| ListShape { mode, dialect, terms };
        let own = catalog.visible(caller).filter(|server| server.entry.is_own()).flat_map(|part| &part.tools);
        for tool in own.chain(catalog.tools(caller)) {
            let weight = |mode| {
                // Counted like a tool's own cost: the part of a definition that models see.
                u64::from(shape(mode).entry(tool, &[]).map_or(0, |entry| match entry {
                    Cow::Borrowed(_) => tool.token_cost(),
                    Cow::Owned(entry) => weigh::definition_tokens(&entry),
                }))
            };
            weights.full += weight(Mode::Full);
            weights.summary += weight(Mode::Summary);
            weights.search += weight(Mode::Search);
        }
        weights
    }
}

/// How much of a caller's tools fits into the budget. Stops counting as soon as that is known.
pub(super) fn size(catalog: &Catalog, caller: &Caller, terms: &ExposureTerms, budget: u32) -> Size {
    let fits = |cost: &dyn Fn(&Tool) -> u32| {
        let mut tools = catalog.tools(caller);
        tools.try_fold(budget, |left, tool| left.checked_sub(cost(tool))).is_some()
    };
    if fits(&Tool::token_cost) {
        return Size::Small;
    }
    match fits(&|tool| weigh::definition_tokens(&summary(tool, &tool.exposed, terms.description_limit))) {
        true => Size::Medium,
        false => Size::Large,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;
    use std::sync::Arc;

    fn tool(name: &str, definition: &str) -> Tool {
        let mut tool = Tool::bare(Arc::new(entry("srv")), name, &format!("srv_{name}"));
        tool.definition = RawJson::parse(definition.to_owned()).expect("a definition");
        tool
    }

    #[test]
    fn a_summary_has_a_name_a_start_and_the_smallest_schema() {
        let tool = tool(
            "a",
            r#"{"name":"srv_a","description":"Größer als früher.","inputSchema":{"type":"object","properties":{"x":{}}},"annotations":{}}"#,
        );
        assert_eq!(
            summary(&tool, "srv_a", 7).as_str(),
            r#"{"name":"srv_a","description":"Größer…","inputSchema":{"type":"object"}}"#
        );
    }

    #[test]
    fn definitions_are_adapted_to_the_client() {
        let cases = [
            (r#"{"type":"object","properties":{"a":{"anyOf":[]}}}"#, None),
            (
                r#"{"$schema":"x","type":"object","properties":{"a":1.0}}"#,
                Some(r#"{"type":"object","properties":{"a":1.0}}"#),
            ),
            (
                r#"{"anyOf":[{"properties":{"a":true,"b":true}},{"properties":{"b":false}}],"properties":{"a":{}}}"#,
                Some(r#"{"properties":{"a":{},"b":true},"type":"object"}"#),
            ),
            (
                r#"{"properties":7,"allOf":[{"properties":{"a":{}}}]}"#,
                Some(r#"{"properties":{"a":{}},"type":"object"}"#),
            ),
            (r#"{"oneOf":7}"#, Some(r#"{"type":"object"}"#)),
        ];
        for (schema, expected) in cases {
            let made = plain(&RawJson::parse(schema.to_owned()).expect("JSON"));
            assert_eq!(made.as_ref().map(RawJson::as_str), expected, "{schema}");
        }
    }

    #[test]
    fn a_branch_with_many_properties_is_read_once() {
        let many: Vec<String> = (0..20_000).map(|n| format!(r#""p{n}":{{"type":"string"}}"#)).collect();
        let many = many.join(",");
        let schema =
            format!(r#"{{"properties":{{"p7":{{}},{many}}},"anyOf":[{{"properties":{{{many}}}}}]}}"#);
        let nothing_new = RawJson::parse(schema).expect("JSON");
        let all_new =
            RawJson::parse(format!(r#"{{"properties":{{"a":{{}}}},"anyOf":[{{"properties":{{{many}}}}}]}}"#))
                .expect("JSON");
        let count = |schema: &RawJson| {
            let made = plain(schema).expect("another schema");
            made.member("properties").expect("properties").members().expect("an object").len()
        };
        let times = (0..3).map(|_| {
            let start = std::time::Instant::now();
            assert_eq!(count(&nothing_new), 20_001);
            assert_eq!(count(&all_new), 1 + MAX_ADDED);
            start.elapsed()
        });
        let least = times.min().expect("three"); // A busy machine is slow at times.
        assert!(least.as_secs() < 4, "{least:?}");
    }

    #[test]
    fn output_schemas_other_than_objects_are_removed_for_legacy_clients() {
        let legacy = Dialect { output: OutputSchemas::Objects, ..Dialect::ANY };
        for odd in [r#"{"type":"array"}"#, "true", "{}", r#"{"type":["object","null"]}"#] {
            let tool = tool("a", &format!(r#"{{"name":"srv_a","outputSchema":{odd},"title":"A"}}"#));
            assert_eq!(adapted(&tool, &legacy).as_str(), r#"{"name":"srv_a","title":"A"}"#);
            assert!(matches!(adapted(&tool, &Dialect::ANY), Cow::Borrowed(_)));
        }
        for even in [r#"{"name":"srv_a"}"#, r#"{"name":"srv_a","outputSchema":{"type":"object"}}"#] {
            assert!(matches!(adapted(&tool("a", even), &legacy), Cow::Borrowed(_)), "{even}");
        }
    }

    #[test]
    fn tasks_are_announced_to_each_client_in_its_own_way() {
        use ListedTaskSupport::{AsServed, NotRequired, Optional};
        let optional = r#"{"name":"a","execution":{"taskSupport":"optional"}}"#;
        let required = r#"{"name":"a","execution":{"taskSupport":"required"}}"#;
        let cases = [
            (r#"{"name":"a"}"#, AsServed, None),
            (r#"{"name":"a"}"#, NotRequired, None),
            (r#"{"name":"a"}"#, Optional, Some(optional)),
            (r#"{"name":"a","execution":7}"#, Optional, Some(optional)),
            (required, AsServed, None),
            (required, NotRequired, Some(optional)),
            (required, Optional, Some(optional)),
            (optional, Optional, None),
            (r#"{"name":"a","execution":{"taskSupport":"forbidden"}}"#, NotRequired, None),
        ];
        for (given, shown, expected) in cases {
            let definition = RawJson::parse(given.to_owned()).expect("JSON");
            let listed = with_task_support(Cow::Borrowed(&definition), shown);
            assert_eq!(listed.as_str(), expected.unwrap_or(given), "{shown:?}");
            assert_eq!(matches!(listed, Cow::Borrowed(_)), expected.is_none(), "{given}");
        }
    }

    #[test]
    fn only_names_that_are_too_long_are_truncated() {
        let dialect = Dialect { longest_name: Some(20), ..Dialect::ANY };
        let short = tool("a", r#"{"name":"srv_a"}"#);
        assert!(matches!(adapted(&short, &dialect), Cow::Borrowed(_)));
        let long = tool(&"x".repeat(30), r#"{"name":"srv_x","inputSchema":{}}"#);
        let made = adapted(&long, &dialect).member("name").expect("a name");
        let made = made.string().expect("text").into_owned();
        assert_eq!(made.len(), 20);
        assert_eq!(made, long.shortened(20));
    }
}
