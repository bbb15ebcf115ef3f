//! Signed tokens (JWTs) of an identity provider: checks signature and claims, and reads the identity.

mod algorithm;
mod check;
mod keys;

pub(super) use algorithm::Algorithm;
pub(super) use keys::survey;
pub use keys::{IssuerKeys, KeySource};

use super::oidc::OidcClient;
use super::refusal::Unidentified;
use super::refusal_reason::RefusalReason;
use super::{ClaimedIdentity, is_name};
use check::{ExpectedClaims, Header, check_id_claims};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use toolbooth_core::caller::IdentifiedBy;

/// Maximum number of groups in a token.
const MAX_GROUPS: usize = 1000;

/// The names of the claims to read. A dot descends into an object, unless a claim has the whole name.
#[derive(Debug, Clone)]
pub struct ClaimNames {
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: String,
    /// The persona, if tokens contain one.
    pub persona: Option<String>,
    /// The compliance level, if tokens contain one.
    pub level: Option<String>,
}

/// Checks signed tokens.
#[derive(Debug)]
pub struct Jwt {
    expected: ExpectedClaims,
    claims: ClaimNames,
    keys: IssuerKeys,
    /// Signs users of the console in, if it is configured.
    console_client: Option<Arc<OidcClient>>,
}

impl Jwt {
    /// Accepts tokens of this issuer for these audiences, signed by these keys.
    pub fn new(issuer: String, audiences: Vec<String>, claims: ClaimNames, keys: IssuerKeys) -> Self {
        Self { expected: ExpectedClaims { issuer, audiences }, claims, keys, console_client: None }
    }

    /// Also signs users of the console in.
    #[must_use]
    pub fn with_console_client(self, client: OidcClient) -> Self {
        Self { console_client: Some(Arc::new(client)), ..self }
    }

    /// The client that signs users of the console in.
    pub(super) fn console_client(&self) -> Option<&Arc<OidcClient>> {
        self.console_client.as_ref()
    }

    /// The issuer whose tokens are accepted.
    pub(super) fn issuer(&self) -> &str {
        &self.expected.issuer
    }

    /// The identity that a token states, after signature, issuer, audience and times have been checked. `of_resource` is
    /// the audience that only the requested resource accepts, besides the configured ones.
    pub(super) async fn check(
        &self,
        token: &str,
        of_resource: Option<&str>,
        now: SystemTime,
    ) -> Result<ClaimedIdentity, Unidentified> {
        let (_, claims) = self.verified(token).await?;
        // A client id may be a URL. The ID tokens of such a client are not for the API.
        let client_id = self.console_client.as_ref().map(|client| client.client_id());
        let of_resource = of_resource.filter(|audience| Some(*audience) != client_id);
        let until = self.expected.hold(&claims, of_resource, now).map_err(Unidentified::Refused)?;
        self.read(&claims, until).map_err(refuse_claim)
    }

    /// The identity that an ID token for the console states. It passes the same checks as other tokens, but it must be
    /// for the console's client. `nonce` is that of the sign-in which has just returned it.
    pub(super) async fn check_id_token(
        &self,
        token: &str,
        nonce: Option<&str>,
        now: SystemTime,
    ) -> Result<ClaimedIdentity, Unidentified> {
        let client =
            self.console_client.as_ref().ok_or_else(|| Unidentified::refused("no client signs users in"))?;
        let (header, claims) = self.verified(token).await?;
        header.check_id_token().map_err(refuse)?;
        let client_id = client.client_id();
        let expected =
            ExpectedClaims { issuer: self.expected.issuer.clone(), audiences: vec![client_id.to_owned()] };
        let until = expected.hold(&claims, None, now).map_err(Unidentified::Refused)?;
        check_id_claims(&claims, client_id, nonce).map_err(Unidentified::Refused)?;
        self.read(&claims, until).map_err(refuse_claim)
    }

    /// The claims of a token, after its signature has been checked.
    async fn verified(&self, token: &str) -> Result<(Header, Map<String, Value>), Unidentified> {
        let (header, signed) = Header::read(token).map_err(refuse)?;
        let candidates = self.keys.find(&header).await?;
        if candidates.is_empty() {
            return Err(Unidentified::Refused(RefusalReason::UnknownKey));
        }
        if !candidates.iter().any(|key| key.verifies(header.algorithm, &signed)) {
            return Err(Unidentified::Refused(RefusalReason::Signature));
        }
        let claims = signed.claims().map_err(refuse)?;
        Ok((header, claims))
    }

    fn read(&self, claims: &Map<String, Value>, until: SystemTime) -> Result<ClaimedIdentity, &'static str> {
        let names = &self.claims;
        let text = |name: &Option<String>| match name.as_deref().and_then(|name| claim(claims, name)) {
            None => Ok(None),
            Some(Value::String(text)) if is_name(text) => Ok(Some(text.clone())),
            Some(_) => Err("a claim that must be a string is not one"),
        };
        let user = match claim(claims, &names.user) {
            Some(Value::String(user)) if is_name(user) => user.clone(),
            _ => return Err("it has no user claim"),
        };
        let groups = match claim(claims, &names.groups) {
            None => Vec::new(),
            // `scope` is a list of words by RFC 8693; any other string is one name, which may contain spaces.
            Some(Value::String(words)) if is_scope(&names.groups) => {
                words.split_whitespace().map(str::to_owned).collect()
            }
            Some(Value::String(group)) => vec![group.clone()],
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            }
            Some(_) => return Err("its groups claim is not a list"),
        };
        if groups.len() > MAX_GROUPS {
            return Err("it has too many groups");
        }
        Ok(ClaimedIdentity {
            user,
            groups,
            persona: text(&names.persona)?,
            level: text(&names.level)?,
            until: Some(until),
            identified_by: IdentifiedBy::SignedToken,
        })
    }
}

fn refuse(why: &'static str) -> Unidentified {
    Unidentified::Refused(RefusalReason::Malformed(why))
}

fn refuse_claim(why: &'static str) -> Unidentified {
    Unidentified::Refused(RefusalReason::Claim(why))
}

/// Whether a claim is a space-separated list.
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

/// Tolerated clock difference.
pub(super) const SKEW: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
