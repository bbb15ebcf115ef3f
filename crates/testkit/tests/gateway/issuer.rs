//! An identity provider inside the test: it signs tokens, publishes its keys, and can stop answering.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A key that signs tokens, and its id.
pub struct Signer(Ed25519KeyPair, &'static str);

impl Signer {
    pub fn new(kid: &'static str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(), kid)
    }

    /// The public key, as providers publish it.
    pub fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
        json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.1, "x": x })
    }

    /// A token of this issuer for ann in the group staff; `more` replaces and adds claims.
    pub fn token(&self, issuer: &str, more: Value) -> String {
        self.token_naming(self.1, issuer, more)
    }

    /// A token with another key id than the signer's own.
    pub fn token_naming(&self, kid: &str, issuer: &str, more: Value) -> String {
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims =
            json!({ "iss": issuer, "aud": "booth", "sub": "ann", "exp": now + 300, "groups": ["staff"] });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let message = format!("{}.{}", text(&json!({ "alg": "EdDSA", "kid": kid })), text(&claims));
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(self.0.sign(message.as_bytes())))
    }
}

/// How the provider answers requests for its description and its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// At once.
    Promptly,
    /// Closes the connection without an answer.
    Closing,
    /// Keeps the connection open and does not answer until this changes.
    Stalling,
}

struct State {
    url: String,
    keys: Mutex<String>,
    answering: watch::Sender<Answering>,
    fetches: AtomicUsize,
}

/// An identity provider; it ends with the test's runtime.
pub struct Provider {
    pub url: String,
    state: Arc<State>,
}

impl Provider {
    /// Starts a provider that publishes this signer's key.
    pub async fn start(signer: &Signer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            url: url.clone(),
            keys: Mutex::default(),
            answering: watch::Sender::new(Answering::Promptly),
            fetches: AtomicUsize::new(0),
        });
        let provider = Self { url, state: state.clone() };
        provider.publish(signer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(respond(stream, state.clone()));
            }
        });
        provider
    }

    /// Publishes only this signer's key.
    pub fn publish(&self, signer: &Signer) {
        *self.state.keys.lock().unwrap() = json!({ "keys": [signer.jwk()] }).to_string();
    }

    /// Sets how the provider answers.
    pub fn answer(&self, answering: Answering) {
        self.state.answering.send_replace(answering);
    }

    /// The number of key fetches: each begins with the provider's description.
    pub fn fetches(&self) -> usize {
        self.state.fetches.load(Ordering::SeqCst)
    }
}

async fn respond(mut stream: TcpStream, state: Arc<State>) {
    let mut head = [0; 4096];
    let length = stream.read(&mut head).await.unwrap_or(0);
    let is_description = String::from_utf8_lossy(&head[..length]).contains("openid-configuration");
    if is_description {
        state.fetches.fetch_add(1, Ordering::SeqCst);
    }
    let mut answering = state.answering.subscribe();
    let now = answering.wait_for(|answering| *answering != Answering::Stalling).await.map(|now| *now);
    if !matches!(now, Ok(Answering::Promptly)) {
        return;
    }
    let body = match is_description {
        true => json!({ "issuer": state.url, "jwks_uri": format!("{}/keys", state.url) }).to_string(),
        false => state.keys.lock().unwrap().clone(),
    };
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
}
