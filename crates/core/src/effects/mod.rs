//! What a tool does to the world: a rung on the ladder `none < read < write < destructive < system`.
//!
//! The first that speaks decides: the operator's label, then the annotations of a server whose word
//! is taken, then the words of the tool's name. What nothing speaks of counts as a write. A server whose
//! word is not taken may still say that a tool writes: that is believed, as nobody gains by it.

mod words;

use crate::catalog::{Backing, Tool};
use crate::json::RawJson;
use crate::server::{ServerEntry, SideEffects};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rung of the ladder, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Touches nothing.
    None,
    /// Looks, and changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something that cannot be had back.
    Destructive,
    /// Changes the machine or the service itself.
    System,
}

impl Rung {
    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        self >= Self::Write
    }

    /// The word used in rules, rows and on every door.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
            Self::System => "system",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The operator, by a manifest, an override or the server's entry.
    Label,
    /// The server, whose annotations are trusted.
    Annotation,
    /// The words of the tool's name.
    Name,
    /// Nobody.
    Unknown,
}

/// What a tool does, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Effect {
    /// The rung.
    pub rung: Rung,
    /// Who said so.
    pub basis: Basis,
}

impl Effect {
    /// Whether an operator or a trusted server said so, and not a name alone.
    pub fn is_vouched_for(self) -> bool {
        matches!(self.basis, Basis::Label | Basis::Annotation)
    }
}

/// What the server's annotations say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    ReadOnly,
    Destructive,
    Additive,
}

/// The effect of a tool.
pub fn effect_of(tool: &Tool) -> Effect {
    if tool.server.is_virtual() && tool.terms.side_effects == SideEffects::Network {
        return effect_of_backing(tool);
    }
    effect(&tool.server, tool.terms.side_effects, &tool.name, &tool.definition)
}

/// The effect of a tool of a manifest without a label that says more than that it uses the network: that of
/// the most dangerous tool that serves it. Of an HTTP service or a model, only the tool's own name tells.
fn effect_of_backing(tool: &Tool) -> Effect {
    let backing = || tool.bounds.iter().flat_map(|bounds| &bounds.backing);
    let by_name = || effect(&tool.server, SideEffects::Network, &tool.name, &tool.definition);
    let unseen = backing().any(|backing| backing.tools().is_empty()).then(by_name);
    let seen = backing().flat_map(Backing::tools).map(|tool| tool.effect());
    seen.chain(unseen).max_by_key(|effect| effect.rung).unwrap_or_else(by_name)
}

/// The effect of a tool by its server's entry, the operator's label, its own name and its definition.
pub fn effect(server: &ServerEntry, label: SideEffects, name: &str, definition: &RawJson) -> Effect {
    let said = hint(definition);
    let hint = said.filter(|_| server.defaults.trust_annotations);
    match label {
        SideEffects::Network => {}
        label => return Effect { rung: of_label(label, hint), basis: Basis::Label },
    }
    if let Some(hint) = hint {
        let rung = match hint {
            Hint::ReadOnly => Rung::Read,
            Hint::Additive => Rung::Write,
            Hint::Destructive => Rung::Destructive,
        };
        return Effect { rung, basis: Basis::Annotation };
    }
    let owned_up = match said {
        Some(Hint::Destructive | Hint::Additive) => Rung::Write,
        Some(Hint::ReadOnly) | None => Rung::None,
    };
    match words::rung_of(server.name.as_str(), name) {
        Some(rung) if rung < owned_up => Effect { rung: owned_up, basis: Basis::Annotation },
        Some(rung) => Effect { rung, basis: Basis::Name },
        None => Effect { rung: Rung::Write, basis: Basis::Unknown },
    }
}

/// The rung that the words of a name speak of, where they say that the tool changes something and the operator's
/// label says that it does not. The label counts; a slip in it should not go unseen.
pub fn understated(server: &str, name: &str, label: SideEffects) -> Option<Rung> {
    let named = words::rung_of(server, name).filter(|rung| rung.writes())?;
    (!of_label(label, None).writes()).then_some(named)
}

