//! Renews the identity of a console session whose user signed in at an identity provider that gives refresh tokens.
//!
//! Shortly before the ID token of a session expires, the next request exchanges the refresh token for a new one, so the
//! groups of a session are never older than its ID token. One request at a time does that, on all gateways together:
//! many providers accept a refresh token once, and end the sign-in if it comes twice. If the provider refuses, the
//! session ends.

use super::RestState;
use super::extract::run_to_completion;
use crate::identify::Unidentified;
use crate::identify::oidc::{LoginError, ProviderTokens};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::time::sleep;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::clock::unix_ms;
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_core::secret::SecretText;
use toolbooth_engine::{Act, ConsoleSession, RenewableIdToken, SessionCredential, SessionUse};

/// An ID token is renewed if it expires within this time. It includes the tolerance for different clocks.
const RENEW_BEFORE_MS: i64 = 90_000;
/// The tolerance for different clocks, by which an ID token is accepted longer than it says.
const TOLERANCE_MS: i64 = 60_000;
/// How often a write of new tokens is repeated if the store fails.
const MAX_WRITE_REPEATS: usize = 2;
/// The pause before such a write is repeated.
const WRITE_PAUSE: Duration = Duration::from_millis(200);
/// How often a request looks whether another one has renewed the session.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many times it looks.
const MAX_LOOKS: usize = 30;

/// The outcome of a renewal.
enum RenewalOutcome {
    /// The session has a new ID token.
    Renewed(Box<ConsoleSession>),
    /// Another request renews it, or has just failed to.
    Elsewhere,
    /// The provider cannot be reached.
    Unreachable,
    /// The session has ended.
    Ended,
}

/// The credential of a new session, and when the session has to end with it. `expires` is the end of the ID token.
pub(crate) fn session_credential(
    tokens: ProviderTokens,
    expires: Option<SystemTime>,
) -> (SessionCredential, Option<SystemTime>) {
    let ProviderTokens { id_token, refresh_token } = tokens;
    match (refresh_token, expires) {
        (Some(refresh_token), Some(expires)) => {
            let expires_ms = unix_ms(expires);
            (SessionCredential::Renewable(RenewableIdToken { id_token, refresh_token, expires_ms }), None)
        }
        (_, expires) => (SessionCredential::IdToken(id_token), expires),
    }
}

/// The session, with a new ID token if its own has expired or is about to.
pub(super) async fn renewed(
    rest: &RestState,
    session: ConsoleSession,
) -> Result<ConsoleSession, Unidentified> {
    let SessionCredential::Renewable(tokens) = &session.credential else { return Ok(session) };
    let left_ms = tokens.expires_ms.saturating_sub(rest.engine().clock().wall_ms());
    if left_ms > RENEW_BEFORE_MS || left_ms > renew_before_ms(tokens) {
        return Ok(session);
    }
    // It runs to its end if the browser leaves: the next refresh token must not be lost.
    let work = renew(rest.clone(), session.clone(), tokens.id_token.clone());
    match run_to_completion(work).await.map_err(unavailable)? {
        RenewalOutcome::Renewed(session) => Ok(*session),
        RenewalOutcome::Ended => Err(Unidentified::Missing),
        RenewalOutcome::Elsewhere | RenewalOutcome::Unreachable if left_ms > 0 => Ok(session),
        RenewalOutcome::Unreachable => Err(Unidentified::Unavailable),
        RenewalOutcome::Elsewhere => await_renewal(rest, &session, &tokens.id_token).await,
    }
}

/// How long before its end an ID token is renewed. One that lasts only briefly is not renewed by each request: two thirds
/// of its lifetime pass first.
fn renew_before_ms(tokens: &RenewableIdToken) -> i64 {
    let Some(issued_ms) = issued_ms(tokens.id_token.expose()) else { return RENEW_BEFORE_MS };
    let lifetime_ms = tokens.expires_ms.saturating_sub(TOLERANCE_MS).saturating_sub(issued_ms).max(0);
    RENEW_BEFORE_MS.min(TOLERANCE_MS + lifetime_ms / 3)
}

/// When an ID token was issued, if it says so. The token of a session was verified before it was stored.
fn issued_ms(id_token: &str) -> Option<i64> {
    let claims = URL_SAFE_NO_PAD.decode(id_token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims.get("iat")?.as_i64()?.checked_mul(1000)
}

/// Renews a session that has this ID token.
async fn renew(
    rest: RestState,
    session: ConsoleSession,
    id_token: SecretText,
) -> Result<RenewalOutcome, Problem> {
    let sessions = &rest.console_sessions;
    let Some(turn) = sessions.begin_renewal(&session).await? else { return Ok(RenewalOutcome::Elsewhere) };
    // Another request may have renewed or ended it before this one had its turn.
    let current = sessions.find(session.secret.expose(), SessionUse::Recheck).await?;
    let outcome = match current {
        None => RenewalOutcome::Ended,
        Some(current) => match unrenewed(&current, &id_token).cloned() {
            None => RenewalOutcome::Renewed(Box::new(current)),
            Some(tokens) => match next_credential(&rest, &session, tokens).await {
                Ok(credential) => {
                    store_credential(&rest, &session, &credential).await?;
                    RenewalOutcome::Renewed(Box::new(ConsoleSession { credential, ..session }))
                }
                // The turn is not ended, so that the provider is not asked again at once.
                Err(LoginError::Unreachable) => return Ok(RenewalOutcome::Unreachable),
                Err(error) => {
                    sessions.end(session.secret.expose()).await?;
                    record_end(&rest, &session.user, error.code()).await;
                    RenewalOutcome::Ended
                }
            },
        },
    };
    sessions.end_renewal(turn).await;
    Ok(outcome)
}

/// The tokens of a session that still has this ID token. Its refresh token may be a later one, which a renewal stored
/// before it failed.
fn unrenewed<'a>(current: &'a ConsoleSession, id_token: &SecretText) -> Option<&'a RenewableIdToken> {
    match &current.credential {
        SessionCredential::Renewable(tokens) if tokens.id_token == *id_token => Some(tokens),
        _ => None,
    }
}

