//! Skills as tools: the manifest entry of a skill, whose provider runs the steps of its plan.

use super::{Manifest, ManifestScope, Overlay, ProviderKind, ProviderSpec, read_version};
use crate::server::SideEffects;
use crate::skill::{DEFAULT_TIMEOUT, Skill};
use std::sync::Arc;
use std::time::Duration;

/// Added to the timeout of a skill's tool, so that the run itself reports that the time is over.
const GRACE: Duration = Duration::from_secs(5);

/// The name of a skill's tool.
pub fn skill_tool_name(skill: &str) -> String {
    format!("skill_{skill}")
}

impl Manifest {
    /// The entry of a skill. Each step of its plan is judged as a call of its own, so the tool itself has no effects
    /// and needs no consent.
    pub fn of_skill(skill: &Arc<Skill>) -> Self {
        let overlay = Overlay {
            version: skill.version.as_deref().and_then(read_version),
            side_effects: Some(SideEffects::None),
            timeout: Some(skill.timeout.unwrap_or(DEFAULT_TIMEOUT) + GRACE),
            allow_parallel: Some(true),
            requires_consent: Some(false),
            capabilities: Some(skill.capability_tags.clone()),
            ..Overlay::default()
        };
        let provider = ProviderSpec {
            id: "skill".to_owned(),
            kind: ProviderKind::Skill(skill.clone()),
            priority: 0,
            health_check_interval: Duration::ZERO,
            auth: None,
            arguments: None,
            result: None,
        };
        let scope = skill.persona.clone().map_or(ManifestScope::Shared, ManifestScope::Persona);
        Self {
            name: skill_tool_name(&skill.name),
            scope,
            origin: skill.origin.clone(),
            overlay,
            description: skill.about().map(str::to_owned),
            parameters: Some(skill.schema()),
            groups: skill.groups.clone(),
            providers: vec![provider],
        }
    }
}
