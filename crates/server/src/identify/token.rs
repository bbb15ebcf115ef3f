//! The gateway's own tokens: looked up by their hash, refused when expired or taken back.

use super::Claimed;
use super::refusal::Unidentified;
use async_trait::async_trait;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toolbooth_core::fault::Problem;
use toolbooth_core::token::{TokenRecord, TokenStanding};
use toolbooth_engine::Engine;

/// Who knows the gateway's own tokens.
#[async_trait]
pub trait TokenBook: Send + Sync {
    /// The token with this text, whether or not it still counts.
    async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem>;
}

#[async_trait]
impl TokenBook for Engine {
    async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem> {
        self.token(bearer).await
    }
}

/// What the tokens of a user that still count say together; nothing, if none does.
pub(super) fn standing_of(user: &str, tokens: &[TokenRecord], now: SystemTime) -> Option<Claimed> {
    let now_ms =
        i64::try_from(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
    let mut live =
        tokens.iter().filter(|token| token.user == user && token.standing(now_ms) == TokenStanding::Live);
    let first = live.next()?;
    let mut groups = first.groups.clone();
    groups.extend(live.flat_map(|token| token.groups.iter().cloned()));
    Some(Claimed { user: user.to_owned(), groups, ..Claimed::default() })
}

/// Whose a token is, if it still counts.
pub(super) async fn check(
    book: &dyn TokenBook,
    bearer: &str,
    now: SystemTime,
) -> Result<Claimed, Unidentified> {
    let found = book.find(bearer).await.map_err(|problem| {
        tracing::warn!("tokens cannot be looked up: {}", problem.message);
        Unidentified::Unavailable
    })?;
    let now_ms = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let record = found.filter(|record| record.standing(now_ms) == TokenStanding::Live);
    let record = record.ok_or(Unidentified::Refused)?;
    let until = record.expires_ms.and_then(|ms| u64::try_from(ms).ok());
    Ok(Claimed {
        user: record.user,
        groups: record.groups,
        persona: record.persona,
        level: None,
        until: until.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
    })
}
