//! The issuer's keys: fetched, kept, fetched again when a token names one that is not known.
//!
//! A key says by its kind which algorithms it may check; a token only chooses among those.

use super::check::{Header, Signed};
use crate::identify::refusal::Unidentified;
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use toolbooth_upstream::oauth::{Http, Reach};

/// Keys older than this are fetched again, while they stay in use.
const FRESH: Duration = Duration::from_secs(600);
/// Before keys older than this are used, the issuer is asked, if it answered lately at all.
const OLD: Duration = Duration::from_secs(3600);
/// How long an issuer that did not answer is not waited for.
const SILENCE: Duration = Duration::from_secs(60);
/// Keys that could not be fetched anew are believed for this long.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// How long the issuer may take over all requests of one fetch.
const FETCH_PATIENCE: Duration = Duration::from_secs(5);
/// How many fetches may follow each other at once, and how long one takes to grow back: tokens with
/// invented key ids must not turn the gateway against its issuer.
const BURST: u32 = 4;
const REGROW: Duration = Duration::from_secs(5);
/// The most keys that are kept.
const MAX_KEYS: usize = 64;
/// The most keys one token is tried with.
const MAX_CANDIDATES: usize = 8;

/// Algorithms that are taken: asymmetric ones only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of RFC 7518 and RFC 8037")]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// A key as an issuer publishes it.
#[derive(Debug, Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<serde_json::Value>,
}

#[derive(Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// One public key.
#[derive(Debug)]
pub(super) struct Key {
    kid: Option<String>,
    /// The one algorithm it is for, where the issuer says so.
    pinned: Option<Algorithm>,
    material: Material,
}

impl Key {
    /// Reads a published key; secrets, keys for other uses and weak ones are not kept.
    fn read(value: serde_json::Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let verifies = jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") || !verifies {
            return None;
        }
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        let point = |size: usize| {
            let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
            (x.len() == size && y.len() == size).then(|| [&[4], x.as_slice(), y.as_slice()].concat())
        };
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (bytes(&jwk.n)?, bytes(&jwk.e)?);
                // 2048 to 8192 bits; ring refuses the rest as well.
                (256..=1025).contains(&n.len()).then_some(Material::Rsa { n, e })?
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&jwk.x).filter(|x| x.len() == 32)?),
            _ => return None,
        };
        let pinned = match jwk.alg.as_deref() {
            None => None,
            // A key for an algorithm that is not taken is for nothing here.
            Some(name) => Some(Algorithm::named(name)?),
        };
        Some(Self { kid: jwk.kid, pinned, material })
    }

    fn fits(&self, header: &Header) -> bool {
        let named = header.kid.is_none() || header.kid == self.kid;
        named
            && self.pinned.is_none_or(|pinned| pinned == header.algorithm)
            && match self.material {
                Material::Rsa { .. } => {
                    !matches!(header.algorithm, Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa)
                }
                Material::P256(_) => header.algorithm == Algorithm::Es256,
                Material::P384(_) => header.algorithm == Algorithm::Es384,
                Material::Ed25519(_) => header.algorithm == Algorithm::EdDsa,
            }
    }

    /// Whether a signature is this key's.
    pub(super) fn verifies(&self, algorithm: Algorithm, signed: &Signed<'_>) -> bool {
        let (message, proof) = (signed.message.as_bytes(), signed.signature.as_slice());
        match (&self.material, algorithm) {
            (Material::Rsa { n, e }, algorithm) => {
                let parameters = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, proof).is_ok()
            }
            (Material::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, proof)
                    .is_ok()
            }
            (Material::P384(point), Algorithm::Es384) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, proof)
                    .is_ok()
            }
            (Material::Ed25519(point), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, proof).is_ok()
            }
            _ => false,
        }
    }
}

/// Where the keys are.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// At this address.
    Url(String),
    /// Where the issuer's own description says.
    Issuer(String),
}

#[derive(Debug, Default)]
struct KeySet {
    keys: Vec<Arc<Key>>,
    fetched: Option<Instant>,
}

impl KeySet {
    fn fitting(&self, header: &Header) -> Vec<Arc<Key>> {
        self.keys.iter().filter(|key| key.fits(header)).take(MAX_CANDIDATES).cloned().collect()
    }

    fn younger_than(&self, age: Duration) -> bool {
        self.fetched.is_some_and(|fetched| fetched.elapsed() < age)
    }
}

/// The end of a fetch, however it ends.
struct FetchEnd<'a>(&'a Issuer);

impl Drop for FetchEnd<'_> {
    fn drop(&mut self) {
        self.0.fetching.store(false, Ordering::Release);
        self.0.ended.send_modify(|ended| *ended += 1);
    }
}

