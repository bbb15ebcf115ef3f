//! Tokens in memory.

use crate::StoreError;
use crate::limits::MAX_TOKENS;
use toolbooth_core::token::TokenRecord;

/// Tokens in the order they were created.
#[derive(Debug, Default)]
pub(super) struct TokenTable(Vec<TokenRecord>);

impl TokenTable {
    pub(super) fn add(&mut self, token: TokenRecord) -> Result<(), StoreError> {
        match self.0.iter().find(|kept| kept.id == token.id || kept.hash == token.hash) {
            Some(kept) if *kept == token => return Ok(()),
            Some(_) => return Err(StoreError::Taken { what: "token", name: token.id }),
            None if self.0.len() >= MAX_TOKENS => return Err(StoreError::Full { what: "tokens" }),
            None => self.0.push(token),
        }
        Ok(())
    }

    pub(super) fn by_hash(&self, hash: &[u8; 32]) -> Option<TokenRecord> {
        self.0.iter().find(|token| token.hash == *hash).cloned()
    }

    pub(super) fn all(&self) -> Vec<TokenRecord> {
        self.0.clone()
    }

    pub(super) fn revoke(&mut self, id: &str, at_ms: i64) -> Option<TokenRecord> {
        let token = self.0.iter_mut().find(|token| token.id == id)?;
        *token = token.revoke(at_ms);
        Some(token.clone())
    }

    pub(super) fn purge(&mut self, horizon_ms: i64) {
        let is_over = |end_ms: Option<i64>| end_ms.is_some_and(|end_ms| end_ms < horizon_ms);
        self.0.retain(|token| !is_over(token.revoked_ms) && !is_over(token.expires_ms));
    }
}
