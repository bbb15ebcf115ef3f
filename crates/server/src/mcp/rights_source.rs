//! Looks up the current rights of callers who are not connected, for held calls that run later.

use super::FrontEndState;
use async_trait::async_trait;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_engine::{AbsentCaller, Rights, RightsSource};

#[async_trait]
impl RightsSource for FrontEndState {
    async fn rights(&self, absentee: AbsentCaller<'_>) -> Rights {
        let store = self.engine.store();
        let (tokens, kept) = match (store.tokens().await, store.sign_in(absentee.user).await) {
            (Ok(tokens), Ok(kept)) => (tokens, kept),
            (Err(error), _) | (_, Err(error)) => {
                return Rights::Unknown(format!("the rights of {} cannot be read: {error}", absentee.user));
            }
        };
        match self.authenticator.absent(absentee, &tokens, kept, self.engine.clock()).await {
            Ok(Rights::Known(caller)) => Rights::Known(match absentee.session {
                None => caller,
                Some(session) => Arc::new(Caller { session: Some(session.into()), ..Caller::clone(&caller) }),
            }),
            Ok(rights) => rights,
            // The user may no longer use the persona, or the name is not valid.
            Err(_) => Rights::Gone,
        }
    }
}
