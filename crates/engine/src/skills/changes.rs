//! The latest changes of skills.

use super::Skills;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use toolbooth_core::caller::Caller;
use toolbooth_core::permission::{Permission, on_skill};
use toolbooth_core::skill::Skill;

/// The number of changes that are kept.
const MAX_CHANGES: usize = 200;

/// A change of a skill.
#[derive(Debug, Clone)]
pub struct SkillChange {
    /// The revision of the catalog that has it.
    pub revision: u64,
    /// When it was loaded.
    pub at_ms: i64,
    /// `added`, `changed` or `removed`.
    pub change: &'static str,
    /// The skill after the change, or before it was removed.
    pub skill: Arc<Skill>,
}

/// The latest changes, oldest first. Those of the first load are not changes.
#[derive(Debug, Default)]
pub(super) struct ChangeLog(Mutex<Option<VecDeque<SkillChange>>>);

impl Skills {
    /// Replaces the skills, and waits until the catalog contains them.
    pub async fn set(&self, skills: Vec<Arc<Skill>>) {
        let before = self.all();
        let is_same = |one: &Skill, other: &Skill| one.name == other.name && one.persona == other.persona;
        let mut changes: Vec<(&'static str, Arc<Skill>)> = Vec::new();
        for skill in &skills {
            match before.all().iter().find(|earlier| is_same(earlier, skill)) {
                None => changes.push(("added", skill.clone())),
                Some(earlier) if earlier != skill => changes.push(("changed", skill.clone())),
                Some(_) => {}
            }
        }
        for earlier in before.all() {
            if !skills.iter().any(|skill| is_same(earlier, skill)) {
                changes.push(("removed", earlier.clone()));
            }
        }
        self.catalog.set_skills(skills).await;
        let (revision, at_ms) = (self.catalog.load().revision, self.clock.now_ms());
        let mut kept = self.changes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(log) = kept.as_mut() else {
            *kept = Some(VecDeque::new());
            return;
        };
        let noted = changes.into_iter().map(|(change, skill)| SkillChange { revision, at_ms, change, skill });
        log.extend(noted);
        let over = log.len().saturating_sub(MAX_CHANGES);
        log.drain(..over);
    }

    /// The changes after a revision of skills that a caller may see, oldest first.
    pub fn changes_since(&self, revision: u64, caller: &Caller) -> Vec<SkillChange> {
        let log = self.changes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = log.iter().flatten();
        let visible = all.filter(|change| on_skill(caller, &change.skill) == Permission::Granted);
        visible.filter(|change| change.revision > revision).cloned().collect()
    }
}
