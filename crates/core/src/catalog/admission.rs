//! Admission: from what a server sent to what enters the catalog. One bad definition harms only itself.

use super::bounds::{Bounds, Evenness};
use super::filter::Filter;
use super::hidden::{Hiding, Injected, Unsearched};
use super::naming::Naming;
use super::tool::{Discovery, Offer, Tool};
use crate::cursor::nests_deeper;
use crate::json::{Member, ObjectWriter, RawJson};
use crate::manifest::{AuthHints, Overlay, ToolTerms};
use crate::schema::{Coverage, Patterns, survey};
use crate::search::Part;
use crate::server::ServerEntry;
use bytes::{Bytes, BytesMut};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// The most tools one server may bring in.
pub const MAX_TOOLS: usize = 20_000;
/// The longest definition that is listed.
pub const MAX_DEFINITION_BYTES: usize = 1024 * 1024;
/// The deepest definition that is listed. Readers that stop at 128 levels could read no list that has it.
pub const MAX_DEFINITION_DEPTH: usize = 100;

/// A definition that did not enter the catalog, or not as it came, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// `tool`, `prompt`, `resource` or `template`: it did not enter. `name`: the tool has another name.
    /// `schema`: the tool is there, but not all of its arguments are checked.
    pub kind: &'static str,
    /// Its name as far as one could be read, or a preview of the text.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Everything one server brings into the catalog.
#[derive(Debug)]
pub struct ServerCatalog {
    /// The server.
    pub entry: Arc<ServerEntry>,
    /// Its tools, by their own name.
    pub tools: Vec<Arc<Tool>>,
    /// The definitions of all its tools, joined by commas: ready bytes for a list.
    pub tools_text: Bytes,
    /// Its prompts.
    pub prompts: Vec<Offer>,
    /// Its resources.
    pub resources: Vec<Offer>,
    /// Its resource templates.
    pub templates: Vec<Offer>,
    /// What the server can do.
    pub capabilities: Option<RawJson>,
    /// Its advice to models.
    pub instructions: Option<String>,
    /// What did not enter.
    pub set_aside: Vec<SetAside>,
    /// Whether those who may use the server may use all of its tools.
    pub evenness: Evenness,
    /// What search knows of its tools, found out when somebody first searches.
    pub(super) reading: OnceLock<Arc<Part>>,
}

impl ServerCatalog {
    /// What search knows of its tools. It stays with this part, whatever becomes of others.
    pub(crate) fn reading(&self, read: impl FnOnce(&Self) -> Part) -> Arc<Part> {
        self.reading.get_or_init(|| Arc::new(read(self))).clone()
    }
}

/// Builds a server's part of the catalog. `taken` holds the names other servers already have.
pub fn admit(
    entry: &Arc<ServerEntry>,
    discovery: &Discovery,
    naming: &Naming,
    taken: &dyn Fn(&str) -> bool,
) -> ServerCatalog {
    let mut set_aside = Vec::new();
    let (tools, tools_text) = admit_tools(entry, &discovery.tools, naming, taken, &mut set_aside);
    let mut offers = |kind, list: &[RawJson], key, rename: &dyn Fn(&str) -> String| {
        admit_offers(entry, kind, list, key, rename, &mut set_aside)
    };
    let prompts =
        offers("prompt", &discovery.prompts, "name", &|own| naming.expose(entry.name.as_str(), own));
    let same = |own: &str| own.to_owned();
    let resources = offers("resource", &discovery.resources, "uri", &same);
    let templates = offers("template", &discovery.templates, "uriTemplate", &same);
    ServerCatalog {
        entry: entry.clone(),
        evenness: Evenness::of(&tools),
        tools,
        tools_text,
        prompts,
        resources,
        templates,
        capabilities: discovery.capabilities.clone(),
        instructions: discovery.instructions.clone(),
        set_aside,
        reading: OnceLock::new(),
    }
}

struct Candidate<'a> {
    own: String,
    members: Vec<Member>,
    source: &'a RawJson,
    injected: Option<Box<Injected>>,
    needs_approval: bool,
}

