//! The JSON Schema of configuration files, generated from the types that read them.

use crate::dialect::ENTRY_DEFAULTS;
use crate::entry::ServerFile;
use crate::node::{MapKey, Mark, Node, TextId, Value};
use crate::read::{ReadError, ReadErrorKind};
use crate::settings::Settings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

/// Aliases of server fields.
const SERVER_ALIASES: [(&str, &str); 18] = [
    ("cmd", "command"),
    ("command_args", "args"),
    ("working_directory", "cwd"),
    ("uri", "url"),
    ("endpoint", "url"),
    ("serverUrl", "url"),
    ("httpUrl", "url"),
    ("http_headers", "headers"),
    ("oauth_config", "oauth"),
    ("autoConnect", "auto_connect"),
    ("lazy_load", "lazy"),
    ("lazyLoad", "lazy"),
    ("enabled_tools", "allow_tools"),
    ("disabled_tools", "deny_tools"),
    ("timeout_seconds", "timeout"),
    ("tool_timeout_sec", "timeout"),
    ("startup_timeout_sec", "connect_timeout"),
    ("type", "transport"),
];

/// Aliases of settings that are allowed at the top level and in `exposure`.
const EXPOSURE_ALIASES: [(&str, &str); 3] = [
    ("alwaysLoadTools", "always_load_tools"),
    ("summaryDescriptionLimit", "summary_description_limit"),
    ("maxToolsPerSearch", "max_tools_per_search"),
];

/// The JSON Schema of `toolbooth.*` and of all other files with servers.
pub fn schema() -> Json {
    let mut whole = Json::from(schemars::schema_for!(Settings));
    let mut server = Json::from(schemars::schema_for!(ServerFile));
    let mut definitions = take_definitions(&mut whole);
    definitions.extend(take_definitions(&mut server));
    add_aliases(&mut server, &SERVER_ALIASES);
    let ignored = ["name", "title", "displayName", "gallery", "allow_edit", "poll_interval", "dev"];
    allow(&mut server, &ignored, "A key of other programs; ignored.");
    let ignored = ["alwaysAllow", "autoApprove", "is_exclusive"];
    allow(&mut server, &ignored, "A key of other programs; ignored with a warning.");
    definitions.insert("Server".into(), server);
    let flat = json!({
        "description": "A flat map of servers, as some programs write it to `mcp.json`.",
        "type": "object",
        "additionalProperties": { "$ref": "#/$defs/Server" }
    });
    definitions.insert("FlatServers".into(), flat);
    if let Some(exposure) = definitions.get_mut("Exposure") {
        add_aliases(exposure, &EXPOSURE_ALIASES);
        set_property(exposure, "lazyLoading", lazy_loading());
    }
    if let Some(embeddings) = definitions.get_mut("Embeddings") {
        add_aliases(embeddings, &[("api_key", "key")]);
    }
    allow_enforced(&mut whole);
    definitions.values_mut().for_each(allow_enforced);
    add_servers(&mut whole, &definitions);
    if let Json::Object(map) = &mut whole {
        map.insert("patternProperties".into(), json!({ "^(x-|//)": true }));
        map.insert("$id".into(), "toolbooth.schema.json".into());
        map.insert("$defs".into(), Json::Object(definitions));
    }
    whole
}

