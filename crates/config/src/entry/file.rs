//! The fields of a server entry as people write them, every spelling included.

use super::shapes::{
    ApprovalNames, AuthNames, AuthShape, EraNames, IdempotencyShape, InjectShape, OAuthShape, RestartNames,
    Scalar, ShareNames, SideEffectNames, ToolsShape, TransportNames,
};
use crate::fields::{OneOrMany, ScalarField, Seconds, SecretField, TextOrTexts, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use toolbooth_core::manifest::ApprovalBy;
use toolbooth_core::server::{EraChoice, Restart, Share, SideEffects};

/// One server entry as written. Every field is optional; what must be there depends on the others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "A server entry")]
pub(crate) struct ServerFile {
    /// The program, or program and arguments as a list.
    #[serde(alias = "cmd")]
    #[schemars(with = "Option<TextOrTexts>")]
    pub command: Option<OneOrMany<SecretField>>,
    /// Arguments of the program.
    #[serde(alias = "command_args")]
    #[schemars(with = "Option<TextOrTexts>")]
    pub args: Option<OneOrMany<SecretField>>,
    /// Its working folder; a relative one starts at this file's folder.
    #[serde(alias = "working_directory")]
    #[schemars(with = "Option<String>")]
    pub cwd: Option<SecretField>,
    /// Variables for it, besides the clean base environment.
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub env: Option<BTreeMap<String, ScalarField>>,
    /// The address of a remote server.
    #[serde(alias = "uri", alias = "endpoint", alias = "serverUrl", alias = "httpUrl")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretField>,
    /// Headers sent with every request.
    #[serde(alias = "http_headers")]
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub headers: Option<BTreeMap<String, ScalarField>>,
    /// How it is reached; from `command` and `url` when absent.
    #[schemars(with = "Option<TransportNames>")]
    pub transport: Option<TransportWord>,
    /// The older name of `transport`.
    #[serde(rename = "type")]
    #[schemars(with = "Option<TransportNames>")]
    pub kind: Option<TransportWord>,
    /// The name of a server built into the program.
    pub bundled: Option<String>,

    /// The credential the gateway shows: a word, or a map.
    #[schemars(with = "Option<AuthShape>")]
    pub auth: Option<AuthField>,
    /// The kind of credential.
    #[schemars(with = "Option<AuthNames>")]
    pub auth_type: Option<AuthWord>,
    /// The credential, best as `${NAME}`.
    #[schemars(with = "Option<String>")]
    pub auth_token: Option<SecretField>,
    /// The header an `api_key` travels in.
    pub auth_header: Option<String>,
    /// OAuth: true, or a client registered beforehand.
    #[serde(alias = "oauth_config")]
    #[schemars(with = "Option<OAuthShape>")]
    pub oauth: Option<OAuthField>,
    /// Scopes asked for.
    #[schemars(with = "Option<TextOrTexts>")]
    pub scopes: Option<OneOrMany<String>>,
    /// Headers of the caller's request that are passed on, by their name upstream.
    pub forward_headers: Option<BTreeMap<String, String>>,
    /// Passes the caller's `x-subtoken` on as `X-Token`.
    pub wormhole: Option<bool>,

    /// Any of these groups admits a caller; absent means every authenticated one.
    pub groups: Option<Vec<String>>,
    /// The persona its tools belong to.
    #[schemars(with = "Option<TextOrTexts>")]
    pub persona: Option<OneOrMany<String>>,
    /// The personas its tools belong to.
    #[schemars(with = "Option<TextOrTexts>")]
    pub personas: Option<OneOrMany<String>>,
    /// What it is, for people and models.
    pub description: Option<String>,
    /// One line of it.
    pub short_description: Option<String>,
    /// Who made it.
    pub author: Option<String>,
    /// Whom to ask.
    pub help_email: Option<String>,
    /// The level of data it may see.
    pub compliance_level: Option<String>,

    /// False: never started, never listed.
    pub enabled: Option<bool>,
    /// The opposite of `enabled`.
    pub disabled: Option<bool>,
    /// Whether it is connected at start.
    #[serde(alias = "autoConnect")]
    pub auto_connect: Option<bool>,
    /// Whether it is started on its first call.
    #[serde(alias = "lazy_load", alias = "lazyLoad")]
    pub lazy: Option<bool>,
    /// Which callers share one process or connection: `auto` (the default), `all`, `user` or `session`. `auto` shares
    /// with everybody in local mode and on stateless remote servers, and gives each user one of their own on processes
    /// and on remote servers with sessions, which may hold a user's state.
    #[schemars(with = "Option<ShareNames>")]
    pub share: Option<Share>,

    /// Which of its tools enter the catalog, and how.
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

    /// What its tools do to the world.
    #[schemars(with = "Option<SideEffectNames>")]
    pub side_effects: Option<SideEffects>,
    /// Seconds one call of its tools may take.
    #[schemars(with = "Option<Time>")]
    pub default_timeout: Option<Seconds>,
    /// Whether calls of one tool may overlap.
    pub allow_parallel: Option<bool>,
    /// Whether a person must agree before first use.
    pub requires_consent: Option<bool>,
    /// Who must agree to each call of its tools: `none`, `caller` (in person) or `approver` (somebody else than the caller).
    #[schemars(with = "Option<ApprovalNames>")]
    pub approval: Option<ApprovalBy>,
    /// Whether calls carry a key and may be repeated.
    #[schemars(with = "Option<IdempotencyShape>")]
    pub idempotency_key: Option<IdempotencyField>,
    /// Whether its own annotations are believed.
    pub trust_annotations: Option<bool>,
    /// The version of tools that name none.
    pub version: Option<String>,
    /// Which arguments the gateway supplies.
    #[schemars(with = "Option<InjectShape>")]
    pub inject: Option<InjectField>,

    /// Seconds a call may take when nothing else says.
    #[serde(alias = "timeout_seconds", alias = "tool_timeout_sec")]
    #[schemars(with = "Option<Time>")]
    pub timeout: Option<Seconds>,
    /// Seconds that connecting and listing may take.
    #[serde(alias = "startup_timeout_sec")]
    #[schemars(with = "Option<Time>")]
    pub connect_timeout: Option<Seconds>,
    /// Seconds between probes of a quiet connection.
    #[schemars(with = "Option<Time>")]
    pub health_check_interval: Option<Seconds>,
    /// What happens when it goes away.
    #[schemars(with = "Option<RestartNames>")]
    pub restart: Option<Restart>,
    /// Which era of the protocol is spoken with a server that knows both.
    #[schemars(with = "Option<EraNames>")]
    pub era: Option<EraChoice>,

    /// Lay this entry over an earlier one of its name, field by field.
    pub merge: Option<bool>,
    /// Project files may not change it.
    pub enforced: Option<bool>,
}

/// The word for a way to reach a server.
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

/// The word for a kind of credential.
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

/// `auth`: a word, or a map that may also hold hints for manifests.
#[derive(Debug, Default)]
pub(crate) struct AuthField {
    pub kind: Option<AuthWord>,
    pub token: Option<SecretField>,
    pub header: Option<String>,
    pub client_id: Option<SecretField>,
    pub client_secret: Option<SecretField>,
    pub scopes: Option<OneOrMany<String>>,
    /// What manifests understand: `required`, `env`, `envs`, `docs`.
    pub required: Option<bool>,
    pub env: Option<serde_json::Value>,
    pub envs: Option<serde_json::Value>,
    pub docs: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthMap {
    #[serde(default, rename = "type", alias = "scheme")]
    kind: Option<AuthWord>,
    #[serde(default, alias = "key")]
    token: Option<SecretField>,
    #[serde(default)]
    header: Option<String>,
    #[serde(default, alias = "clientId")]
    client_id: Option<SecretField>,
    #[serde(default, alias = "clientSecret")]
    client_secret: Option<SecretField>,
    #[serde(default)]
    scopes: Option<OneOrMany<String>>,
    #[serde(default)]
    required: Option<bool>,
    #[serde(default)]
    env: Option<serde_json::Value>,
    #[serde(default)]
    envs: Option<serde_json::Value>,
    #[serde(default)]
    docs: Option<String>,
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
                Ok(AuthField { kind: Some(kind), ..AuthField::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AuthField, A::Error> {
                let AuthMap {
                    kind,
                    token,
                    header,
                    client_id,
                    client_secret,
                    scopes,
                    required,
                    env,
                    envs,
                    docs,
                } = AuthMap::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(AuthField {
                    kind,
                    token,
                    header,
                    client_id,
                    client_secret,
                    scopes,
                    required,
                    env,
                    envs,
                    docs,
                })
            }
        }
        deserializer.deserialize_any(AuthVisitor)
    }
}

/// `oauth`: true, or what is known beforehand.
#[derive(Debug)]
pub(crate) enum OAuthField {
    Switch(bool),
    Client(OAuthMap),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OAuthMap {
    #[serde(default, alias = "clientId")]
    pub client_id: Option<SecretField>,
    #[serde(default, alias = "clientSecret")]
    pub client_secret: Option<SecretField>,
    #[serde(default)]
    pub scopes: Option<OneOrMany<String>>,
    /// Meant for other programs' sign-in pages; ours come from the gateway.
    #[serde(default)]
    pub client_name: Option<IgnoredAny>,
    #[serde(default, alias = "callbackPort")]
    pub callback_port: Option<IgnoredAny>,
    #[serde(default, alias = "authServerMetadataUrl")]
    pub auth_server_metadata_url: Option<IgnoredAny>,
}

impl<'de> Deserialize<'de> for OAuthField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OAuthVisitor;
        impl<'de> Visitor<'de> for OAuthVisitor {
            type Value = OAuthField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a map with `client_id`, `client_secret`, `scopes`")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<OAuthField, E> {
                Ok(OAuthField::Switch(on))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OAuthField, A::Error> {
                OAuthMap::deserialize(de::value::MapAccessDeserializer::new(map)).map(OAuthField::Client)
            }
        }
        deserializer.deserialize_any(OAuthVisitor)
    }
}

/// `tools`: rules, or a plain list of the allowed ones.
#[derive(Debug, Default)]
pub(crate) struct ToolsField {
    pub allow: Option<OneOrMany<String>>,
    pub deny: Option<OneOrMany<String>>,
    pub require_approval: Option<OneOrMany<String>>,
    pub overrides: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsMap {
    #[serde(default)]
    allow: Option<OneOrMany<String>>,
    #[serde(default)]
    deny: Option<OneOrMany<String>>,
    #[serde(default)]
    require_approval: Option<OneOrMany<String>>,
    #[serde(default)]
    overrides: BTreeMap<String, serde_json::Value>,
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
                Ok(ToolsField { allow: Some(OneOrMany(allow)), ..ToolsField::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolsField, A::Error> {
                let ToolsMap { allow, deny, require_approval, overrides } =
                    ToolsMap::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(ToolsField { allow, deny, require_approval, overrides })
            }
        }
        deserializer.deserialize_any(ToolsVisitor)
    }
}

/// `idempotency_key`: a truth value or `{required: true}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdempotencyField(pub bool);

impl<'de> Deserialize<'de> for IdempotencyField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Required {
            required: bool,
        }
        struct IdempotencyVisitor;
        impl<'de> Visitor<'de> for IdempotencyVisitor {
            type Value = IdempotencyField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or {required: true}")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<IdempotencyField, E> {
                Ok(IdempotencyField(on))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<IdempotencyField, A::Error> {
                let Required { required } =
                    Required::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(IdempotencyField(required))
            }
        }
        deserializer.deserialize_any(IdempotencyVisitor)
    }
}

/// `inject`: all, nothing, or a choice.
#[derive(Debug)]
pub(crate) enum InjectField {
    Switch(bool),
    Choice(InjectMap),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InjectMap {
    #[serde(default)]
    pub identity: Option<Vec<String>>,
    #[serde(default)]
    pub mcp_data: Option<bool>,
    #[serde(default)]
    pub files: Option<Vec<String>>,
}

impl<'de> Deserialize<'de> for InjectField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InjectVisitor;
        impl<'de> Visitor<'de> for InjectVisitor {
            type Value = InjectField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a map with `identity`, `mcp_data`, `files`")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<InjectField, E> {
                Ok(InjectField::Switch(on))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<InjectField, A::Error> {
                InjectMap::deserialize(de::value::MapAccessDeserializer::new(map)).map(InjectField::Choice)
            }
        }
        deserializer.deserialize_any(InjectVisitor)
    }
}
