//! Logging in without a person: the suite's authorization page answers at once with a redirect.

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
use toolbooth_upstream::http::Fetch;
use toolbooth_upstream::oauth::{
    Assertions, AuthorizeError, Authorizer, Browser, ClientIdentity, Http, IdentityProvider, Means, Reach,
    SigningKey, TokenVault,
};

/// Where the suite's pages send the browser back to; nobody listens there.
const REDIRECT: &str = "http://127.0.0.1:33418/callback";
/// The suite looks for this very address where it offers client metadata documents.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// The authorizer for the server at `url`, with the credentials that the scenario's context brings.
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
    let http: Arc<dyn Http> = Arc::new(Fetch::default());
    let browser = Arc::new(Redirected(http.clone()));
    Authorizer::new(url, entry, identity, http.clone(), Some(browser), Arc::new(Pocket::default()))
        .by(means(context, http))
}

/// What the context provides besides a person's agreement.
fn means(context: &Value, http: Arc<dyn Http>) -> Means {
    let text = |key: &str| text_of(context, key);
    if let Some(key) =
        text("private_key_pem").and_then(|pem| SigningKey::from_pem(&SecretText::plain(pem)).ok())
    {
        return Means::Key(Arc::new(key));
    }
    if let Some(assertion) = text("valid_jwt") {
        return Means::Assertion(Arc::new(Workload(SecretText::plain(assertion))));
    }
    match (text("idp_token_endpoint"), text("idp_client_id"), text("idp_id_token")) {
        (Some(token_endpoint), Some(client_id), Some(id_token)) => {
            let id_token = SecretText::plain(id_token);
            Means::Assertion(Arc::new(IdentityProvider { token_endpoint, client_id, id_token, http }))
        }
        _ => Means::Person,
    }
}

/// A browser that asks for the page and reads where it leads.
struct Redirected(Arc<dyn Http>);

#[async_trait]
impl Browser for Redirected {
    async fn authorize(&self, url: &str, _: &str) -> Result<String, AuthorizeError> {
        let mut request = Request::get(url).body(Bytes::new()).map_err(|_| AuthorizeError::NoBrowser)?;
        // A person's browser goes where it is sent.
        request.extensions_mut().insert(Reach::Configured);
        let response = self.0.fetch(request).await.map_err(|_| AuthorizeError::NoBrowser)?;
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        target.map(str::to_owned).ok_or(AuthorizeError::Cancelled)
    }
}

/// A platform that has already vouched for its workload.
struct Workload(SecretText);

#[async_trait]
impl Assertions for Workload {
    async fn assertion(&self, _: &str, _: &str) -> Result<SecretText, AuthorizeError> {
        Ok(self.0.clone())
    }
}

/// A vault for as long as the scenario lasts.
#[derive(Default)]
struct Pocket(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl TokenVault for Pocket {
    async fn load(&self, key: &str) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    async fn save(&self, key: &str, value: Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value);
    }
}
