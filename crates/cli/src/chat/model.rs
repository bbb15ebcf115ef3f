//! The language model of a chat, and its errors as failures.

use crate::failure::CommandFailure;
use toolbooth_config::Settings;
use toolbooth_config::settings::{LlmEndpointSettings, LlmSettings};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_upstream::llm::{LlmClient, LlmError, LlmFailure};

/// A model at an endpoint.
#[derive(Debug)]
pub struct ChatModel {
    /// The endpoint.
    pub llm: LlmClient,
    /// Name of the model.
    pub name: String,
    /// The maximum number of tokens of an answer.
    pub max_tokens: u32,
    /// The temperature, if it is not the endpoint's default.
    pub temperature: Option<f64>,
}

impl ChatModel {
    /// The configured model, or the one with this name: a model with its own endpoint, or another model at the default
    /// endpoint if none of them have names.
    pub fn of(settings: &Settings, named: Option<&str>) -> Result<Self, CommandFailure> {
        let llm = &settings.llm;
        let Some(named) = named else {
            let name = llm
                .model
                .clone()
                .ok_or_else(|| missing(if llm.base_url.is_none() { "base_url" } else { "model" }))?;
            return Self::at(settings, name, None);
        };
        let by_key = llm.endpoints.get_key_value(named);
        let by_model = || llm.endpoints.iter().find(|(_, endpoint)| endpoint.model.as_deref() == Some(named));
        match by_key.or_else(by_model) {
            Some((key, endpoint)) => {
                let name = endpoint.model.clone().unwrap_or_else(|| key.clone());
                Self::at(settings, name, Some(endpoint))
            }
            None if llm.endpoints.is_empty()
                || llm.model.as_deref() == Some(named)
                || llm.models.iter().any(|model| model == named) =>
            {
                Self::at(settings, named.to_owned(), None)
            }
            None => Err(unknown(llm, named)),
        }
    }

    /// A model at its own endpoint, or at the default one. A key and headers are sent only to the URL that they belong to.
    fn at(
        settings: &Settings,
        name: String,
        endpoint: Option<&LlmEndpointSettings>,
    ) -> Result<Self, CommandFailure> {
        let llm = &settings.llm;
        let usual = LlmEndpointSettings::default();
        let endpoint = endpoint.unwrap_or(&usual);
        let (url, key, headers) = match &endpoint.base_url {
            Some(url) => (url, endpoint.api_key.as_ref(), endpoint.headers.clone()),
            None => {
                let url = llm.base_url.as_ref().ok_or_else(|| missing("base_url"))?;
                let mut headers = llm.headers.clone();
                headers.extend(endpoint.headers.clone());
                (url, endpoint.api_key.as_ref().or(llm.api_key.as_ref()), headers)
            }
        };
        let client = LlmClient::new(url.expose(), key, llm.timeout_seconds);
        let client = client.and_then(|client| client.with_headers(&headers));
        Ok(Self {
            llm: client.map_err(|error: LlmError| failure(error.into()))?,
            name,
            max_tokens: endpoint.max_tokens.unwrap_or(llm.max_tokens),
            temperature: endpoint.temperature.or(llm.temperature),
        })
    }
}

fn unknown(llm: &LlmSettings, named: &str) -> CommandFailure {
    let mut names: Vec<&str> = llm.endpoints.keys().map(String::as_str).collect();
    names.extend(llm.models.iter().map(String::as_str));
    CommandFailure::usage(Problem {
        code: "llm.unknown-model",
        blame: Blame::Caller,
        message: format!("there is no model `{named}`"),
        hint: Some(format!("expected one of `{}`", names.join("`, `"))),
    })
}

fn missing(key: &str) -> CommandFailure {
    CommandFailure::usage(Problem {
        code: "llm.not-configured",
        blame: Blame::Caller,
        message: format!("no language model is configured: `llm.{key}` is not set"),
        hint: Some(
            "set `llm.base_url` and `llm.model` in the configuration; any OpenAI-compatible endpoint works"
                .into(),
        ),
    })
}

/// Converts an error of the model to a failure. It includes the endpoint's own text, because there is no log to read.
pub fn failure(unanswered: LlmFailure) -> CommandFailure {
    let LlmFailure { error, said } = unanswered;
    let is_ours = matches!(error, LlmError::Refused { status: 401 | 403 | 404 } | LlmError::RateLimited);
    let failure = CommandFailure::failed(Problem::of(&error));
    match (said, failure.fault.hint.clone()) {
        (Some(said), Some(hint)) if is_ours => failure.hint(format!("{hint}; its answer: {said}")),
        (Some(said), _) => failure.hint(format!("its answer: {said}")),
        (None, _) if matches!(error, LlmError::Refused { status: 500.. }) => {
            failure.hint("try again in a while")
        }
        (None, _) if matches!(error, LlmError::Refused { .. } | LlmError::BadAnswer) => {
            failure.hint("check `llm.base_url`: it mostly ends with /v1")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::secret::SecretText;

    #[test]
    fn a_named_model_has_its_own_endpoint_and_an_unknown_one_is_refused() {
        let mut settings = Settings::default();
        let url = |url: &str| Some(SecretText::plain(url));
        settings.llm.base_url = url("http://127.0.0.1:9/v1/chat/completions");
        settings.llm.api_key = url("first-key");
        settings.llm.model = Some("small-1".into());
        let of = |settings: &Settings, named| ChatModel::of(settings, named);
        assert_eq!(of(&settings, Some("any")).expect("a model").name, "any");
        let second = LlmEndpointSettings {
            base_url: url("http://127.0.0.1:8/v1"),
            model: Some("second-2".into()),
            max_tokens: Some(900),
            ..LlmEndpointSettings::default()
        };
        settings.llm.endpoints.insert("second".into(), second);
        for named in ["second", "second-2"] {
            let model = of(&settings, Some(named)).expect("a model");
            assert_eq!((model.name.as_str(), model.max_tokens), ("second-2", 900));
            // The key of the default endpoint is not sent to another one.
            assert!(!format!("{:?}", model.llm).contains("first-key"));
        }
        assert_eq!(of(&settings, None).expect("a model").name, "small-1");
        let failure = of(&settings, Some("third")).expect_err("unknown");
        assert_eq!(failure.fault.code.as_str(), "llm.unknown-model");
        assert_eq!(failure.fault.hint.as_deref(), Some("expected one of `second`"));
    }
}
