//! Sign-ins in memory.

use super::MemoryStore;
use crate::StoreError;
use crate::sign_ins::{MAX_SIGN_INS, SignInRecord, SignInStore, check_sign_in};
use async_trait::async_trait;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(super) struct SignInTable(HashMap<String, SignInRecord>);

impl SignInTable {
    pub(super) fn purge(&mut self, now_ms: i64) {
        self.0.retain(|_, kept| kept.until_ms >= now_ms);
    }
}

#[async_trait]
impl SignInStore for MemoryStore {
    async fn save_sign_in(&self, sign_in: SignInRecord) -> Result<(), StoreError> {
        check_sign_in(&sign_in)?;
        self.with(|state| {
            let kept = &mut state.sign_ins.0;
            if kept.len() >= MAX_SIGN_INS && !kept.contains_key(&sign_in.user) {
                let oldest = kept.values().min_by_key(|kept| kept.until_ms).map(|kept| kept.user.clone());
                oldest.and_then(|user| kept.remove(&user));
            }
            kept.insert(sign_in.user.clone(), sign_in);
            Ok(())
        })
    }

    async fn sign_in(&self, user: &str) -> Result<Option<SignInRecord>, StoreError> {
        self.with(|state| Ok(state.sign_ins.0.get(user).cloned()))
    }
}
