//! Parses a token and checks its claims.

use super::SKEW;
use super::algorithm::Algorithm;
use crate::identify::bearer::MAX_TOKEN;
use crate::identify::refusal_reason::RefusalReason;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The header of a token: the algorithm and key that it claims to be signed with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    typ: TokenTyp,
}

/// What a token says that it is, in the header `typ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenTyp {
    /// An access token by RFC 9068.
    Access,
    /// Not stated.
    Any,
}

/// The signed parts of a token. Its claims are read only after the signature has been checked.
#[derive(Debug)]
pub(super) struct Signed<'a> {
    pub(super) message: &'a str,
    pub(super) signature: Vec<u8>,
    payload: &'a str,
}

fn object(part: &str) -> Result<Map<String, Value>, &'static str> {
    let text = URL_SAFE_NO_PAD.decode(part).map_err(|_| "a part of it is not base64url")?;
    // A repeated claim could be interpreted differently elsewhere.
    toolbooth_wire::strict::check(&text).map_err(|_| "a part of it is not strict JSON")?;
    match serde_json::from_slice(&text) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err("a part of it is not an object"),
    }
}

impl Header {
    /// Splits a token. Keys inside the token (`jwk`, `jku`, `x5u`) are ignored.
    pub(super) fn read(token: &str) -> Result<(Self, Signed<'_>), &'static str> {
        if token.len() > MAX_TOKEN {
            return Err("it is too long");
        }
        let (message, signature) = token.rsplit_once('.').ok_or("it is not a signed token")?;
        let (head, payload) = message.split_once('.').ok_or("it is not a signed token")?;
        if payload.contains('.') {
            return Err("it is not a signed token");
        }
        let members = object(head)?;
        if members.contains_key("crit") || members.contains_key("b64") {
            return Err("it requires an extension");
        }
        let typ = members.get("typ").map(|typ| typ.as_str().unwrap_or("?").to_ascii_lowercase());
        let typ = match typ.as_deref() {
            None | Some("jwt") => TokenTyp::Any,
            Some("at+jwt" | "application/at+jwt") => TokenTyp::Access,
            Some(_) => return Err("its `typ` is not that of an access token"),
        };
        let algorithm = members.get("alg").and_then(Value::as_str).and_then(Algorithm::named);
        let algorithm = algorithm.ok_or("its algorithm is not accepted")?;
        let kid = match members.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= 256 => Some(kid.clone()),
            Some(_) => return Err("its key id is not a string"),
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "its signature is not base64url")?;
        Ok((Self { algorithm, kid, typ }, Signed { message, signature, payload }))
    }

    /// Refuses a token that says that it is an access token.
    pub(super) fn check_id_token(&self) -> Result<(), &'static str> {
        match self.typ {
            TokenTyp::Any => Ok(()),
            TokenTyp::Access => Err("it is an access token, not an ID token"),
        }
    }
}

impl Signed<'_> {
    /// The claims of the token.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, &'static str> {
        object(self.payload)
    }
}

/// The issuer and audiences that a token must state.
#[derive(Debug)]
pub(super) struct ExpectedClaims {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
}

impl ExpectedClaims {
    /// Checks issuer, audience and times; returns when the token expires. `of_resource` is the audience that only the
    /// requested resource accepts.
    pub(super) fn hold(
        &self,
        claims: &Map<String, Value>,
        of_resource: Option<&str>,
        now: SystemTime,
    ) -> Result<SystemTime, RefusalReason> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(RefusalReason::Issuer);
        }
        let accepted = |text: &str| of_resource == Some(text) || self.audiences.iter().any(|a| a == text);
        let mine = |audience: &Value| audience.as_str().is_some_and(accepted);
        let addressed = match claims.get("aud") {
            Some(Value::Array(list)) => list.iter().any(mine),
            Some(audience) => mine(audience),
            None => false,
        };
        if !addressed {
            return Err(RefusalReason::audience(claims.get("aud")));
        }
        let ends = moment(claims, "exp")?.ok_or(RefusalReason::Claim("it has no `exp`"))?;
        if now >= ends + SKEW {
            return Err(RefusalReason::Expired);
        }
        for begins in ["nbf", "iat"] {
            if moment(claims, begins)?.is_some_and(|begins| now + SKEW < begins) {
                return Err(RefusalReason::NotYetValid);
            }
        }
        Ok(ends + SKEW)
    }
}

/// Checks the claims that only ID tokens have (OpenID Connect Core 1.0, 3.1.3.7). A token for several audiences must name
/// the client that requested it. `nonce` is that of the sign-in which has just returned the token.
pub(super) fn check_id_claims(
    claims: &Map<String, Value>,
    client_id: &str,
    nonce: Option<&str>,
) -> Result<(), RefusalReason> {
    let is_for_many = claims.get("aud").and_then(Value::as_array).is_some_and(|list| list.len() > 1);
    match claims.get("azp") {
        None if is_for_many => {
            return Err(RefusalReason::Claim("it is for several audiences and has no `azp`"));
        }
        Some(party) if party != client_id => return Err(RefusalReason::Claim("another client requested it")),
        _ => {}
    }
    match nonce {
        Some(nonce) if claims.get("nonce").and_then(Value::as_str) != Some(nonce) => {
            Err(RefusalReason::Claim("it is not from this sign-in: its `nonce` is another one"))
        }
        _ => Ok(()),
    }
}

fn moment(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, RefusalReason> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=253_402_300_799.0).contains(seconds));
    let seconds = seconds.ok_or(RefusalReason::Claim("one of its times is not valid"))?;
    Ok(Some(UNIX_EPOCH + Duration::from_secs_f64(seconds)))
}
