//! Signs in without a user: the suite's authorization page redirects immediately.

use super::person::text_of;
use async_trait::async_trait;
use bytes::Bytes;
use http::Request;
use http::header::LOCATION;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::OAuthEntry;
use toolbooth_engine::clock::system_clock;
use toolbooth_upstream::http::Fetch;
use toolbooth_upstream::oauth::{
    Assertions, AuthorizationMethod, AuthorizeError, Authorizer, Browser, ClientIdentity, HttpFetch,
    IdentityProvider, NetworkReach, SigningKey, TokenVault,
};

/// The redirect URI; nothing listens there.
const REDIRECT: &str = "http://127.0.0.1:33418/callback";
/// The URL that the suite expects for client metadata documents.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// The authorizer for the server at `url`, with the credentials of the scenario's context.
pub(super) fn authorizer(url: &str, context: &Value) -> Authorizer {
    let secret = |key: &str| text_of(context, key).map(SecretText::plain);
    let entry = OAuthEntry {
        client_id: secret("client_id"),
        client_secret: secret("client_secret"),
        scopes: Vec::new(),
    };
    let identity = ClientIdentity {
        name: "Toolbooth".into(),
        redirect_uri: REDIRECT.into(),
        cimd_url: Some(CLIENT_DOCUMENT.into()),
    };
    let http: Arc<dyn HttpFetch> = Arc::new(Fetch::default());
    let browser = Arc::new(RedirectBrowser(http.clone()));
    let (clock, vault) = (system_clock(), Arc::new(ScenarioVault::default()));
    Authorizer::new(url, entry, identity, clock, http.clone(), Some(browser), vault)
        .with_method(means(context, http))
}

/// The authorization method that the context provides.
fn means(context: &Value, http: Arc<dyn HttpFetch>) -> AuthorizationMethod {
    let text = |key: &str| text_of(context, key);
    if let Some(key) =
        text("private_key_pem").and_then(|pem| SigningKey::from_pem(&SecretText::plain(pem)).ok())
    {
        return AuthorizationMethod::Key(Arc::new(key));
    }
    if let Some(assertion) = text("valid_jwt") {
        return AuthorizationMethod::Assertion(Arc::new(WorkloadAssertion(SecretText::plain(assertion))));
    }
    match (text("idp_token_endpoint"), text("idp_client_id"), text("idp_id_token")) {
        (Some(token_endpoint), Some(client_id), Some(id_token)) => {
            let id_token = SecretText::plain(id_token);
            AuthorizationMethod::Assertion(Arc::new(IdentityProvider {
                token_endpoint,
                client_id,
                id_token,
                http,
            }))
        }
        _ => AuthorizationMethod::Person,
    }
}

/// A browser that fetches the page and returns the target of its redirect.
struct RedirectBrowser(Arc<dyn HttpFetch>);

#[async_trait]
impl Browser for RedirectBrowser {
    async fn authorize(&self, url: &str, _: &str) -> Result<String, AuthorizeError> {
        let mut request = Request::get(url).body(Bytes::new()).map_err(|_| AuthorizeError::NoBrowser)?;
        // A browser is not limited in the addresses it may reach.
        request.extensions_mut().insert(NetworkReach::Configured);
        let response = self.0.fetch(request).await.map_err(|_| AuthorizeError::NoBrowser)?;
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        target.map(str::to_owned).ok_or(AuthorizeError::Cancelled)
    }
}

/// A workload with an assertion of its platform.
struct WorkloadAssertion(SecretText);

#[async_trait]
impl Assertions for WorkloadAssertion {
    async fn assertion(&self, _: &str, _: &str) -> Result<SecretText, AuthorizeError> {
        Ok(self.0.clone())
    }
}

/// A token vault in memory.
#[derive(Default)]
struct ScenarioVault(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl TokenVault for ScenarioVault {
    async fn load(&self, key: &str) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    async fn save(&self, key: &str, value: Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value);
    }
}
