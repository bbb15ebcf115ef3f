//! The rights of a call that runs later than it was made: looked up again, for the credential it was made with.

use crate::clock::now_ms;
use crate::engine::{Engine, Managed};
use crate::roster::{Absentee, Rights};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::HeldCall;
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, on_tool};
use toolbooth_upstream::ServerState;
use uuid::Uuid;

/// How long an approved call waits for what it needs before it is given up.
const LONGEST_DEFERRAL_MS: i64 = 24 * 3_600_000;

/// Why an approved call does not run now.
#[derive(Debug)]
pub(crate) enum NotNow {
    /// It never will.
    Never(Problem),
    /// It may run later, and stays approved until then.
    Later(Problem),
}

/// Approved calls that wait for something other than a person, and for what.
#[derive(Debug, Default)]
pub(crate) struct Deferred(Mutex<HashMap<Uuid, String>>);

impl Deferred {
    fn map(&self) -> MutexGuard<'_, HashMap<Uuid, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, id: Uuid, problem: &Problem) {
        self.map().insert(id, problem.message.clone());
    }

    pub(crate) fn forget(&self, id: Uuid) {
        self.map().remove(&id);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map().is_empty()
    }

    pub(crate) fn reason(&self, id: Uuid) -> Option<String> {
        self.map().get(&id).cloned()
    }
}

impl Engine {
    /// What an approved call waits for, where it cannot run yet.
    pub fn deferred_for(&self, held: &HeldCall) -> Option<String> {
        self.deferred.reason(held.id)
    }

    /// The rights that the caller of an earlier call has now.
    pub(crate) async fn rights(&self, absentee: Absentee<'_>) -> Rights {
        match self.roster() {
            Some(roster) => roster.rights(absentee).await,
            None => Rights::Unknown(format!("the rights of {} cannot be looked up here", absentee.user)),
        }
    }

    /// The caller of a held call with the rights they have now, if they may still use its tool.
    pub(crate) async fn caller_of(&self, held: &HeldCall) -> Result<Arc<Caller>, NotNow> {
        let caller = match self.rights(Absentee::of_held(held)).await {
            Rights::Known(caller) => caller,
            Rights::Gone => return Err(NotNow::Never(rights_gone(&held.exposed, &held.user))),
            Rights::Unknown(why) => return Err(self.later(held, why)),
        };
        let tools = self.tools_named(&held.server, &held.tool);
        if tools.is_empty() {
            return Err(self.later(held, format!("`{}` is not offered at the moment", held.exposed)));
        }
        match tools.iter().any(|tool| on_tool(&caller, tool) == Permission::Granted) {
            true => Ok(caller),
            false => Err(NotNow::Never(rights_gone(&held.exposed, &held.user))),
        }
    }

    /// Whether the server of a held call is known to be down; it is not asked then.
    pub(crate) fn check_server_of(&self, held: &HeldCall) -> Result<(), NotNow> {
        let servers = self.servers();
        let state = match servers.get(&held.server) {
            Some(Managed::Running { server, .. }) => server.state(),
            Some(Managed::Idle(state)) => state.clone(),
            None => return Ok(()),
        };
        match state {
            ServerState::Connected | ServerState::Disconnected | ServerState::Connecting => Ok(()),
            state => Err(self.later(held, format!("server `{}` is {}", held.server, state.as_str()))),
        }
    }

    fn later(&self, held: &HeldCall, why: String) -> NotNow {
        let since = held.decided_ms.unwrap_or(held.created_ms);
        let problem = |code, more: &str| Problem {
            code,
            blame: Blame::Gateway,
            message: format!("`{}` was approved and {more}: {why}", held.exposed),
            hint: None,
        };
        match now_ms().saturating_sub(since) > LONGEST_DEFERRAL_MS {
            true => NotNow::Never(problem("call.deferred-too-long", "could not run for a day")),
            false => NotNow::Later(problem("call.deferred", "waits")),
        }
    }

    /// The tools that a server has under its own name for one; several where personas have versions of it.
    pub(crate) fn tools_named(&self, server: &ServerName, tool: &str) -> Vec<Arc<Tool>> {
        let catalog = self.catalog();
        let part = catalog.servers().get(server);
        let tools = part.into_iter().flat_map(|part| &part.tools);
        tools.filter(|found| *found.name == *tool).cloned().collect()
    }

    /// The name by which a tool is found again, whatever tools are called now. Which of several versions it means is
    /// the caller's persona to say.
    pub(crate) fn address_of(&self, server: &ServerName, tool: &str) -> String {
        match self.catalog().servers().get(server).is_some_and(|part| part.entry.is_virtual()) {
            true => format!("tool.{tool}"),
            false => format!("mcp.{server}.{tool}"),
        }
    }

    /// The tool of a held call as it is now: the version that was asked about, else the one its caller would call.
    pub(crate) fn tool_of(&self, held: &HeldCall) -> Option<Arc<Tool>> {
        let tools = self.tools_named(&held.server, &held.tool);
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

/// The caller of an earlier call may no longer use its tool.
pub(crate) fn rights_gone(exposed: &str, user: &str) -> Problem {
    Problem {
        code: "call.rights-gone",
        blame: Blame::Caller,
        message: format!("`{exposed}` was not run: {user} may no longer use it"),
        hint: None,
    }
}
