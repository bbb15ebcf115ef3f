//! The directory: which groups a user is in, which personas there are, which levels of data.

use super::refusal::Unidentified;
use super::service::GroupService;
use super::{Claimed, is_name};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use toolbooth_core::call::policy::RuleBook;
use toolbooth_core::caller::{Admin, Caller, Carried, Groups, OPERATOR_PREFIX, Standing};
use toolbooth_core::compliance::Levels;
use toolbooth_core::permission::{Permission, on_persona};
use toolbooth_core::persona::Personas;

/// What the configuration says about users.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    /// The groups of each user.
    pub groups_of: HashMap<String, BTreeSet<String>>,
    /// Members of this group look after the gateway.
    pub admin_group: String,
    /// Groups that decide anything here; no others are asked for.
    pub named: Vec<Arc<str>>,
    /// Who knows more about groups.
    pub service: Option<Arc<GroupService>>,
    /// Views that callers may pick.
    pub personas: Personas,
    /// Levels of data.
    pub levels: Levels,
    /// The operator's rules, where any of them hides anything.
    pub veil: Option<Arc<RuleBook>>,
}

/// Whether two directories give anybody other rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// They do, as far as can be told.
    Some,
    /// They do not.
    None,
}

impl Directory {
    /// Whether another directory gives anybody other rights.
    pub(super) fn difference(&self, other: &Self) -> Difference {
        let same = self.groups_of == other.groups_of
            && self.admin_group == other.admin_group
            && self.personas == other.personas
            && self.named == other.named
            && self.veil.is_none()
            && other.veil.is_none();
        if same { Difference::None } else { Difference::Some }
    }

    /// The rights of somebody who was identified.
    pub(super) async fn grant(
        &self,
        claimed: Claimed,
        persona: Option<&str>,
        level: Option<&str>,
    ) -> Result<Arc<Caller>, Unidentified> {
        // The operator at the machine shows no credential, so a credential that names them is refused.
        if !is_name(&claimed.user) || claimed.user.starts_with(OPERATOR_PREFIX) {
            return Err(Unidentified::Refused);
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
        // A credential that is bound to a persona leads to no other one.
        let persona = match (bound, persona) {
            (Some(bound), Some(wanted)) if bound != wanted => return Err(Unidentified::persona(wanted)),
            (bound, wanted) => bound.or(wanted),
        };
        // What the credential says about the level of data stands; a caller may name one where it says nothing.
        let level = claimed.level.as_deref().or(level);
        let caller = Caller {
            user: claimed.user.into(),
            groups: Groups::Named(Arc::new(groups)),
            admin,
            persona: None,
            veil: self.veil.clone(),
            compliance_level: level.map(|name| self.levels.level(name)),
            session: None,
            standing: Standing::Guest,
            identified_by: claimed.identified_by,
            carried: Carried::default(),
        };
        self.dress(caller, persona)
    }

    /// The owner, through a persona or with a level of data.
    pub(super) fn grant_owner(
        &self,
        owner: &Caller,
        persona: Option<&str>,
        level: Option<&str>,
    ) -> Result<Arc<Caller>, Unidentified> {
        let compliance_level = level.map(|name| self.levels.level(name));
        self.dress(Caller { compliance_level, veil: self.veil.clone(), ..owner.clone() }, persona)
    }

    /// The same caller through another persona; whoever wears one already keeps to it.
    pub(super) fn through(&self, caller: &Arc<Caller>, persona: &str) -> Result<Arc<Caller>, Unidentified> {
        match caller.persona_name() {
            Some(worn) if worn == persona => Ok(caller.clone()),
            Some(_) => Err(Unidentified::persona(persona)),
            None => self.dress(Caller::clone(caller), Some(persona)),
        }
    }

    /// The names of the personas that a caller may pick.
    pub(super) fn pickable(&self, caller: &Caller) -> Vec<String> {
        let mine =
            self.personas.values().filter(|persona| on_persona(caller, persona) == Permission::Granted);
        mine.map(|persona| persona.name().to_owned()).collect()
    }

    fn dress(&self, caller: Caller, persona: Option<&str>) -> Result<Arc<Caller>, Unidentified> {
        let Some(name) = persona else { return Ok(Arc::new(caller)) };
        match self.personas.get(name) {
            Some(persona) if on_persona(&caller, persona) == Permission::Granted => {
                Ok(Arc::new(Caller { persona: Some(persona.clone()), ..caller }))
            }
            _ => Err(Unidentified::persona(name)),
        }
    }
}
