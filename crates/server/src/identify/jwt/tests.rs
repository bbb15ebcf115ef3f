#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;
use toolbooth_upstream::oauth::{HttpError, HttpFetch};

const ISSUER: &str = "https://id.example/realm";
const NOW: u64 = 1_800_000_000;

/// ring cannot generate RSA keys. This one is only used here.
static RSA: &[u8] = include_bytes!("rsa-for-tests.pk8");

fn text(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

enum Signer {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA).unwrap()))
    }

    fn ec() -> Self {
        let random = SystemRandom::new();
        let kind = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap())
    }

    fn ed() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(pair) => {
                let parts: signature::RsaPublicKeyComponents<Vec<u8>> = pair.public().into();
                json!({ "kty": "RSA", "kid": kid, "use": "sig", "n": text(&parts.n), "e": text(&parts.e) })
            }
            Self::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": text(&point[1..33]), "y": text(&point[33..]) })
            }
            Self::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": text(pair.public_key()) })
            }
        }
    }

    fn sign(&self, algorithm: &str, message: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let padding: &dyn signature::RsaEncoding = match algorithm {
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut proof = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message.as_bytes(), &mut proof).unwrap();
                proof
            }
            Self::Ec(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        }
    }

    fn token(&self, header: Value, claims: &Value) -> String {
        let algorithm = header["alg"].as_str().unwrap_or_default().to_owned();
        let message = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
        let proof = self.sign(&algorithm, &message);
        format!("{message}.{}", text(proof))
    }
}

/// An issuer that publishes the given pages and counts requests.
#[derive(Default)]
struct Issuer {
    pages: Mutex<std::collections::HashMap<String, Value>>,
    asked: AtomicUsize,
    /// Whether it accepts requests and never answers.
    silent: AtomicBool,
}

impl Issuer {
    fn publishing(keys: Value) -> Arc<Self> {
        let issuer = Arc::new(Self::default());
        issuer.set("https://id.example/keys", json!({ "keys": keys }));
        issuer
    }

    fn set(&self, url: &str, page: Value) {
        self.pages.lock().unwrap().insert(url.to_owned(), page);
    }
}

#[async_trait]
impl HttpFetch for Issuer {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let page = self.pages.lock().unwrap().get(&request.uri().to_string()).cloned();
        let page = page.ok_or(HttpError::Unreachable)?;
        Ok(Response::new(Bytes::from(page.to_string())))
    }
}

fn names() -> ClaimNames {
    ClaimNames {
        user: "sub".into(),
        groups: "realm_access.roles".into(),
        persona: Some("persona".into()),
        level: Some("level".into()),
    }
}

fn jwt(http: Arc<Issuer>) -> Jwt {
    let keys = IssuerKeys::new(http, KeySource::Url("https://id.example/keys".into()));
    Jwt::new(ISSUER.into(), vec!["https://booth.example/mcp".into(), "booth".into()], names(), keys)
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": "booth", "sub": "ann", "exp": NOW + 300, "realm_access": { "roles": ["staff"] } })
}

fn with(key: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(key)),
        value => claims[key] = value,
    }
    claims
}

#[tokio::test]
async fn tokens_of_every_key_type_are_accepted() {
    let (rsa, ec, ed) = (Signer::rsa(), Signer::ec(), Signer::ed());
    let jwt = jwt(Issuer::publishing(json!([rsa.jwk("r"), ec.jwk("e"), ed.jwk("d")])));
    let cases = [
        ("RS256", "r", &rsa),
        ("PS256", "r", &rsa),
        ("RS512", "r", &rsa),
        ("ES256", "e", &ec),
        ("EdDSA", "d", &ed),
    ];
    for (algorithm, kid, signer) in cases {
        let token = signer.token(json!({ "alg": algorithm, "kid": kid, "typ": "JWT" }), &claims());
        let claimed =
            jwt.check(&token, None, now()).await.unwrap_or_else(|refused| panic!("{algorithm}: {refused}"));
        assert_eq!((claimed.user.as_str(), claimed.groups), ("ann", vec!["staff".to_owned()]));
    }
    let unnamed = ec.token(json!({ "alg": "ES256" }), &claims());
    assert!(jwt.check(&unnamed, None, now()).await.is_ok(), "without a key id the matching key is found");
}

