//! The inputs of a description: arguments, variables and headers, with values from the user or from the description.

use super::MAX_TEXT;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The maximum number of inputs of one kind.
pub(super) const MAX_INPUTS: usize = 100;
/// The maximum length of a description of an input in a message.
const MAX_ABOUT: usize = 120;

/// A variable that a new entry refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededVariable {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
}

/// Escapes a text of the description, so that it cannot refer to a variable.
pub(super) fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// Finds the values of inputs.
pub(super) struct InputReader<'a> {
    server: &'a str,
    values: &'a BTreeMap<String, String>,
    /// Variables that the entry refers to.
    pub variables: Vec<NeededVariable>,
    /// Required inputs without a value: name and description.
    pub missing: Vec<(String, String)>,
}

/// What is used for a required input without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputFallback<'a> {
    /// The user must give it.
    Missing,
    /// A reference to the variable of this name.
    Variable(&'a str),
}

impl<'a> InputReader<'a> {
    pub fn new(server: &'a str, values: &'a BTreeMap<String, String>) -> Self {
        Self { server, values, variables: Vec::new(), missing: Vec::new() }
    }

    /// The value of an input; `None` if it is optional and has no value.
    pub fn value(&mut self, input: &Json, name: &str, fallback: InputFallback<'_>) -> Option<String> {
        if let Some(given) = self.values.get(name) {
            return Some(given.clone());
        }
        if let Some(text) = short(&input["value"]) {
            return Some(self.substituted(text, &input["variables"], fallback));
        }
        if let Some(text) = short(&input["default"]) {
            return Some(literal(text));
        }
        let is_required = input["isRequired"].as_bool().unwrap_or(false);
        if !is_required {
            return None;
        }
        let about = about(input);
        match fallback {
            InputFallback::Variable(variable) => Some(self.reference(variable, about)),
            InputFallback::Missing => {
                self.missing.push((name.to_owned(), about));
                None
            }
        }
    }

    /// Replaces `{name}` by the values of the declared variables; other braces stay.
    fn substituted(&mut self, text: &str, variables: &Json, fallback: InputFallback<'_>) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, tail)) = after.split_once('}') else { break };
            out.push_str(&literal(before));
            match variables.get(name).filter(|input| input.is_object()) {
                Some(input) => out.push_str(&self.variable(input, name, fallback)),
                None => out.push_str(&literal(&format!("{{{name}}}"))),
            }
            rest = tail;
        }
        out.push_str(&literal(rest));
        out
    }

    fn variable(&mut self, input: &Json, name: &str, fallback: InputFallback<'_>) -> String {
        if let Some(given) = self.values.get(name) {
            return given.clone();
        }
        // A variable of a variable is not resolved further.
        if let Some(text) = short(&input["value"]).or_else(|| short(&input["default"])) {
            return literal(text);
        }
        match fallback {
            InputFallback::Variable(_) => {
                let variable = self.own_variable(name);
                self.reference(&variable, about(input))
            }
            InputFallback::Missing => {
                self.missing.push((name.to_owned(), about(input)));
                String::new()
            }
        }
    }

    /// The name of a variable for a value of this server.
    pub fn own_variable(&self, name: &str) -> String {
        let upper = |text: &str| -> String {
            text.chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
                .collect()
        };
        let whole = format!("{}_{}", upper(self.server), upper(name));
        match whole.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("_{whole}"),
            false => whole,
        }
    }

    fn reference(&mut self, variable: &str, about: String) -> String {
        if !self.variables.iter().any(|known| known.name == variable) {
            self.variables.push(NeededVariable { name: variable.to_owned(), about });
        }
        format!("${{{variable}}}")
    }
}

fn short(value: &Json) -> Option<&str> {
    value.as_str().filter(|text| text.len() <= MAX_TEXT)
}

fn about(input: &Json) -> String {
    input["description"].as_str().unwrap_or_default().chars().take(MAX_ABOUT).collect()
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.len() <= 128
        && name.starts_with(is_first)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
