//! The rights of a caller whose call runs later than it was made: looked up again, for the same credential.

use super::Approvals;
use crate::rights_source::{AbsentCaller, Rights, rights_gone};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::HeldCall;
use toolbooth_core::permission::{Permission, on_tool};
use toolbooth_upstream::ServerState;
use uuid::Uuid;

/// How long an approved call may be deferred before it fails.
const LONGEST_DEFERRAL_MS: i64 = 24 * 3_600_000;

/// Why an approved call does not run now.
#[derive(Debug)]
pub(super) enum CannotRun {
    /// It can never run.
    Never(Problem),
    /// It may run later, and stays approved.
    Later(Problem),
}

/// Approved calls that wait for something other than a decision, and the reasons.
#[derive(Debug, Default)]
pub(super) struct DeferredCalls(Mutex<HashMap<Uuid, String>>);

impl DeferredCalls {
    fn map(&self) -> MutexGuard<'_, HashMap<Uuid, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, id: Uuid, problem: &Problem) {
        self.map().insert(id, problem.message.clone());
    }

    pub(super) fn forget(&self, id: Uuid) {
        self.map().remove(&id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map().is_empty()
    }

    pub(super) fn reason(&self, id: Uuid) -> Option<String> {
        self.map().get(&id).cloned()
    }
}

impl Approvals {
    /// Why an approved call cannot run yet; `None` if it is not deferred.
    pub fn deferred_for(&self, held: &HeldCall) -> Option<String> {
        self.deferred.reason(held.id)
    }

    /// The caller of a held call with their current rights, if they may still use its tool. `folder` is the folder of
    /// the client that waits for the call. It does not come from the server, whose name may belong to a server of
    /// another folder by now; so a call of a folder's server fails if its client is gone.
    pub(super) async fn caller_of(
        &self,
        held: &HeldCall,
        folder: Option<Arc<str>>,
    ) -> Result<Arc<Caller>, CannotRun> {
        let caller = match self.rights_source.rights(AbsentCaller::of_held(held)).await {
            Rights::Known(caller) => caller,
            Rights::Gone => return Err(CannotRun::Never(rights_gone(&held.exposed, &held.user))),
            Rights::Unknown(why) => return Err(self.later(held, why)),
        };
        let tools = self.catalog.tools_named(&held.server, &held.tool);
        if tools.is_empty() {
            return Err(self.later(held, format!("`{}` is not offered at the moment", held.exposed)));
        }
        let caller = Arc::new(Caller { folder, ..Caller::clone(&caller) });
        match tools.iter().any(|tool| on_tool(&caller, tool) == Permission::Granted) {
            true => Ok(caller),
            false => Err(CannotRun::Never(rights_gone(&held.exposed, &held.user))),
        }
    }

    /// Whether the server of a held call may be called: not if it is known to be down.
    pub(super) fn check_server_of(&self, held: &HeldCall) -> Result<(), CannotRun> {
        let Some(state) = self.servers.state(&held.server) else { return Ok(()) };
        match state {
            ServerState::Connected | ServerState::Disconnected | ServerState::Connecting => Ok(()),
            state => {
                let why = format!("server `{}` is not connected (state `{}`)", held.server, state.as_str());
                Err(self.later(held, why))
            }
        }
    }

    fn later(&self, held: &HeldCall, why: String) -> CannotRun {
        let since = held.decided_ms.unwrap_or(held.created_ms);
        let problem = |code, more: &str| Problem {
            code,
            blame: Blame::Gateway,
            message: format!("`{}` is approved but {more}: {why}", held.exposed),
            hint: None,
        };
        match self.clock.now_ms().saturating_sub(since) > LONGEST_DEFERRAL_MS {
            true => CannotRun::Never(problem("call.deferred-too-long", "could not run for a day")),
            false => CannotRun::Later(problem("call.deferred", "waits")),
        }
    }

    /// The current tool of a held call: the version that was asked about, else the one that its caller would call.
    pub(super) fn tool_of(&self, held: &HeldCall) -> Option<Arc<Tool>> {
        let tools = self.catalog.tools_named(&held.server, &held.tool);
        let persona = held.persona.as_deref();
        let is_for = |tool: &&Arc<Tool>| {
            tool.bounds.as_deref().is_none_or(|bounds| {
                bounds.only_for.as_deref().is_none_or(|only| Some(only) == persona)
                    && !bounds.shadowed_for.iter().any(|shadowed| Some(&**shadowed) == persona)
            })
        };
        let same = |tool: &&Arc<Tool>| *tool.digest() == held.digest;
        let chosen = tools.iter().find(|tool| same(tool) && is_for(tool));
        let chosen = chosen.or_else(|| tools.iter().find(is_for)).or_else(|| tools.iter().find(same));
        chosen.cloned()
    }
}
