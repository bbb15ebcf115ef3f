//! Reads single fields of an entry, and accepts a wrong type with a warning if the meaning is clear.

use super::Pointer;
use crate::expand::Variables;
use crate::finding::Finding;
use crate::node::{Mark, Node, Value};
use crate::suggest::nearest;
use crate::texts::SourceTexts;
use std::time::Duration;

/// The maximum length of a string.
const MAX_TEXT: usize = 64 * 1024;
/// The maximum number of elements of a list.
const MAX_LIST: usize = 1000;

/// Reads one entry, and collects its findings.
pub(crate) struct EntryReader<'a> {
    pub texts: &'a SourceTexts,
    pub variables: &'a Variables,
    /// The name of the entry in messages.
    pub subject: String,
    pub findings: Vec<Finding>,
}

/// A value with its path.
#[derive(Clone)]
pub(crate) struct LocatedNode<'n> {
    pub node: &'n Node,
    pub pointer: Pointer,
    /// The name of the field in messages, such as `auth.required`.
    pub field: String,
}

impl<'n> LocatedNode<'n> {
    pub(crate) fn member(&self, key: &str) -> Option<LocatedNode<'n>> {
        let node = self.node.get(key)?;
        Some(self.inside(key, node))
    }

    pub(crate) fn inside(&self, key: &str, node: &'n Node) -> LocatedNode<'n> {
        let field = if self.field.is_empty() { key.to_owned() } else { format!("{}.{key}", self.field) };
        LocatedNode { node, pointer: self.pointer.key(key), field }
    }

    pub(crate) fn element(&self, index: usize, node: &'n Node) -> LocatedNode<'n> {
        LocatedNode { node, pointer: self.pointer.index(index), field: format!("{}[{index}]", self.field) }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.node.value == Value::Null
    }
}

impl EntryReader<'_> {
    /// Adds an error, which makes the entry invalid.
    pub(crate) fn error(&mut self, spot: &LocatedNode<'_>, sentence: impl std::fmt::Display) {
        let finding =
            self.finding(Finding::error("manifest.bad-entry", ""), spot.node.mark, &spot.pointer, &sentence);
        self.findings.push(finding);
    }

    /// Adds an error with a hint.
    pub(crate) fn error_with(
        &mut self,
        spot: &LocatedNode<'_>,
        sentence: impl std::fmt::Display,
        hint: impl Into<String>,
    ) {
        let finding =
            self.finding(Finding::error("manifest.bad-entry", ""), spot.node.mark, &spot.pointer, &sentence);
        self.findings.push(finding.hint(hint));
    }

    /// Adds a warning about a value of the wrong type that was accepted.
    pub(crate) fn warn(&mut self, spot: &LocatedNode<'_>, sentence: impl std::fmt::Display) {
        self.doubt("manifest.loosely-written", spot, sentence, None);
    }

    /// Adds a warning about a valid but suspicious value.
    pub(crate) fn doubt(
        &mut self,
        code: &'static str,
        spot: &LocatedNode<'_>,
        sentence: impl std::fmt::Display,
        hint: Option<&str>,
    ) {
        let finding = self.finding(Finding::warning(code, ""), spot.node.mark, &spot.pointer, &sentence);
        self.findings.push(match hint {
            Some(hint) => finding.hint(hint),
            None => finding,
        });
    }

    fn finding(
        &self,
        finding: Finding,
        mark: Mark,
        pointer: &Pointer,
        sentence: &dyn std::fmt::Display,
    ) -> Finding {
        let message = format!("{}: {sentence}", self.subject);
        Finding { message, ..finding }.at(self.texts, mark).about(pointer.as_str())
    }

    fn wrong_type(&mut self, spot: &LocatedNode<'_>, expected: &str) {
        let sentence = format!("`{}` must be {expected}, found {}", spot.field, spot.node.kind());
        self.error(spot, sentence);
    }

    /// Whether there is an error so far.
    pub(crate) fn is_broken(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// Warns of unknown keys, and rejects duplicate keys.
    pub(crate) fn keys(&mut self, spot: &LocatedNode<'_>, known: &[&str], extras: Extras<'_>) {
        let members = spot.node.members().unwrap_or_default();
        for (index, (key, node)) in members.iter().enumerate() {
            let text = key.text.as_str();
            let inside = spot.inside(text, node);
            if members[..index].iter().any(|(earlier, _)| earlier.text == *text) {
                self.error(&inside, format_args!("`{}` is given twice", inside.field));
                continue;
            }
            if known.contains(&text) {
                continue;
            }
            let near = nearest(text, known.iter().copied());
            match (extras, near) {
                (Extras::These(extras), _) if extras.contains(&text) => continue,
                (Extras::All, None) => continue,
                _ => {}
            }
            let sentence = format!("`{}` is unknown and ignored", inside.field);
            let finding = Finding::warning("manifest.unknown-field", "");
            let mut finding = self.finding(finding, key.mark, &inside.pointer, &sentence);
            if let Some(near) = near {
                let hint = format!("did you mean `{near}`?");
                finding = finding.label(hint.clone()).hint(hint);
            }
            self.findings.push(finding);
        }
    }

    /// Reads a boolean, also from a number or a string.
    pub(crate) fn flag(&mut self, spot: Option<LocatedNode<'_>>) -> Option<bool> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        let read = match &spot.node.value {
            Value::Bool(flag) => return Some(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
            Value::Text(text) => match text.shown().trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Some(true),
                "false" | "no" | "off" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        };
        match read {
            Some(flag) => self.warn(&spot, format_args!("`{}` is read as {flag}", spot.field)),
            None => self.wrong_type(&spot, "true or false"),
        }
        read
    }

    /// Reads a number, also from a string.
    pub(crate) fn number(&mut self, spot: &LocatedNode<'_>) -> Option<f64> {
        let read = match &spot.node.value {
            Value::Number(number) => return number.as_f64(),
            Value::Text(text) => text.shown().trim().parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        match read {
            Some(number) => self.warn(spot, format_args!("`{}` is read as the number {number}", spot.field)),
            None => self.wrong_type(spot, "a number"),
        }
        read
    }

    /// Reads a duration in seconds, of at least `least` and at most one day.
    pub(crate) fn seconds(&mut self, spot: Option<LocatedNode<'_>>, least: f64) -> Option<Duration> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        let seconds = self.number(&spot)?;
        if !(least..=86_400.0).contains(&seconds) {
            let sentence =
                format!("`{}` must be a number of seconds from {least} to 86400, not {seconds}", spot.field);
            self.error(&spot, sentence);
            return None;
        }
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Reads a string; trims it and rejects an empty one.
    pub(crate) fn text(&mut self, spot: Option<LocatedNode<'_>>) -> Option<String> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        let Value::Text(text) = &spot.node.value else {
            self.wrong_type(&spot, "a string");
            return None;
        };
        let text = text.shown().trim();
        if text.is_empty() || text.len() > MAX_TEXT {
            self.error(&spot, format_args!("`{}` must be a string of 1 to {MAX_TEXT} bytes", spot.field));
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads one of the known words. The spelling must be exact and null is an error, because policies depend on these
    /// words.
    pub(crate) fn word(
        &mut self,
        spot: Option<LocatedNode<'_>>,
        known: &[&'static str],
    ) -> Option<&'static str> {
        let spot = spot?;
        let Value::Text(text) = &spot.node.value else {
            self.wrong_type(&spot, "a string");
            return None;
        };
        let text = text.shown();
        let word = known.iter().copied().find(|word| *word == text);
        if word.is_none() {
            let listed = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let plain = text.trim().to_ascii_lowercase().replace(['-', ' '], "_");
            let hint = nearest(&plain, known.iter().copied()).map_or_else(
                || format!("expected one of {listed}"),
                |near| format!("did you mean `{near}`?"),
            );
            let shown: String = text.chars().take(80).collect();
            self.error_with(&spot, format_args!("`{shown}` is not a valid value of `{}`", spot.field), hint);
        }
        word
    }

    /// Reads a list of strings; a single string is accepted as a list with one element.
    pub(crate) fn texts(&mut self, spot: Option<LocatedNode<'_>>) -> Option<Vec<String>> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        match &spot.node.value {
            Value::Text(_) => {
                let one = self.text(Some(spot.clone()))?;
                self.warn(&spot, format_args!("`{}` is read as a list with one element", spot.field));
                Some(vec![one])
            }
            Value::List(elements) if elements.len() > MAX_LIST => {
                self.error(&spot, format_args!("`{}` has more than {MAX_LIST} elements", spot.field));
                None
            }
            Value::List(elements) => {
                let read = elements.iter().enumerate();
                Some(read.filter_map(|(index, node)| self.text(Some(spot.element(index, node)))).collect())
            }
            _ => {
                self.wrong_type(&spot, "a list of strings");
                None
            }
        }
    }

    /// Reads a map.
    pub(crate) fn map<'n>(&mut self, spot: Option<LocatedNode<'n>>) -> Option<LocatedNode<'n>> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        if spot.node.members().is_none() {
            self.wrong_type(&spot, "a map");
            return None;
        }
        Some(spot)
    }
}

/// How unknown keys are treated.
#[derive(Clone, Copy)]
pub(crate) enum Extras<'a> {
    /// These keys are ignored without a warning.
    These(&'a [&'a str]),
    /// All keys are ignored, except those that look like a typo.
    All,
}
