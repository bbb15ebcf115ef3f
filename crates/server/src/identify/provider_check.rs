//! Asks the identity provider whether it fits the configuration, for `toolbooth doctor`: metadata, keys, endpoints, clock.

use super::issuer;
use super::jwt::{Algorithm, SKEW, survey};
use super::oidc::OidcClient;
use serde::Deserialize;
use std::fmt::Display;
use std::time::{Duration, SystemTime};
use toolbooth_upstream::oauth::{HttpFetch, NetworkReach};

/// A clock difference from which on tokens may soon be refused.
const NOTABLE_SKEW: Duration = Duration::from_secs(20);
/// The path of the metadata below the issuer.
const METADATA: &str = "/.well-known/openid-configuration";

/// The provider and what the gateway needs of it.
#[derive(Debug)]
pub struct ProviderToCheck<'a> {
    /// The setting `auth.jwt.issuer`.
    pub issuer: &'a str,
    /// The setting `auth.jwt.jwks_url`.
    pub jwks_url: Option<&'a str>,
    /// The setting `auth.jwt.scopes`.
    pub scopes: &'a [String],
    /// The client that signs users of the console in, if there is one.
    pub console_client: Option<&'a OidcClient>,
    /// The clock by which tokens are checked.
    pub now: fn() -> SystemTime,
}

/// A result of the check.
#[derive(Debug, PartialEq, Eq)]
pub struct ProviderFinding {
    /// How serious it is.
    pub level: ProviderFindingLevel,
    /// The result, for people.
    pub message: String,
    /// What to do.
    pub fix: Option<String>,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderFindingLevel {
    /// In order.
    Good,
    /// Some tokens or sign-ins may be refused.
    Warning,
    /// Tokens or sign-ins are refused.
    Error,
}

/// The metadata that is compared with the settings.
#[derive(Deserialize)]
struct CheckedMetadata {
    jwks_uri: Option<String>,
    scopes_supported: Option<Vec<String>>,
    id_token_signing_alg_values_supported: Option<Vec<String>>,
}

/// The findings so far.
#[derive(Default)]
struct Findings(Vec<ProviderFinding>);

impl Findings {
    fn add(&mut self, level: ProviderFindingLevel, message: String, fix: impl Display) {
        let fix = Some(fix.to_string()).filter(|fix| !fix.is_empty());
        self.0.push(ProviderFinding { level, message, fix });
    }

    fn error(&mut self, message: String, fix: impl Display) {
        self.add(ProviderFindingLevel::Error, message, fix);
    }
}

impl ProviderToCheck<'_> {
    /// Asks the provider.
    pub async fn check(&self, http: &dyn HttpFetch) -> Vec<ProviderFinding> {
        let mut findings = Findings::default();
        let issuer = self.issuer;
        let mut keys = self.jwks_url.map(|url| (url.to_owned(), NetworkReach::Configured));
        let mut sent = None;
        if keys.is_none() || self.console_client.is_some() {
            match issuer::dated_metadata::<CheckedMetadata>(http, issuer).await {
                Ok(found) => {
                    sent = found.sent.map(|sent| (sent, (self.now)()));
                    keys = keys.or_else(|| self.keys_in(&found.content, &mut findings));
                    self.check_metadata(&found.content, &mut findings);
                    self.check_client(&mut findings).await;
                }
                Err(why) => findings.error(
                    format!("the metadata of the identity provider {issuer} cannot be used: {why}"),
                    format!(
                        "`auth.jwt.issuer` must be the value of `issuer` at {}{METADATA}, which this machine must reach",
                        issuer.trim_end_matches('/')
                    ),
                ),
            }
        }
        if let Some((url, reach)) = keys {
            let dated = self.check_keys(http, (&url, reach), &mut findings).await;
            sent = sent.or(dated);
        }
        if let Some((theirs, ours)) = sent {
            check_clocks(theirs, ours, &mut findings);
        }
        findings.0
    }

    /// The URL of the keys in the metadata.
    fn keys_in(&self, metadata: &CheckedMetadata, findings: &mut Findings) -> Option<(String, NetworkReach)> {
        let named = metadata.jwks_uri.as_deref().ok_or_else(|| "it has no `jwks_uri`".to_owned());
        match named.and_then(|url| issuer::endpoint(self.issuer, "jwks_uri", url)) {
            Ok((url, reach)) => Some((url.to_string(), reach)),
            Err(why) => {
                let message =
                    format!("the metadata of the identity provider {} cannot be used: {why}", self.issuer);
                findings.error(message, "set `auth.jwt.jwks_url` to the URL of its keys");
                None
            }
        }
    }

