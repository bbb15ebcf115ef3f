//! Signed tokens of an identity provider: whose they are, whether they stand, what they say.

mod check;
mod keys;

pub use keys::{KeySource, Keys};

use super::refusal::Unidentified;
use super::{Claimed, is_name};
use check::{Expected, Header};
use serde_json::{Map, Value};
use std::time::{Duration, SystemTime};
use toolbooth_core::caller::IdentifiedBy;

/// The most groups one token may name.
const MAX_GROUPS: usize = 1000;

/// Which claims of a token hold what. A dot leads into an object, unless a claim has the whole name.
#[derive(Debug, Clone)]
pub struct ClaimNames {
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: String,
    /// The persona, if tokens name one.
    pub persona: Option<String>,
    /// The level of data, if tokens name one.
    pub level: Option<String>,
}

/// Checks signed tokens.
#[derive(Debug)]
pub struct Jwt {
    expected: Expected,
    claims: ClaimNames,
    keys: Keys,
}

impl Jwt {
    /// Takes tokens of this issuer for these audiences, signed by these keys.
    pub fn new(issuer: String, audiences: Vec<String>, claims: ClaimNames, keys: Keys) -> Self {
        Self { expected: Expected { issuer, audiences }, claims, keys }
    }

    /// Whose tokens are taken.
    pub(super) fn issuer(&self) -> &str {
        &self.expected.issuer
    }

    /// Who a token says its bearer is, once everything about it stands.
    pub(super) async fn check(&self, token: &str, now: SystemTime) -> Result<Claimed, Unidentified> {
        let refuse = |why: &'static str| {
            // The reason helps an operator; the token itself is never written anywhere.
            tracing::debug!("a token was refused: {why}");
            Unidentified::Refused
        };
        let (header, signed) = Header::read(token).map_err(refuse)?;
        let candidates = self.keys.find(&header).await?;
        if candidates.is_empty() {
            return Err(refuse("no key of the issuer fits it"));
        }
        if !candidates.iter().any(|key| key.verifies(header.algorithm, &signed)) {
            return Err(refuse("its signature is wrong"));
        }
        let claims = signed.claims().map_err(refuse)?;
        let until = self.expected.hold(&claims, now).map_err(refuse)?;
        self.read(&claims, until).map_err(refuse)
    }

    fn read(&self, claims: &Map<String, Value>, until: SystemTime) -> Result<Claimed, &'static str> {
        let names = &self.claims;
        let text = |name: &Option<String>| match name.as_deref().and_then(|name| claim(claims, name)) {
            None => Ok(None),
            Some(Value::String(text)) if is_name(text) => Ok(Some(text.clone())),
            Some(_) => Err("a claim that must be a text is none"),
        };
        let user = match claim(claims, &names.user) {
            Some(Value::String(user)) if is_name(user) => user.clone(),
            _ => return Err("it names no user"),
        };
        let groups = match claim(claims, &names.groups) {
            None => Vec::new(),
            // `scope` is a list of words by RFC 8693; any other text is one name, which may hold spaces.
            Some(Value::String(words)) if is_scope(&names.groups) => {
                words.split_whitespace().map(str::to_owned).collect()
            }
            Some(Value::String(group)) => vec![group.clone()],
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            }
            Some(_) => return Err("its groups are no list"),
        };
        if groups.len() > MAX_GROUPS {
            return Err("it names too many groups");
        }
        Ok(Claimed {
            user,
            groups,
            persona: text(&names.persona)?,
            level: text(&names.level)?,
            until: Some(until),
            identified_by: IdentifiedBy::SignedToken,
        })
    }
}

/// Whether a claim is a list of words in one text.
fn is_scope(name: &str) -> bool {
    matches!(name.rsplit('.').next(), Some("scope" | "scp"))
}

fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Clocks differ by this much at most.
const SKEW: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
