#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use async_trait::async_trait;
use http::Response;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use toolbooth_core::fault::Fault;
use toolbooth_upstream::oauth::{HttpError, NetworkReach};

const ISSUER: &str = "https://id.example/realm";
const METADATA: &str = "https://id.example/realm/.well-known/openid-configuration";
const TOKEN: &str = "https://id.example/token";

/// A request as the provider sees it: URL, `Authorization` header, form.
type SeenRequest = (String, Option<String>, BTreeMap<String, String>);

/// A provider with fixed answers, which keeps the requests that it gets.
#[derive(Default)]
struct Provider {
    answers: std::sync::Mutex<HashMap<String, (u16, Value)>>,
    seen: std::sync::Mutex<Vec<SeenRequest>>,
}

impl Provider {
    fn set(&self, url: &str, status: u16, answer: Value) {
        self.answers.lock().unwrap().insert(url.to_owned(), (status, answer));
    }

    fn describing(more: Value) -> Arc<Self> {
        let provider = Arc::new(Self::default());
        let mut metadata = json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example/authorize?tenant=7",
            "token_endpoint": TOKEN,
        });
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        provider.set(METADATA, 200, metadata);
        provider.set(TOKEN, 200, json!({ "id_token": "a.b.c", "access_token": "unused" }));
        provider
    }

    fn requests_to(&self, url: &str) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().iter().filter(|(seen, ..)| seen == url).cloned().collect()
    }
}

#[async_trait]
impl HttpFetch for Provider {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        assert!(request.extensions().get::<NetworkReach>().is_some());
        let url = request.uri().to_string();
        let header = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        let form = url::form_urlencoded::parse(request.body()).into_owned().collect();
        self.seen.lock().unwrap().push((url.clone(), header, form));
        let (status, answer) =
            self.answers.lock().unwrap().get(&url).cloned().ok_or(HttpError::Unreachable)?;
        let mut response = Response::new(Bytes::from(answer.to_string()));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        Ok(response)
    }
}

fn client(provider: &Arc<Provider>, client_secret: Option<&str>) -> OidcClient {
    let settings = OidcSettings {
        issuer: ISSUER.into(),
        client_id: "console".into(),
        client_secret: client_secret.map(SecretText::plain),
        scopes: vec!["openid".into(), "groups".into()],
        prompt: None,
        provider_name: None,
    };
    OidcClient::new(provider.clone(), settings)
}

fn login() -> PendingLogin {
    let redirect_uri = "https://booth.example/console/login/callback";
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    serde_json::from_value(json!({
        "verifier": verifier, "nonce": "n", "redirect_uri": redirect_uri, "expires_ms": i64::MAX,
    }))
    .unwrap()
}

fn answer(query: &str) -> LoginAnswer {
    LoginAnswer::read(query).unwrap()
}

#[tokio::test]
async fn the_authorization_request_has_state_nonce_and_a_challenge() {
    let provider = Provider::describing(json!({}));
    let client = client(&provider, None);
    let new = NewLogin { login: login(), state: "s t".into(), sealed: String::new() };
    let url = Url::parse(&client.authorization_url(&new).await.unwrap()).unwrap();
    let sent: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    let expected = [
        ("client_id", "console"),
        // The example of RFC 7636, appendix B.
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method", "S256"),
        ("nonce", "n"),
        ("redirect_uri", "https://booth.example/console/login/callback"),
        ("response_type", "code"),
        ("scope", "openid groups"),
        ("state", "s t"),
        ("tenant", "7"),
    ];
    let expected = BTreeMap::from(expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(sent, expected);
    assert_eq!(
        (url.origin().ascii_serialization().as_str(), url.path()),
        ("https://id.example", "/authorize")
    );
    for prompt in [ProviderPrompt::Consent, ProviderPrompt::Login, ProviderPrompt::SelectAccount] {
        let settings = OidcSettings { prompt: Some(prompt), ..client.settings.clone() };
        let url = OidcClient::new(provider.clone(), settings).authorization_url(&new).await.unwrap();
        assert!(url.ends_with(&format!("&prompt={}", prompt.as_str())), "{url}");
    }
    provider.seen.lock().unwrap().clear();
    assert_eq!(client.provider_name(), "id.example");
    client.authorization_url(&new).await.unwrap();
    assert_eq!(provider.requests_to(METADATA).len(), 0, "the endpoints are cached");
}

#[tokio::test]
async fn the_secret_is_sent_as_the_provider_wants_it() {
    let post = json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] });
    let basic = "Basic Y29uc29sZTpoYWxmJTI2JTNE";
    let cases = [
        (None, json!({}), None, Some("console"), None),
        (Some("half&="), json!({}), Some(basic), None, None),
        (Some("half&="), post, None, Some("console"), Some("half&=")),
    ];
    for (secret, metadata, header, id_in_form, secret_in_form) in cases {
        let provider = Provider::describing(metadata);
        let tokens = client(&provider, secret).exchange(answer("state=s&code=c"), &login()).await.unwrap();
        assert_eq!((tokens.id_token.expose(), tokens.refresh_token), ("a.b.c", None));
        let (_, shown, form) = provider.requests_to(TOKEN).pop().unwrap();
        let field = |name: &str| form.get(name).map(String::as_str);
        assert_eq!(
            (shown.as_deref(), field("client_id"), field("client_secret")),
            (header, id_in_form, secret_in_form)
        );
        assert_eq!((field("code"), field("grant_type")), (Some("c"), Some("authorization_code")));
        assert_eq!(field("code_verifier"), Some(login().verifier.as_str()));
        assert_eq!(field("redirect_uri"), Some(login().redirect_uri.as_str()));
    }
}

