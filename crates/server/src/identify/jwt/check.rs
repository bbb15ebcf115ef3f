//! The form of a token, its signature, and what it must say about itself.

use super::SKEW;
use super::keys::Algorithm;
use crate::identify::bearer::MAX_TOKEN;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The head of a token: how it claims to be signed, and by which key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
}

/// The signed part of a token. Its claims are read only after the signature has been checked.
#[derive(Debug)]
pub(super) struct Signed<'a> {
    pub(super) message: &'a str,
    pub(super) signature: Vec<u8>,
    payload: &'a str,
}

fn object(part: &str) -> Result<Map<String, Value>, &'static str> {
    let text = URL_SAFE_NO_PAD.decode(part).map_err(|_| "a part of it is not base64url")?;
    // A claim that stands twice would mean one thing here and another elsewhere.
    toolbooth_wire::strict::check(&text).map_err(|_| "a part of it is no strict JSON")?;
    match serde_json::from_slice(&text) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err("a part of it is no object"),
    }
}

impl Header {
    /// Takes a token apart. Keys that it brings along (`jwk`, `jku`, `x5u`) are not even looked at.
    pub(super) fn read(token: &str) -> Result<(Self, Signed<'_>), &'static str> {
        if token.len() > MAX_TOKEN {
            return Err("it is too long");
        }
        let (message, signature) = token.rsplit_once('.').ok_or("it is no signed token")?;
        let (head, payload) = message.split_once('.').ok_or("it is no signed token")?;
        if payload.contains('.') {
            return Err("it is no signed token");
        }
        let members = object(head)?;
        if members.contains_key("crit") || members.contains_key("b64") {
            return Err("it demands an extension");
        }
        let kind = members.get("typ").map(|kind| kind.as_str().unwrap_or("?").to_ascii_lowercase());
        if kind.is_some_and(|kind| !["jwt", "at+jwt", "application/at+jwt"].contains(&kind.as_str())) {
            return Err("it is for another use");
        }
        let algorithm = members.get("alg").and_then(Value::as_str).and_then(Algorithm::named);
        let algorithm = algorithm.ok_or("its algorithm is not one that is taken")?;
        let kid = match members.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= 256 => Some(kid.clone()),
            Some(_) => return Err("its key id is no text"),
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "its signature is not base64url")?;
        Ok((Self { algorithm, kid }, Signed { message, signature, payload }))
    }
}

impl Signed<'_> {
    /// What the token says.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, &'static str> {
        object(self.payload)
    }
}

/// What a token must say about itself.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
}

impl Expected {
    /// Checks issuer, audience and times; gives the moment at which the token ends.
    pub(super) fn hold(
        &self,
        claims: &Map<String, Value>,
        now: SystemTime,
    ) -> Result<SystemTime, &'static str> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err("it is of another issuer");
        }
        let mine =
            |audience: &Value| audience.as_str().is_some_and(|text| self.audiences.iter().any(|a| a == text));
        let addressed = match claims.get("aud") {
            Some(Value::Array(list)) => list.iter().any(mine),
            Some(audience) => mine(audience),
            None => false,
        };
        if !addressed {
            return Err("it is for another audience");
        }
        let ends = moment(claims, "exp")?.ok_or("it never ends")?;
        if now >= ends + SKEW {
            return Err("it has ended");
        }
        for begins in ["nbf", "iat"] {
            if moment(claims, begins)?.is_some_and(|begins| now + SKEW < begins) {
                return Err("it has not begun");
            }
        }
        Ok(ends + SKEW)
    }
}

fn moment(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, &'static str> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=253_402_300_799.0).contains(seconds));
    let seconds = seconds.ok_or("one of its times is none")?;
    Ok(Some(UNIX_EPOCH + Duration::from_secs_f64(seconds)))
}