    /// Compares scopes and algorithms.
    fn check_metadata(&self, metadata: &CheckedMetadata, findings: &mut Findings) {
        if let Some(supported) = &metadata.scopes_supported {
            let of_console = self.console_client.map(OidcClient::scopes).unwrap_or_default();
            let settings = [("auth.jwt.scopes", self.scopes), ("auth.console.scopes", of_console)];
            for (setting, scopes) in settings {
                for scope in scopes.iter().filter(|scope| !supported.contains(scope)) {
                    findings.add(
                        ProviderFindingLevel::Warning,
                        format!("the identity provider does not list the scope `{scope}` of `{setting}`"),
                        format!("define the scope at the provider, or remove it from `{setting}`"),
                    );
                }
            }
        }
        let signing = metadata.id_token_signing_alg_values_supported.as_deref().unwrap_or_default();
        let is_accepted = |name: &String| Algorithm::named(name).is_some();
        if self.console_client.is_some() && !signing.is_empty() && !signing.iter().any(is_accepted) {
            let named: String = signing.join(", ").chars().filter(|c| !c.is_control()).take(100).collect();
            findings.error(
                format!("the identity provider signs ID tokens with no accepted algorithm: {named}"),
                ACCEPTED,
            );
        }
    }

    /// Checks the endpoints for sign-ins to the console.
    async fn check_client(&self, findings: &mut Findings) {
        let Some(client) = self.console_client else { return };
        match client.check_endpoints().await {
            Ok(()) => findings.add(
                ProviderFindingLevel::Good,
                "the identity provider has the endpoints for signing in to the console".into(),
                "",
            ),
            Err(why) => findings.error(
                format!("users cannot sign in to the console at the identity provider: {why}"),
                "enable the authorization code flow with PKCE (S256) at the provider, or remove `auth.console`",
            ),
        }
    }

    /// Checks the keys; returns when they were sent, by the provider's clock and by ours.
    async fn check_keys(
        &self,
        http: &dyn HttpFetch,
        (url, reach): (&str, NetworkReach),
        findings: &mut Findings,
    ) -> Option<(SystemTime, SystemTime)> {
        match survey(http, url, reach).await {
            Ok(found) => {
                let (keys, issuer) = (found.content, self.issuer);
                let algorithms: Vec<&str> = keys.algorithms.into_iter().collect();
                match keys.usable {
                    0 => findings.error(
                        format!("none of the {} keys at {url} can verify tokens", keys.published),
                        ACCEPTED,
                    ),
                    usable => findings.add(
                        ProviderFindingLevel::Good,
                        format!(
                            "the identity provider {issuer} answers; usable keys: {usable} of {} ({})",
                            keys.published,
                            algorithms.join(", ")
                        ),
                        "",
                    ),
                }
                found.sent.map(|sent| (sent, (self.now)()))
            }
            Err(why) => {
                findings.error(
                    format!("the keys of the identity provider at {url} cannot be fetched: {why}"),
                    "without keys every token is refused; check the URL, and that this machine can reach it",
                );
                None
            }
        }
    }
}

/// How to get usable signatures.
const ACCEPTED: &str =
    "let the provider sign with RS256 to PS512 (keys of 2048 bits or more), ES256, ES384 or EdDSA";

/// Compares the clock of the provider with that of this machine.
fn check_clocks(theirs: SystemTime, ours: SystemTime, findings: &mut Findings) {
    let (difference, direction) = match theirs.duration_since(ours) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    let level = match difference {
        difference if difference > SKEW => ProviderFindingLevel::Error,
        difference if difference > NOTABLE_SKEW => ProviderFindingLevel::Warning,
        _ => return,
    };
    let (seconds, tolerated) = (difference.as_secs(), SKEW.as_secs());
    let message = format!(
        "the clock of the identity provider is {seconds} s {direction} that of this machine; {tolerated} s are tolerated"
    );
    findings.add(level, message, "set the clocks of both machines by a time server (NTP)");
}

#[cfg(test)]
mod tests;
