//! An authorization server inside the test, and the MCP server that admits only its tokens.

use super::upstream::Upstream;
use crate::fixture::Era;
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

type Fields = BTreeMap<String, String>;

/// What the authorization server did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clients that registered.
    pub registrations: usize,
    /// Codes that were traded for tokens.
    pub logins: usize,
    /// Refresh tokens that were traded for tokens.
    pub renewals: usize,
}

#[derive(Default)]
struct Books {
    tally: Tally,
    denies: bool,
    /// Redirects by client.
    clients: BTreeMap<String, String>,
    /// Authorization requests by code.
    codes: BTreeMap<String, Fields>,
    /// Access tokens that are good.
    good: BTreeSet<String>,
    /// Refresh tokens that are good, each once.
    refresh: BTreeSet<String>,
    issued: usize,
}

/// A guarded MCP server with its authorization server.
#[derive(Clone)]
pub struct Gatehouse {
    /// Where the authorization server is.
    pub address: SocketAddr,
    /// The MCP server.
    pub server: Upstream,
    books: Arc<Mutex<Books>>,
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gatehouse {
    /// Starts both.
    pub async fn start(era: Era) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = Upstream::start(era).await;
        let books = Arc::<Mutex<Books>>::default();
        let admitted = books.clone();
        server.admit_by(move |shown| {
            let token = shown.and_then(|shown| shown.strip_prefix("Bearer "));
            let good = token.is_some_and(|token| lock(&admitted).good.contains(token));
            (!good)
                .then(|| format!("Bearer scope=\"tools\", resource_metadata=\"http://{address}/resource\""))
        });
        let house = Self { address, server, books };
        tokio::spawn(house.clone().serve(listener));
        house
    }

    /// The entry of the MCP server, signed in to by OAuth.
    pub fn entry(&self) -> Value {
        json!({ "url": self.server.url, "auth": "oauth" })
    }

    /// What happened so far.
    pub fn tally(&self) -> Tally {
        lock(&self.books).tally.clone()
    }

    /// Lets every access token run out.
    pub fn expire(&self) {
        lock(&self.books).good.clear();
    }

    /// Says no to everybody from now on.
    pub fn deny(&self) {
        lock(&self.books).denies = true;
    }

    /// Every token issued so far looks like one of these.
    pub fn is_token(text: &str) -> bool {
        text.contains("access-t0p-") || text.contains("refresh-t0p-")
    }

    async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let house = self.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let house = house.clone();
                    async move { Ok::<_, Infallible>(house.respond(request).await) }
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
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let redirect = asked["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
        let mut books = lock(&self.books);
        books.tally.registrations += 1;
        let id = format!("client-{}", books.tally.registrations);
        books.clients.insert(id.clone(), redirect);
        document(json!({ "client_id": id }))
    }

    /// Agrees at once, as a person who is signed in already would, or does not.
    fn authorize(&self, query: Fields) -> Response<Full<Bytes>> {
        let of = |key: &str| query.get(key).cloned().unwrap_or_default();
        let mut books = lock(&self.books);
        if books.clients.get(&of("client_id")) != Some(&of("redirect_uri")) {
            return status(StatusCode::BAD_REQUEST);
        }
        let outcome = if books.denies {
            "error=access_denied".to_owned()
        } else {
            let code = format!("code-{}", books.codes.len());
            books.codes.insert(code.clone(), query.clone());
            format!("code={code}")
        };
        let issuer = self.issuer().replace(':', "%3A").replace('/', "%2F");
        let target = format!("{}?{outcome}&state={}&iss={issuer}", of("redirect_uri"), of("state"));
        let mut response = status(StatusCode::FOUND);
        let target = header::HeaderValue::from_str(&target).expect("an address");
        response.headers_mut().insert(header::LOCATION, target);
        response
    }

    fn token(&self, form: &Fields) -> Option<Value> {
        let of = |key: &str| form.get(key).cloned().unwrap_or_default();
        let mut books = lock(&self.books);
        if of("resource") != self.server.url || !books.clients.contains_key(&of("client_id")) {
            return None;
        }
        match of("grant_type").as_str() {
            "authorization_code" => {
                let asked = books.codes.remove(&of("code"))?;
                let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier").as_bytes()));
                let fits = asked.get("code_challenge") == Some(&proof)
                    && asked.get("redirect_uri") == Some(&of("redirect_uri"))
                    && asked.get("client_id") == Some(&of("client_id"));
                fits.then_some(())?;
                books.tally.logins += 1;
            }
            "refresh_token" => {
                books.refresh.remove(&of("refresh_token")).then_some(())?;
                books.tally.renewals += 1;
            }
            _ => return None,
        }
        books.issued += 1;
        let (access, refresh) =
            (format!("access-t0p-{}", books.issued), format!("refresh-t0p-{}", books.issued));
        books.good.insert(access.clone());
        books.refresh.insert(refresh.clone());
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

/// The fields of a form or a query.
fn fields(text: &str) -> Fields {
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
