//! Side effects of a tool: a rung on the ladder `none < read < write < destructive < system`.
//!
//! The first source that says something decides: the operator's label, then the annotations of a trusted server, then
//! the words of the tool's name. A tool of unknown effect counts as a write. A server that is not trusted may still say
//! that a tool writes: that is believed, because it gains nothing by it.

mod words;

use crate::json::RawJson;
use crate::server::{ServerEntry, SideEffects};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rung of the ladder, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Neither reads nor changes anything.
    None,
    /// Reads something and changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something irreversibly.
    Destructive,
    /// Changes the machine or the service itself.
    System,
}

impl Rung {
    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        self >= Self::Write
    }

    /// The word used in rules, records and all interfaces.
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

/// The source of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The operator, by a manifest, an override or the server's entry.
    Label,
    /// The server, whose annotations are trusted.
    Annotation,
    /// The words of the tool's name.
    Name,
    /// No source; the effect is unknown.
    Unknown,
}

/// The side effect of a tool, and the source that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Effect {
    /// The rung.
    pub rung: Rung,
    /// The source.
    pub basis: Basis,
}

impl Effect {
    /// Whether an operator or a trusted server said so, not only the name.
    pub fn is_vouched_for(self) -> bool {
        matches!(self.basis, Basis::Label | Basis::Annotation)
    }

    /// Whether the tool is known to change nothing, not only by its name.
    pub fn is_known_read(self) -> bool {
        !self.rung.writes() && self.is_vouched_for()
    }
}

/// The meaning of the server's annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnnotationHint {
    ReadOnly,
    Destructive,
    Additive,
}

/// The effect of a tool by its server's entry, the operator's label, its own name and its definition.
pub fn effect(server: &ServerEntry, label: SideEffects, name: &str, definition: &RawJson) -> Effect {
    let annotated = hint(definition);
    let hint = annotated.filter(|_| server.defaults.trust_annotations == Some(true));
    match label {
        SideEffects::Network => {}
        label => return Effect { rung: of_label(label, hint), basis: Basis::Label },
    }
    if let Some(hint) = hint {
        let rung = match hint {
            AnnotationHint::ReadOnly => Rung::Read,
            AnnotationHint::Additive => Rung::Write,
            AnnotationHint::Destructive => Rung::Destructive,
        };
        return Effect { rung, basis: Basis::Annotation };
    }
    let admitted = match annotated {
        Some(AnnotationHint::Destructive | AnnotationHint::Additive) => Rung::Write,
        Some(AnnotationHint::ReadOnly) | None => Rung::None,
    };
    match words::rung_of(server.name.as_str(), name) {
        Some(rung) if rung < admitted => Effect { rung: admitted, basis: Basis::Annotation },
        Some(rung) => Effect { rung, basis: Basis::Name },
        None => Effect { rung: Rung::Write, basis: Basis::Unknown },
    }
}

/// Whether a definition claims that the tool only reads, whether or not its server is trusted.
pub fn claims_read_only(definition: &RawJson) -> bool {
    hint(definition) == Some(AnnotationHint::ReadOnly)
}

/// The rung that a tool's name indicates, if the name says that the tool changes something and the operator's label
/// says that it does not. The label counts, but a mistake in it should be reported.
pub fn effect_above_label(server: &str, name: &str, label: SideEffects) -> Option<Rung> {
    let named = words::rung_of(server, name).filter(|rung| rung.writes())?;
    (!of_label(label, None).writes()).then_some(named)
}

fn of_label(label: SideEffects, hint: Option<AnnotationHint>) -> Rung {
    match label {
        SideEffects::None => Rung::None,
        SideEffects::ReadExternalService => Rung::Read,
        SideEffects::System => Rung::System,
        SideEffects::Network
        | SideEffects::Filesystem
        | SideEffects::Database
        | SideEffects::Compute
        | SideEffects::Write => match hint {
            Some(AnnotationHint::ReadOnly) => Rung::Read,
            Some(AnnotationHint::Destructive) => Rung::Destructive,
            Some(AnnotationHint::Additive) | None => Rung::Write,
        },
    }
}

/// Reads annotations as the protocol defines them. `readOnlyHint: false` alone leaves the protocol's default, which is
/// destructive.
fn hint(definition: &RawJson) -> Option<AnnotationHint> {
    let says = |name: &str| {
        let value = definition.at(&["annotations", name])?;
        match value.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    };
    match (says("readOnlyHint"), says("destructiveHint")) {
        (_, Some(true)) => Some(AnnotationHint::Destructive),
        (Some(true), _) => Some(AnnotationHint::ReadOnly),
        (_, Some(false)) => Some(AnnotationHint::Additive),
        (Some(false), None) => Some(AnnotationHint::Destructive),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;

    #[test]
    fn a_label_below_the_words_of_the_name_is_found() {
        let cases = [
            ("delete_everything", SideEffects::None, Some(Rung::Destructive)),
            ("send_mail", SideEffects::ReadExternalService, Some(Rung::Write)),
            ("delete_everything", SideEffects::Write, None),
            ("delete_everything", SideEffects::Network, None), // the default, so the name counts
            ("google_search", SideEffects::None, None),
            ("get_order", SideEffects::None, None),
        ];
        for (name, label, expected) in cases {
            assert_eq!(effect_above_label("s", name, label), expected, "{name} {label:?}");
        }
    }

    fn definition(annotations: &str) -> RawJson {
        RawJson::parse(format!(r#"{{"name":"x","annotations":{annotations}}}"#)).expect("JSON")
    }

    #[test]
    fn the_first_source_that_says_something_decides() {
        let read_only = r#"{"readOnlyHint":true}"#;
        let cases: [(&str, SideEffects, bool, &str, Rung, Basis); 13] = [
            // A label other than `network` comes from the operator.
            ("get_x", SideEffects::System, false, "{}", Rung::System, Basis::Label),
            ("delete_x", SideEffects::None, false, "{}", Rung::None, Basis::Label),
            ("x", SideEffects::Database, false, read_only, Rung::Write, Basis::Label),
            ("x", SideEffects::Database, true, read_only, Rung::Read, Basis::Label),
            // Annotations count only if the server is trusted.
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
            // Then the name counts; an unknown effect counts as a write.
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
            server.defaults.trust_annotations = Some(trusted);
            let found = effect(&server, label, name, &definition(annotations));
            assert_eq!(found, Effect { rung, basis }, "{name} {label:?} {trusted} {annotations}");
        }
    }
}
