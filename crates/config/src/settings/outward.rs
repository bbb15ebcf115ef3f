//! Settings of outgoing connections: `llm`, `events`, `telemetry`.

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
#[schemars(rename = "Llm")]
pub struct LlmSettings {
    /// The base URL, up to and including `/v1`; `/chat/completions` may follow.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub base_url: Option<SecretText>,
    /// The API key.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretText>,
    /// The name of the model.
    pub model: Option<String>,
    /// Globs of the servers that may send sampling requests to the model.
    pub allow: Vec<String>,
    /// Models that servers may request in place of `model`.
    pub models: Vec<String>,
    /// The maximum number of tokens in one answer.
    pub max_tokens: u32,
    /// The maximum number of sampling requests that a server may send during one call.
    pub requests_per_call: u32,
    /// The maximum number of tokens that servers and chats in the console may use per day (UTC), requests and answers
    /// together.
    pub tokens_per_day: u64,
    /// The timeout of one request.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub timeout_seconds: Duration,
    /// Headers sent with every request.
    #[serde(with = "secret_map", alias = "extra_headers")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretText>,
    /// The temperature of answers in a chat. Default: that of the endpoint.
    pub temperature: Option<f64>,
    /// Further models by name, which `toolbooth chat --model NAME` selects.
    pub endpoints: BTreeMap<String, LlmEndpointSettings>,
}

/// A model with its own endpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "LlmEndpoint")]
pub struct LlmEndpointSettings {
    /// The base URL. Default: `llm.base_url`, with the key and the headers of `llm`.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub base_url: Option<SecretText>,
    /// The API key.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretText>,
    /// The name of the model at the endpoint. Default: the name of this entry.
    pub model: Option<String>,
    /// The maximum number of tokens in one answer. Default: `llm.max_tokens`.
    pub max_tokens: Option<u32>,
    /// The temperature of answers. Default: that of the endpoint.
    pub temperature: Option<f64>,
    /// Headers sent with every request.
    #[serde(with = "secret_map", alias = "extra_headers")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretText>,
}

impl Default for LlmSettings {
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
            headers: BTreeMap::new(),
            temperature: None,
            endpoints: BTreeMap::new(),
        }
    }
}

/// Settings of event delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Events")]
pub struct EventSettings {
    /// Webhooks that the gateway posts events to.
    pub webhooks: Vec<WebhookSettings>,
    /// The number of recent events kept, so that a client that reconnects can catch up.
    pub ring: u32,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self { webhooks: Vec::new(), ring: 10_000 }
    }
}

/// A webhook: a URL that the gateway posts events to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WebhookSettings {
    /// The URL; it may contain a secret.
    #[serde(with = "secret")]
    pub url: SecretText,
    /// Globs of the event types to send; empty means all.
    pub types: Vec<String>,
    /// The key that signs each request.
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

impl<'de> Deserialize<'de> for WebhookSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WebhookVisitor;
        impl<'de> Visitor<'de> for WebhookVisitor {
            type Value = WebhookSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL, or a map with `url`, `types`, `secret`")
            }

            fn visit_str<E: de::Error>(self, url: &str) -> Result<WebhookSettings, E> {
                Ok(WebhookSettings {
                    url: SecretText::expanded(crate::secrets::HIDDEN, url),
                    types: Vec::new(),
                    secret: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WebhookSettings, A::Error> {
                let WebhookFile { url, types, secret } =
                    WebhookFile::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(WebhookSettings { url, types, secret })
            }
        }
        deserializer.deserialize_any(WebhookVisitor)
    }
}

impl JsonSchema for WebhookSettings {
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
                        "url": { "type": "string", "description": "The URL. It may contain a secret." },
                        "types": {
                            "description": "Globs of the event types to send. Default: all.",
                            "type": "array",
                            "items": { "type": "string" }
                        },
                        "secret": { "type": "string", "description": "The key that signs each request." }
                    },
                    "required": ["url"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// Settings of trace export.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Telemetry")]
pub struct TelemetrySettings {
    /// The URL of an OTLP endpoint.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub otlp_url: Option<SecretText>,
    /// Headers sent to the endpoint.
    #[serde(with = "secret_map")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretText>,
}