fn add_servers(whole: &mut Json, definitions: &Map<String, Json>) {
    let servers = json!({
        "description": "Servers by name.",
        "anyOf": [
            { "type": "object", "additionalProperties": { "$ref": "#/$defs/Server" } },
            { "type": "array", "items": { "$ref": "#/$defs/Server" } }
        ]
    });
    for key in ["servers", "mcpServers", "mcp_servers"] {
        set_property(whole, key, servers.clone());
    }
    let mcp = json!({
        "description": "Another place for `servers`.",
        "type": "object",
        "properties": { "servers": servers }
    });
    let tools = json!({
        "description": "Another place for `mcp.servers`.",
        "type": "object",
        "properties": { "mcp": mcp }
    });
    set_property(whole, "mcp", mcp);
    set_property(whole, "tools", tools);
    set_property(whole, "lazyLoading", lazy_loading());
    let auto = json!({ "type": "boolean", "description": "The default of the servers in this file." });
    let timeout =
        json!({ "type": "number", "description": "The timeout of calls in milliseconds, by default." });
    for (key, shape) in
        ENTRY_DEFAULTS.map(|(key, field)| (key, if field == "timeout" { &timeout } else { &auto }))
    {
        set_property(whole, key, shape.clone());
    }
    let exposure = definitions.get("Exposure").and_then(|exposure| exposure.get("properties"));
    for (alias, name) in EXPOSURE_ALIASES {
        let shape = exposure.and_then(|properties| properties.get(name)).cloned().unwrap_or(Json::Bool(true));
        set_property(whole, alias, shape.clone());
        set_property(whole, name, shape);
    }
    allow(whole, &["inputs"], "Questions of other programs; ignored. Use `${VAR}`.");
    allow(whole, &["$schema", "$comment", "_comment"], "A comment.");
}

fn lazy_loading() -> Json {
    json!({ "type": "boolean", "description": "`true` means `exposure.mode: search`, `false` means `full`." })
}

fn take_definitions(schema: &mut Json) -> Map<String, Json> {
    match schema.as_object_mut().and_then(|map| map.remove("$defs")) {
        Some(Json::Object(definitions)) => definitions,
        _ => Map::new(),
    }
}

fn set_property(schema: &mut Json, name: &str, shape: Json) {
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        properties.insert(name.to_owned(), shape);
    }
}

fn add_aliases(schema: &mut Json, aliases: &[(&str, &str)]) {
    for (alias, name) in aliases {
        let shape = schema.get("properties").and_then(|properties| properties.get(name)).cloned();
        set_property(schema, alias, shape.unwrap_or(Json::Bool(true)));
    }
}

fn allow(schema: &mut Json, names: &[&str], description: &str) {
    for name in names {
        set_property(schema, name, json!({ "description": description }));
    }
}

/// Adds `enforced`, which every section accepts.
fn allow_enforced(schema: &mut Json) {
    if schema.get("properties").is_some_and(|properties| properties.get("enforced").is_none()) {
        let description = "Whether files of projects may not change this section.";
        set_property(schema, "enforced", json!({ "type": "boolean", "description": description }));
    }
}

/// The keys that a type accepts.
pub(crate) fn known_keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let mark = Mark::new(TextId(0), 0, 0);
    let unknown = (MapKey { text: "\0".into(), mark }, Node { value: Value::Null, mark });
    match T::deserialize(&Node { value: Value::Map(vec![unknown]), mark }) {
        Err(ReadError { kind: ReadErrorKind::UnknownKey { known, .. }, .. }) => known,
        _ => &[],
    }
}

/// The names of all settings.
pub(crate) fn setting_names() -> Vec<&'static str> {
    known_keys::<Settings>().to_vec()
}

/// The paths of all settings that a variable or an argument can set.
pub(crate) fn setting_paths() -> Vec<Vec<String>> {
    let mut whole = Json::from(schemars::schema_for!(Settings));
    let definitions = take_definitions(&mut whole);
    let mut paths = Vec::new();
    collect(&whole, &definitions, &mut Vec::new(), &mut paths);
    paths
}

fn collect(
    schema: &Json,
    definitions: &Map<String, Json>,
    path: &mut Vec<String>,
    paths: &mut Vec<Vec<String>>,
) {
    let target = referred(schema).and_then(|name| definitions.get(name)).unwrap_or(schema);
    match target.get("properties").and_then(Json::as_object) {
        // Sections are nested at most three levels deep; the limit prevents an endless recursion.
        Some(properties) if path.len() < 8 => {
            for (name, inner) in properties {
                path.push(name.clone());
                collect(inner, definitions, path, paths);
                path.pop();
            }
        }
        _ => paths.push(path.clone()),
    }
}

fn referred(schema: &Json) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Json::as_str);
    let optional = || schema.get("anyOf")?.as_array()?.iter().find_map(|inner| inner.get("$ref")?.as_str());
    direct.or_else(optional)?.strip_prefix("#/$defs/")
}