#[tokio::test]
async fn the_claims_of_a_token_are_checked() {
    let ec = Signer::ec();
    let jwt = jwt(Issuer::publishing(json!([ec.jwk("e")])));
    const AUDIENCE: &str = "the token is for another audience";
    const OTHER_ISSUER: &str = "the token is from another issuer";
    const EXPIRED: &str = "the token has expired";
    const EARLY: &str = "the token is not valid yet";
    const CLAIM: &str = "a claim of the token is missing or not usable";
    let cases = [
        ("as it is", claims(), Ok(())),
        ("one audience of several", with("aud", json!(["x", "https://booth.example/mcp"])), Ok(())),
        ("another audience", with("aud", json!("https://booth.example")), Err(AUDIENCE)),
        ("no audience", with("aud", Value::Null), Err(AUDIENCE)),
        ("an audience that is not a string", with("aud", json!({ "booth": true })), Err(AUDIENCE)),
        ("another issuer", with("iss", json!("https://id.example/realm/")), Err(OTHER_ISSUER)),
        ("no issuer", with("iss", Value::Null), Err(OTHER_ISSUER)),
        ("just ended, within the skew", with("exp", json!(NOW - 59)), Ok(())),
        ("ended", with("exp", json!(NOW - 60)), Err(EXPIRED)),
        ("never ends", with("exp", Value::Null), Err(CLAIM)),
        ("ends in words", with("exp", json!("2099-01-01")), Err(CLAIM)),
        ("ends before all time", with("exp", json!(-1)), Err(CLAIM)),
        ("begins soon, within the skew", with("nbf", json!(NOW + 60)), Ok(())),
        ("begins later", with("nbf", json!(NOW + 61)), Err(EARLY)),
        ("made later", with("iat", json!(NOW + 61)), Err(EARLY)),
        ("no user", with("sub", Value::Null), Err(CLAIM)),
        ("an empty user", with("sub", json!("")), Err(CLAIM)),
        ("a user with a line end", with("sub", json!("ann\nroot")), Err(CLAIM)),
        ("a user that is a number", with("sub", json!(7)), Err(CLAIM)),
        ("groups that are an object", with("realm_access", json!({ "roles": {} })), Err(CLAIM)),
        ("no groups", with("realm_access", Value::Null), Ok(())),
        ("groups in one text", with("realm_access", json!({ "roles": "staff ops" })), Ok(())),
        ("a persona that is a list", with("persona", json!(["dev"])), Err(CLAIM)),
    ];
    for (what, claims, expected) in cases {
        let token = ec.token(json!({ "alg": "ES256", "kid": "e" }), &claims);
        let checked =
            jwt.check(&token, None, now()).await.map(drop).map_err(|unidentified| match unidentified {
                Unidentified::Refused(reason) => reason.for_client().unwrap(),
                other => panic!("{what}: {other}"),
            });
        assert_eq!(checked, expected, "{what}");
    }
}

