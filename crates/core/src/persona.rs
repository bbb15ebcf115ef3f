//! Personas: named views of the catalog. A persona narrows what its caller may use and never widens it.

use crate::catalog::{BadPattern, Tool, ToolPatterns};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest name of a persona.
pub const MAX_NAME: usize = 64;

/// What a persona takes over from what is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inherit {
    /// Only what its globs name.
    Nothing,
    /// Every shared tool, and its own where it names none.
    Shared,
}

/// One named view, ready to judge by.
#[derive(Debug, Clone)]
pub struct Persona {
    name: Box<str>,
    allowed: ToolPatterns,
    inherit: Inherit,
    /// Without a list of its own a persona has nothing, unless it inherits.
    has_list: bool,
    /// Groups whose members may pick it; absent means everybody.
    groups: Option<Vec<String>>,
    description: Option<String>,
    /// Everything that tells one view from another, as one text.
    key: Arc<str>,
}

impl PartialEq for Persona {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.groups == other.groups
    }
}

impl Eq for Persona {}

impl Persona {
    /// A persona from its settings; a glob that is none is the error.
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
        Ok(Self { name, allowed, inherit, has_list, groups, description: None, key })
    }

    /// The same, with a word on what it is for.
    #[must_use]
    pub fn described(self, description: Option<String>) -> Self {
        Self { description, ..self }
    }

    /// What it is for.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What tells its view from others: equal keys show the same.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The groups whose members may pick it; absent means everybody.
    pub fn groups(&self) -> Option<&[String]> {
        self.groups.as_deref()
    }

    /// Whether all that is shared belongs to it, so that no name need be looked at.
    pub(crate) fn takes_whole_server(&self, personas: &[String]) -> bool {
        self.inherit == Inherit::Shared && (personas.is_empty() || !self.has_list)
    }

    /// Whether a tool belongs to it, by the names it goes by.
    pub(crate) fn names_tool(&self, tool: &Tool) -> bool {
        self.allowed.permit(tool)
    }

    /// Whether a prompt, resource or template of a server belongs to it.
    pub(crate) fn names_offer(&self, server: &str, own: &str, exposed: &str) -> bool {
        self.allowed.permit_pair(server, own, exposed)
    }
}

/// All personas, by name.
pub type Personas = BTreeMap<String, Arc<Persona>>;
