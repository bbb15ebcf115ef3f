//! Settings about doors and callers: `listen`, `auth`, `groups`, `personas`.

use crate::fields::{Seconds, SecretField, one_or_many, secret_option};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// The port used when none is named.
pub const DEFAULT_PORT: u16 = 8665;

/// Where the gateway listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Listen(pub SocketAddr);

impl Default for Listen {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)))
    }
}

impl Listen {
    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.0.ip().is_loopback()
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListenVisitor;
        impl Visitor<'_> for ListenVisitor {
            type Value = Listen;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as `127.0.0.1:8665`, or a port")
            }

            fn visit_u64<E: de::Error>(self, port: u64) -> Result<Listen, E> {
                let port = u16::try_from(port)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(port), &self))?;
                Ok(Listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Listen, E> {
                parse_listen(text).map(Listen).ok_or_else(|| {
                    E::custom("expected an address such as `127.0.0.1:8665`, `localhost:8665`, or a port")
                })
            }
        }
        deserializer.deserialize_any(ListenVisitor)
    }
}

fn parse_listen(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::from((ip, DEFAULT_PORT)));
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let port = port.parse::<u16>().ok()?;
    match host {
        "" | "localhost" => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        "*" => Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        _ => None,
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"] })
    }
}

/// How callers are recognised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// The way callers say who they are.
    pub mode: AuthMode,
    /// For `local`: which users of this machine are let in.
    pub local_users: LocalUsers,
    /// For `header`: what a trusted proxy sends.
    pub header: HeaderAuth,
    /// For `jwt`: whose tokens are taken.
    pub jwt: JwtAuth,
    /// Members of this group see and decide everything.
    pub admin_group: String,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            mode: AuthMode::Local,
            local_users: LocalUsers::Own,
            header: HeaderAuth::default(),
            jwt: JwtAuth::default(),
            admin_group: "admin".into(),
        }
    }
}

/// The way callers say who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// The user of this machine; loopback only.
    Local,
    /// A trusted proxy names the user in a header.
    Header,
    /// Bearer tokens made by `toolbooth tokens create`.
    Token,
    /// Signed tokens of an identity provider.
    Jwt,
}

/// Which users of this machine a gateway in `local` mode lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LocalUsers {
    /// The user who runs the gateway, and root; the kernel says who owns a connection.
    Own,
    /// Every user of this machine, each as the gateway's owner.
    Any,
}

/// What a trusted proxy sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderAuth {
    /// The header that names the user.
    pub name: String,
    /// The header that proves it is the proxy.
    pub secret_header: String,
    /// What that header must hold; 16 characters or more.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub secret: Option<SecretText>,
}

impl Default for HeaderAuth {
    fn default() -> Self {
        Self { name: "X-User-Email".into(), secret_header: "X-Proxy-Secret".into(), secret: None }
    }
}

/// Whose signed tokens are taken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JwtAuth {
    /// The `iss` that tokens must carry.
    pub issuer: Option<String>,
    /// One of these must be in `aud`.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub audience: Vec<String>,
    /// Where the keys are; discovered from the issuer when absent.
    pub jwks_url: Option<String>,
    /// Which claims hold what.
    pub claims: Claims,
}

/// Which claims of a token hold what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Claims {
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: String,
    /// The persona, if tokens name one.
    pub persona: Option<String>,
    /// The compliance level, if tokens name one.
    pub compliance_level: Option<String>,
}

impl Default for Claims {
    fn default() -> Self {
        Self { user: "sub".into(), groups: "groups".into(), persona: None, compliance_level: None }
    }
}

/// Who is in which group: a map in the file, a service, or both.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Groups {
    /// Users by group.
    #[serde(flatten)]
    pub members: BTreeMap<String, Vec<String>>,
    /// Where membership is asked: `POST {user_id, group_id}` answers `{is_member}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_url: Option<String>,
    /// The bearer token for asking.
    #[serde(with = "secret_option", skip_serializing_if = "Option::is_none")]
    pub service_token: Option<SecretText>,
    /// How long an answer is believed.
    #[serde(with = "crate::fields::seconds_option", skip_serializing_if = "Option::is_none")]
    pub cache_seconds: Option<Duration>,
}

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GroupsVisitor;
        impl<'de> Visitor<'de> for GroupsVisitor {
            type Value = Groups;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from group names to lists of users")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Groups, A::Error> {
                let mut groups = Groups::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "service_url" => groups.service_url = Some(map.next_value()?),
                        "service_token" => groups.service_token = Some(map.next_value::<SecretField>()?.0),
                        "cache_seconds" => groups.cache_seconds = Some(map.next_value::<Seconds>()?.0),
                        _ => {
                            groups.members.insert(name, map.next_value()?);
                        }
                    }
                }
                Ok(groups)
            }
        }
        deserializer.deserialize_map(GroupsVisitor)
    }
}

impl JsonSchema for Groups {
    fn schema_name() -> Cow<'static, str> {
        "Groups".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Users by group, or a service that knows.",
            "properties": {
                "service_url": { "type": "string" },
                "service_token": { "type": "string" },
                "cache_seconds": { "type": "number" }
            },
            "additionalProperties": { "type": "array", "items": { "type": "string" } }
        })
    }
}

/// A named view of the catalog.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Persona {
    /// Globs of the tools it may use; absent means none, unless it inherits.
    pub allowed_tools: Option<Vec<String>>,
    /// Skills it may use. Nothing acts on it yet.
    pub allowed_skills: Option<Vec<String>>,
    /// Whether the shared tools are part of it.
    pub inherit: Option<Inherit>,
    /// Groups whose members may pick it; absent means everybody.
    pub groups: Option<Vec<String>>,
    /// Conditions on its calls. Nothing acts on them yet.
    pub flags: BTreeMap<String, serde_json::Value>,
    /// What it is for.
    pub description: Option<String>,
    /// What the model is told. Nothing acts on it yet.
    pub prompt: Option<String>,
}

/// What a persona takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Inherit {
    /// Every shared tool.
    Shared,
}
