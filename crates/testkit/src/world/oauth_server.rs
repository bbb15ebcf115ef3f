//! An OAuth authorization server inside the test, and an MCP server that accepts only its tokens.

use super::scripted_server::ScriptedServer;
use crate::fixture::TestEra;
use ::http::{Request, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;

/// The fields of a form or a query.
pub type Fields = BTreeMap<String, String>;

/// Counters of the authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthCounts {
    /// Clients that registered.
    pub registrations: usize,
    /// Codes exchanged for tokens.
    pub logins: usize,
    /// Refresh tokens exchanged for tokens.
    pub renewals: usize,
}

#[derive(Default)]
struct OAuthState {
    counts: OAuthCounts,
    denies: bool,
    /// Redirect URIs by client.
    clients: BTreeMap<String, String>,
    /// Authorization requests by code.
    codes: BTreeMap<String, Fields>,
    /// Valid access tokens.
    access: BTreeSet<String>,
    /// Valid refresh tokens; each can be used once.
    refresh: BTreeSet<String>,
    issued: usize,
}

/// An authorization server with the MCP server that it protects.
#[derive(Clone)]
pub struct OAuthServer {
    /// The address of the authorization server.
    pub address: SocketAddr,
    /// The MCP server.
    pub server: ScriptedServer,
    state: Arc<Mutex<OAuthState>>,
}

fn lock(state: &Mutex<OAuthState>) -> MutexGuard<'_, OAuthState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OAuthServer {
    /// Starts both servers.
    pub async fn start(era: TestEra) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = ScriptedServer::start(era).await;
        let state = Arc::<Mutex<OAuthState>>::default();
        let admitted = state.clone();
        server.admit_by(move |shown| {
            let token = shown.and_then(|shown| shown.strip_prefix("Bearer "));
            let valid = token.is_some_and(|token| lock(&admitted).access.contains(token));
            (!valid)
                .then(|| format!("Bearer scope=\"tools\", resource_metadata=\"http://{address}/resource\""))
        });
        let server = Self { address, server, state };
        tokio::spawn(server.clone().serve(listener));
        server
    }

    /// The configuration entry of the MCP server, with OAuth.
    pub fn entry(&self) -> Value {
        json!({ "url": self.server.url, "auth": "oauth" })
    }

    /// The counters so far.
    pub fn counts(&self) -> OAuthCounts {
        lock(&self.state).counts.clone()
    }

    /// Expires every access token.
    pub fn expire(&self) {
        lock(&self.state).access.clear();
    }

    /// Denies all authorization requests from now on.
    pub fn deny(&self) {
        lock(&self.state).denies = true;
    }

    /// Whether a text contains an issued token.
    pub fn is_token(text: &str) -> bool {
        text.contains("access-t0p-") || text.contains("refresh-t0p-")
    }

    async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let server = self.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let server = server.clone();
                    async move { Ok::<_, Infallible>(server.respond(request).await) }
                });
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
            });
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let query = fields(request.uri().query().unwrap_or_default());
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let text = String::from_utf8_lossy(&body).into_owned();
        match path.as_str() {
            "/resource" => document(json!({
                "resource": self.server.url, "authorization_servers": [self.issuer()],
            })),
            "/.well-known/oauth-authorization-server" => document(json!({
                "issuer": self.issuer(),
                "authorization_endpoint": format!("{}/authorize", self.issuer()),
                "token_endpoint": format!("{}/token", self.issuer()),
                "registration_endpoint": format!("{}/register", self.issuer()),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": true,
            })),
            "/register" => self.register(&text),
            "/authorize" => self.authorize(query),
            "/token" => self.token(&fields(&text)).map_or_else(refused, document),
            _ => status(StatusCode::NOT_FOUND),
        }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    fn register(&self, body: &str) -> Response<Full<Bytes>> {
        let requested: Value = serde_json::from_str(body).unwrap_or_default();
        let redirect = requested["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
        let mut state = lock(&self.state);
        state.counts.registrations += 1;
        let id = format!("client-{}", state.counts.registrations);
        state.clients.insert(id.clone(), redirect);
        document(json!({ "client_id": id }))
    }

    /// Grants or denies an authorization request without asking a person.
    fn authorize(&self, query: Fields) -> Response<Full<Bytes>> {
        let of = |key: &str| query.get(key).cloned().unwrap_or_default();
        let mut state = lock(&self.state);
        if state.clients.get(&of("client_id")) != Some(&of("redirect_uri")) {
            return status(StatusCode::BAD_REQUEST);
        }
        let outcome = if state.denies {
            "error=access_denied".to_owned()
        } else {
            let code = format!("code-{}", state.codes.len());
            state.codes.insert(code.clone(), query.clone());
            format!("code={code}")
        };
        let issuer = self.issuer().replace(':', "%3A").replace('/', "%2F");
        let target = format!("{}?{outcome}&state={}&iss={issuer}", of("redirect_uri"), of("state"));
        let mut response = status(StatusCode::FOUND);
        let target = header::HeaderValue::from_str(&target).expect("a URL");
        response.headers_mut().insert(header::LOCATION, target);
        response
    }

    fn token(&self, form: &Fields) -> Option<Value> {
        let of = |key: &str| form.get(key).cloned().unwrap_or_default();
        let mut state = lock(&self.state);
        if of("resource") != self.server.url || !state.clients.contains_key(&of("client_id")) {
            return None;
        }
        match of("grant_type").as_str() {
            "authorization_code" => {
                let requested = state.codes.remove(&of("code"))?;
                let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier").as_bytes()));
                let fits = requested.get("code_challenge") == Some(&proof)
                    && requested.get("redirect_uri") == Some(&of("redirect_uri"))
                    && requested.get("client_id") == Some(&of("client_id"));
                fits.then_some(())?;
                state.counts.logins += 1;
            }
            "refresh_token" => {
                state.refresh.remove(&of("refresh_token")).then_some(())?;
                state.counts.renewals += 1;
            }
            _ => return None,
        }
        state.issued += 1;
        let (access, refresh) =
            (format!("access-t0p-{}", state.issued), format!("refresh-t0p-{}", state.issued));
        state.access.insert(access.clone());
        state.refresh.insert(refresh.clone());
        Some(json!({
            "access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh,
        }))
    }
}

fn document(value: Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
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

/// Reads the fields of a form or a query.
pub fn fields(text: &str) -> Fields {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (decoded(key), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
