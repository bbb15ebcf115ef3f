//! A small MCP client for the `auth/*` scenarios of the official conformance suite: the real authorizer with
//! a minimal transport that supports both eras.
//!
//! The suite appends the server's URL to the command and describes the scenario in the environment:
//! `conformance client --command "target/debug/examples/oauth_conformance" --scenario auth/metadata-default`

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{HeaderValue, LOCATION};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use toolbooth_core::fault::Fault;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::OAuthEntry;
use toolbooth_upstream::oauth::{
    Assertions, AuthorizationMethod, AuthorizeError, Authorizer, Browser, ClientIdentity, HttpError,
    HttpFetch, IdentityProvider, NetworkReach, RetryDecision, SigningKey, TokenVault,
};

const MODERN: &str = "2026-07-28";
const MAX_BODY_BYTES: usize = 1024 * 1024;
const MAX_ATTEMPTS: usize = 8;

/// Plain HTTP/1.1 with one connection per request: the suite's servers run on this machine.
struct PlainHttp;

#[async_trait]
impl HttpFetch for PlainHttp {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        match tokio::time::timeout(Duration::from_secs(10), exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(HttpError::TimedOut),
        }
    }
}

async fn exchange(mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let reach = request.extensions().get::<NetworkReach>().copied().unwrap_or(NetworkReach::Configured);
    let authority = request.uri().authority().ok_or(HttpError::Unreachable)?.clone();
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let port = authority.port_u16().unwrap_or(80);
    let addresses = tokio::net::lookup_host((host, port)).await.map_err(|_| HttpError::Unreachable)?;
    let mut stream = Err(HttpError::Unreachable);
    for address in addresses {
        if !reach.allows(address.ip()) {
            return Err(HttpError::Blocked);
        }
        stream = TcpStream::connect(address).await.map_err(|_| HttpError::Unreachable);
        if stream.is_ok() {
            break;
        }
    }
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream?))
        .await
        .map_err(|_| HttpError::Unreachable)?;
    let connection = tokio::spawn(connection);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let value = HeaderValue::from_str(authority.as_str()).map_err(|_| HttpError::Unreachable)?;
    request.headers_mut().insert(http::header::HOST, value);
    *request.uri_mut() = path.parse().map_err(|_| HttpError::Unreachable)?;
    let response = sender.send_request(request.map(Full::new)).await.map_err(|_| HttpError::Unreachable)?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|_| HttpError::TooLarge)?;
    connection.abort();
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// The suite's login page answers immediately with a redirect.
struct HeadlessBrowser;

#[async_trait]
impl Browser for HeadlessBrowser {
    async fn authorize(&self, url: &str, _: &str) -> Result<String, AuthorizeError> {
        let request = Request::get(url).body(Bytes::new()).map_err(|_| AuthorizeError::NoBrowser)?;
        let response = PlainHttp.fetch(request).await.map_err(|_| AuthorizeError::NoBrowser)?;
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        target.map(str::to_owned).ok_or(AuthorizeError::Cancelled)
    }
}