fn admit_tools(
    entry: &Arc<ServerEntry>,
    definitions: &[RawJson],
    naming: &Naming,
    taken: &dyn Fn(&str) -> bool,
    set_aside: &mut Vec<SetAside>,
) -> (Vec<Arc<Tool>>, Bytes) {
    let filter = Filter::of(entry);
    let hiding = Hiding::of(&entry.inject);
    let mut patterns = Patterns::default();
    let mut candidates = Vec::with_capacity(definitions.len().min(MAX_TOOLS));
    let mut seen = HashSet::new();
    for source in definitions.iter().take(MAX_TOOLS) {
        match read_tool(source) {
            Ok((own, _)) if !filter.admits(&own) => {}
            Ok((own, _)) if !seen.insert(own.clone()) => {
                set_aside.push(SetAside {
                    kind: "tool",
                    name: own,
                    reason: "the server lists this name twice".into(),
                });
            }
            Ok((own, mut members)) => match make_public(&mut members, &hiding, &mut patterns) {
                Ok((injected, coverage)) => {
                    if coverage != Coverage::Whole {
                        let reason = coverage.to_string();
                        set_aside.push(SetAside { kind: "schema", name: own.clone(), reason });
                    }
                    let needs_approval = filter.asks_about(&own);
                    candidates.push(Candidate { own, members, source, injected, needs_approval });
                }
                Err(reason) => set_aside.push(SetAside { kind: "tool", name: own, reason }),
            },
            Err((name, reason)) => set_aside.push(SetAside { kind: "tool", name, reason }),
        }
    }
    if definitions.len() > MAX_TOOLS {
        let reason = format!("the server lists {} tools, over the limit of {MAX_TOOLS}", definitions.len());
        set_aside.push(SetAside { kind: "tool", name: "…".into(), reason });
    }
    candidates.sort_by(|a, b| a.own.cmp(&b.own));
    let names = expose_all(&candidates, entry, naming, taken, set_aside);
    write_tools(entry, candidates, names)
}

/// Reads what a tool cannot do without: a name and an object for schema.
fn read_tool(source: &RawJson) -> Result<(String, Vec<Member>), (String, String)> {
    let text = source.as_str();
    let preview = || text.chars().take(60).collect::<String>();
    let members = source.members().map_err(|_| (preview(), "the definition is no object".to_owned()))?;
    let find = |key: &str| members.iter().find(|member| member.key == key).map(|member| &member.value);
    let name = find("name").and_then(|name| name.string()).map(|name| name.into_owned());
    let Some(name) = name else { return Err((preview(), "the definition has no name".to_owned())) };
    if name.is_empty() || name.chars().count() > 256 {
        return Err((name.chars().take(60).collect(), "the name is empty or over 256 characters".to_owned()));
    }
    if text.len() > MAX_DEFINITION_BYTES {
        let size = text.len();
        return Err((
            name,
            format!("the definition has {size} bytes, over the limit of {MAX_DEFINITION_BYTES}"),
        ));
    }
    if nests_deeper(text, MAX_DEFINITION_DEPTH) {
        return Err((name, format!("the definition nests deeper than {MAX_DEFINITION_DEPTH}")));
    }
    match find("inputSchema") {
        Some(schema) if schema.is_object() => Ok((name, members)),
        Some(_) => Err((name, "`inputSchema` is no object".to_owned())),
        None => Err((name, "`inputSchema` is missing".to_owned())),
    }
}

/// Takes out of a tool's schema what the gateway supplies, and says how much of the rest will be checked.
fn make_public(
    members: &mut [Member],
    hiding: &Hiding<'_>,
    patterns: &mut Patterns,
) -> Result<(Option<Box<Injected>>, Coverage), String> {
    let (mut all, mut coverage) = (None, Coverage::Whole);
    // Of a key that stands twice, readers take the last; no other may show what is hidden.
    for member in members.iter_mut().filter(|member| member.key == "inputSchema") {
        // Where it cannot be told all that is the gateway's to supply, nobody may supply it.
        let applied = hiding.apply(&member.value).map_err(|Unsearched| {
            "its schema is too large or too deep to be searched for what the gateway supplies".to_owned()
        })?;
        if let Some((public, injected)) = applied {
            member.value = public;
            all = Some(Box::new(injected));
        }
        coverage = survey(&member.value, patterns);
    }
    Ok((all, coverage))
}

