//! Tokens issued by the gateway: looked up by their hash, rejected if expired or revoked.

use super::ClaimedIdentity;
use super::refusal::Unidentified;
use async_trait::async_trait;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toolbooth_core::caller::IdentifiedBy;
use toolbooth_core::clock::{Clock, unix_ms};
use toolbooth_core::fault::Problem;
use toolbooth_core::token::{TokenRecord, TokenStatus};
use toolbooth_engine::{BearerTokens, SignInRecord};

/// Looks up the tokens that the gateway issued.
#[async_trait]
pub trait TokenBook: Send + Sync {
    /// The clock by which credentials expire.
    fn clock(&self) -> &Clock;

    /// The token with this text, even if it is no longer valid.
    async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem>;

    /// Records the claims of a signed token, for calls that run while its user is offline. Does not wait for the write.
    fn note_sign_in(&self, _: SignInRecord) {}
}

#[async_trait]
impl TokenBook for BearerTokens {
    fn clock(&self) -> &Clock {
        self.clock()
    }

    async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem> {
        self.find(bearer).await
    }

    fn note_sign_in(&self, sign_in: SignInRecord) {
        self.note_sign_in(sign_in);
    }
}

/// Which of a user's tokens to consider.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenSelection<'a> {
    /// The one with this id.
    One(&'a str),
    /// The rights that all valid tokens have in common: one of them was used, but it is not known which.
    Common,
    /// The rights of all valid tokens together.
    Any,
}

/// The identity that these tokens of a user give now; `None` if none of them is valid.
pub(super) fn identity_of(
    user: &str,
    which: TokenSelection<'_>,
    tokens: &[TokenRecord],
    now: SystemTime,
) -> Option<ClaimedIdentity> {
    let now_ms = unix_ms(now);
    let mut live = tokens.iter().filter(|record| {
        record.user == user
            && record.status(now_ms) == TokenStatus::Live
            && !matches!(which, TokenSelection::One(id) if record.id != id)
    });
    let first = live.next()?;
    let mut groups = first.groups.clone();
    let mut persona = first.persona.clone();
    for other in live {
        match which {
            TokenSelection::Any => {
                groups.extend(other.groups.iter().cloned());
                persona = persona.filter(|_| other.persona.is_some());
            }
            TokenSelection::One(_) | TokenSelection::Common => {
                groups.retain(|group| other.groups.contains(group));
                persona = persona.or_else(|| other.persona.clone());
            }
        }
    }
    let identified_by = IdentifiedBy::Token(first.id.as_str().into());
    Some(ClaimedIdentity {
        user: user.to_owned(),
        groups,
        persona,
        identified_by,
        ..ClaimedIdentity::default()
    })
}

/// The identity that a token gives, if it is valid.
pub(super) async fn check(book: &dyn TokenBook, bearer: &str) -> Result<ClaimedIdentity, Unidentified> {
    let found = book.find(bearer).await.map_err(|problem| {
        tracing::warn!("tokens cannot be looked up: {}", problem.message);
        Unidentified::Unavailable
    })?;
    let now_ms = book.clock().now_ms();
    let record = found.ok_or_else(|| Unidentified::refused("the gateway has not issued it"))?;
    match record.status(now_ms) {
        TokenStatus::Live => {}
        TokenStatus::Expired => return Err(Unidentified::refused("it has expired")),
        TokenStatus::Revoked => return Err(Unidentified::refused("it was revoked")),
    }
    let until = record.expires_ms.and_then(|ms| u64::try_from(ms).ok());
    Ok(ClaimedIdentity {
        user: record.user,
        groups: record.groups,
        persona: record.persona,
        level: None,
        identified_by: IdentifiedBy::Token(record.id.into()),
        until: until.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
    })
}
