//! The published JSON Schema accepts the same files as the reader.

use crate::world::World;
use serde_json::Value;
use toolbooth_config::schema;

#[test]
fn the_schema_covers_every_section_and_every_server_field() {
    let schema = schema();
    let settings = schema["properties"].as_object().unwrap();
    for key in
        ["listen", "store", "policy", "servers", "mcpServers", "lazyLoading", "always_load_tools", "enforced"]
    {
        assert!(settings.contains_key(key), "{key}");
    }
    let server = schema["$defs"]["Server"]["properties"].as_object().unwrap();
    // The reader rejects keys that the schema does not contain.
    let world = World::config("work/a.json", r#"{"servers": {"a": {"command": "x", "zzzzzzzz": 1}}}"#);
    assert!(world.report().contains("unknown key `zzzzzzzz`"));
    for key in [
        "command",
        "cmd",
        "args",
        "cwd",
        "env",
        "url",
        "headers",
        "transport",
        "type",
        "auth",
        "auth_type",
        "auth_token",
        "auth_header",
        "oauth",
        "forward_headers",
        "groups",
        "persona",
        "personas",
        "description",
        "short_description",
        "author",
        "help_email",
        "enabled",
        "auto_connect",
        "autoConnect",
        "lazy",
        "share",
        "tools",
        "side_effects",
        "default_timeout",
        "allow_parallel",
        "requires_consent",
        "approval",
        "idempotency_key",
        "trust_annotations",
        "inject",
        "timeout",
        "connect_timeout",
        "health_check_interval",
        "discovery_interval",
        "restart",
        "era",
        "compliance_level",
        "merge",
        "enforced",
    ] {
        assert!(server.contains_key(key), "{key}");
    }
    assert_eq!(schema["$defs"]["Server"]["additionalProperties"], Value::Bool(false));
}

#[test]
fn every_reference_resolves() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let schema = schema();
    let mut found = Vec::new();
    references(&schema, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let name = reference.strip_prefix("#/$defs/").unwrap_or_else(|| panic!("{reference}"));
        assert!(schema["$defs"].get(name).is_some(), "{reference}");
    }
}

/// The paths of properties without a description.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let is_described = property["description"].as_str().is_some_and(|text| !text.is_empty());
                if !is_described {
                    found.push(format!("{path}/{name}"));
                }
            }
            map.iter().for_each(|(key, inner)| undescribed(inner, &format!("{path}/{key}"), found));
        }
        Value::Array(list) => list.iter().for_each(|inner| undescribed(inner, path, found)),
        _ => {}
    }
}

#[test]
fn every_property_is_described() {
    let mut found = Vec::new();
    undescribed(&schema(), "", &mut found);
    assert!(found.is_empty(), "without a description: {found:#?}");
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&schema()).unwrap()
}

#[test]
fn files_that_load_are_valid() {
    let files = [
        serde_json::json!({ "servers": { "a": { "command": ["x"], "timeout": "5s", "auth": "none", "env": { "P": 1 } } } }),
        serde_json::json!({ "mcpServers": { "a": { "type": "streamable-http", "url": "http://h/", "oauth": true } } }),
        serde_json::json!({ "listen": 9000, "deny_tools": "x", "retry": { "base": "500ms" }, "approval": { "default": true } }),
        serde_json::json!({ "exposure": { "lazyLoading": true, "enforced": true }, "alwaysLoadTools": ["a"] }),
        serde_json::json!({ "policy": { "rules": [{ "effect": "ask", "tools": { "side_effects": "write" } }] } }),
        serde_json::json!({ "events": { "webhooks": ["https://h/", { "url": "https://h/" }] }, "groups": { "a": ["b"] } }),
        serde_json::json!({ "manifests": { "tools": "t/" }, "search": { "embeddings": { "api_key": "${K}" } } }),
    ];
    for file in files {
        let world = World::config("work/toolbooth.json", &file.to_string()).env(&[("K", "k")]);
        let report = world.report();
        assert!(!report.contains("error["), "{file}: {report}");
        let problems: Vec<String> = validator().iter_errors(&file).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{file}: {problems:?}");
    }
}

#[test]
fn files_that_do_not_load_are_invalid() {
    let files = [
        serde_json::json!({ "servers": { "a": { "command": "x", "grops": [] } } }),
        serde_json::json!({ "servers": { "a": { "command": "x", "groups": "staff" } } }),
        serde_json::json!({ "lisen": 1 }),
        serde_json::json!({ "exposure": { "mode": "everything" } }),
    ];
    for file in files {
        assert!(
            World::config("work/toolbooth.json", &file.to_string()).report().contains("error["),
            "{file}"
        );
        assert!(!validator().is_valid(&file), "{file}");
    }
}
