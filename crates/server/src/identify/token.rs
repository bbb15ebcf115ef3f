//! The gateway's own tokens: looked up by their hash, refused when expired or taken back.

use super::Claimed;
use super::refusal::Unidentified;
use async_trait::async_trait;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toolbooth_core::caller::IdentifiedBy;
use toolbooth_core::fault::Problem;
use toolbooth_core::token::{TokenRecord, TokenStanding};
use toolbooth_engine::{Engine, SignIn};

/// Who knows the gateway's own tokens.
#[async_trait]
pub trait TokenBook: Send + Sync {
    /// The token with this text, whether or not it still counts.
    async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem>;

    /// Notes what a signed token said, for calls that run while its user is offline. Does not wait for the write.
    fn note_sign_in(&self, _: SignIn) {}
}

#[async_trait]
impl TokenBook for Engine {
    async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem> {
        self.token(bearer).await
    }

    fn note_sign_in(&self, sign_in: SignIn) {
        let store = self.store().clone();
        tokio::spawn(async move {
            if let Err(error) = store.save_sign_in(sign_in).await {
                tracing::warn!("a sign-in was not kept for later calls: {error}");
            }
        });
    }
}

/// Which of a user's tokens are asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which<'a> {
    /// The one with this id.
    One(&'a str),
    /// All that are live, for what they have in common: one of them was used, and it is not known which.
    Common,
    /// All that are live, together.
    Any,
}

/// What these tokens of a user say now; nothing, if none of them counts any more.
pub(super) fn standing_of(
    user: &str,
    which: Which<'_>,
    tokens: &[TokenRecord],
    now: SystemTime,
) -> Option<Claimed> {
    let now_ms = millis(now);
    let mut live = tokens.iter().filter(|record| {
        record.user == user
            && record.standing(now_ms) == TokenStanding::Live
            && !matches!(which, Which::One(id) if record.id != id)
    });
    let first = live.next()?;
    let mut groups = first.groups.clone();
    let mut persona = first.persona.clone();
    for other in live {
        match which {
            Which::Any => {
                groups.extend(other.groups.iter().cloned());
                persona = persona.filter(|_| other.persona.is_some());
            }
            Which::One(_) | Which::Common => {
                groups.retain(|group| other.groups.contains(group));
                persona = persona.or_else(|| other.persona.clone());
            }
        }
    }
    let identified_by = IdentifiedBy::Token(first.id.as_str().into());
    Some(Claimed { user: user.to_owned(), groups, persona, identified_by, ..Claimed::default() })
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
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
    let now_ms = millis(now);
    let record = found.filter(|record| record.standing(now_ms) == TokenStanding::Live);
    let record = record.ok_or(Unidentified::Refused)?;
    let until = record.expires_ms.and_then(|ms| u64::try_from(ms).ok());
    Ok(Claimed {
        user: record.user,
        groups: record.groups,
        persona: record.persona,
        level: None,
        identified_by: IdentifiedBy::Token(record.id.into()),
        until: until.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
    })
}
