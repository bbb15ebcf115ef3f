//! Personas: named views of the catalog. A persona narrows what its caller may use and never widens it.

use crate::catalog::{BadPattern, Naming, NamingStyle, Tool, ToolPatterns};
use crate::own_prompt;
use crate::wildcard::fits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum length of a persona's name.
pub const MAX_NAME: usize = 64;

/// Whether two texts name the same persona. Names compare without case.
pub fn is_same_name(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

/// The persona with a name: the one with exactly this name, or else the only one that differs in case.
pub fn find<'a>(personas: &'a Personas, name: &str) -> Option<&'a Arc<Persona>> {
    personas.get(name).or_else(|| {
        let mut same = personas.iter().filter(|(known, _)| is_same_name(known, name));
        same.next().filter(|_| same.next().is_none()).map(|(_, persona)| persona)
    })
}

/// The name of a persona's prompt. Characters that clients do not accept are replaced.
pub fn prompt_name(persona: &str) -> String {
    let naming = Naming { style: NamingStyle::ServerTool, max_length: own_prompt::MAX_NAME };
    naming.expose("persona", persona)
}

/// Which shared tools a persona inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inherit {
    /// Only what its globs match.
    Nothing,
    /// Every shared tool, and all tools of its own servers if it has no globs.
    Shared,
}

/// One persona, compiled.
#[derive(Debug, Clone)]
pub struct Persona {
    name: Box<str>,
    allowed: ToolPatterns,
    inherit: Inherit,
    /// Without a list, a persona has nothing unless it inherits.
    has_list: bool,
    /// Groups whose members may use it; absent means everyone.
    groups: Option<Vec<String>>,
    description: Option<String>,
    /// The skills that it includes; absent means all.
    skills: Option<Vec<String>>,
    /// Everything that distinguishes its view from others, as one text.
    key: Arc<str>,
}

impl PartialEq for Persona {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.groups == other.groups
    }
}

impl Eq for Persona {}

impl Persona {
    /// Compiles a persona from its settings. An invalid glob is the error.
    pub fn new(
        name: &str,
        allowed: Option<&[String]>,
        inherit: Inherit,
        groups: Option<Vec<String>>,
    ) -> Result<Self, BadPattern> {
        let texts = allowed.unwrap_or_default();
        let mut key = format!("{name}\n{inherit:?}\n{}", allowed.is_some());
        for glob in texts {
            key.push('\n');
            key.push_str(glob);
        }
        let (allowed, has_list) = (ToolPatterns::new(texts)?, allowed.is_some());
        let (name, key) = (name.into(), key.into());
        Ok(Self { name, allowed, inherit, has_list, groups, description: None, skills: None, key })
    }

    /// Sets its description.
    #[must_use]
    pub fn described(self, description: Option<String>) -> Self {
        Self { description, ..self }
    }

    /// Sets the skills that it includes: names, in which `*` matches anything. Absent means all.
    #[must_use]
    pub fn with_skills(mut self, skills: Option<Vec<String>>) -> Self {
        if let Some(skills) = &skills {
            self.key = format!("{}\nskills\n{}", self.key, skills.join("\n")).into();
        }
        self.skills = skills;
        self
    }

    /// Its description.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of its view: personas with equal keys show the same tools.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The groups whose members may use it; absent means everyone.
    pub fn groups(&self) -> Option<&[String]> {
        self.groups.as_deref()
    }

    /// Whether it includes everything on a server with these personas, so that single names need no check.
    pub(crate) fn includes_whole_server(&self, personas: &[String]) -> bool {
        self.inherit == Inherit::Shared && (personas.is_empty() || !self.has_list)
    }

    /// Whether it includes a tool, by any of the tool's names.
    pub(crate) fn includes_tool(&self, tool: &Tool) -> bool {
        self.allowed.permit(tool)
    }

    /// Whether it includes a skill.
    pub(crate) fn includes_skill(&self, skill: &str) -> bool {
        self.skills.is_none() || self.names_skill(skill)
    }

    /// Whether its list of skills includes a skill.
    pub(crate) fn names_skill(&self, skill: &str) -> bool {
        self.skills.iter().flatten().any(|pattern| fits(pattern, skill))
    }

    /// Whether it includes a prompt, resource or template of a server.
    pub(crate) fn includes_item(&self, server: &str, own: &str, exposed: &str) -> bool {
        self.allowed.permit_pair(server, own, exposed)
    }
}

/// All personas, by name.
pub type Personas = BTreeMap<String, Arc<Persona>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_prompts_are_valid_for_every_client() {
        assert_eq!(prompt_name("clerk"), "persona_clerk");
        assert_eq!(prompt_name("Büro 2"), "persona_B_ro_2");
        assert!(own_prompt::is_valid_name(&prompt_name(&"x".repeat(64))));
    }

    #[test]
    fn names_compare_without_case_unless_that_is_ambiguous() {
        let named = |names: &[&str]| -> Personas {
            let persona = |name: &str| Persona::new(name, None, Inherit::Shared, None).expect("no globs");
            names.iter().map(|name| ((*name).to_owned(), Arc::new(persona(name)))).collect()
        };
        let cases: [(&[&str], &str, Option<&str>); 5] = [
            (&["Atlas", "Scribe"], "atlas", Some("Atlas")),
            (&["Atlas", "Scribe"], "ATLAS", Some("Atlas")),
            (&["Atlas", "atlas"], "atlas", Some("atlas")),
            (&["Atlas", "atlas"], "ATLAS", None),
            (&["Atlas"], "Atla", None),
        ];
        for (names, wanted, expected) in cases {
            let personas = named(names);
            assert_eq!(find(&personas, wanted).map(|persona| persona.name()), expected, "{names:?} {wanted}");
        }
    }
}