#[derive(Default)]
struct MemoryVault(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl TokenVault for MemoryVault {
    async fn load(&self, key: &str) -> Option<Bytes> {
        self.0.lock().expect("no panic while locked").get(key).cloned()
    }
    async fn save(&self, key: &str, value: Bytes) {
        self.0.lock().expect("no panic while locked").insert(key.into(), value);
    }
}

/// A platform that has already issued an assertion for its workload.
struct Workload(SecretText);

#[async_trait]
impl Assertions for Workload {
    async fn assertion(&self, _: &str, _: &str) -> Result<SecretText, AuthorizeError> {
        Ok(self.0.clone())
    }
}

struct Client {
    url: String,
    version: String,
    authorizer: Authorizer,
    session: Option<HeaderValue>,
    next_id: u64,
}

impl Client {
    /// Sends one message, and again after each refusal that the authorizer can resolve.
    async fn send(&mut self, method: &str, params: Value, name: Option<&str>) -> Result<Value, String> {
        for _ in 0..MAX_ATTEMPTS {
            let token = self.authorizer.bearer().await;
            let request = self.request(method, &params, name, token.as_ref())?;
            let response = PlainHttp.fetch(request).await.map_err(|error| error.to_string())?;
            if let Some(session) = response.headers().get("mcp-session-id") {
                self.session = Some(session.clone());
            }
            let status = response.status().as_u16();
            if status != 401 && status != 403 {
                return read(&response).ok_or_else(|| format!("{method}: status {status}"));
            }
            let headers = response.headers().get_all(http::header::WWW_AUTHENTICATE);
            let challenge: Vec<&str> = headers.iter().filter_map(|value| value.to_str().ok()).collect();
            match self.authorizer.challenged_for(token.as_ref(), status, Some(&challenge.join(", "))).await {
                Ok(RetryDecision::Retry) => {}
                Ok(RetryDecision::GiveUp) => return Err(format!("{method}: refused with {status}")),
                Err(error) => return Err(format!("error[{}]: {error}", error.code())),
            }
        }
        Err(format!("{method}: still refused after {MAX_ATTEMPTS} tries"))
    }

    fn request(
        &mut self,
        method: &str,
        params: &Value,
        name: Option<&str>,
        token: Option<&SecretText>,
    ) -> Result<Request<Bytes>, String> {
        self.next_id += 1;
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        let mut params = params.clone();
        if self.version == MODERN {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "toolbooth", "version": "0.1.0"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        if !method.starts_with("notifications/") {
            message["id"] = self.next_id.into();
        }
        message["params"] = params;
        let mut request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", &self.version);
        if self.version == MODERN {
            request = request.header("mcp-method", method);
            request = name.into_iter().fold(request, |request, name| request.header("mcp-name", name));
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.expose()));
        }
        request.body(message.to_string().into()).map_err(|error| error.to_string())
    }

    async fn run(&mut self) -> Result<(), String> {
        if self.version == MODERN {
            // Not every mock server supports it; what matters is that it is requested and authorized.
            let _ = self.send("server/discover", json!({}), None).await?;
        } else {
            let hello = json!({"protocolVersion": self.version, "capabilities": {},
                "clientInfo": {"name": "toolbooth", "version": "0.1.0"}});
            self.send("initialize", hello, None).await?;
            self.send("notifications/initialized", json!({}), None).await?;
        }
        let tools = self.send("tools/list", json!({}), None).await?;
        let tools = tools["result"]["tools"].as_array().cloned().unwrap_or_default();
        for name in tools.iter().filter_map(|tool| tool["name"].as_str()) {
            let call = json!({"name": name, "arguments": {}});
            self.send("tools/call", call, Some(name)).await?;
        }
        Ok(())
    }
}

/// The JSON-RPC answer in a body or in the first event of a stream.
fn read(response: &Response<Bytes>) -> Option<Value> {
    let text = std::str::from_utf8(response.body()).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data:"));
    match data.unwrap_or(text).trim() {
        "" => Some(Value::Null),
        json => serde_json::from_str(json).ok(),
    }
}

fn entry(context: &Value) -> OAuthEntry {
    let secret = |key: &str| context[key].as_str().map(SecretText::plain);
    OAuthEntry { client_id: secret("client_id"), client_secret: secret("client_secret"), scopes: Vec::new() }
}

/// The authorization method that a scenario's context describes.
fn authorization_method(context: &Value) -> AuthorizationMethod {
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    if let Some(pem) = text("private_key_pem") {
        let key = SigningKey::from_pem(&SecretText::plain(pem)).expect("the suite gives a usable key");
        return AuthorizationMethod::Key(Arc::new(key));
    }
    if let Some(assertion) = text("valid_jwt") {
        return AuthorizationMethod::Assertion(Arc::new(Workload(SecretText::plain(assertion))));
    }
    match (text("idp_token_endpoint"), text("idp_client_id"), text("idp_id_token")) {
        (Some(token_endpoint), Some(client_id), Some(id_token)) => {
            let id_token = SecretText::plain(id_token);
            let http = Arc::new(PlainHttp);
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

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let Some(url) = std::env::args().nth(1) else {
        eprintln!("usage: oauth_conformance URL");
        std::process::exit(2);
    };
    let version = Some(variable("MCP_CONFORMANCE_PROTOCOL_VERSION")).filter(|version| !version.is_empty());
    let context = serde_json::from_str(&variable("MCP_CONFORMANCE_CONTEXT")).unwrap_or(Value::Null);
    let identity = ClientIdentity {
        name: "Toolbooth".into(),
        redirect_uri: "http://127.0.0.1:33418/callback".into(),
        // The suite expects this exact URL when it offers client metadata documents.
        cimd_url: Some("https://conformance-test.local/client-metadata.json".into()),
    };
    let authorizer = Authorizer::new(
        &url,
        entry(&context),
        identity,
        Arc::new(PlainHttp),
        Some(Arc::new(HeadlessBrowser)),
        Arc::new(MemoryVault::default()),
    )
    .with_method(authorization_method(&context));
    let version = version.unwrap_or_else(|| "2025-11-25".into());
    let mut client = Client { url, version, authorizer, session: None, next_id: 0 };
    if let Err(error) = client.run().await {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
