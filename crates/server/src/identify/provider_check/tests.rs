use super::*;
use crate::identify::oidc::OidcSettings;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use toolbooth_upstream::oauth::HttpError;

const ISSUER: &str = "https://id.example/realm";
const METADATA_URL: &str = "https://id.example/realm/.well-known/openid-configuration";
const KEYS_URL: &str = "https://id.example/keys";
/// The time of these tests, in seconds, and as a date.
const NOW: u64 = 60;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

/// A provider with fixed documents.
struct Provider {
    documents: HashMap<&'static str, Value>,
    date: &'static str,
}

#[async_trait]
impl HttpFetch for Provider {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let url = request.uri().to_string();
        let document = self.documents.get(url.as_str()).ok_or(HttpError::Unreachable)?;
        let mut response = Response::new(Bytes::from(document.to_string()));
        response.headers_mut().insert("date", HeaderValue::from_static(self.date));
        Ok(response)
    }
}

fn metadata(more: Value) -> Value {
    let mut metadata = json!({
        "issuer": ISSUER,
        "jwks_uri": KEYS_URL,
        "authorization_endpoint": "https://id.example/authorize",
        "token_endpoint": "https://id.example/token",
    });
    let members = metadata.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    metadata
}

fn provider(metadata: Value, keys: Value) -> Arc<Provider> {
    let documents = HashMap::from([(METADATA_URL, metadata), (KEYS_URL, json!({ "keys": keys }))]);
    Arc::new(Provider { documents, date: "Thu, 01 Jan 1970 00:01:00 GMT" })
}

/// A key of 32 bytes, whose value does not matter here.
fn good_key() -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" })
}

/// The findings, one per line: the level and the message.
async fn findings(provider: Arc<Provider>, scopes: &[&str], jwks_url: Option<&str>) -> Vec<String> {
    let settings = OidcSettings {
        issuer: ISSUER.into(),
        client_id: "console".into(),
        client_secret: None,
        scopes: vec!["email".into()],
        prompt: None,
        provider_name: None,
    };
    let client = OidcClient::new(provider.clone(), settings);
    let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let console_client = Some(&client).filter(|_| jwks_url.is_none());
    let asked = ProviderToCheck { issuer: ISSUER, jwks_url, scopes: &scopes, console_client, now };
    let found = asked.check(&*provider).await;
    found.into_iter().map(|finding| format!("{:?}: {}", finding.level, finding.message)).collect()
}

#[tokio::test]
async fn a_provider_that_fits_has_no_problems() {
    let key_for_encryption = json!({ "kty": "OKP", "crv": "Ed25519", "use": "enc", "x": "AA" });
    let supported = json!({
        "scopes_supported": ["openid", "email", "groups"],
        "id_token_signing_alg_values_supported": ["HS256", "EdDSA"],
    });
    let provider = provider(metadata(supported), json!([good_key(), key_for_encryption]));
    assert_eq!(
        findings(provider.clone(), &["groups"], None).await,
        [
            "Good: the identity provider has the endpoints for signing in to the console",
            "Good: the identity provider https://id.example/realm answers; usable keys: 1 of 2 (EdDSA)",
        ]
    );
    let without_metadata = findings(provider, &[], Some(KEYS_URL)).await;
    assert_eq!(without_metadata.len(), 1, "only the keys are used: {without_metadata:?}");
}

#[tokio::test]
async fn problems_of_a_provider_are_named() {
    let good = || json!([good_key()]);
    let cases = [
        (
            metadata(json!({ "issuer": "https://id.example/realm/" })),
            good(),
            r#"Error: the metadata of the identity provider https://id.example/realm cannot be used: its metadata names another issuer: "https://id.example/realm/""#,
        ),
        (
            metadata(json!({ "jwks_uri": null })),
            good(),
            "Error: the metadata of the identity provider https://id.example/realm cannot be used: it has no `jwks_uri`",
        ),
        (
            metadata(json!({ "jwks_uri": "http://keys.example/keys" })),
            good(),
            "Error: the metadata of the identity provider https://id.example/realm cannot be used: `jwks_uri` is not https",
        ),
        (
            metadata(json!({ "jwks_uri": "https://id.example/moved" })),
            good(),
            "Error: the keys of the identity provider at https://id.example/moved cannot be fetched: ",
        ),
        (
            metadata(json!({})),
            json!([{ "kty": "oct", "k": "c2VjcmV0" }]),
            "Error: none of the 1 keys at https://id.example/keys can verify tokens",
        ),
        (
            metadata(json!({ "id_token_signing_alg_values_supported": ["HS256"] })),
            good(),
            "Error: the identity provider signs ID tokens with no accepted algorithm: HS256",
        ),
        (
            metadata(json!({ "code_challenge_methods_supported": ["plain"] })),
            good(),
            "Error: users cannot sign in to the console at the identity provider: it does not support PKCE with S256",
        ),
        (
            metadata(json!({ "scopes_supported": ["openid", "email"] })),
            good(),
            "Warning: the identity provider does not list the scope `groups` of `auth.jwt.scopes`",
        ),
    ];
    for (metadata, keys, expected) in cases {
        let found = findings(provider(metadata, keys), &["groups"], None).await;
        assert!(found.iter().any(|line| line.starts_with(expected)), "{expected}: {found:#?}");
    }
}

#[test]
fn clocks_are_compared() {
    use ProviderFindingLevel::{Error, Warning};
    let of = |theirs: u64| {
        let mut findings = Findings::default();
        check_clocks(
            UNIX_EPOCH + Duration::from_secs(theirs),
            now() + Duration::from_secs(940),
            &mut findings,
        );
        findings.0.pop().map(|finding| (finding.level, finding.message.contains("ahead")))
    };
    // This machine's clock is at 1000.
    let cases = [
        (1000, None),
        (1020, None),
        (1021, Some((Warning, true))),
        (1060, Some((Warning, true))),
        (1061, Some((Error, true))),
        (979, Some((Warning, false))),
        (939, Some((Error, false))),
    ];
    for (theirs, expected) in cases {
        assert_eq!(of(theirs), expected, "{theirs}");
    }
}