#[tokio::test]
async fn attacks_on_the_signature_fail() {
    let (rsa, ec, other) = (Signer::rsa(), Signer::ec(), Signer::ec());
    let mut encryption = other.jwk("enc");
    encryption["use"] = json!("enc");
    let mut pinned = Signer::rsa().jwk("pinned");
    pinned["alg"] = json!("PS256");
    let secret = json!({ "kty": "oct", "kid": "oct", "k": text("secret") });
    let jwt = jwt(Issuer::publishing(json!([rsa.jwk("r"), ec.jwk("e"), encryption, pinned, secret])));
    let claims = claims();
    let good = ec.token(json!({ "alg": "ES256", "kid": "e" }), &claims);
    assert!(jwt.check(&good, None, now()).await.is_ok());

    let unsigned = |header: Value| format!("{}.{}.", text(header.to_string()), text(claims.to_string()));
    let hmac = |key: &[u8], header: Value| {
        let message = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
        let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key), message.as_bytes());
        format!("{message}.{}", text(tag))
    };
    let Signer::Rsa(pair) = &rsa else { unreachable!() };
    let (head, rest) = good.split_once('.').unwrap();
    let (payload, proof) = rest.split_once('.').unwrap();
    let root = text(with("sub", json!("root")).to_string());
    let doubled = {
        let payload = format!(r#"{{"sub":"root",{}"#, &claims.to_string()[1..]);
        let message =
            format!("{}.{}", text(json!({ "alg": "ES256", "kid": "e" }).to_string()), text(payload));
        format!("{message}.{}", text(ec.sign("ES256", &message)))
    };
    let attacks = [
        ("none", unsigned(json!({ "alg": "none" }))),
        ("None", unsigned(json!({ "alg": "None", "kid": "e" }))),
        ("no algorithm", unsigned(json!({ "kid": "e" }))),
        ("an empty signature", format!("{head}.{payload}.")),
        ("HMAC with the public key", hmac(pair.public().as_ref(), json!({ "alg": "HS256", "kid": "r" }))),
        ("HMAC with a published secret", hmac(b"secret", json!({ "alg": "HS256", "kid": "oct" }))),
        ("other claims", format!("{head}.{root}.{proof}")),
        ("another key", other.token(json!({ "alg": "ES256", "kid": "e" }), &claims)),
        ("a key for another use", other.token(json!({ "alg": "ES256", "kid": "enc" }), &claims)),
        ("an algorithm the key is not for", rsa.token(json!({ "alg": "RS256", "kid": "pinned" }), &claims)),
        ("the algorithm of another kind of key", rsa.token(json!({ "alg": "RS256", "kid": "e" }), &claims)),
        ("a key of its own", other.token(json!({ "alg": "ES256", "jwk": other.jwk("x") }), &claims)),
        ("a demanded extension", ec.token(json!({ "alg": "ES256", "kid": "e", "crit": ["exp"] }), &claims)),
        (
            "a token for another use",
            ec.token(json!({ "alg": "ES256", "kid": "e", "typ": "logout+jwt" }), &claims),
        ),
        ("a repeated claim", doubled),
        ("padding", format!("{good}=")),
        ("four parts", format!("{good}.{proof}")),
        ("two parts", format!("{head}.{payload}")),
        ("nothing", String::new()),
        ("too long", ec.token(json!({ "alg": "ES256", "kid": "e" }), &with("x", json!("x".repeat(20_000))))),
    ];
    for (what, token) in attacks {
        let checked = jwt.check(&token, None, now()).await;
        assert!(matches!(checked, Err(Unidentified::Refused(_))), "{what}: {checked:?}");
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_and_fetches_for_invented_ones_are_limited() {
    let (first, second) = (Signer::ec(), Signer::ec());
    let issuer = Issuer::publishing(json!([first.jwk("1")]));
    let jwt = jwt(issuer.clone());
    let token = |signer: &Signer, kid: &str| signer.token(json!({ "alg": "ES256", "kid": kid }), &claims());
    for _ in 0..10 {
        assert!(jwt.check(&token(&first, "1"), None, now()).await.is_ok());
    }
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 1, "keys are kept");
    issuer.set("https://id.example/keys", json!({ "keys": [second.jwk("2")] }));
    assert!(jwt.check(&token(&second, "2"), None, now()).await.is_ok(), "a rotated key is found at once");
    assert!(jwt.check(&token(&first, "1"), None, now()).await.is_err(), "the old one is gone");
    for number in 0..100 {
        assert!(jwt.check(&token(&second, &format!("invented {number}")), None, now()).await.is_err());
    }
    assert!(issuer.asked.load(Ordering::Relaxed) <= 5, "{}", issuer.asked.load(Ordering::Relaxed));
    assert!(jwt.check(&token(&second, "2"), None, now()).await.is_ok(), "other tokens still work");
}

#[tokio::test]
async fn keys_are_found_by_the_issuers_metadata() {
    let ec = Signer::ec();
    let token = ec.token(json!({ "alg": "ES256", "kid": "e" }), &claims());
    let cases = [
        (
            "https://id.example/realm/.well-known/openid-configuration",
            ISSUER,
            "https://id.example/keys",
            true,
        ),
        (
            "https://id.example/.well-known/oauth-authorization-server/realm",
            ISSUER,
            "https://id.example/keys",
            true,
        ),
        (
            "https://id.example/realm/.well-known/openid-configuration",
            "https://evil.example",
            "https://id.example/keys",
            false,
        ),
        (
            "https://id.example/realm/.well-known/openid-configuration",
            ISSUER,
            "http://keys.example/keys",
            false,
        ),
    ];
    for (place, issuer, keys, found) in cases {
        let http = Issuer::publishing(json!([ec.jwk("e")]));
        http.set(place, json!({ "issuer": issuer, "jwks_uri": keys }));
        http.set("http://keys.example/keys", json!({ "keys": [ec.jwk("e")] }));
        let keys = IssuerKeys::new(http, KeySource::Issuer(ISSUER.into()));
        let jwt = Jwt::new(ISSUER.into(), vec!["booth".into()], names(), keys);
        let checked = jwt.check(&token, None, now()).await;
        assert_eq!(checked.is_ok(), found, "{place} {issuer}");
        if !found {
            assert_eq!(checked, Err(Unidentified::Unavailable), "without keys every token is refused");
        }
    }
}

// M4: a silent issuer must not delay tokens whose key is cached; all others share one wait.
#[tokio::test(start_paused = true)]
async fn a_silent_issuer_does_not_delay_tokens_with_a_cached_key() {
    let known = Signer::ec();
    let issuer = Issuer::publishing(json!([known.jwk("1")]));
    let jwt = jwt(issuer.clone());
    let token = |kid: &str| known.token(json!({ "alg": "ES256", "kid": kid }), &claims());
    assert!(jwt.check(&token("1"), None, now()).await.is_ok());
    issuer.silent.store(true, Ordering::Relaxed);
    let start = tokio::time::Instant::now();
    let good = token("1");
    let unknown: Vec<String> = (0..8).map(|number| token(&format!("unknown {number}"))).collect();
    let waiting = futures_util::future::join_all(unknown.iter().map(|token| jwt.check(token, None, now())));
    let quick = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let served = jwt.check(&good, None, now()).await.is_ok();
        (served, start.elapsed())
    };
    let (refused, (served, elapsed)) = tokio::join!(waiting, quick);
    assert!(served && elapsed < Duration::from_millis(100), "{elapsed:?}");
    assert!(refused.iter().all(|checked| *checked == Err(Unidentified::Refused(RefusalReason::UnknownKey))));
    assert!(start.elapsed() <= Duration::from_secs(6), "one wait for all: {:?}", start.elapsed());
}

