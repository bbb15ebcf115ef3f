//! The language models of `llm`, for chats at the terminal and in the console.

use std::error::Error;
use std::fmt;
use toolbooth_config::Settings;
use toolbooth_config::settings::{LlmEndpointSettings, LlmSettings};
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_upstream::llm::{ChatModel, LlmClient, LlmError};

/// The maximum number of models that the console offers.
const MAX_OFFERED: usize = 32;

/// Why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFault {
    /// A setting is missing.
    NotConfigured {
        /// The setting.
        missing: &'static str,
    },
    /// No model has this name.
    Unknown {
        /// The name.
        named: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The endpoint's settings are not valid.
    Endpoint(LlmError),
}

impl fmt::Display for ModelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConfigured { missing } => {
                write!(f, "no language model is configured: `llm.{missing}` is not set")
            }
            Self::Unknown { named, .. } => write!(f, "there is no model `{named}`"),
            Self::Endpoint(error) => error.fmt(f),
        }
    }
}

impl Error for ModelFault {}

impl From<LlmError> for ModelFault {
    fn from(error: LlmError) -> Self {
        Self::Endpoint(error)
    }
}

impl Fault for ModelFault {
    fn code(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } => "llm.not-configured",
            Self::Unknown { .. } => "llm.unknown-model",
            Self::Endpoint(error) => error.code(),
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::NotConfigured { .. } | Self::Unknown { .. } => Blame::Caller,
            Self::Endpoint(error) => error.blame(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotConfigured { .. } => Some(
                "set `llm.base_url` and `llm.model` in the configuration; any OpenAI-compatible endpoint works"
                    .into(),
            ),
            Self::Unknown { known, .. } => Some(format!("expected one of `{}`", known.join("`, `"))),
            Self::Endpoint(error) => error.hint(),
        }
    }
}

/// The configured model, or the one with this name: a model with its own endpoint, or another model at the default
/// endpoint if none of them have names.
pub fn select(settings: &Settings, named: Option<&str>) -> Result<ChatModel, ModelFault> {
    let llm = &settings.llm;
    let Some(named) = named else {
        let missing = if llm.base_url.is_none() { "base_url" } else { "model" };
        let name = llm.model.clone().ok_or(ModelFault::NotConfigured { missing })?;
        return at(settings, name, None);
    };
    let by_key = llm.endpoints.get_key_value(named);
    let by_model = || llm.endpoints.iter().find(|(_, endpoint)| endpoint.model.as_deref() == Some(named));
    match by_key.or_else(by_model) {
        Some((key, endpoint)) => {
            let name = endpoint.model.clone().unwrap_or_else(|| key.clone());
            at(settings, name, Some(endpoint))
        }
        None if llm.endpoints.is_empty()
            || llm.model.as_deref() == Some(named)
            || llm.models.iter().any(|model| model == named) =>
        {
            at(settings, named.to_owned(), None)
        }
        None => Err(ModelFault::Unknown { named: named.to_owned(), known: names(llm) }),
    }
}

/// The models that the console offers, the default first, with the names to choose them by. One that cannot be used is
/// left out.
pub fn offered(settings: &Settings) -> Vec<(String, ChatModel)> {
    let llm = &settings.llm;
    let mut offered: Vec<(String, ChatModel)> = Vec::new();
    let at_default = llm.base_url.is_some();
    let plain = llm.model.iter().chain(&llm.models).filter(|_| at_default);
    for name in plain.chain(llm.endpoints.keys()).take(MAX_OFFERED) {
        if offered.iter().any(|(known, _)| known == name) {
            continue;
        }
        match select(settings, Some(name)) {
            Ok(model) => offered.push((name.clone(), model)),
            Err(fault) => tracing::warn!("the console does not offer the model `{name}`: {fault}"),
        }
    }
    offered
}

fn names(llm: &LlmSettings) -> Vec<String> {
    llm.endpoints.keys().chain(&llm.models).cloned().collect()
}

/// A model at its own endpoint, or at the default one. A key and headers are sent only to the URL that they belong to.
fn at(
    settings: &Settings,
    name: String,
    endpoint: Option<&LlmEndpointSettings>,
) -> Result<ChatModel, ModelFault> {
    let llm = &settings.llm;
    let usual = LlmEndpointSettings::default();
    let endpoint = endpoint.unwrap_or(&usual);
    let (url, key, headers) = match &endpoint.base_url {
        Some(url) => (url, endpoint.api_key.as_ref(), endpoint.headers.clone()),
        None => {
            let missing = ModelFault::NotConfigured { missing: "base_url" };
            let url = llm.base_url.as_ref().ok_or(missing)?;
            let mut headers = llm.headers.clone();
            headers.extend(endpoint.headers.clone());
            (url, endpoint.api_key.as_ref().or(llm.api_key.as_ref()), headers)
        }
    };
    let client = LlmClient::new(url.expose(), key, llm.timeout_seconds)?;
    Ok(ChatModel {
        llm: client.with_headers(&headers)?,
        name,
        max_tokens: endpoint.max_tokens.unwrap_or(llm.max_tokens),
        temperature: endpoint.temperature.or(llm.temperature),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::secret::SecretText;

    fn url(url: &str) -> Option<SecretText> {
        Some(SecretText::plain(url))
    }

    #[test]
    fn a_named_model_has_its_own_endpoint_and_an_unknown_one_is_refused() {
        let mut settings = Settings::default();
        settings.llm.base_url = url("http://127.0.0.1:9/v1/chat/completions");
        settings.llm.api_key = url("first-key");
        settings.llm.model = Some("small-1".into());
        assert_eq!(select(&settings, Some("any")).expect("a model").name, "any");
        let second = LlmEndpointSettings {
            base_url: url("http://127.0.0.1:8/v1"),
            model: Some("second-2".into()),
            max_tokens: Some(900),
            ..LlmEndpointSettings::default()
        };
        settings.llm.endpoints.insert("second".into(), second);
        for named in ["second", "second-2"] {
            let model = select(&settings, Some(named)).expect("a model");
            assert_eq!((model.name.as_str(), model.max_tokens), ("second-2", 900));
            // The key of the default endpoint is not sent to another one.
            assert!(!format!("{:?}", model.llm).contains("first-key"));
        }
        assert_eq!(select(&settings, None).expect("a model").name, "small-1");
        let fault = select(&settings, Some("third")).expect_err("unknown");
        assert_eq!(fault.code(), "llm.unknown-model");
        assert_eq!(fault.hint().as_deref(), Some("expected one of `second`"));
    }

    #[test]
    fn the_console_offers_the_default_model_first_and_each_model_once() {
        let mut settings = Settings::default();
        assert!(offered(&settings).is_empty());
        settings.llm.base_url = url("http://127.0.0.1:9/v1");
        settings.llm.model = Some("small-1".into());
        settings.llm.models = vec!["large-1".into(), "small-1".into()];
        settings.llm.endpoints.insert("far".into(), LlmEndpointSettings::default());
        let broken = LlmEndpointSettings { base_url: url("ftp://x"), ..LlmEndpointSettings::default() };
        settings.llm.endpoints.insert("broken".into(), broken);
        let offered = offered(&settings);
        let names: Vec<&str> = offered.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["small-1", "large-1", "far"]);
    }
}
