//! Personas: named views of the catalog. A persona narrows what its caller may use and never widens it.

use globset::{Glob, GlobSet, GlobSetBuilder};
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
    globs: GlobSet,
    inherit: Inherit,
    /// Without a list of its own a persona has nothing, unless it inherits.
    has_list: bool,
    /// Groups whose members may pick it; absent means everybody.
    groups: Option<Vec<String>>,
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
    ) -> Result<Self, globset::Error> {
        let mut globs = GlobSetBuilder::new();
        let mut key = format!("{name}\n{inherit:?}\n{}", allowed.is_some());
        for glob in allowed.unwrap_or_default() {
            globs.add(Glob::new(glob)?);
            key.push('\n');
            key.push_str(glob);
        }
        let has_list = allowed.is_some();
        Ok(Self { name: name.into(), globs: globs.build()?, inherit, has_list, groups, key: key.into() })
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

    /// Whether one thing of a server belongs to it, by the names it goes by.
    pub(crate) fn names(&self, server: &str, own: &str, exposed: &str) -> bool {
        // Whole catalogs are gone through by this: one buffer for all spellings, and the usual one first.
        let mut form = String::with_capacity(server.len() + own.len() + 6);
        let mut fits = |before: &str, between: &str| {
            form.clear();
            [before, server, between, own].iter().for_each(|part| form.push_str(part));
            form != exposed && self.globs.is_match(&form)
        };
        self.globs.is_match(exposed)
            || fits("", "_")
            || fits("mcp_", "_")
            || fits("", "__")
            || fits("mcp.", ".")
            || fits("", ".")
    }
}

/// All personas, by name.
pub type Personas = BTreeMap<String, Arc<Persona>>;
