//! An OpenID Connect provider inside the test: discovery, authorization, token and key endpoints. It signs every visitor
//! in as the same user, and can return wrong ID tokens.

use crate::issuer::Signer;
use ::http::{Request, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use toolbooth_testkit::world::oauth_server::{Fields, fields};

pub const CLIENT_ID: &str = "console";
pub const CLIENT_SECRET: &str = "half a secret & more";

/// What the provider does with the next ID tokens.
#[derive(Clone)]
pub enum IdTokens {
    /// Right ones, with these claims replaced or added.
    With(Value),
    /// Without a signature (`alg: none`).
    Unsigned,
    /// Signed by a key that it does not publish.
    OfAnotherKey,
}

struct ProviderState {
    signer: Signer,
    /// Authorization requests by code.
    codes: BTreeMap<String, Fields>,
    issued: usize,
    id_tokens: IdTokens,
    is_down: bool,
    /// The error that it answers authorization requests with.
    error: Option<&'static str>,
    /// The number of the refresh token that is valid, if it gives any. Each is accepted once.
    refresh: Option<usize>,
}

/// An OpenID Connect provider; it ends with the test's runtime.
#[derive(Clone)]
pub struct OidcProvider {
    pub address: SocketAddr,
    pub url: String,
    state: Arc<Mutex<ProviderState>>,
}

impl OidcProvider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = ProviderState {
            signer: Signer::new("one"),
            codes: BTreeMap::new(),
            issued: 0,
            id_tokens: IdTokens::With(json!({})),
            is_down: false,
            error: None,
            refresh: None,
        };
        let provider = Self { address, url: format!("http://{address}"), state: Arc::new(Mutex::new(state)) };
        let server = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let server = server.clone();
                        async move { server.respond(request).await }
                    });
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        provider
    }

    fn lock(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap()
    }

    /// The settings of a gateway that uses this provider.
    pub fn settings(&self) -> Value {
        json!({
            "policy": { "consent": "client" },
            "auth": {
                "mode": "jwt",
                "jwt": { "issuer": self.url, "audience": "booth" },
                "console": {
                    "client_id": CLIENT_ID,
                    "client_secret": format!("${{CONSOLE_SECRET:-{CLIENT_SECRET}}}"),
                    "provider_name": "Example ID",
                },
            },
        })
    }

    /// An access token for the gateway's API.
    pub fn access_token(&self, more: Value) -> String {
        self.lock().signer.token(&self.url, more)
    }

    /// Sets the ID tokens that it returns from now on.
    pub fn return_id_tokens(&self, id_tokens: IdTokens) {
        self.lock().id_tokens = id_tokens;
    }

    /// Answers authorization requests with this error, or signs users in again.
    pub fn deny(&self, error: Option<&'static str>) {
        self.lock().error = error;
    }

    /// Gives refresh tokens from now on, and accepts no earlier one.
    pub fn give_refresh_tokens(&self) {
        let mut state = self.lock();
        state.refresh = Some(state.refresh.map_or(1, |number| number + 1));
    }

    /// The number of refresh tokens that were exchanged.
    pub fn refreshed(&self) -> usize {
        self.lock().refresh.map_or(0, |number| number - 1)
    }

    /// Closes connections without an answer, or answers again.
    pub fn set_down(&self, is_down: bool) {
        self.lock().is_down = is_down;
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, String> {
        let path = request.uri().path().to_owned();
        let query = fields(request.uri().query().unwrap_or_default());
        let shown =
            request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let mut state = self.lock();
        if state.is_down {
            return Err("it is down".into());
        }
        let url = &self.url;
        Ok(match path.as_str() {
            "/.well-known/openid-configuration" => document(json!({
                "issuer": url,
                "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"),
                "jwks_uri": format!("{url}/keys"),
                "end_session_endpoint": format!("{url}/end"),
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            })),
            "/keys" => document(json!({ "keys": [state.signer.jwk()] })),
            "/authorize" => self.authorize(&mut state, query),
            "/token" => {
                let form = fields(&String::from_utf8_lossy(&body));
                let issued = self.id_token(&mut state, &form, shown.as_deref());
                let refresh = state.refresh.map(|number| format!("refresh-{number}"));
                issued.map_or_else(refused, |token| {
                    document(json!({
                        "id_token": token, "access_token": "not-used", "token_type": "Bearer", "refresh_token": refresh,
                    }))
                })
            }
            _ => status(StatusCode::NOT_FOUND),
        })
    }

    fn authorize(&self, state: &mut ProviderState, query: Fields) -> Response<Full<Bytes>> {
        let of = |key: &str| query.get(key).cloned().unwrap_or_default();
        let is_complete = of("client_id") == CLIENT_ID
            && of("response_type") == "code"
            && of("code_challenge_method") == "S256"
            && of("scope").split(' ').any(|scope| scope == "openid");
        if !is_complete {
            return status(StatusCode::BAD_REQUEST);
        }
        let outcome = match state.error {
            Some(error) => format!("error={error}"),
            None => {
                state.issued += 1;
                let code = format!("code-{}", state.issued);
                state.codes.insert(code.clone(), query.clone());
                format!("code={code}")
            }
        };
        let issuer = self.url.replace(':', "%3A").replace('/', "%2F");
        let target = format!("{}?{outcome}&state={}&iss={issuer}", of("redirect_uri"), of("state"));
        let mut response = status(StatusCode::FOUND);
        response.headers_mut().insert(header::LOCATION, target.parse().unwrap());
        response
    }

    /// Exchanges a code or a refresh token, once, for an ID token.
    fn id_token(&self, state: &mut ProviderState, form: &Fields, shown: Option<&str>) -> Option<String> {
        let of = |key: &str| form.get(key).cloned().unwrap_or_default();
        let secret = CLIENT_SECRET.replace('&', "%26").replace(' ', "+");
        let expected = format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{secret}")));
        if of("grant_type") == "refresh_token" {
            let number = state.refresh?;
            if shown != Some(&*expected) || of("refresh_token") != format!("refresh-{number}") {
                return None;
            }
            state.refresh = Some(number + 1);
            let IdTokens::With(more) = &state.id_tokens else { return None };
            let mut claims = json!({ "aud": CLIENT_ID });
            claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            return Some(state.signer.token(&self.url, claims));
        }
        let asked = state.codes.remove(&of("code"))?;
        let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier").as_bytes()));
        let fits = shown == Some(&*expected)
            && of("grant_type") == "authorization_code"
            && asked.get("code_challenge") == Some(&proof)
            && asked.get("redirect_uri") == Some(&of("redirect_uri"));
        if !fits {
            return None;
        }
        let mut claims = json!({ "aud": CLIENT_ID, "nonce": asked.get("nonce") });
        Some(match &state.id_tokens {
            IdTokens::With(more) => {
                claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                state.signer.token(&self.url, claims)
            }
            IdTokens::OfAnotherKey => Signer::new("one").token(&self.url, claims),
            IdTokens::Unsigned => {
                let signed = state.signer.token(&self.url, claims);
                let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
                format!("{header}.{}.", signed.split('.').nth(1).unwrap())
            }
        })
    }
}

fn document(value: Value) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from(value.to_string())))
}

fn refused() -> Response<Full<Bytes>> {
    let mut response = document(json!({ "error": "invalid_grant" }));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
