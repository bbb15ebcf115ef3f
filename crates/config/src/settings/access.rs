//! Settings of the listener and of callers: `listen`, `auth`, `groups`, `personas`, `prompts`.

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

/// The default port.
pub const DEFAULT_PORT: u16 = 8665;

/// The address the gateway listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Listen(pub SocketAddr);

impl Default for Listen {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)))
    }
}

impl Listen {
    /// Whether the address is reachable from this machine only.
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

/// Settings of caller authentication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Auth")]
pub struct AuthSettings {
    /// How callers authenticate.
    pub mode: AuthMode,
    /// For `local`: which users of this machine may connect.
    pub local_users: LocalUsersSetting,
    /// For `header`: the headers that a trusted proxy sends.
    pub header: HeaderAuth,
    /// For `jwt`: which tokens are accepted.
    pub jwt: JwtAuth,
    /// For `jwt`: the client by which users of the console sign in at the identity provider.
    pub console: ConsoleAuth,
    /// The group of administrators, who may see and decide everything.
    pub admin_group: String,
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self {
            mode: AuthMode::Local,
            local_users: LocalUsersSetting::Own,
            header: HeaderAuth::default(),
            jwt: JwtAuth::default(),
            console: ConsoleAuth::default(),
            admin_group: "admin".into(),
        }
    }
}

/// How callers authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// No credentials: callers on this machine, over loopback only.
    Local,
    /// A trusted proxy sends the user's name in a header.
    Header,
    /// Bearer tokens created with `toolbooth tokens create`.
    Token,
    /// JSON Web Tokens of an identity provider.
    Jwt,
}

/// Which users of this machine may connect in `local` mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LocalUsers")]
pub enum LocalUsersSetting {
    /// Only the user who runs the gateway, and root. The kernel reports the owner of each connection.
    Own,
    /// Every user of this machine, each with the rights of the gateway's owner.
    Any,
}

/// The headers that a trusted proxy sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderAuth {
    /// The header that holds the user's name.
    pub name: String,
    /// The header that authenticates the proxy.
    pub secret_header: String,
    /// The value that `secret_header` must have; at least 16 characters.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub secret: Option<SecretText>,
}

impl Default for HeaderAuth {
    fn default() -> Self {
        Self { name: "X-User-Email".into(), secret_header: "X-Proxy-Secret".into(), secret: None }
    }
}

/// Which JSON Web Tokens are accepted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JwtAuth {
    /// The required value of `iss`.
    pub issuer: Option<String>,
    /// The accepted values of `aud`; a token needs one of them. With `public_url`, an MCP endpoint also accepts its own URL.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub audience: Vec<String>,
    /// The scopes that MCP clients request from the issuer, so that tokens have the claims. They are in the metadata of the
    /// gateway. Default: none, and clients choose.
    pub scopes: Vec<String>,
    /// The URL of the signing keys. Default: discovered from the issuer.
    pub jwks_url: Option<String>,
    /// The names of the claims to read.
    pub claims: ClaimSettings,
}

/// The client by which users of the console sign in at the identity provider (OpenID Connect). The provider must accept
/// the redirect URI `{public_url}/console/login/callback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleAuth {
    /// The client id at the provider of `auth.jwt.issuer`. Default: users paste a token.
    pub client_id: Option<String>,
    /// The client secret, if the provider requires one.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<SecretText>,
    /// The scopes to request besides `openid`. The ID token must contain the claims of `auth.jwt.claims`.
    pub scopes: Vec<String>,
    /// The page that the provider shows at each sign-in. `consent`: some providers give a refresh token for the scope
    /// `offline_access` only then. Default: the provider decides.
    pub prompt: Option<ConsolePrompt>,
    /// The name of the provider on the button. Default: the issuer's host.
    pub provider_name: Option<String>,
}

impl Default for ConsoleAuth {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret: None,
            scopes: vec!["profile".into(), "email".into()],
            prompt: None,
            provider_name: None,
        }
    }
}

/// A page that the identity provider shows at each sign-in to the console, also to a user whom it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConsolePrompt {
    /// The user consents to the scopes.
    Consent,
    /// The user enters the password again.
    Login,
    /// The user chooses an account.
    SelectAccount,
}

/// The names of the claims to read from a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Claims")]
pub struct ClaimSettings {
    /// The claim with the user's name.
    pub user: String,
    /// The claim with the user's groups.
    pub groups: String,
    /// The claim with the persona, if tokens have one.
    pub persona: Option<String>,
    /// The claim with the compliance level, if tokens have one.
    pub compliance_level: Option<String>,
}

impl Default for ClaimSettings {
    fn default() -> Self {
        Self { user: "sub".into(), groups: "groups".into(), persona: None, compliance_level: None }
    }
}

/// Group membership: a map in the file, a service, or both.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct GroupSettings {
    /// Users by group.
    #[serde(flatten)]
    pub members: BTreeMap<String, Vec<String>>,
    /// The URL of a membership service: `POST {user_id, group_id}` answers `{is_member}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_url: Option<String>,
    /// The bearer token for the membership service.
    #[serde(with = "secret_option", skip_serializing_if = "Option::is_none")]
    pub service_token: Option<SecretText>,
    /// How long an answer of the service is cached.
    #[serde(with = "crate::fields::seconds_option", skip_serializing_if = "Option::is_none")]
    pub cache_seconds: Option<Duration>,
}

impl<'de> Deserialize<'de> for GroupSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GroupsVisitor;
        impl<'de> Visitor<'de> for GroupsVisitor {
            type Value = GroupSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from group names to lists of users")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GroupSettings, A::Error> {
                let mut groups = GroupSettings::default();
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

impl JsonSchema for GroupSettings {
    fn schema_name() -> Cow<'static, str> {
        "Groups".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Users by group, or the URL of a service that answers membership queries.",
            "properties": {
                "service_url": {
                    "type": "string",
                    "description": "The URL of a service that answers whether a user is a member of a group."
                },
                "service_token": { "type": "string", "description": "The token that the service expects." },
                "cache_seconds": { "type": "number", "description": "How long its answers are used." }
            },
            "additionalProperties": { "type": "array", "items": { "type": "string" } }
        })
    }
}

/// Settings of a persona: a named restriction of the catalog.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Persona")]
pub struct PersonaSettings {
    /// Globs of the tools that the persona may use. Default: none, unless `inherit` is set.
    pub allowed_tools: Option<Vec<String>>,
    /// Names of the skills that the persona may use; `*` matches anything. Default: all skills.
    pub allowed_skills: Option<Vec<String>>,
    /// Which tools the persona inherits.
    pub inherit: Option<InheritSetting>,
    /// Groups whose members may select the persona. Default: every caller.
    pub groups: Option<Vec<String>>,
    /// Conditions on the persona's calls. Not implemented yet.
    pub flags: BTreeMap<String, serde_json::Value>,
    /// The purpose of the persona.
    pub description: Option<String>,
    /// Instructions for the model. Clients with this persona get them as the MCP prompt `persona_NAME`.
    pub prompt: Option<String>,
}

/// A prompt of your own, which clients get as an MCP prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Prompt")]
pub struct PromptSettings {
    /// The purpose of the prompt, which clients show in lists.
    pub description: Option<String>,
    /// The text of the prompt.
    pub text: String,
    /// Groups whose members see the prompt. Default: every caller.
    pub groups: Option<Vec<String>>,
}

/// The tools that a persona inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Inherit")]
pub enum InheritSetting {
    /// Every shared tool.
    Shared,
}