fn of_label(label: SideEffects, hint: Option<Hint>) -> Rung {
    match label {
        SideEffects::None => Rung::None,
        SideEffects::ReadExternalService => Rung::Read,
        SideEffects::System => Rung::System,
        SideEffects::Network
        | SideEffects::Filesystem
        | SideEffects::Database
        | SideEffects::Compute
        | SideEffects::Write => match hint {
            Some(Hint::ReadOnly) => Rung::Read,
            Some(Hint::Destructive) => Rung::Destructive,
            Some(Hint::Additive) | None => Rung::Write,
        },
    }
}

/// Annotations as the protocol defines them. `readOnlyHint: false` alone leaves the protocol's default,
/// which is destructive.
fn hint(definition: &RawJson) -> Option<Hint> {
    let says = |name: &str| {
        let value = definition.at(&["annotations", name])?;
        match value.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    };
    match (says("readOnlyHint"), says("destructiveHint")) {
        (_, Some(true)) => Some(Hint::Destructive),
        (Some(true), _) => Some(Hint::ReadOnly),
        (_, Some(false)) => Some(Hint::Additive),
        (Some(false), None) => Some(Hint::Destructive),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;

    #[test]
    fn a_label_below_the_words_of_the_name_is_noticed() {
        let cases = [
            ("delete_everything", SideEffects::None, Some(Rung::Destructive)),
            ("send_mail", SideEffects::ReadExternalService, Some(Rung::Write)),
            ("delete_everything", SideEffects::Write, None),
            ("delete_everything", SideEffects::Network, None), // the default: then the name counts
            ("google_search", SideEffects::None, None),
            ("get_order", SideEffects::None, None),
        ];
        for (name, label, expected) in cases {
            assert_eq!(understated("s", name, label), expected, "{name} {label:?}");
        }
    }

    fn definition(annotations: &str) -> RawJson {
        RawJson::parse(format!(r#"{{"name":"x","annotations":{annotations}}}"#)).expect("JSON")
    }

    #[test]
    fn the_first_that_speaks_decides() {
        let read_only = r#"{"readOnlyHint":true}"#;
        let cases: [(&str, SideEffects, bool, &str, Rung, Basis); 13] = [
            // A label other than `network` is the operator's word.
            ("get_x", SideEffects::System, false, "{}", Rung::System, Basis::Label),
            ("delete_x", SideEffects::None, false, "{}", Rung::None, Basis::Label),
            ("x", SideEffects::Database, false, read_only, Rung::Write, Basis::Label),
            ("x", SideEffects::Database, true, read_only, Rung::Read, Basis::Label),
            // Annotations count where the server is trusted, and nowhere else.
            ("delete_x", SideEffects::Network, true, read_only, Rung::Read, Basis::Annotation),
            ("delete_x", SideEffects::Network, false, read_only, Rung::Destructive, Basis::Name),
            (
                "get_x",
                SideEffects::Network,
                true,
                r#"{"readOnlyHint":false}"#,
                Rung::Destructive,
                Basis::Annotation,
            ),
            (
                "get_x",
                SideEffects::Network,
                true,
                r#"{"destructiveHint":false}"#,
                Rung::Write,
                Basis::Annotation,
            ),
            (
                "x",
                SideEffects::Network,
                true,
                r#"{"readOnlyHint":true,"destructiveHint":true}"#,
                Rung::Destructive,
                Basis::Annotation,
            ),
            ("get_x", SideEffects::Network, true, r#"{"readOnlyHint":"yes"}"#, Rung::Read, Basis::Name),
            // Then the name, and what nothing speaks of counts as a write.
            ("get_x", SideEffects::Network, false, "{}", Rung::Read, Basis::Name),
            (
                "get_x",
                SideEffects::Network,
                false,
                r#"{"readOnlyHint":false}"#,
                Rung::Write,
                Basis::Annotation,
            ),
            ("frobnicate", SideEffects::Network, false, "{}", Rung::Write, Basis::Unknown),
        ];
        for (name, label, trusted, annotations, rung, basis) in cases {
            let mut server = entry("s");
            server.defaults.trust_annotations = trusted;
            let found = effect(&server, label, name, &definition(annotations));
            assert_eq!(found, Effect { rung, basis }, "{name} {label:?} {trusted} {annotations}");
        }
    }
}
