//! Bearer tokens: generated here, shown once, stored by their hash.

use super::{Act, AuditLog};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::{Caller, OPERATOR_PREFIX};
use toolbooth_core::clock::{Clock, milliseconds};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::hex::encode as hex;
use toolbooth_core::token::TokenRecord;
use toolbooth_store::{SignInRecord, Store};

/// The prefix by which people and secret scanners recognise a token.
const PREFIX: &str = "tb_";
/// The maximum number of groups of a token.
const MAX_GROUPS: usize = 100;
/// The longest name of a user, group or persona, and the longest note, in bytes.
const MAX_TEXT: usize = 256;

/// The properties of a new token.
#[derive(Debug, Clone, Default)]
pub struct NewToken {
    /// Its user.
    pub user: String,
    /// The groups of its user.
    pub groups: Vec<String>,
    /// The persona it is bound to.
    pub persona: Option<String>,
    /// A note by its creator.
    pub note: Option<String>,
    /// How long it is valid; `None` until it is revoked.
    pub lasts: Option<Duration>,
}

/// A new token. Its text is not stored anywhere.
pub struct MadeToken {
    /// The text, to be given to its user.
    pub bearer: String,
    /// Its stored record.
    pub record: TokenRecord,
}

fn bad(message: String) -> Problem {
    Problem { code: "token.bad", blame: Blame::Caller, message, hint: None }
}

fn check(what: &str, text: &str) -> Result<(), Problem> {
    let odd = text.trim() != text || text.chars().any(char::is_control);
    if text.is_empty() || text.len() > MAX_TEXT || odd {
        return Err(bad(format!("{what} must have 1 to {MAX_TEXT} bytes and no spaces at its ends")));
    }
    Ok(())
}

/// The tokens that the gateway issued.
pub struct BearerTokens {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    audit: Arc<AuditLog>,
}

impl std::fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerTokens")
    }
}

impl BearerTokens {
    pub(crate) fn new(clock: Arc<Clock>, store: Arc<dyn Store>, audit: Arc<AuditLog>) -> Self {
        Self { clock, store, audit }
    }

    /// The clock by which the tokens expire.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Creates a token. It is returned only after its creation is in the audit.
    pub async fn create(&self, new: NewToken, by: &Caller) -> Result<MadeToken, Problem> {
        let NewToken { user, groups, persona, note, lasts } = new;
        check("a user", &user)?;
        if user.starts_with(OPERATOR_PREFIX) {
            return Err(bad(format!(
                "a token cannot be for a user whose name begins with `{OPERATOR_PREFIX}`"
            )));
        }
        groups.iter().try_for_each(|group| check("a group", group))?;
        persona.iter().try_for_each(|persona| check("a persona", persona))?;
        note.iter().try_for_each(|note| check("a note", note))?;
        if groups.len() > MAX_GROUPS {
            return Err(bad(format!("a token can have at most {MAX_GROUPS} groups")));
        }
        let (mut secret, mut id) = ([0_u8; 32], [0_u8; 5]);
        let filled = getrandom::fill(&mut secret).and_then(|()| getrandom::fill(&mut id));
        filled.map_err(|_| Problem {
            code: "token.no-randomness",
            blame: Blame::Gateway,
            message: "the system provides no random numbers for a new token".into(),
            hint: None,
        })?;
        let bearer = format!("{PREFIX}{}", hex(&secret));
        let created_ms = self.clock.now_ms();
        let lasts_ms = lasts.map(milliseconds);
        let record = TokenRecord {
            id: hex(&id),
            hash: TokenRecord::hash_of(&bearer),
            user,
            groups,
            persona,
            note,
            created_ms,
            expires_ms: lasts_ms.map(|lasts| created_ms.saturating_add(lasts)),
            revoked_ms: None,
        };
        self.store.add_token(record.clone()).await.map_err(|error| Problem::of(&error))?;
        if let Err(problem) = self.audit_token(&record, by, "created").await {
            // It was never returned, so it must not stay valid.
            let _ = self.store.revoke_token(&record.id, self.clock.now_ms()).await;
            return Err(problem);
        }
        Ok(MadeToken { bearer, record })
    }

    /// The token with this text, also if it is no longer valid.
    pub async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem> {
        let hash = TokenRecord::hash_of(bearer);
        self.store.token_by_hash(&hash).await.map_err(|error| Problem::of(&error))
    }

    /// Every token, oldest first.
    pub async fn list(&self) -> Result<Vec<TokenRecord>, Problem> {
        self.store.tokens().await.map_err(|error| Problem::of(&error))
    }

    /// Revokes a token permanently; `None` if there is no such token.
    pub async fn revoke(&self, id: &str, by: &Caller) -> Result<Option<TokenRecord>, Problem> {
        let revoked =
            self.store.revoke_token(id, self.clock.now_ms()).await.map_err(|error| Problem::of(&error))?;
        if let Some(record) = &revoked {
            self.audit_token(record, by, "revoked").await?;
        }
        Ok(revoked)
    }

    /// Stores the claims of a signed token, for calls that run while its user is offline. Does not wait for the write.
    pub fn note_sign_in(&self, sign_in: SignInRecord) {
        let store = self.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.save_sign_in(sign_in).await {
                tracing::warn!("a sign-in could not be stored for later calls: {error}");
            }
        });
    }

    async fn audit_token(&self, record: &TokenRecord, by: &Caller, outcome: &str) -> Result<(), Problem> {
        let groups = record.groups.join(",");
        let expires = record.expires_ms.map(|at_ms| at_ms.to_string());
        let mut details = vec![("token", record.id.as_str()), ("groups", groups.as_str())];
        details.extend(record.persona.as_deref().map(|persona| ("persona", persona)));
        details.extend(expires.as_deref().map(|expires| ("expires_ms", expires)));
        let act = Act { user: Some(&record.user), ..Act::new(AuditKind::Token, &by.user, outcome) };
        self.audit.record_act(act.with(&details)).await
    }
}
