//! The fields of a server entry as written in a file, with all their aliases.

use super::shapes::{
    ApprovalNames, AuthNames, AuthShape, EraNames, IdempotencyShape, InjectShape, OAuthShape, RestartNames,
    Scalar, ShareNames, SideEffectNames, ToolsShape, TransportNames,
};
use super::switch::{SwitchMap, SwitchOr};
use crate::fields::{OneOrMany, ScalarField, Seconds, SecretField, TextOrTexts, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use toolbooth_core::manifest::ApprovalBy;
use toolbooth_core::server::{EraChoice, Restart, Share, SideEffects};

/// A server entry as written. Every field is optional; which ones are required depends on the others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "A server entry")]
pub(crate) struct ServerFile {
    /// The program of a local server, or the program and its arguments as a list.
    #[serde(alias = "cmd")]
    #[schemars(with = "Option<TextOrTexts>")]
    pub command: Option<OneOrMany<SecretField>>,
    /// The arguments of the program: a list, or one string that is split as a shell would.
    #[serde(alias = "command_args")]
    #[schemars(with = "Option<TextOrTexts>")]
    pub args: Option<OneOrMany<SecretField>>,
    /// The working folder of the program. A relative path is looked for in the folder of this file, then in the folder
    /// that the gateway was started in.
    #[serde(alias = "working_directory")]
    #[schemars(with = "Option<String>")]
    pub cwd: Option<SecretField>,
    /// Environment variables of the program, in addition to those that the `environment` setting passes on.
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub env: Option<BTreeMap<String, ScalarField>>,
    /// The URL of a remote server.
    #[serde(alias = "uri", alias = "endpoint", alias = "serverUrl", alias = "httpUrl")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretField>,
    /// Headers sent with every request.
    #[serde(alias = "http_headers")]
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub headers: Option<BTreeMap<String, ScalarField>>,
    /// The transport. Default: derived from `command` and `url`.
    #[schemars(with = "Option<TransportNames>")]
    pub transport: Option<TransportWord>,
    /// The older name of `transport`.
    #[serde(rename = "type")]
    #[schemars(with = "Option<TransportNames>")]
    pub kind: Option<TransportWord>,
    /// The name of a server that is built into the gateway.
    pub bundled: Option<String>,

    /// The credential that the gateway sends to the server: a kind, or a map.
    #[schemars(with = "Option<AuthShape>")]
    pub auth: Option<AuthField>,
    /// The kind of credential.
    #[schemars(with = "Option<AuthNames>")]
    pub auth_type: Option<AuthWord>,
    /// The credential, preferably as `${NAME}`.
    #[schemars(with = "Option<String>")]
    pub auth_token: Option<SecretField>,
    /// The header that carries an `api_key`.
    pub auth_header: Option<String>,
    /// Whether the server uses OAuth: true, or a map with a registered client.
    #[serde(alias = "oauth_config")]
    #[schemars(with = "Option<OAuthShape>")]
    pub oauth: Option<OAuthField>,
    /// The OAuth scopes to request.
    #[schemars(with = "Option<TextOrTexts>")]
    pub scopes: Option<OneOrMany<String>>,
    /// Headers of the caller's request to forward: from the caller's header name to the server's header name.
    pub forward_headers: Option<BTreeMap<String, String>>,
    /// Whether the caller's `x-subtoken` header is forwarded as `X-Token`.
    pub wormhole: Option<bool>,

    /// Groups whose members may use the server. Default: every authenticated caller.
    pub groups: Option<Vec<String>>,
    /// The persona that the tools belong to.
    #[schemars(with = "Option<TextOrTexts>")]
    pub persona: Option<OneOrMany<String>>,
    /// The personas that the tools belong to.
    #[schemars(with = "Option<TextOrTexts>")]
    pub personas: Option<OneOrMany<String>>,
    /// A description of the server, for people and models.
    pub description: Option<String>,
    /// A description in one line.
    pub short_description: Option<String>,
    /// The author of the server.
    pub author: Option<String>,
    /// The e-mail address for help.
    pub help_email: Option<String>,
    /// The compliance level of the data that the server may receive.
    pub compliance_level: Option<String>,

    /// Whether the server is started and listed.
    pub enabled: Option<bool>,
    /// The opposite of `enabled`.
    pub disabled: Option<bool>,
    /// Whether the gateway connects to the server at startup.
    #[serde(alias = "autoConnect")]
    pub auto_connect: Option<bool>,
    /// Whether the server is started only at its first call.
    #[serde(alias = "lazy_load", alias = "lazyLoad")]
    pub lazy: Option<bool>,
    /// Which callers share one process or connection: `auto` (the default), `all`, `user` or `session`. With `auto`, all
    /// callers share it in local mode and on stateless remote servers; otherwise each user has their own process or
    /// session, because it may contain the user's state.
    #[schemars(with = "Option<ShareNames>")]
    pub share: Option<Share>,

    /// Which tools of the server enter the catalog, and how.
    #[schemars(with = "Option<ToolsShape>")]
    pub tools: Option<ToolsField>,
    /// The same as `tools.allow`.
    #[serde(alias = "enabled_tools")]
    #[schemars(with = "Option<TextOrTexts>")]
    pub allow_tools: Option<OneOrMany<String>>,
    /// The same as `tools.deny`.
    #[serde(alias = "disabled_tools")]
    #[schemars(with = "Option<TextOrTexts>")]
    pub deny_tools: Option<OneOrMany<String>>,
    /// The same as `tools.require_approval`.
    pub require_approval: Option<Vec<String>>,

    /// The side effects of the tools.
    #[schemars(with = "Option<SideEffectNames>")]
    pub side_effects: Option<SideEffects>,
    /// The timeout of a tool call, in seconds, for tools without one of their own.
    #[schemars(with = "Option<Time>")]
    pub default_timeout: Option<Seconds>,
    /// Whether calls of one tool may run in parallel.
    pub allow_parallel: Option<bool>,
    /// Whether the user must consent before the first use of a tool.
    pub requires_consent: Option<bool>,
    /// Who must approve each call: `none`, `caller` (in person) or `approver` (a person other than the caller).
    #[schemars(with = "Option<ApprovalNames>")]
    pub approval: Option<ApprovalBy>,
    /// Whether calls carry an idempotency key, so that they may be repeated.
    #[schemars(with = "Option<IdempotencyShape>")]
    pub idempotency_key: Option<IdempotencyField>,
    /// Whether the server's own tool annotations are trusted.
    pub trust_annotations: Option<bool>,
    /// The version of tools that do not have one.
    pub version: Option<String>,
    /// Which arguments the gateway injects.
    #[schemars(with = "Option<InjectShape>")]
    pub inject: Option<InjectField>,

    /// The timeout of a call, in seconds, if no other setting applies.
    #[serde(alias = "timeout_seconds", alias = "tool_timeout_sec")]
    #[schemars(with = "Option<Time>")]
    pub timeout: Option<Seconds>,
    /// The timeout for connecting and listing tools, in seconds.
    #[serde(alias = "startup_timeout_sec")]
    #[schemars(with = "Option<Time>")]
    pub connect_timeout: Option<Seconds>,
    /// The interval between health checks of an idle connection, in seconds.
    #[schemars(with = "Option<Time>")]
    pub health_check_interval: Option<Seconds>,
    /// The interval in which a server that does not announce changes of its lists is listed again, in seconds; 0 for
    /// never. Default: `health_check_interval` of this entry, else 300.
    #[schemars(with = "Option<Time>")]
    pub discovery_interval: Option<Seconds>,
    /// Whether the server is restarted after it stops or disconnects.
    #[schemars(with = "Option<RestartNames>")]
    pub restart: Option<Restart>,
    /// The protocol era to use with a server that supports both.
    #[schemars(with = "Option<EraNames>")]
    pub era: Option<EraChoice>,

    /// Whether to merge this entry into an earlier one with the same name, field by field.
    pub merge: Option<bool>,
    /// Whether project files are prevented from changing this entry.
    pub enforced: Option<bool>,
}

/// The names of transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum TransportWord {
    #[serde(rename = "stdio", alias = "local")]
    Stdio,
    #[serde(
        rename = "http",
        alias = "https",
        alias = "streamable-http",
        alias = "streamable_http",
        alias = "streamableHttp",
        alias = "streamablehttp",
        alias = "remote"
    )]
    Http,
    #[serde(rename = "sse")]
    Sse,
    #[serde(rename = "ws", alias = "wss", alias = "websocket")]
    WebSocket,
}

