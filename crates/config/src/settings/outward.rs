//! Settings about what goes out: `llm`, `events`, `telemetry`.

use crate::fields::{seconds, secret, secret_map, secret_option, text_option};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// The language model that gateway features use: any OpenAI-compatible endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Llm {
    /// Its address, up to and including `/v1`.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub base_url: Option<SecretText>,
    /// The key.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretText>,
    /// The model's name.
    pub model: Option<String>,
    /// Globs of the servers that may ask it questions through the gateway.
    pub allow: Vec<String>,
    /// Models that servers may prefer to `model`.
    pub models: Vec<String>,
    /// The most tokens of one answer.
    pub max_tokens: u32,
    /// The most questions that a server may ask during one call.
    pub requests_per_call: u32,
    /// The most tokens that servers may use in a day (UTC), questions and answers together.
    pub tokens_per_day: u64,
    /// How long one answer may take.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub timeout_seconds: Duration,
}

impl Default for Llm {
    fn default() -> Self {
        Self {
            base_url: None,
            api_key: None,
            model: None,
            allow: Vec::new(),
            models: Vec::new(),
            max_tokens: 8_192,
            requests_per_call: 5,
            tokens_per_day: 1_000_000,
            timeout_seconds: Duration::from_secs(120),
        }
    }
}

/// Where events are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Addresses that every event is posted to.
    pub webhooks: Vec<Webhook>,
    /// Events kept for those who reconnect.
    pub ring: u32,
}

impl Default for Events {
    fn default() -> Self {
        Self { webhooks: Vec::new(), ring: 10_000 }
    }
}

/// One address that events are posted to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Webhook {
    /// The address; it may hold a secret.
    #[serde(with = "secret")]
    pub url: SecretText,
    /// Globs of the events it wants; empty means all.
    pub types: Vec<String>,
    /// The key that signs what is sent.
    #[serde(with = "secret_option")]
    pub secret: Option<SecretText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookFile {
    #[serde(with = "secret")]
    url: SecretText,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default, with = "secret_option")]
    secret: Option<SecretText>,
}

impl<'de> Deserialize<'de> for Webhook {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WebhookVisitor;
        impl<'de> Visitor<'de> for WebhookVisitor {
            type Value = Webhook;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address, or a map with `url`, `types`, `secret`")
            }

            fn visit_str<E: de::Error>(self, url: &str) -> Result<Webhook, E> {
                Ok(Webhook {
                    url: SecretText::expanded(crate::fields::HIDDEN, url),
                    types: Vec::new(),
                    secret: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Webhook, A::Error> {
                let WebhookFile { url, types, secret } =
                    WebhookFile::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Webhook { url, types, secret })
            }
        }
        deserializer.deserialize_any(WebhookVisitor)
    }
}

impl JsonSchema for Webhook {
    fn schema_name() -> Cow<'static, str> {
        "Webhook".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": {
                        "url": { "type": "string" },
                        "types": { "type": "array", "items": { "type": "string" } },
                        "secret": { "type": "string" }
                    },
                    "required": ["url"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// Where traces are sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// An OTLP endpoint.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub otlp_url: Option<SecretText>,
    /// Headers for it.
    #[serde(with = "secret_map")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretText>,
}
