//! The published JSON Schema of manifests.

use super::entry::{APPROVALS, SAFETY_LEVELS, SIDE_EFFECTS};
use super::provider::KINDS;
use serde_json::{Value, json};

/// The JSON Schema of a manifest file: one entry, a list of entries, or a map from names to entries.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Toolbooth tool manifest",
        "anyOf": [
            { "$ref": "#/$defs/named" },
            { "type": "array", "items": { "$ref": "#/$defs/named" } },
            {
                "type": "object",
                "required": ["tools"],
                "properties": { "tools": { "type": "array", "items": { "$ref": "#/$defs/named" } } }
            },
            {
                "type": "object",
                "not": { "required": ["name"] },
                "properties": { "$schema": { "type": "string" } },
                "additionalProperties": { "$ref": "#/$defs/entry" }
            }
        ],
        "$defs": {
            "named": { "allOf": [{ "$ref": "#/$defs/entry" }], "required": ["name"] },
            "entry": entry(),
            "auth": auth(),
            "provider": provider(),
            "texts": { "type": "array", "items": { "type": "string", "minLength": 1 } }
        }
    })
}

fn entry() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 256,
                "description": "The name of the tool. For an overlay, the exposed or canonical name of an existing tool." },
            "description": { "type": "string", "minLength": 1,
                "description": "The description that models see, in place of the server's description." },
            "parameters": { "type": "object", "description": "The JSON Schema of the arguments.",
                "properties": {
                    "type": { "const": "object" },
                    "properties": { "type": "object" },
                    "required": { "type": "array", "items": { "type": "string" } }
                } },
            "version": { "type": "string", "description": "The semantic version of the tool; 1.2 means 1.2.0.",
                "pattern": "^[vV]?(0|[1-9][0-9]*)(\\.(0|[1-9][0-9]*)){0,2}([-+][0-9A-Za-z.+-]+)?$" },
            "side_effects": { "enum": SIDE_EFFECTS, "description": "The strongest side effect of the tool." },
            "default_timeout": { "type": "number", "minimum": 1, "maximum": 86400,
                "description": "The timeout of a call, in seconds." },
            "hedge_after": { "type": "number", "minimum": 0.01, "maximum": 86400,
                "description": "Seconds without an answer after which the next provider is called as well, if repeating the call is safe." },
            "auth": { "$ref": "#/$defs/auth" },
            "allow_parallel": { "type": "boolean", "description": "Whether calls of the tool may run in parallel." },
            "requires_consent": { "type": "boolean",
                "description": "Whether the user must consent before the first use of the tool." },
            "approval": { "enum": APPROVALS,
                "description": "Who must approve each call: the caller in person, or an approver other than the caller." },
            "idempotency_key": {
                "description": "Whether calls carry an idempotency key, so that they may be repeated.",
                "anyOf": [
                    { "type": "boolean" },
                    { "type": "object", "required": ["required"],
                        "properties": { "required": { "type": "boolean" } } }
                ]
            },
            "capabilities": { "$ref": "#/$defs/texts" },
            "persona_allowlist": { "$ref": "#/$defs/texts",
                "description": "Only callers with one of these personas see the tool." },
            "groups": { "$ref": "#/$defs/texts", "description": "Only members of one of these groups may use the tool." },
            "safety_level": { "enum": SAFETY_LEVELS },
            "cost_per_call": { "type": "number", "minimum": 0 },
            "cost_unit": { "type": "string" },
            "providers": { "type": "array", "maxItems": 32, "items": { "$ref": "#/$defs/provider" },
                "description": "The providers of the tool, by ascending priority. An entry without providers is an overlay over an existing tool." },
            "examples": { "type": "array" },
            "notes": { "type": "string" }
        }
    })
}

fn auth() -> Value {
    let needed = json!({ "type": "object", "properties": {
        "required": { "type": "boolean" }, "optional": { "type": "boolean" }, "name": { "type": "string" } } });
    let names = json!({ "anyOf": [
        { "type": "string" },
        { "$ref": "#/$defs/texts" },
        { "type": "object", "additionalProperties": { "anyOf": [{ "type": "string" }, needed] } }
    ] });
    json!({
        "description": "The credentials that the tool needs: names of variables, never values.",
        "type": "object",
        "properties": {
            "required": { "type": "boolean" },
            "type": { "type": "string" },
            "env": names,
            "envs": names,
            "scopes": { "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/texts" }] },
            "docs": { "type": "string" }
        }
    })
}

fn provider() -> Value {
    let of_kind = |kind: &str, config: Value| {
        json!({
            "if": { "properties": { "name": { "const": kind } } },
            "then": { "properties": { "config": config } }
        })
    };
    json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 100, "examples": KINDS,
                "description": "A kind, or a free name; then the kind is `kind`, or follows from the keys of `config`." },
            "kind": { "enum": KINDS },
            "priority": { "type": "integer", "default": 0, "description": "Providers with a lower priority value are used first." },
            "health_check_interval": { "type": "number", "minimum": 0, "maximum": 86400, "default": 60 },
            "config": { "type": "object" },
            "auth": { "$ref": "#/$defs/auth" },
            "mappings": { "type": "object",
                "description": "`arguments` maps the tool's arguments to the provider's; `result` maps the provider's result to the tool's." }
        },
        "allOf": [
            of_kind("mcp", json!({ "required": ["server", "tool"],
                "properties": { "server": { "type": "string" }, "tool": { "type": "string" } } })),
            of_kind("http", json!({ "required": ["url"], "properties": {
                "method": { "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] },
                "url": { "type": "string" },
                "headers": { "type": "object" },
                "query": { "type": "object" },
                "allow_private": { "type": "boolean",
                    "description": "Whether the host may resolve to an address in a private network or on the gateway's machine." } } })),
            of_kind("openai", json!({ "properties": {
                "model": { "type": "string" }, "prompt": { "type": "string" } } })),
            of_kind("builtin", json!({ "required": ["tool"], "properties": { "tool": { "type": "string" } } }))
        ]
    })
}