fn expose_all(
    candidates: &[Candidate<'_>],
    entry: &ServerEntry,
    naming: &Naming,
    taken: &dyn Fn(&str) -> bool,
    set_aside: &mut Vec<SetAside>,
) -> Vec<String> {
    let mut used: HashMap<String, ()> = HashMap::with_capacity(candidates.len());
    let server = entry.name.as_str();
    let mut names = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let mut name = naming.expose(server, &candidate.own);
        if taken(&name) || used.contains_key(&name) {
            let other = naming.suffixed(&name, server, &candidate.own);
            let reason = format!("its name `{name}` was taken, so it is offered as `{other}`");
            set_aside.push(SetAside { kind: "name", name: candidate.own.clone(), reason });
            name = other;
        }
        used.insert(name.clone(), ());
        names.push(name);
    }
    names
}

/// Writes all definitions into one buffer, so that a list is ready bytes and a tool a part of it.
fn write_tools(
    entry: &Arc<ServerEntry>,
    candidates: Vec<Candidate<'_>>,
    names: Vec<String>,
) -> (Vec<Arc<Tool>>, Bytes) {
    let size: usize = candidates.iter().map(|candidate| candidate.source.as_bytes().len() + 32).sum();
    let mut text = BytesMut::with_capacity(size);
    let mut ranges = Vec::with_capacity(candidates.len());
    for (candidate, exposed) in candidates.iter().zip(&names) {
        if !text.is_empty() {
            text.extend_from_slice(b",");
        }
        let from = text.len();
        let mut writer = ObjectWriter::with_capacity(candidate.source.as_bytes().len() + 32);
        for Member { key, value } in &candidate.members {
            match key.as_str() {
                "name" => writer.text("name", exposed),
                _ => writer.raw(key, value),
            };
        }
        text.extend_from_slice(writer.finish().as_bytes());
        ranges.push(from..text.len());
    }
    let text = text.freeze();
    let usual = Arc::new(ToolTerms::of_server(entry));
    let tools = candidates
        .into_iter()
        .zip(names)
        .zip(ranges)
        .map(|((candidate, exposed), range)| {
            let terms = terms_of(entry, &candidate, &usual);
            Arc::new(Tool {
                bounds: Bounds::of_terms(&terms).map(Box::new),
                under: None,
                terms,
                server: entry.clone(),
                name: candidate.own.into(),
                exposed: exposed.into(),
                definition: RawJson::trusted(text.slice(range)),
                injected: candidate.injected,
                needs_approval: candidate.needs_approval,
                effect: OnceLock::new(),
                digest: OnceLock::new(),
                schema: OnceLock::new(),
                cost: OnceLock::new(),
            })
        })
        .collect();
    (tools, text)
}

/// The terms of one tool: the server's, unless its entry says something else of this tool.
fn terms_of(entry: &ServerEntry, candidate: &Candidate<'_>, usual: &Arc<ToolTerms>) -> Arc<ToolTerms> {
    let meta = candidate.members.iter().find(|member| member.key == "_meta");
    let hints = meta.and_then(|meta| meta.value.member("auth")).and_then(|auth| auth.read().ok());
    let fields = entry.tools.overrides.get(&candidate.own);
    if hints.is_none() && fields.is_none() {
        return usual.clone();
    }
    let mut terms = (**usual).clone();
    if let Some(hints) = hints {
        let auth = Some(AuthHints::read(&hints));
        terms = terms.under(&Overlay { auth, ..Overlay::default() });
    }
    if let Some(fields) = fields {
        terms = terms.under(&ToolTerms::read_override(fields));
    }
    Arc::new(terms)
}

