//! The directory: groups of users, personas and compliance levels.

use super::refusal::Unidentified;
use super::service::GroupService;
use super::{ClaimedIdentity, is_name};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use toolbooth_core::caller::{
    Admin, Caller, CallerKind, ForwardedHeaders, Groups, HidingRules, OPERATOR_PREFIX,
};
use toolbooth_core::compliance::Levels;
use toolbooth_core::permission::{Permission, on_persona};
use toolbooth_core::persona::{Personas, find, is_same_name};

/// The users, groups, personas and levels of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    /// The groups of each user.
    pub groups_of: HashMap<String, BTreeSet<String>>,
    /// The group whose members administer the gateway.
    pub admin_group: String,
    /// Groups that some rule names. The group service is asked for these only.
    pub named: Vec<Arc<str>>,
    /// A service that knows more group memberships.
    pub service: Option<Arc<GroupService>>,
    /// Personas that callers may select.
    pub personas: Personas,
    /// Compliance levels.
    pub levels: Levels,
    /// The operator's rules, if any of them hides tools.
    pub hiding_rules: Option<Arc<dyn HidingRules>>,
}

/// Whether a new directory changes the rights of any user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryChange {
    /// It does, or may.
    Some,
    /// It does not.
    None,
}

impl Directory {
    /// Whether this directory gives other rights than another one.
    pub(super) fn difference(&self, other: &Self) -> DirectoryChange {
        let same = self.groups_of == other.groups_of
            && self.admin_group == other.admin_group
            && self.personas == other.personas
            && self.named == other.named
            && self.hiding_rules.is_none()
            && other.hiding_rules.is_none();
        if same { DirectoryChange::None } else { DirectoryChange::Some }
    }

    /// The caller with this identity and their rights.
    pub(super) async fn grant(
        &self,
        claimed: ClaimedIdentity,
        persona: Option<&str>,
        level: Option<&str>,
    ) -> Result<Arc<Caller>, Unidentified> {
        // The operator has no credential, so a credential with the operator's name is rejected.
        if !is_name(&claimed.user) || claimed.user.starts_with(OPERATOR_PREFIX) {
            return Err(Unidentified::refused("it does not name a user"));
        }
        let mut groups: BTreeSet<String> = claimed.groups.into_iter().filter(|name| is_name(name)).collect();
        groups.extend(self.groups_of.get(&claimed.user).into_iter().flatten().cloned());
        if let Some(service) = &self.service {
            let unknown = self.named.iter().filter(|name| !groups.contains(&***name)).cloned();
            let more = service.member_of(&claimed.user, unknown.collect()).await;
            groups.extend(more.iter().map(|name| name.to_string()));
        }
        let admin = if groups.contains(&self.admin_group) { Admin::Yes } else { Admin::No };
        let bound = claimed.persona.as_deref();
        // A credential that is bound to a persona gives access to no other one.
        let persona = match (bound, persona) {
            (Some(bound), Some(wanted)) if !is_same_name(bound, wanted) => {
                return Err(Unidentified::persona(wanted));
            }
            (bound, wanted) => bound.or(wanted),
        };
        // A caller may choose the compliance level only if the credential does not state one.
        let level = claimed.level.as_deref().or(level);
        let caller = Caller {
            user: claimed.user.into(),
            groups: Groups::Named(Arc::new(groups)),
            admin,
            persona: None,
            hiding_rules: self.hiding_rules.clone(),
            compliance_level: level.map(|name| self.levels.level(name)),
            session: None,
            folder: None,
            kind: CallerKind::Guest,
            identified_by: claimed.identified_by,
            forwarded: ForwardedHeaders::default(),
        };
        self.with_persona(caller, persona)
    }

    /// The owner with a persona or a compliance level.
    pub(super) fn grant_owner(
        &self,
        owner: &Caller,
        persona: Option<&str>,
        level: Option<&str>,
    ) -> Result<Arc<Caller>, Unidentified> {
        let compliance_level = level.map(|name| self.levels.level(name));
        self.with_persona(
            Caller { compliance_level, hiding_rules: self.hiding_rules.clone(), ..owner.clone() },
            persona,
        )
    }

    /// The same caller with another persona. A caller who has a persona cannot change it.
    pub(super) fn through(&self, caller: &Arc<Caller>, persona: &str) -> Result<Arc<Caller>, Unidentified> {
        match caller.persona_name() {
            Some(current) if is_same_name(current, persona) => Ok(caller.clone()),
            Some(_) => Err(Unidentified::persona(persona)),
            None => self.with_persona(Caller::clone(caller), Some(persona)),
        }
    }

    /// The names of the personas that a caller may select.
    pub(super) fn pickable(&self, caller: &Caller) -> Vec<String> {
        let mine =
            self.personas.values().filter(|persona| on_persona(caller, persona) == Permission::Granted);
        mine.map(|persona| persona.name().to_owned()).collect()
    }

    fn with_persona(&self, caller: Caller, persona: Option<&str>) -> Result<Arc<Caller>, Unidentified> {
        let Some(name) = persona else { return Ok(Arc::new(caller)) };
        match find(&self.personas, name) {
            Some(persona) if on_persona(&caller, persona) == Permission::Granted => {
                Ok(Arc::new(Caller { persona: Some(persona.clone()), ..caller }))
            }
            _ => Err(Unidentified::persona(name)),
        }
    }
}
