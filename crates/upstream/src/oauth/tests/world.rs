//! An in-memory network: documents by URL, queued token responses, and a log of all requests.

use crate::oauth::*;
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolbooth_core::clock::{Clock, TimeSource};
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::OAuthEntry;
use url::Url;

pub const SERVER: &str = "https://mcp.example.com/mcp";
pub const ISSUER: &str = "https://as.example.com";
pub const CHALLENGE: &str = r#"Bearer scope="read", resource_metadata="https://mcp.example.com/prm""#;

/// Status, redirect target, body.
type Page = (u16, Option<String>, String);

#[derive(Default)]
pub struct Net {
    pages: Mutex<HashMap<String, Page>>,
    tokens: Mutex<VecDeque<(u16, Value)>>,
    pub log: Mutex<Vec<String>>,
    pub reaches: Mutex<Vec<NetworkReach>>,
}

impl Net {
    pub fn page(&self, url: &str, body: Value) {
        self.pages.lock().unwrap().insert(url.into(), (200, None, body.to_string()));
    }

    pub fn redirect(&self, url: &str, target: &str) {
        self.pages.lock().unwrap().insert(url.into(), (302, Some(target.into()), String::new()));
    }

    pub fn token(&self, status: u16, answer: Value) {
        self.tokens.lock().unwrap().push_back((status, answer));
    }

    /// The requests since the last call, one line each.
    pub fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

#[async_trait]
impl HttpFetch for Net {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // A real exchange takes time, in which other calls run.
        tokio::task::yield_now().await;
        let url = request.uri().to_string();
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let proof =
            request.headers().get("authorization").map(|value| format!(" {}", value.to_str().unwrap()));
        let line = format!("{} {url} {body}{}", request.method(), proof.unwrap_or_default());
        self.log.lock().unwrap().push(line.trim_end().into());
        self.reaches.lock().unwrap().push(*request.extensions().get::<NetworkReach>().unwrap());
        let (status, location, body) = if url.ends_with("/token") {
            let (status, answer) = self.tokens.lock().unwrap().pop_front().unwrap_or((500, Value::Null));
            (status, None, answer.to_string())
        } else {
            self.pages.lock().unwrap().get(&url).cloned().unwrap_or((404, None, String::new()))
        };
        let response = Response::builder().status(status);
        let response = location.into_iter().fold(response, |response, to| response.header("location", to));
        Ok(response.body(body.into()).unwrap())
    }
}

/// A person who consents; `answer` is the redirect's query, with placeholders `{state}` and `{iss}`.
pub struct Person {
    pub answer: Mutex<String>,
    pub seen: Mutex<Vec<Url>>,
}

impl Person {
    pub fn logins(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// A parameter of the last authorization request.
    pub fn asked(&self, name: &str) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        let mut pairs = seen.last()?.query_pairs();
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }
}

#[async_trait]
impl Browser for Person {
    async fn authorize(&self, url: &str, redirect_uri: &str) -> Result<String, AuthorizeError> {
        tokio::task::yield_now().await;
        let url = Url::parse(url).unwrap();
        self.seen.lock().unwrap().push(url);
        let state = self.asked("state").unwrap();
        let query = self.answer.lock().unwrap().replace("{state}", &state).replace("{iss}", ISSUER);
        Ok(format!("{redirect_uri}?{query}"))
    }
}

#[derive(Default)]
pub struct Vault(pub Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl TokenVault for Vault {
    async fn load(&self, key: &str) -> Option<Bytes> {
        self.0.lock().unwrap().get(key).cloned()
    }
    async fn save(&self, key: &str, value: Bytes) {
        self.0.lock().unwrap().insert(key.into(), value);
    }
}

pub struct World {
    pub net: Arc<Net>,
    pub person: Arc<Person>,
    pub vault: Arc<Vault>,
    pub entry: OAuthEntry,
    pub cimd_url: Option<String>,
}

impl World {
    /// A server with one authorization server that registers clients and supports PKCE.
    pub fn new() -> Self {
        let net = Arc::new(Net::default());
        net.page("https://mcp.example.com/prm", prm(ISSUER));
        net.page(&metadata_url(ISSUER), metadata(ISSUER));
        net.page(&format!("{ISSUER}/register"), json!({"client_id": "registered"}));
        let person = Person { answer: Mutex::new("code=c1&state={state}".into()), seen: Mutex::default() };
        let (entry, cimd_url) = Default::default();
        Self { net, person: Arc::new(person), vault: Arc::default(), entry, cimd_url }
    }

    /// Changes the authorization server's metadata.
    pub fn offers(self, change: Value) -> Self {
        let mut document = metadata(ISSUER);
        for (key, value) in change.as_object().unwrap() {
            document[key] = value.clone();
        }
        self.net.page(&metadata_url(ISSUER), document);
        self
    }

    pub fn configured(mut self, id: &str, secret: Option<&str>) -> Self {
        self.entry.client_id = Some(SecretText::plain(id));
        self.entry.client_secret = secret.map(SecretText::plain);
        self
    }

    /// Queues token responses, each with an access token that is valid for an hour.
    pub fn issues(self, tokens: &[&str]) -> Self {
        for token in tokens {
            self.net.token(200, json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600}));
        }
        self
    }

    pub fn authorizer(&self) -> Authorizer {
        self.authorizer_at(SERVER, Some(self.person.clone()))
    }

    pub fn authorizer_at(&self, server: &str, browser: Option<Arc<dyn Browser>>) -> Authorizer {
        let identity = ClientIdentity {
            name: "Toolbooth".into(),
            redirect_uri: "http://127.0.0.1:1/callback".into(),
            cimd_url: self.cimd_url.clone(),
        };
        let (http, vault) = (self.net.clone(), self.vault.clone());
        Authorizer::new(server, self.entry.clone(), identity, clock(), http, browser, vault)
    }
}

/// Time that begins with the test.
#[derive(Debug)]
struct TestTime(tokio::time::Instant);

impl TimeSource for TestTime {
    fn wall(&self) -> Duration {
        Duration::from_secs(1_800_000_000) + self.0.elapsed()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

fn clock() -> Arc<Clock> {
    Arc::new(Clock::new(TestTime(tokio::time::Instant::now())))
}

pub fn prm(issuer: &str) -> Value {
    json!({"resource": SERVER, "authorization_servers": [issuer]})
}

pub fn metadata_url(issuer: &str) -> String {
    format!("{issuer}/.well-known/oauth-authorization-server")
}

pub fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

/// The token that would be sent now.
pub async fn token(authorizer: &Authorizer) -> Option<String> {
    authorizer.bearer().await.map(|token| token.expose().to_owned())
}
