//! The decision on jobs and tasks.

use super::{Permission, has_persona};
use crate::caller::{Admin, Caller};
use crate::job::{JobDefinition, TaskDefinition};

/// Decides on a job of a manifest: it is shared or belongs to the caller's persona, and the persona is in the job's
/// list. Without a persona, administrators and the owner of the job see it, too.
pub fn on_job(
    caller: &Caller,
    scope: Option<&str>,
    definition: &JobDefinition,
    owner: Option<&str>,
) -> Permission {
    let is_own = owner.is_some_and(|owner| *owner == *caller.user) || caller.admin == Admin::Yes;
    let belongs = scope.is_none_or(|name| has_persona(caller, name));
    let listed = definition.is_for_persona(caller.persona_name());
    match caller.persona {
        None if is_own => Permission::Granted,
        _ if belongs && listed => Permission::Granted,
        _ => Permission::Hidden,
    }
}

/// Decides on the work of one user: a job or task that a request created, a running call, a held call or a dead
/// letter. Only that user and administrators see it.
pub fn on_owned_work(caller: &Caller, owner: &str) -> Permission {
    match *caller.user == *owner || caller.admin == Admin::Yes {
        true => Permission::Granted,
        false => Permission::Hidden,
    }
}

/// Decides on a task of a manifest: it is shared or belongs to the caller's persona.
pub fn on_task(caller: &Caller, scope: Option<&str>, definition: &TaskDefinition) -> Permission {
    let names = [scope, definition.persona.as_deref()];
    let is_admin = caller.admin == Admin::Yes && caller.persona.is_none();
    let belongs = names.into_iter().flatten().all(|name| has_persona(caller, name));
    if belongs || is_admin { Permission::Granted } else { Permission::Hidden }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::DefinitionSource;
    use crate::persona::{Inherit, Persona};
    use std::sync::Arc;

    #[test]
    fn a_job_is_visible_to_the_personas_in_its_list() {
        let body =
            serde_json::json!({ "name": "j", "personas": ["Atlas"], "plan": [{ "id": "a", "tool": "t" }] });
        let job = JobDefinition::read(&body, DefinitionSource::Request).definition.expect("valid");
        let with = |caller: Caller, name: &str| {
            let persona = Persona::new(name, None, Inherit::Shared, None).expect("valid");
            Caller { persona: Some(Arc::new(persona)), ..caller }
        };
        let guest = || Caller::guest("ann", []);
        let cases = [
            (guest(), None, Permission::Hidden),
            (guest(), Some("ann"), Permission::Granted),
            (with(guest(), "atlas"), None, Permission::Granted),
            (with(guest(), "Scribe"), None, Permission::Hidden),
            (Caller::owner("root"), None, Permission::Granted),
            // A persona narrows, also for administrators.
            (with(Caller::owner("root"), "Scribe"), None, Permission::Hidden),
        ];
        for (caller, owner, expected) in cases {
            assert_eq!(on_job(&caller, None, &job, owner), expected, "{caller:?} {owner:?}");
        }
        assert_eq!(on_job(&with(guest(), "Atlas"), Some("Scribe"), &job, None), Permission::Hidden);
        assert_eq!(on_owned_work(&guest(), "bob"), Permission::Hidden);
    }
}