/// The names of credential kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthWord {
    None,
    Bearer,
    #[serde(alias = "api-key", alias = "apikey")]
    ApiKey,
    Jwt,
    #[serde(alias = "oauth2")]
    Oauth,
}

/// `auth`: a kind, or a map that may also contain hints for manifests.
#[derive(Debug, Default)]
pub(crate) struct AuthField(pub AuthMap);

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuthMap {
    #[serde(rename = "type", alias = "scheme")]
    pub kind: Option<AuthWord>,
    #[serde(alias = "key")]
    pub token: Option<SecretField>,
    pub header: Option<String>,
    #[serde(alias = "clientId")]
    pub client_id: Option<SecretField>,
    #[serde(alias = "clientSecret")]
    pub client_secret: Option<SecretField>,
    pub scopes: Option<OneOrMany<String>>,
    /// Hints for manifests: `required`, `env`, `envs`, `docs`.
    pub required: Option<bool>,
    pub env: Option<serde_json::Value>,
    pub envs: Option<serde_json::Value>,
    pub docs: Option<String>,
}

impl<'de> Deserialize<'de> for AuthField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AuthVisitor;
        impl<'de> Visitor<'de> for AuthVisitor {
            type Value = AuthField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, `bearer`, `api_key`, `jwt`, `oauth`, or a map with `type` and `token`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<AuthField, E> {
                let kind = AuthWord::deserialize(de::value::StrDeserializer::<E>::new(word))?;
                Ok(AuthField(AuthMap { kind: Some(kind), ..AuthMap::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AuthField, A::Error> {
                AuthMap::deserialize(MapAccessDeserializer::new(map)).map(AuthField)
            }
        }
        deserializer.deserialize_any(AuthVisitor)
    }
}

/// `oauth`: a boolean, or a map with a registered client.
pub(crate) type OAuthField = SwitchOr<OAuthMap>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OAuthMap {
    #[serde(alias = "clientId")]
    pub client_id: Option<SecretField>,
    #[serde(alias = "clientSecret")]
    pub client_secret: Option<SecretField>,
    pub scopes: Option<OneOrMany<String>>,
    /// Used by the sign-in pages of other programs, and ignored here.
    pub client_name: Option<IgnoredAny>,
    #[serde(alias = "callbackPort")]
    pub callback_port: Option<IgnoredAny>,
    #[serde(alias = "authServerMetadataUrl")]
    pub auth_server_metadata_url: Option<IgnoredAny>,
}

impl SwitchMap for OAuthMap {
    const EXPECTED: &'static str = "true, false, or a map with `client_id`, `client_secret`, `scopes`";
}

/// `tools`: a map of rules, or a list of allowed tools.
#[derive(Debug, Default)]
pub(crate) struct ToolsField(pub ToolsMap);

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolsMap {
    pub allow: Option<OneOrMany<String>>,
    pub deny: Option<OneOrMany<String>>,
    pub require_approval: Option<OneOrMany<String>>,
    pub overrides: BTreeMap<String, serde_json::Value>,
}

impl<'de> Deserialize<'de> for ToolsField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToolsVisitor;
        impl<'de> Visitor<'de> for ToolsVisitor {
            type Value = ToolsField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a map with `allow`, `deny`, `require_approval`, `overrides`, or a list of allowed tools",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut globs: A) -> Result<ToolsField, A::Error> {
                let mut allow = Vec::new();
                while let Some(glob) = globs.next_element()? {
                    allow.push(glob);
                }
                Ok(ToolsField(ToolsMap { allow: Some(OneOrMany(allow)), ..ToolsMap::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolsField, A::Error> {
                ToolsMap::deserialize(MapAccessDeserializer::new(map)).map(ToolsField)
            }
        }
        deserializer.deserialize_any(ToolsVisitor)
    }
}

/// `idempotency_key`: a boolean or `{required: true}`.
pub(crate) type IdempotencyField = SwitchOr<IdempotencyMap>;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdempotencyMap {
    pub required: bool,
}

impl SwitchMap for IdempotencyMap {
    const EXPECTED: &'static str = "true, false or {required: true}";
}

/// `inject`: all, nothing, or a selection.
pub(crate) type InjectField = SwitchOr<InjectMap>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InjectMap {
    pub identity: Option<Vec<String>>,
    pub mcp_data: Option<bool>,
    pub files: Option<Vec<String>>,
}

impl SwitchMap for InjectMap {
    const EXPECTED: &'static str = "true, false, or a map with `identity`, `mcp_data`, `files`";
}
