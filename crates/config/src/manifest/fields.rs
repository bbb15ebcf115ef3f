//! Single fields of an entry: read as they are meant, with a warning where they are not written as such.

use super::Pointer;
use crate::expand::Variables;
use crate::finding::Finding;
use crate::node::{Mark, Node, Value};
use crate::suggest::nearest;
use crate::texts::Texts;
use std::time::Duration;

/// The longest text of a field.
const MAX_TEXT: usize = 64 * 1024;
/// The most elements of a list.
const MAX_LIST: usize = 1000;

/// Reads one entry, and collects what is wrong with it.
pub(crate) struct Reader<'a> {
    pub texts: &'a Texts,
    pub variables: &'a Variables,
    /// What the entry is called in sentences.
    pub subject: String,
    pub findings: Vec<Finding>,
}

/// A value with the way to it.
#[derive(Clone)]
pub(crate) struct Spot<'n> {
    pub node: &'n Node,
    pub pointer: Pointer,
    /// The field as sentences name it, such as `auth.required`.
    pub field: String,
}

impl<'n> Spot<'n> {
    pub(crate) fn member(&self, key: &str) -> Option<Spot<'n>> {
        let node = self.node.get(key)?;
        Some(self.inside(key, node))
    }

    pub(crate) fn inside(&self, key: &str, node: &'n Node) -> Spot<'n> {
        let field = if self.field.is_empty() { key.to_owned() } else { format!("{}.{key}", self.field) };
        Spot { node, pointer: self.pointer.key(key), field }
    }

    pub(crate) fn element(&self, index: usize, node: &'n Node) -> Spot<'n> {
        Spot { node, pointer: self.pointer.index(index), field: format!("{}[{index}]", self.field) }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.node.value == Value::Null
    }
}

impl Reader<'_> {
    /// Notes an error: the entry cannot be used.
    pub(crate) fn error(&mut self, spot: &Spot<'_>, sentence: impl std::fmt::Display) {
        let finding =
            self.finding(Finding::error("manifest.bad-entry", ""), spot.node.mark, &spot.pointer, &sentence);
        self.findings.push(finding);
    }

    /// Notes an error with what to do about it.
    pub(crate) fn error_with(
        &mut self,
        spot: &Spot<'_>,
        sentence: impl std::fmt::Display,
        hint: impl Into<String>,
    ) {
        let finding =
            self.finding(Finding::error("manifest.bad-entry", ""), spot.node.mark, &spot.pointer, &sentence);
        self.findings.push(finding.hint(hint));
    }

    /// Notes something that was read as it is meant.
    pub(crate) fn warn(&mut self, spot: &Spot<'_>, sentence: impl std::fmt::Display) {
        self.doubt("manifest.loosely-written", spot, sentence, None);
    }

    /// Notes something that may be wrong although it can be read.
    pub(crate) fn doubt(
        &mut self,
        code: &'static str,
        spot: &Spot<'_>,
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

    fn wrong_type(&mut self, spot: &Spot<'_>, expected: &str) {
        let sentence = format!("`{}` must be {expected}, found {}", spot.field, spot.node.kind());
        self.error(spot, sentence);
    }

    /// Whether anything is wrong so far.
    pub(crate) fn is_broken(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// Warns of keys that nothing understands, and refuses keys that stand twice.
    pub(crate) fn keys(&mut self, spot: &Spot<'_>, known: &[&str], extras: Extras<'_>) {
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
            let sentence = format!("`{}` is not understood, and is left out", inside.field);
            let finding = Finding::warning("manifest.unknown-field", "");
            let mut finding = self.finding(finding, key.mark, &inside.pointer, &sentence);
            if let Some(near) = near {
                let hint = format!("did you mean `{near}`?");
                finding = finding.label(hint.clone()).hint(hint);
            }
            self.findings.push(finding);
        }
    }

    /// True or false, also as a word.
    pub(crate) fn flag(&mut self, spot: Option<Spot<'_>>) -> Option<bool> {
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

    /// A number, also as a text.
    pub(crate) fn number(&mut self, spot: &Spot<'_>) -> Option<f64> {
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

    /// A time in seconds, within bounds.
    pub(crate) fn seconds(&mut self, spot: Option<Spot<'_>>, least: f64) -> Option<Duration> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        let seconds = self.number(&spot)?;
        if !(least..=86_400.0).contains(&seconds) {
            let sentence =
                format!("`{}` is a number of seconds from {least} to 86400, not {seconds}", spot.field);
            self.error(&spot, sentence);
            return None;
        }
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// A text, trimmed and not empty.
    pub(crate) fn text(&mut self, spot: Option<Spot<'_>>) -> Option<String> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        let Value::Text(text) = &spot.node.value else {
            self.wrong_type(&spot, "a text");
            return None;
        };
        let text = text.shown().trim();
        if text.is_empty() || text.len() > MAX_TEXT {
            self.error(&spot, format_args!("`{}` is a text of 1 to {MAX_TEXT} bytes", spot.field));
            return None;
        }
        Some(text.to_owned())
    }

    /// One of a few words, spelled exactly. Policies go by these words, so nothing is guessed: not from another
    /// spelling, and not from null.
    pub(crate) fn word(&mut self, spot: Option<Spot<'_>>, known: &[&'static str]) -> Option<&'static str> {
        let spot = spot?;
        let Value::Text(text) = &spot.node.value else {
            self.wrong_type(&spot, "a text");
            return None;
        };
        let text = text.shown();
        let word = known.iter().copied().find(|word| *word == text);
        if word.is_none() {
            let listed = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let plain = text.trim().to_ascii_lowercase().replace(['-', ' '], "_");
            let hint = nearest(&plain, known.iter().copied())
                .map_or_else(|| format!("it is one of {listed}"), |near| format!("did you mean `{near}`?"));
            let shown: String = text.chars().take(80).collect();
            self.error_with(&spot, format_args!("`{shown}` is not a value of `{}`", spot.field), hint);
        }
        word
    }

    /// A list of texts; one text stands for a list of one.
    pub(crate) fn texts(&mut self, spot: Option<Spot<'_>>) -> Option<Vec<String>> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        match &spot.node.value {
            Value::Text(_) => {
                let one = self.text(Some(spot.clone()))?;
                self.warn(&spot, format_args!("`{}` is read as a list of one", spot.field));
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
                self.wrong_type(&spot, "a list of texts");
                None
            }
        }
    }

    /// A map.
    pub(crate) fn map<'n>(&mut self, spot: Option<Spot<'n>>) -> Option<Spot<'n>> {
        let spot = spot.filter(|spot| !spot.is_null())?;
        if spot.node.members().is_none() {
            self.wrong_type(&spot, "a map");
            return None;
        }
        Some(spot)
    }
}

/// Keys besides the known ones.
#[derive(Clone, Copy)]
pub(crate) enum Extras<'a> {
    /// These may stand there and mean nothing to the gateway.
    These(&'a [&'a str]),
    /// Any may, unless it looks like a slip.
    All,
}
