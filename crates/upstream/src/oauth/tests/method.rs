//! Tokens without a person: signatures and assertions of third parties.

use super::world::*;
use crate::oauth::{
    Assertions, AuthorizationMethod, AuthorizeError, Authorizer, IdentityProvider, OAuthError, RetryDecision,
    SigningKey,
};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::sync::Arc;
use toolbooth_core::secret::SecretText;

struct Platform;

#[async_trait]
impl Assertions for Platform {
    async fn assertion(&self, issuer: &str, resource: &str) -> Result<SecretText, AuthorizeError> {
        Ok(SecretText::plain(format!("{issuer}|{resource}")))
    }
}

fn pem(der: &[u8]) -> SecretText {
    let body = STANDARD.encode(der);
    SecretText::plain(format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"))
}

#[tokio::test]
async fn a_key_signs_for_the_configured_client() {
    let random = ring::rand::SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let key = SigningKey::from_pem(&pem(der.as_ref())).unwrap();
    let world = World::new().configured("mine", None).issues(&["t1"]);
    let authorizer = world.authorizer_at(SERVER, None).with_method(AuthorizationMethod::Key(Arc::new(key)));
    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));

    let request = world.net.sent().pop().unwrap();
    let form = request.split(' ').nth(2).unwrap();
    let pairs: Vec<(String, String)> = url::form_urlencoded::parse(form.as_bytes()).into_owned().collect();
    let value =
        |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap();
    assert_eq!((value("grant_type"), value("resource")), ("client_credentials", SERVER));
    let (message, signature) = value("client_assertion").rsplit_once('.').unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
    let public = ring::signature::UnparsedPublicKey::new(
        &ring::signature::ECDSA_P256_SHA256_FIXED,
        pair.public_key().as_ref(),
    );
    public.verify(message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(message.split_once('.').unwrap().1).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(
        (&claims["iss"], &claims["sub"], &claims["aud"]),
        (&json!("mine"), &json!("mine"), &json!(ISSUER))
    );
}

#[test]
fn an_invalid_key_is_refused_and_not_shown() {
    for text in ["", "hunter2", "-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----"] {
        let error = SigningKey::from_pem(&SecretText::plain(text)).err().unwrap();
        assert!(!error.to_string().contains("hunter2"));
    }
    assert!(SigningKey::from_pem(&pem(b"not der")).is_err());
}

#[tokio::test]
async fn an_assertion_is_made_for_issuer_and_resource() {
    let world = World::new().configured("mine", None).issues(&["t1"]);
    let authorizer =
        world.authorizer_at(SERVER, None).with_method(AuthorizationMethod::Assertion(Arc::new(Platform)));
    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    let request = world.net.sent().pop().unwrap();
    assert!(
        request.contains(
            "jwt-bearer&assertion=https%3A%2F%2Fas.example.com%7Chttps%3A%2F%2Fmcp.example.com%2Fmcp"
        )
    );
    assert_eq!(world.person.logins(), 0);
}

#[tokio::test]
async fn short_lived_tokens_are_obtained_again_without_limit_and_without_a_refusal() {
    let world = World::new().configured("mine", None);
    let authorizer =
        world.authorizer_at(SERVER, None).with_method(AuthorizationMethod::Assertion(Arc::new(Platform)));
    for n in 1..=8 {
        world
            .net
            .token(200, json!({"access_token": format!("t{n}"), "token_type": "Bearer", "expires_in": 0}));
    }
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    for n in 2..=8 {
        assert_eq!(token(&authorizer).await, Some(format!("t{n}")));
    }
}

#[tokio::test]
async fn an_identity_provider_exchanges_an_id_token_for_an_assertion() {
    let world = World::new().configured("mine", Some("secret")).issues(&["t1"]);
    let provider = || IdentityProvider {
        token_endpoint: "https://idp.example.com/exchange".into(),
        client_id: "gateway".into(),
        id_token: SecretText::plain("ann"),
        http: world.net.clone(),
    };
    let by_provider = || -> Authorizer {
        world.authorizer_at(SERVER, None).with_method(AuthorizationMethod::Assertion(Arc::new(provider())))
    };
    let failure = by_provider().challenged(401, Some(CHALLENGE)).await.unwrap_err();
    assert_eq!(failure, OAuthError::LoginFailed(AuthorizeError::NoAssertion));

    let id_jag = "urn:ietf:params:oauth:token-type:id-jag";
    let answer = json!({"access_token": "jag", "issued_token_type": id_jag, "token_type": "N_A"});
    world.net.page("https://idp.example.com/exchange", answer);
    world.net.sent();
    assert_eq!(by_provider().challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    let sent = world.net.sent();
    assert!(
        sent[2]
            .contains("audience=https%3A%2F%2Fas.example.com&resource=https%3A%2F%2Fmcp.example.com%2Fmcp")
    );
    assert!(sent[3].contains("assertion=jag") && sent[3].ends_with("Basic bWluZTpzZWNyZXQ="));
}

#[test]
fn the_authorizers_futures_are_send() {
    fn check<T: Send>(_: &T) {}
    let authorizer = World::new().authorizer();
    check(&authorizer.bearer());
    check(&authorizer.challenged(401, None));
    check(&authorizer.forget());
}