#[tokio::test]
async fn a_resource_accepts_its_own_audience_besides_the_configured_ones() {
    use crate::identify::oidc::{OidcClient, OidcSettings};
    let ec = Signer::ec();
    let http = Issuer::publishing(json!([ec.jwk("e")]));
    let token =
        |audience: &str| ec.token(json!({ "alg": "ES256", "kid": "e" }), &with("aud", json!(audience)));
    let (support, sales) = ("https://booth.example/mcp/p/support", "https://booth.example/mcp/p/sales");
    let cases = [
        (support, Some(support), true),
        (support, Some(sales), false),
        (support, Some("https://booth.example/mcp"), false),
        (support, None, false),
        ("https://booth.example/mcp/p/support/", Some(support), false),
        ("https://booth.example/mcp/p/", Some(support), false),
        ("", Some(support), false),
        ("booth", Some(support), true),
    ];
    let plain = jwt(http.clone());
    for (audience, of_resource, accepted) in cases {
        let checked = plain.check(&token(audience), of_resource, now()).await;
        assert_eq!(checked.is_ok(), accepted, "{audience} at {of_resource:?}");
    }
    // A client id that is the URL of the gateway does not make its ID tokens tokens for the API.
    let settings = OidcSettings {
        issuer: ISSUER.into(),
        client_id: "https://booth.example".into(),
        client_secret: None,
        scopes: Vec::new(),
        prompt: None,
        provider_name: None,
    };
    let with_client = jwt(http.clone()).with_console_client(OidcClient::new(http, settings));
    let of_client = token("https://booth.example");
    assert!(plain.check(&of_client, Some("https://booth.example"), now()).await.is_ok());
    assert!(with_client.check(&of_client, Some("https://booth.example"), now()).await.is_err());
}

