//! The issuer's public keys: fetched, cached, and fetched again if a token names an unknown one.
//!
//! The type of a key decides which algorithms it may verify; a token only chooses among those.

use super::algorithm::Algorithm;
use super::check::{Header, Signed};
use crate::identify::issuer::{self, DatedDocument};
use crate::identify::refusal::Unidentified;
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use toolbooth_upstream::oauth::{HttpFetch, NetworkReach};

/// Keys older than this are fetched again in the background.
const FRESH: Duration = Duration::from_secs(600);
/// Keys older than this are fetched again before use, unless the issuer recently failed to answer.
const OLD: Duration = Duration::from_secs(3600);
/// How long requests do not wait for an issuer that failed to answer.
const SILENCE: Duration = Duration::from_secs(60);
/// Keys that could not be fetched again are used for this long.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// Timeout of all requests of one fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of fetches allowed in a row, and the time to regain one. Tokens with invented key ids must not make the
/// gateway flood its issuer.
const BURST: u32 = 4;
const REGROW: Duration = Duration::from_secs(5);
/// Maximum number of keys that are kept.
const MAX_KEYS: usize = 64;
/// Maximum number of keys tried per token.
const MAX_CANDIDATES: usize = 8;

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

/// A published key set, for people.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::identify) struct KeySurvey {
    /// The number of published keys.
    pub(in crate::identify) published: usize,
    /// The number of keys that can verify tokens.
    pub(in crate::identify) usable: usize,
    /// The algorithms that they verify.
    pub(in crate::identify) algorithms: BTreeSet<&'static str>,
}

/// Fetches a key set and reads what it is good for.
pub(in crate::identify) async fn survey(
    http: &dyn HttpFetch,
    url: &str,
    reach: NetworkReach,
) -> Result<DatedDocument<KeySurvey>, String> {
    let DatedDocument { content: set, sent } = issuer::dated::<Jwks>(http, url, reach).await?;
    let published = set.keys.len();
    let keys: Vec<PublicKey> = set.keys.into_iter().take(MAX_KEYS).filter_map(PublicKey::read).collect();
    let algorithms = keys.iter().map(PublicKey::algorithms).collect();
    Ok(DatedDocument { content: KeySurvey { published, usable: keys.len(), algorithms }, sent })
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
pub(super) struct PublicKey {
    kid: Option<String>,
    /// The only algorithm it may verify, if the issuer states one.
    pinned: Option<Algorithm>,
    material: Material,
}

impl PublicKey {
    /// Parses a published key. Secret keys, keys for other uses and weak keys are ignored.
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
            // A key for an algorithm that is not accepted has no use here.
            Some(name) => Some(Algorithm::named(name)?),
        };
        Some(Self { kid: jwk.kid, pinned, material })
    }

    /// The algorithms that it verifies, for people.
    fn algorithms(&self) -> &'static str {
        match (self.pinned, &self.material) {
            (Some(pinned), _) => pinned.name(),
            (None, Material::Rsa { .. }) => "RS256 to PS512",
            (None, Material::P256(_)) => Algorithm::Es256.name(),
            (None, Material::P384(_)) => Algorithm::Es384.name(),
            (None, Material::Ed25519(_)) => Algorithm::EdDsa.name(),
        }
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

    /// Whether a signature was made by this key.
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

/// Where to fetch the keys.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// From this URL.
    Url(String),
    /// From the URL in the issuer's metadata.
    Issuer(String),
}

#[derive(Debug, Default)]
struct KeySet {
    keys: Vec<Arc<PublicKey>>,
    fetched: Option<Instant>,
}

impl KeySet {
    fn matching(&self, header: &Header) -> Vec<Arc<PublicKey>> {
        self.keys.iter().filter(|key| key.fits(header)).take(MAX_CANDIDATES).cloned().collect()
    }

    fn younger_than(&self, age: Duration) -> bool {
        self.fetched.is_some_and(|fetched| fetched.elapsed() < age)
    }
}

/// Marks the end of a fetch on drop, also after a panic.
struct FetchEnd<'a>(&'a Issuer);

impl Drop for FetchEnd<'_> {
    fn drop(&mut self) {
        self.0.fetching.store(false, Ordering::Release);
        self.0.ended.send_modify(|ended| *ended += 1);
    }
}

/// Rate limit of fetches.
#[derive(Debug)]
struct FetchBudget {
    left: u32,
    since: Instant,
}

