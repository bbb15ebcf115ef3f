//! The JSON Schemas of server fields, as they may be written in a file.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! shapes {
    ($($name:ident => $schema:tt)*) => {$(
        pub(super) enum $name {}

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

shapes! {
    Scalar => { "type": ["string", "number", "boolean"] }
    TransportNames => { "enum": [
        "stdio", "local", "http", "https", "streamable-http", "streamable_http", "streamableHttp", "streamablehttp",
        "remote", "sse", "ws", "wss", "websocket"
    ] }
    AuthNames => { "enum": ["none", "bearer", "api_key", "api-key", "apikey", "jwt", "oauth", "oauth2"] }
    AuthShape => { "anyOf": [
        { "enum": ["none", "bearer", "api_key", "api-key", "apikey", "jwt", "oauth", "oauth2"] },
        {
            "type": "object",
            "properties": {
                "type": { "type": "string" }, "scheme": { "type": "string" },
                "token": { "type": "string" }, "key": { "type": "string" }, "header": { "type": "string" },
                "client_id": { "type": "string" }, "clientId": { "type": "string" },
                "client_secret": { "type": "string" }, "clientSecret": { "type": "string" },
                "scopes": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
                "required": { "type": "boolean" }, "env": true, "envs": true, "docs": { "type": "string" }
            },
            "additionalProperties": false
        }
    ] }
    OAuthShape => { "anyOf": [
        { "type": "boolean" },
        {
            "type": "object",
            "properties": {
                "client_id": { "type": "string" }, "clientId": { "type": "string" },
                "client_secret": { "type": "string" }, "clientSecret": { "type": "string" },
                "scopes": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
                "client_name": true, "callback_port": true, "callbackPort": true,
                "auth_server_metadata_url": true, "authServerMetadataUrl": true
            },
            "additionalProperties": false
        }
    ] }
    ShareNames => { "enum": ["auto", "all", "user", "session"] }
    RestartNames => { "enum": ["backoff", "never"] }
    ApprovalNames => { "enum": ["none", "caller", "approver"] }
    EraNames => { "enum": ["auto", "legacy", "modern"] }
    SideEffectNames => { "enum": [
        "none", "read_external_service", "network", "filesystem", "write", "database", "compute", "system"
    ] }
    ToolsShape => { "anyOf": [
        { "type": "array", "items": { "type": "string" } },
        {
            "type": "object",
            "properties": {
                "allow": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
                "deny": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
                "require_approval": {
                    "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
                },
                "overrides": { "type": "object", "additionalProperties": { "type": "object" } }
            },
            "additionalProperties": false
        }
    ] }
    IdempotencyShape => { "anyOf": [
        { "type": "boolean" },
        { "type": "object", "properties": { "required": { "type": "boolean" } }, "required": ["required"] }
    ] }
    InjectShape => { "anyOf": [
        { "type": "boolean" },
        {
            "type": "object",
            "properties": {
                "identity": { "type": "array", "items": { "type": "string" } },
                "mcp_data": { "type": "boolean" },
                "files": { "type": "array", "items": { "type": "string" } }
            },
            "additionalProperties": false
        }
    ] }
}