// audit: `groups` given as one string was split on spaces.
#[tokio::test]
async fn only_scope_is_a_list_of_words() {
    let ec = Signer::ec();
    let groups = async |claim: &str| {
        let names = ClaimNames { groups: claim.into(), ..names() };
        let keys = IssuerKeys::new(
            Issuer::publishing(json!([ec.jwk("e")])),
            KeySource::Url("https://id.example/keys".into()),
        );
        let jwt = Jwt::new(ISSUER.into(), vec!["booth".into()], names, keys);
        let token = ec.token(json!({ "alg": "ES256", "kid": "e" }), &with(claim, json!("not admin")));
        jwt.check(&token, None, now()).await.unwrap().groups
    };
    assert_eq!(groups("groups").await, ["not admin"]);
    assert_eq!(groups("scope").await, ["not", "admin"]);
}

#[tokio::test]
async fn the_claims_of_an_id_token_are_checked() {
    use crate::identify::oidc::{OidcClient, OidcSettings};
    let ec = Signer::ec();
    let http = Issuer::publishing(json!([ec.jwk("e")]));
    let settings = OidcSettings {
        issuer: ISSUER.into(),
        client_id: "console".into(),
        client_secret: None,
        scopes: Vec::new(),
        prompt: None,
        provider_name: None,
    };
    let jwt = jwt(http.clone()).with_console_client(OidcClient::new(http, settings));
    let with = |changes: Value| {
        let mut claims = claims();
        claims["aud"] = json!("console");
        claims["nonce"] = json!("n");
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims
    };
    let cases = [
        ("as it is", "JWT", with(json!({})), true),
        ("another nonce", "JWT", with(json!({ "nonce": "m" })), false),
        ("no nonce", "JWT", with(json!({ "nonce": null })), false),
        ("the audience of access tokens", "JWT", with(json!({ "aud": "booth" })), false),
        ("several audiences without `azp`", "JWT", with(json!({ "aud": ["console", "booth"] })), false),
        ("several audiences", "JWT", with(json!({ "aud": ["console", "booth"], "azp": "console" })), true),
        ("requested by another client", "JWT", with(json!({ "azp": "other" })), false),
        ("another issuer", "JWT", with(json!({ "iss": "https://evil.example" })), false),
        ("ended", "JWT", with(json!({ "exp": NOW - 60 })), false),
        ("an access token", "at+jwt", with(json!({})), false),
    ];
    for (what, typ, claims, accepted) in cases {
        let token = ec.token(json!({ "alg": "ES256", "kid": "e", "typ": typ }), &claims);
        assert_eq!(jwt.check_id_token(&token, Some("n"), now()).await.is_ok(), accepted, "{what}");
        // The audience of the console's client is not one of the gateway's API.
        assert_eq!(
            jwt.check(&token, None, now()).await.is_ok(),
            claims["aud"] == "booth" || claims["aud"][1] == "booth",
            "{what}"
        );
    }
    let good = with(json!({}));
    let claimed = {
        let token = ec.token(json!({ "alg": "ES256", "kid": "e" }), &good);
        jwt.check_id_token(&token, None, now()).await.unwrap()
    };
    assert_eq!((claimed.user.as_str(), claimed.groups), ("ann", vec!["staff".to_owned()]));
    for header in [json!({ "alg": "none" }), json!({ "alg": "HS256", "kid": "e" })] {
        let token = ec.token(header.clone(), &good);
        assert!(jwt.check_id_token(&token, Some("n"), now()).await.is_err(), "{header}");
        let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
        assert!(jwt.check_id_token(&unsigned, Some("n"), now()).await.is_err(), "{header}");
    }
    let token = Signer::ec().token(json!({ "alg": "ES256", "kid": "e" }), &good);
    assert!(jwt.check_id_token(&token, Some("n"), now()).await.is_err(), "signed by another key");
}