#[tokio::test]
async fn a_refresh_token_is_exchanged_for_the_next_tokens() {
    let provider = Provider::describing(json!({}));
    let client = client(&provider, None);
    let first = SecretText::plain("first");
    provider.set(TOKEN, 200, json!({ "id_token": "a.b.c", "refresh_token": "second" }));
    let tokens = client.refresh(&first).await.unwrap();
    assert_eq!(tokens.id_token.expose(), "a.b.c");
    assert_eq!(tokens.refresh_token.unwrap().expose(), "second");
    let (_, _, form) = provider.requests_to(TOKEN).pop().unwrap();
    let expected = [("client_id", "console"), ("grant_type", "refresh_token"), ("refresh_token", "first")];
    assert_eq!(form, BTreeMap::from(expected.map(|(name, value)| (name.to_owned(), value.to_owned()))));
    let cases = [
        (200, json!({ "id_token": "a.b.c", "refresh_token": "x".repeat(MAX_REFRESH_TOKEN + 1) }), None),
        (200, json!({ "access_token": "a" }), Some("auth.bad-id-token")),
        (400, json!({ "error": "invalid_grant" }), Some("auth.login-refused")),
        (429, json!({ "error": "slow_down" }), Some("auth.provider-unreachable")),
        (500, json!({}), Some("auth.provider-unreachable")),
    ];
    for (status, answer, code) in cases {
        provider.set(TOKEN, status, answer);
        let outcome = client.refresh(&first).await;
        assert_eq!(outcome.as_ref().err().map(Fault::code), code, "{status}");
        assert!(outcome.is_err() || outcome.is_ok_and(|tokens| tokens.refresh_token.is_none()), "{status}");
    }
}

#[tokio::test]
async fn answers_that_cannot_be_trusted_are_refused() {
    let named = json!({ "authorization_response_iss_parameter_supported": true });
    let cases = [
        (json!({}), "state=s&code=c&iss=https%3A%2F%2Fevil.example", 200, json!({}), "auth.login-foreign"),
        (named, "state=s&code=c", 200, json!({}), "auth.login-foreign"),
        (json!({}), "state=s", 200, json!({}), "auth.login-foreign"),
        (json!({}), "state=s&error=access_denied&code=c", 200, json!({}), "auth.login-denied"),
        (json!({}), "state=s&code=c", 400, json!({ "error": "invalid_grant" }), "auth.login-refused"),
        (json!({}), "state=s&code=c", 302, json!({ "id_token": "a.b.c" }), "auth.login-refused"),
        (json!({}), "state=s&code=c", 200, json!([]), "auth.login-refused"),
        (json!({}), "state=s&code=c", 200, json!({ "access_token": "a.b.c" }), "auth.bad-id-token"),
        (json!({}), "state=s&code=c", 503, json!({}), "auth.provider-unreachable"),
    ];
    for (metadata, query, status, token_answer, code) in cases {
        let provider = Provider::describing(metadata);
        provider.set(TOKEN, status, token_answer);
        let refused = client(&provider, None).exchange(answer(query), &login()).await.unwrap_err();
        assert_eq!(refused.code(), code, "{query} {status}");
        let is_asked = !matches!(code, "auth.login-foreign" | "auth.login-denied");
        assert_eq!(provider.requests_to(TOKEN).len(), usize::from(is_asked), "{query} {status}");
    }
    let markup = answer("state=s&error=%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    let refused =
        client(&Provider::describing(json!({})), None).exchange(markup, &login()).await.unwrap_err();
    assert_eq!(refused, LoginError::Denied { error: "scriptalert1script".into() });
}

#[tokio::test(start_paused = true)]
async fn metadata_that_cannot_be_trusted_is_refused() {
    let cases = [
        json!({ "issuer": "https://evil.example" }),
        json!({ "token_endpoint": "http://id.example/token" }),
        json!({ "authorization_endpoint": "javascript:alert(1)" }),
        json!({ "code_challenge_methods_supported": ["plain"] }),
    ];
    for metadata in cases {
        let provider = Provider::describing(metadata.clone());
        let client = client(&provider, None);
        let refused = client.exchange(answer("state=s&code=c"), &login()).await.unwrap_err();
        assert_eq!(refused, LoginError::Unreachable, "{metadata}");
        // The provider is not asked by each visitor while it fails.
        let asked = provider.requests_to(METADATA).len();
        client.exchange(answer("state=s&code=c"), &login()).await.unwrap_err();
        assert_eq!(provider.requests_to(METADATA).len(), asked, "{metadata}");
    }
    let provider = Provider::describing(json!({ "end_session_endpoint": "http://evil.example/out" }));
    assert_eq!(client(&provider, None).end_session_url("https://booth.example/console/").await, None);
}
