//! A client's own signing key, for authorization servers that accept signatures instead of secrets.

use super::error::OAuthError;
use super::login::random_text;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::secret::SecretText;

/// Lifetime of an assertion. It is used immediately; a minute allows for clock differences.
const ASSERTION_SECONDS: u64 = 60;

/// A private key that signs with ES256 or RS256.
pub struct SigningKey(Pair);

enum Pair {
    Es256(Box<EcdsaKeyPair>),
    Rs256(Box<RsaKeyPair>),
}

/// The text is not a valid signing key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the signing key is not a PKCS#8 PEM of a P-256 or RSA key")]
pub struct SigningKeyError;

impl Fault for SigningKeyError {
    fn code(&self) -> &'static str {
        "oauth.bad-key"
    }
    fn blame(&self) -> Blame {
        Blame::Gateway
    }
    fn hint(&self) -> Option<String> {
        Some("`openssl pkcs8 -topk8 -nocrypt -in key.pem` converts older forms".into())
    }
}

impl SigningKey {
    /// Parses a PKCS#8 key in PEM format.
    pub fn from_pem(pem: &SecretText) -> Result<Self, SigningKeyError> {
        let body = pem.expose().trim().strip_prefix("-----BEGIN PRIVATE KEY-----");
        let body =
            body.and_then(|body| body.strip_suffix("-----END PRIVATE KEY-----")).ok_or(SigningKeyError)?;
        let compact: String = body.split_whitespace().collect();
        let der = STANDARD.decode(compact).map_err(|_| SigningKeyError)?;
        let random = SystemRandom::new();
        match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random) {
            Ok(pair) => Ok(Self(Pair::Es256(Box::new(pair)))),
            Err(_) => {
                let pair = RsaKeyPair::from_pkcs8(&der).map_err(|_| SigningKeyError)?;
                Ok(Self(Pair::Rs256(Box::new(pair))))
            }
        }
    }

    /// A JWT with which the client `id` authenticates to `issuer` now, in seconds since 1970.
    pub(super) fn client_assertion(
        &self,
        id: &str,
        issuer: &str,
        now: u64,
    ) -> Result<SecretText, OAuthError> {
        self.sign(json!({
            "iss": id,
            "sub": id,
            "aud": issuer,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": random_text()?,
        }))
    }

    fn sign(&self, claims: Value) -> Result<SecretText, OAuthError> {
        let algorithm = match &self.0 {
            Pair::Es256(_) => "ES256",
            Pair::Rs256(_) => "RS256",
        };
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = json!({"alg": algorithm, "typ": "JWT"});
        let message = format!("{}.{}", encode(&head), encode(&claims));
        let random = SystemRandom::new();
        // Signing fails only if randomness is unavailable.
        let signature = match &self.0 {
            Pair::Es256(pair) => {
                let signature =
                    pair.sign(&random, message.as_bytes()).map_err(|_| OAuthError::NoRandomness)?;
                signature.as_ref().to_vec()
            }
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature)
                    .map_err(|_| OAuthError::NoRandomness)?;
                signature
            }
        };
        let signed = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
        Ok(SecretText::expanded("${client_assertion}", signed))
    }
}