impl FetchBudget {
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

/// The public keys of one issuer.
#[derive(Clone)]
pub struct IssuerKeys(Arc<Issuer>);

struct Issuer {
    http: Arc<dyn HttpFetch>,
    source: KeySource,
    known: ArcSwap<KeySet>,
    budget: Mutex<FetchBudget>,
    /// Whether a fetch is running. A request that needs a key waits for its end.
    fetching: AtomicBool,
    /// When the latest fetch failed; `None` if it succeeded.
    failed: Mutex<Option<Instant>>,
    /// Number of fetches that have ended.
    ended: watch::Sender<u64>,
}

impl std::fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerKeys").field("source", &self.0.source).finish_non_exhaustive()
    }
}

impl IssuerKeys {
    /// Keys from a source. Fetches nothing yet.
    pub fn new(http: Arc<dyn HttpFetch>, source: KeySource) -> Self {
        Self(Arc::new(Issuer {
            http,
            source,
            known: ArcSwap::default(),
            budget: Mutex::new(FetchBudget { left: BURST, since: Instant::now() }),
            fetching: AtomicBool::new(false),
            failed: Mutex::default(),
            ended: watch::Sender::new(0),
        }))
    }

    /// The keys that may have signed a token. Waits for the issuer only if no key that may be used matches.
    pub(super) async fn find(&self, header: &Header) -> Result<Vec<Arc<PublicKey>>, Unidentified> {
        let issuer = &self.0;
        let seen = issuer.known.load_full();
        let matching = seen.matching(header);
        let usable = seen.younger_than(OLD) || (seen.younger_than(STALE) && issuer.is_silent());
        if !matching.is_empty() && usable {
            if !seen.younger_than(FRESH) {
                issuer.refresh();
            }
            return Ok(matching);
        }
        // Subscribed before checking for a running fetch, so that its end is not missed.
        let mut ended = issuer.ended.subscribe();
        if issuer.refresh() == Refreshing::UnderWay {
            let _ = ended.changed().await;
        }
        let now = issuer.known.load_full();
        match now.younger_than(STALE) {
            true => Ok(now.matching(header)),
            false => Err(Unidentified::Unavailable),
        }
    }
}

/// Whether a fetch is running.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refreshing {
    UnderWay,
    /// The rate limit is reached.
    NotNow,
}

impl Issuer {
    fn note_failure(&self, failed: Option<Instant>) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }

    /// Whether the latest fetch failed a moment ago.
    fn is_silent(&self) -> bool {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|failed| failed.elapsed() < SILENCE)
    }

    /// Fetches the keys again in the background: one fetch at a time, rate-limited.
    fn refresh(self: &Arc<Self>) -> Refreshing {
        if self.fetching.swap(true, Ordering::AcqRel) {
            return Refreshing::UnderWay;
        }
        if !self.budget.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.fetching.store(false, Ordering::Release);
            return Refreshing::NotNow;
        }
        let issuer = self.clone();
        tokio::spawn(async move {
            // Waiters are released even if the fetch panics.
            let _end = FetchEnd(&issuer);
            let fetched = tokio::time::timeout(FETCH_TIMEOUT, issuer.fetch()).await;
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

    async fn fetch(&self) -> Result<Vec<Arc<PublicKey>>, String> {
        let (url, reach) = match &self.source {
            KeySource::Url(url) => (url.clone(), NetworkReach::Configured),
            KeySource::Issuer(issuer) => self.discover(issuer).await?,
        };
        let set: Jwks = issuer::get(&*self.http, &url, reach).await?;
        let keys: Vec<Arc<PublicKey>> =
            set.keys.into_iter().take(MAX_KEYS).filter_map(PublicKey::read).map(Arc::new).collect();
        if keys.is_empty() { Err("the key set has no usable key".into()) } else { Ok(keys) }
    }

    /// Finds the key URL in the issuer's metadata.
    async fn discover(&self, issuer: &str) -> Result<(String, NetworkReach), String> {
        #[derive(Deserialize)]
        struct Description {
            jwks_uri: String,
        }
        let description: Description = issuer::metadata(&*self.http, issuer).await?;
        let (url, reach) = issuer::endpoint(issuer, "jwks_uri", &description.jwks_uri)?;
        Ok((url.to_string(), reach))
    }
}
