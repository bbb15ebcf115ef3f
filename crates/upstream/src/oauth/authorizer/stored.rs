//! The tokens of a server in its vault: read at the first use, written after each change, deleted on sign-out.

use super::super::guard::UrlGuard;
use super::super::record::{Records, TokenOrigin, TokenSet, token_origin_key};
use super::{Authorizer, Flow, Login, TokenState};
use std::sync::{Arc, OnceLock};

/// The result of reading the vault.
#[derive(PartialEq, Eq)]
pub(super) enum VaultLookup {
    Nothing,
    /// Tokens that were not in memory before and can be used.
    New,
}

/// What another replica has changed in the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultChange {
    /// Nothing that concerns this server.
    Nothing,
    /// There are new tokens that can be used.
    NewTokens,
    /// The tokens were deleted.
    SignedOut,
}

impl Authorizer {
    /// Deletes the tokens and the registration; the next refusal starts from the beginning.
    pub async fn forget(&self) {
        self.cancel_sign_in();
        let mut flow = self.flow.lock().await;
        self.load_tokens().await;
        let records = Records(&*self.vault);
        if let Some(login) = self.login() {
            records.forget_tokens(&login.origin.issuer, &login.origin.resource).await;
            records.forget_client(&login.origin.issuer).await;
        }
        if let Some(server) = &flow.server {
            records.forget_client(&server.issuer).await;
        }
        records.forget_origin(&self.server).await;
        *flow = Flow::default();
        self.with_state(TokenState::retire_login);
    }

    /// Reads the vault again, because another replica has changed it.
    pub async fn follow_vault(&self) -> VaultChange {
        let mut flow = self.flow.lock().await;
        if self.login().is_some() && self.vault.is_deleted(&token_origin_key(&self.server)).await {
            *flow = Flow::default();
            self.with_state(TokenState::retire_login);
            return VaultChange::SignedOut;
        }
        match self.load_tokens().await {
            VaultLookup::New => VaultChange::NewTokens,
            VaultLookup::Nothing => VaultChange::Nothing,
        }
    }

    pub(super) async fn keep(&self, origin: TokenOrigin, tokens: TokenSet) -> Arc<Login> {
        let records = Records(&*self.vault);
        if let Some(old) = self.login().filter(|old| old.origin.issuer != origin.issuer) {
            records.forget_tokens(&old.origin.issuer, &old.origin.resource).await;
        }
        records.keep_tokens(&origin.issuer, &origin.resource, &tokens).await;
        records.keep_origin(&self.server, &origin).await;
        let login = Arc::new(Login { origin, tokens, secrets: OnceLock::new() });
        self.with_state(|state| {
            state.retire_login();
            state.login = Some(login.clone());
        });
        login
    }

    /// Loads the tokens from the vault: from an earlier run, another replica, or a login in another process.
    pub(super) async fn load_tokens(&self) -> VaultLookup {
        let records = Records(&*self.vault);
        let stored = match records.origin(&self.server).await {
            Some(origin) if self.is_mine(&origin) => {
                let tokens = records.tokens(&origin.issuer, &origin.resource).await;
                tokens.map(|tokens| Arc::new(Login { origin, tokens, secrets: OnceLock::new() }))
            }
            _ => None,
        };
        self.with_state(|state| {
            let known = state.login.as_ref().map(|login| &login.tokens);
            let is_new = stored.as_ref().is_some_and(|stored| Some(&stored.tokens) != known);
            state.loaded = true;
            if is_new {
                state.retire_login();
            }
            // If the vault lost its content, the login in memory is kept.
            state.login = stored.or(state.login.take());
            let is_fresh = state.login.as_ref().is_some_and(|login| login.tokens.is_fresh(&self.clock));
            if is_new && is_fresh { VaultLookup::New } else { VaultLookup::Nothing }
        })
    }

    /// Whether a record belongs to this server: its resource and client must match.
    fn is_mine(&self, origin: &TokenOrigin) -> bool {
        let covers =
            UrlGuard::new(&self.server, None).is_ok_and(|guard| guard.is_covered_by(&origin.resource));
        covers && self.entry.client_id.as_ref().is_none_or(|id| id.expose() == origin.client_id)
    }
}
