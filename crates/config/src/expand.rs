//! Expands `${NAME}`, `${NAME:-default}`, `${env:NAME}` and `$$` in strings.

use crate::node::{Mark, Node, PathStep, Value};
use crate::parse::dotenv::is_variable_name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The maximum length of an expanded string.
const MAX_LENGTH: usize = 1024 * 1024;

/// The variables of one load. `Debug` prints only their names.
#[derive(Clone, Default, PartialEq)]
pub struct Variables {
    values: BTreeMap<String, String>,
    /// Variables whose sealed value could not be opened. They are not set, and get no other value.
    unopened: BTreeSet<String>,
}

impl Variables {
    /// Wraps a map of variables.
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self { values: variables, unopened: BTreeSet::new() }
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: String, value: String) {
        self.values.insert(name, value);
    }

    /// Marks a variable whose sealed value could not be opened.
    pub(crate) fn set_unopened(&mut self, name: String) {
        self.unopened.insert(name);
    }

    /// Whether a file that is read later must not set the variable.
    pub(crate) fn is_settled(&self, name: &str) -> bool {
        self.values.contains_key(name) || self.unopened.contains(name)
    }

    /// The variables whose sealed value could not be opened.
    pub(crate) fn unopened(&self) -> impl Iterator<Item = &str> {
        self.unopened.iter().map(String::as_str)
    }

    /// Whether the variable has a sealed value that could not be opened.
    pub fn is_unopened(&self, name: &str) -> bool {
        self.unopened.contains(name)
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// All names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// An error of variable expansion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The variable is not set, and there is no default.
    #[error("the variable `{0}` is not set")]
    Unset(String),
    /// The variable has a sealed value that could not be opened. A default does not replace it.
    #[error("the variable `{0}` is not set, because its sealed value could not be opened")]
    Unopened(String),
    /// `${` without `}`.
    #[error("`${{` has no closing `}}`")]
    Unclosed,
    /// The text between the braces is not a variable name.
    #[error("`${{{0}}}` does not name a variable")]
    Name(String),
    /// The result is too long.
    #[error("the text is longer than 1 MiB after expansion")]
    TooLong,
}

impl ExpandError {
    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unset(name) => Some(format!(
                "store it with `toolbooth secrets set {name}`, or set it, name a file with --env-file, or give a default: \
                 `${{{name}:-...}}`"
            )),
            Self::Unopened(name) => Some(format!(
                "`toolbooth config check` shows the reason; if only this value is damaged, `toolbooth secrets set {name}` \
                 stores it again"
            )),
            Self::Unclosed | Self::Name(_) => {
                Some("write `${NAME}` or `${NAME:-default}`, and `$$` for a literal dollar sign".to_owned())
            }
            Self::TooLong => None,
        }
    }
}

/// Expands a string; returns `None` if there is nothing to expand. Values are not expanded again.
pub fn expand(template: &str, variables: &Variables) -> Result<Option<String>, ExpandError> {
    if !template.contains('$') {
        return Ok(None);
    }
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(inside) = after.strip_prefix('{') {
            let end = inside.find('}').ok_or(ExpandError::Unclosed)?;
            out.push_str(lookup(&inside[..end], variables)?);
            rest = &inside[end + 1..];
        } else {
            // A single dollar, as in `$HOME` or a regular expression, is kept.
            out.push('$');
            rest = after;
        }
        if out.len() > MAX_LENGTH {
            return Err(ExpandError::TooLong);
        }
    }
    out.push_str(rest);
    if out.len() > MAX_LENGTH {
        return Err(ExpandError::TooLong);
    }
    Ok(if out == template { None } else { Some(out) })
}

fn lookup<'a>(inside: &'a str, variables: &'a Variables) -> Result<&'a str, ExpandError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    // Defaults are literal: a nested `${` would require counting braces.
    if !is_variable_name(name) || default.is_some_and(|default| default.contains("${")) {
        return Err(ExpandError::Name(inside.chars().take(40).collect()));
    }
    if variables.is_unopened(name) {
        return Err(ExpandError::Unopened(name.to_owned()));
    }
    match (variables.get(name), default) {
        // As in a shell, `:-` also replaces an empty value.
        (Some(""), Some(default)) | (None, Some(default)) => Ok(default),
        (Some(value), _) => Ok(value),
        (None, None) => Err(ExpandError::Unset(name.to_owned())),
    }
}

/// The names of the variables that a string refers to.
pub fn references(template: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            rest = after;
            continue;
        }
        rest = after;
        if let Some(inside) = after.strip_prefix('{')
            && let Some(end) = inside.find('}')
        {
            let name = inside[..end].split(":-").next().unwrap_or_default();
            let name = name.strip_prefix("env:").unwrap_or(name);
            if is_variable_name(name) {
                names.push(name.to_owned());
            }
            rest = &inside[end + 1..];
        }
    }
    names
}

/// A string that could not be expanded.
pub(crate) struct Unexpanded {
    pub path: Vec<PathStep>,
    pub mark: Mark,
    pub error: ExpandError,
}

/// Expands all strings in a tree. Strings that cannot be expanded are kept as written and returned.
pub(crate) fn expand_tree(node: &mut Node, variables: &Variables) -> Vec<Unexpanded> {
    let mut errors = Vec::new();
    walk(node, variables, &mut Vec::new(), &mut errors);
    errors
}

fn walk(node: &mut Node, variables: &Variables, path: &mut Vec<PathStep>, errors: &mut Vec<Unexpanded>) {
    let mark = node.mark;
    match &mut node.value {
        Value::Text(text) if !text.is_expanded() => match expand(text.shown(), variables) {
            Ok(Some(value)) => *text = text.expanded(value),
            Ok(None) => {}
            Err(error) => errors.push(Unexpanded { path: path.clone(), mark, error }),
        },
        Value::List(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                path.push(PathStep::Index(index));
                walk(element, variables, path, errors);
                path.pop();
            }
        }
        Value::Map(members) => {
            for (key, member) in members {
                path.push(PathStep::Key(key.text.clone()));
                walk(member, variables, path, errors);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The names of the variables that the strings of a tree refer to.
pub(crate) fn references_in(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Text(text) => references(text.shown()),
        Value::List(elements) => elements.iter().flat_map(references_in).collect(),
        Value::Map(members) => members.iter().flat_map(|(_, member)| references_in(member)).collect(),
        _ => Vec::new(),
    }
}

/// Whether a tree refers to any variable.
pub(crate) fn refers(node: &Node) -> bool {
    !references_in(node).is_empty()
}