/// Stores the credential of a session, and tries again if the store fails: most providers accept a refresh token once, so
/// the next one must not be lost.
async fn store_credential(
    rest: &RestState,
    session: &ConsoleSession,
    credential: &SessionCredential,
) -> Result<(), Problem> {
    for _ in 0..MAX_WRITE_REPEATS {
        match rest.console_sessions.replace_credential(session, credential).await {
            Ok(()) => return Ok(()),
            Err(problem) => tracing::warn!("new tokens of a session are not stored yet: {}", problem.message),
        }
        sleep(WRITE_PAUSE).await;
    }
    rest.console_sessions.replace_credential(session, credential).await
}

/// Exchanges the refresh token, and checks that the new ID token is for the same user.
async fn next_credential(
    rest: &RestState,
    session: &ConsoleSession,
    tokens: RenewableIdToken,
) -> Result<SessionCredential, LoginError> {
    let authenticator = &rest.front_end.authenticator;
    let client = authenticator.console_client().ok_or(LoginError::NotConfigured)?;
    let exchanged = client.refresh(&tokens.refresh_token).await;
    // A provider may answer without an ID token (OpenID Connect Core 1.0, 12.2). The current one is then used until it
    // expires, and not renewed.
    if exchanged.as_ref().is_err_and(|error| *error == LoginError::BadIdToken)
        && tokens.expires_ms > rest.engine().clock().wall_ms()
    {
        return Ok(SessionCredential::IdToken(tokens.id_token));
    }
    let ProviderTokens { id_token, refresh_token } = exchanged?;
    if let Some(refresh_token) = &refresh_token {
        // The provider may not accept the old refresh token again, so the new one is stored before anything can fail.
        let kept = RenewableIdToken { refresh_token: refresh_token.clone(), ..tokens.clone() };
        let stored = store_credential(rest, session, &SessionCredential::Renewable(kept)).await;
        if let Err(problem) = stored {
            // It is stored with the new ID token, if the store works by then.
            tracing::warn!("the next refresh token of a session is not stored: {}", problem.message);
        }
    }
    let checked = authenticator.check_renewal(id_token.expose(), rest.engine().clock()).await;
    let (user, expires) = checked.map_err(|unidentified| match unidentified {
        Unidentified::Unavailable => LoginError::Unreachable,
        _ => LoginError::BadIdToken,
    })?;
    if *user != *session.user {
        return Err(LoginError::BadIdToken);
    }
    let expires_ms = expires.map(unix_ms).ok_or(LoginError::BadIdToken)?;
    let refresh_token = refresh_token.unwrap_or(tokens.refresh_token);
    Ok(SessionCredential::Renewable(RenewableIdToken { id_token, refresh_token, expires_ms }))
}

/// Waits until another request has renewed the session, which has this ID token.
async fn await_renewal(
    rest: &RestState,
    session: &ConsoleSession,
    id_token: &SecretText,
) -> Result<ConsoleSession, Unidentified> {
    for _ in 0..MAX_LOOKS {
        sleep(LOOK_EVERY).await;
        let found = rest.console_sessions.find(session.secret.expose(), SessionUse::Recheck).await;
        match found.map_err(unavailable)? {
            None => return Err(Unidentified::Missing),
            Some(current) if unrenewed(&current, id_token).is_none() => return Ok(current),
            Some(_) => {}
        }
    }
    Err(Unidentified::Unavailable)
}

/// Writes the audit row of a session that the identity provider did not renew.
async fn record_end(rest: &RestState, user: &str, code: &'static str) {
    let act = Act { code: Some(code), ..Act::new(AuditKind::Session, user, "ended") };
    if let Err(problem) = rest.engine().audit().record_act(act.with(&[("method", "provider")])).await {
        tracing::error!("the end of a session of the console has no audit row: {}", problem.message);
    }
}

fn unavailable(problem: Problem) -> Unidentified {
    tracing::warn!("a session of the console could not be renewed: {}", problem.message);
    Unidentified::Unavailable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_token_is_not_renewed_at_once() {
        let before = |claims: &str, expires_s: i64| {
            let id_token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
            renew_before_ms(&RenewableIdToken {
                id_token: SecretText::expanded("${id_token}", id_token),
                refresh_token: SecretText::expanded("${refresh_token}", "next"),
                expires_ms: expires_s * 1000 + TOLERANCE_MS,
            })
        };
        assert_eq!(before(r#"{"iat":1000}"#, 4600), RENEW_BEFORE_MS);
        assert_eq!(before(r#"{"iat":1000}"#, 1030), TOLERANCE_MS + 10_000);
        assert_eq!(before(r#"{"iat":1000}"#, 900), TOLERANCE_MS);
        assert_eq!(before("{}", 1030), RENEW_BEFORE_MS, "its lifetime is not known");
    }
}
