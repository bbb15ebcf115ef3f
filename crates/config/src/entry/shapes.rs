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
                "type": { "type": "string", "description": "The kind of credential." },
                "scheme": { "type": "string", "description": "The same as `type`." },
                "token": { "type": "string", "description": "The token or key. Use `${VAR}`." },
                "key": { "type": "string", "description": "The same as `token`." },
                "header": { "type": "string", "description": "The header that carries the key." },
                "client_id": { "type": "string", "description": "The ID of the registered OAuth client." },
                "clientId": { "type": "string", "description": "The same as `client_id`." },
                "client_secret": { "type": "string", "description": "The secret of the OAuth client." },
                "clientSecret": { "type": "string", "description": "The same as `client_secret`." },
                "scopes": {
                    "description": "The OAuth scopes to request.",
                    "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
                },
                "required": { "type": "boolean", "description": "For manifests: whether a credential is needed." },
                "env": { "description": "For manifests: the variable that contains the credential." },
                "envs": { "description": "For manifests: the variables that contain the credential." },
                "docs": { "type": "string", "description": "For manifests: where to get a credential." }
            },
            "additionalProperties": false
        }
    ] }
    OAuthShape => { "anyOf": [
        { "type": "boolean" },
        {
            "type": "object",
            "properties": {
                "client_id": { "type": "string", "description": "The ID of the registered OAuth client." },
                "clientId": { "type": "string", "description": "The same as `client_id`." },
                "client_secret": { "type": "string", "description": "The secret of the OAuth client." },
                "clientSecret": { "type": "string", "description": "The same as `client_secret`." },
                "scopes": {
                    "description": "The OAuth scopes to request.",
                    "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
                },
                "client_name": { "description": "Ignored." },
                "callback_port": { "description": "Ignored." },
                "callbackPort": { "description": "Ignored." },
                "auth_server_metadata_url": { "description": "Ignored." },
                "authServerMetadataUrl": { "description": "Ignored." }
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
                "allow": {
                    "description": "Globs of the tools that are taken; the others are left out.",
                    "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
                },
                "deny": {
                    "description": "Globs of the tools that are left out.",
                    "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
                },
                "require_approval": {
                    "description": "Globs of the tools whose calls a person must approve.",
                    "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
                },
                "overrides": {
                    "description": "Settings of single tools, by tool name; the same fields as in a manifest.",
                    "type": "object",
                    "additionalProperties": { "type": "object" }
                }
            },
            "additionalProperties": false
        }
    ] }
    IdempotencyShape => { "anyOf": [
        { "type": "boolean" },
        {
            "type": "object",
            "properties": {
                "required": { "type": "boolean", "description": "Whether every call needs an idempotency key." }
            },
            "required": ["required"]
        }
    ] }
    InjectShape => { "anyOf": [
        { "type": "boolean" },
        {
            "type": "object",
            "properties": {
                "identity": {
                    "description": "Arguments that receive the name of the caller.",
                    "type": "array",
                    "items": { "type": "string" }
                },
                "mcp_data": {
                    "description": "Whether `_mcp_data` receives the tools that the caller may use.",
                    "type": "boolean"
                },
                "files": {
                    "description": "Arguments in which names of files become temporary URLs.",
                    "type": "array",
                    "items": { "type": "string" }
                }
            },
            "additionalProperties": false
        }
    ] }
}