/// How many fetches are left before the issuer is left in peace.
#[derive(Debug)]
struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    fn take(&mut self) -> bool {
        let grown = u32::try_from(self.since.elapsed().as_secs() / REGROW.as_secs()).unwrap_or(u32::MAX);
        if grown > 0 {
            self.left = self.left.saturating_add(grown).min(BURST);
            self.since = Instant::now();
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

/// The keys of one issuer.
#[derive(Clone)]
pub struct Keys(Arc<Issuer>);

struct Issuer {
    http: Arc<dyn Http>,
    source: KeySource,
    known: ArcSwap<KeySet>,
    allowance: Mutex<Allowance>,
    /// Whether a fetch is under way, and how many have ended: those who wait for a key wait for the next end.
    fetching: AtomicBool,
    /// When a fetch failed last, if none has succeeded since.
    failed: Mutex<Option<Instant>>,
    ended: watch::Sender<u64>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("source", &self.0.source).finish_non_exhaustive()
    }
}

impl Keys {
    /// The keys at a source, none of them fetched yet.
    pub fn new(http: Arc<dyn Http>, source: KeySource) -> Self {
        Self(Arc::new(Issuer {
            http,
            source,
            known: ArcSwap::default(),
            allowance: Mutex::new(Allowance { left: BURST, since: Instant::now() }),
            fetching: AtomicBool::new(false),
            failed: Mutex::default(),
            ended: watch::Sender::new(0),
        }))
    }

    /// The keys that a token may be signed by. Only a token whose key is not known waits for the issuer.
    pub(super) async fn find(&self, header: &Header) -> Result<Vec<Arc<Key>>, Unidentified> {
        let issuer = &self.0;
        let seen = issuer.known.load_full();
        let fitting = seen.fitting(header);
        let usable = seen.younger_than(OLD) || (seen.younger_than(STALE) && issuer.is_silent());
        if !fitting.is_empty() && usable {
            if !seen.younger_than(FRESH) {
                issuer.refresh();
            }
            return Ok(fitting);
        }
        // Before the look at whether one is under way: its end must not fall in between.
        let mut ended = issuer.ended.subscribe();
        if issuer.refresh() == Refreshing::UnderWay {
            let _ = ended.changed().await;
        }
        let now = issuer.known.load_full();
        match now.younger_than(STALE) {
            true => Ok(now.fitting(header)),
            false => Err(Unidentified::Unavailable),
        }
    }
}

/// Whether the keys are being fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refreshing {
    UnderWay,
    /// They were fetched too often lately.
    NotNow,
}

impl Issuer {
    fn note_failure(&self, failed: Option<Instant>) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }

    /// Whether the issuer did not answer a moment ago.
    fn is_silent(&self) -> bool {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|failed| failed.elapsed() < SILENCE)
    }

    /// Fetches the keys again in the background: one fetch at a time, rate-limited.
    fn refresh(self: &Arc<Self>) -> Refreshing {
        if self.fetching.swap(true, Ordering::AcqRel) {
            return Refreshing::UnderWay;
        }
        if !self.allowance.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.fetching.store(false, Ordering::Release);
            return Refreshing::NotNow;
        }
        let issuer = self.clone();
        tokio::spawn(async move {
            // Waiters are released even if the fetch panics.
            let _end = FetchEnd(&issuer);
            let fetched = tokio::time::timeout(FETCH_PATIENCE, issuer.fetch()).await;
            match fetched.unwrap_or_else(|_| Err("the issuer did not answer in time".into())) {
                Ok(keys) => {
                    issuer.known.store(Arc::new(KeySet { keys, fetched: Some(Instant::now()) }));
                    issuer.note_failure(None);
                }
                Err(why) => {
                    tracing::warn!("the keys of the token issuer could not be fetched: {why}");
                    issuer.note_failure(Some(Instant::now()));
                }
            }
        });
        Refreshing::UnderWay
    }

    async fn fetch(&self) -> Result<Vec<Arc<Key>>, String> {
        let (url, reach) = match &self.source {
            KeySource::Url(url) => (url.clone(), Reach::Configured),
            KeySource::Issuer(issuer) => self.discover(issuer).await?,
        };
        let set: Jwks = self.get(&url, reach).await?;
        let keys: Vec<Arc<Key>> =
            set.keys.into_iter().take(MAX_KEYS).filter_map(Key::read).map(Arc::new).collect();
        if keys.is_empty() { Err("it holds no key that could be used".into()) } else { Ok(keys) }
    }

    /// Finds the keys by the issuer's description of itself.
    async fn discover(&self, issuer: &str) -> Result<(String, Reach), String> {
        #[derive(Deserialize)]
        struct Description {
            issuer: String,
            jwks_uri: String,
        }
        let base = url::Url::parse(issuer).map_err(|_| "the issuer is no address".to_owned())?;
        let path = base.path().trim_end_matches('/');
        let at = |place: String| {
            let mut url = base.clone();
            url.set_path(&place);
            url.set_query(None);
            url.to_string()
        };
        let places = [
            at(format!("{path}/.well-known/openid-configuration")),
            at(format!("/.well-known/oauth-authorization-server{path}")),
        ];
        let mut last = String::new();
        for place in places {
            match self.get::<Description>(&place, Reach::Configured).await {
                Ok(description) if description.issuer == issuer => {
                    let keys = url::Url::parse(&description.jwks_uri);
                    let keys = keys.map_err(|_| "`jwks_uri` is no address".to_owned())?;
                    let at_home = keys.origin() == base.origin();
                    if keys.scheme() != "https" && !at_home {
                        return Err("`jwks_uri` is not https".into());
                    }
                    // Another host is the issuer's word, not the operator's: it gets no way into private networks.
                    return Ok((keys.to_string(), if at_home { Reach::Configured } else { Reach::Public }));
                }
                Ok(_) => last = "its description is of another issuer".into(),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, url: &str, reach: Reach) -> Result<T, String> {
        let request =
            Request::get(url).header(ACCEPT, "application/json").extension(reach).body(Bytes::new());
        let request = request.map_err(|_| "its address is none".to_owned())?;
        let response = self.http.fetch(request).await.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("status {}", response.status().as_u16()));
        }
        serde_json::from_slice(response.body()).map_err(|_| "what came is not what was asked for".to_owned())
    }
}