fn admit_offers(
    entry: &Arc<ServerEntry>,
    kind: &'static str,
    definitions: &[RawJson],
    key: &str,
    rename: &dyn Fn(&str) -> String,
    set_aside: &mut Vec<SetAside>,
) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    for source in definitions.iter().take(MAX_TOOLS) {
        let own = source.member(key).and_then(|value| value.string().map(|text| text.into_owned()));
        let Some(own) = own.filter(|own| !own.is_empty() && own.len() <= 4096) else {
            let name = source.as_str().chars().take(60).collect();
            set_aside.push(SetAside { kind, name, reason: format!("the definition has no `{key}`") });
            continue;
        };
        let exposed = rename(&own);
        let renamed = crate::json::with_members(source, &[(key, RawJson::from_value(&exposed))]);
        offers.push(Offer {
            server: entry.clone(),
            key: own.into(),
            exposed: exposed.into(),
            definition: renamed.unwrap_or_else(|_| source.clone()).detached(),
        });
    }
    offers.sort_by(|a, b| a.key.cmp(&b.key));
    offers.dedup_by(|a, b| a.key == b.key);
    offers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;

    fn discovery(tools: &[&str]) -> Discovery {
        let tools = tools.iter().map(|text| RawJson::parse((*text).to_owned()).expect("JSON")).collect();
        Discovery { tools, ..Discovery::default() }
    }

    fn names(catalog: &ServerCatalog) -> Vec<&str> {
        catalog.tools.iter().map(|tool| &*tool.exposed).collect()
    }

    #[test]
    fn one_bad_definition_harms_only_itself() {
        let found = discovery(&[
            r#"{"name":"b","inputSchema":{"type":"object"},"x":1.0}"#,
            r#"{"inputSchema":{}}"#,
            r#"{"name":7,"inputSchema":{}}"#,
            r#"{"name":"noschema"}"#,
            r#"{"name":"boolschema","inputSchema":true}"#,
            r#"[1]"#,
            r#"{"name":"a","inputSchema":{}}"#,
            r#"{"name":"a","inputSchema":{"again":1}}"#,
        ]);
        let catalog = admit(&Arc::new(entry("s")), &found, &Naming::default(), &|_| false);
        assert_eq!(names(&catalog), ["s_a", "s_b"]);
        assert_eq!(catalog.set_aside.len(), 6);
        assert_eq!(
            catalog.tools_text,
            r#"{"name":"s_a","inputSchema":{}},{"name":"s_b","inputSchema":{"type":"object"},"x":1.0}"#
        );
    }

    #[test]
    fn a_sloppy_schema_is_listed_as_it_came_with_a_note() {
        let tools = [
            r##"{"name":"bad","inputSchema":{"properties":{"a":{"type":"strnig"}}}}"##,
            r##"{"name":"endless","inputSchema":{"allOf":[{"$ref":"#"}]}}"##,
            r##"{"name":"far","inputSchema":{"properties":{"a":{"$ref":"http://x.example/s"}}}}"##,
            r##"{"name":"good","inputSchema":{"properties":{"a":{}}}}"##,
        ];
        let torn = r##"{"name":"torn","inputSchema":{"properties":{"_atlas_user":{},"b":{"$ref":"#/properties/_atlas_user"}}}}"##;
        let found = discovery(&[tools[0], tools[1], tools[2], tools[3], torn]);
        let catalog = admit(&Arc::new(entry("s")), &found, &Naming::default(), &|_| false);
        assert_eq!(names(&catalog), ["s_bad", "s_endless", "s_far", "s_good", "s_torn"]);
        for (tool, source) in catalog.tools.iter().zip(tools) {
            assert_eq!(tool.definition.as_str().replace("\"s_", "\""), source);
        }
        assert!(catalog.tools[4].injected.is_some(), "what the gateway supplies stays hidden");
        let said: Vec<_> =
            catalog.set_aside.iter().map(|aside| (aside.kind, &*aside.name, &*aside.reason)).collect();
        assert_eq!(
            said,
            [
                (
                    "schema",
                    "bad",
                    "listed, but not every argument is checked: its schema is broken: `properties/a/type` must be a type's name"
                ),
                (
                    "schema",
                    "endless",
                    "listed, but its arguments are not checked: its schema refers to itself without end"
                ),
                (
                    "schema",
                    "far",
                    "listed, but not every argument is checked: its schema refers to `http://x.example/s`; only references within the schema (`#/…`) are followed"
                ),
                (
                    "schema",
                    "torn",
                    "listed, but not every argument is checked: its schema refers to `#/properties/_atlas_user`, which is not there"
                ),
            ]
        );
    }

    #[test]
    fn what_no_list_can_carry_and_what_hides_the_identity_is_set_aside() {
        let huge =
            format!(r#"{{"name":"huge","inputSchema":{{"title":"{}"}}}}"#, "x".repeat(MAX_DEFINITION_BYTES));
        let deep =
            format!(r#"{{"name":"deep","inputSchema":{{"x":{}{}}}}}"#, "[".repeat(200), "]".repeat(200));
        let nested = |inner: &str| format!("{}{inner}{}", r#"{"allOf":["#.repeat(40), "]}".repeat(40));
        let sly =
            format!(r#"{{"name":"sly","inputSchema":{}}}"#, nested(r#"{"properties":{"_atlas_user":{}}}"#));
        let plain = format!(r#"{{"name":"plain","inputSchema":{}}}"#, nested(r#"{"properties":{"a":{}}}"#));
        let found = discovery(&[&huge, &deep, &sly, &plain]);
        let catalog = admit(&Arc::new(entry("s")), &found, &Naming::default(), &|_| false);
        assert_eq!(names(&catalog), ["s_plain"]);
        let said: Vec<_> = catalog.set_aside.iter().map(|aside| (aside.kind, &*aside.name)).collect();
        assert_eq!(said, [("tool", "huge"), ("tool", "deep"), ("tool", "sly"), ("schema", "plain")]);
    }

    #[test]
    fn what_the_gateway_supplies_is_not_listed() {
        let source = r#"{"title": "T", "name":"who","inputSchema":{ "properties":{"_atlas_user":{}, "a":{"x":1.0}} },"x": [1, 2]}"#;
        let catalog = admit(&Arc::new(entry("s")), &discovery(&[source]), &Naming::default(), &|_| false);
        let tool = &catalog.tools[0];
        assert_eq!(
            catalog.tools_text,
            r#"{"title":"T","name":"s_who","inputSchema":{ "properties":{"a":{"x":1.0}} },"x":[1, 2]}"#
        );
        assert!(tool.injected.as_ref().is_some_and(|injected| injected.hides("_atlas_user")));
    }

    /// Not a check but a measurement: `cargo test --release -- --ignored --nocapture ten_thousand`.
    #[test]
    #[ignore = "a measurement: cargo test --release -p toolbooth-core ten_thousand_tools -- --ignored --nocapture"]
    fn ten_thousand_tools_are_admitted() {
        let tools: Vec<RawJson> = (0..10_000)
            .map(|n| {
                let parameters: Vec<String> = (0..8)
                    .map(|p| format!(r#""parameter_{p}":{{"type":"string","description":"{}"}}"#, "words ".repeat(12)))
                    .collect();
                let text = format!(
                    r#"{{"name":"tool_{n}","description":"Does {n}","inputSchema":{{"type":"object","properties":{{{}}},"required":["parameter_0"]}}}}"#,
                    parameters.join(",")
                );
                RawJson::parse(text).expect("JSON")
            })
            .collect();
        let found = Discovery { tools, ..Discovery::default() };
        for _ in 0..3 {
            let start = std::time::Instant::now();
            let catalog = admit(&Arc::new(entry("s")), &found, &Naming::default(), &|_| false);
            println!(
                "{} tools, {} bytes: {:?}",
                catalog.tools.len(),
                catalog.tools_text.len(),
                start.elapsed()
            );
        }
    }

    #[test]
    fn taken_names_get_a_suffix_and_nobody_else_is_renamed() {
        let found = discovery(&[
            r#"{"name":"a.b","inputSchema":{}}"#,
            r#"{"name":"a_b","inputSchema":{}}"#,
            r#"{"name":"c","inputSchema":{}}"#,
        ]);
        let catalog = admit(&Arc::new(entry("s")), &found, &Naming::default(), &|name| name == "s_c");
        let names = names(&catalog);
        assert_eq!(names[0], "s_a_b");
        assert!(names[1].starts_with("s_a_b_") && names[1].len() == 12, "{names:?}");
        assert!(names[2].starts_with("s_c_"), "{names:?}");
        assert_eq!(catalog.set_aside.len(), 2);
    }

    #[test]
    fn deny_wins_over_allow() {
        let mut server = entry("s");
        server.tools.allow = vec!["read_*".into(), "write_a".into()];
        server.tools.deny = vec!["*_secret".into()];
        let found = discovery(&[
            r#"{"name":"read_x","inputSchema":{}}"#,
            r#"{"name":"read_secret","inputSchema":{}}"#,
            r#"{"name":"write_a","inputSchema":{}}"#,
            r#"{"name":"write_b","inputSchema":{}}"#,
        ]);
        let catalog = admit(&Arc::new(server), &found, &Naming::default(), &|_| false);
        assert_eq!(names(&catalog), ["s_read_x", "s_write_a"]);
        assert!(catalog.set_aside.is_empty(), "a denied tool enters nothing");
    }
}
