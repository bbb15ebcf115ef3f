//! Mappings: map the arguments of a tool to those of a provider, and a provider's result to the tool's.
//!
//! A template is a JSON value. A string that is only `{path}` (or `$path`) is replaced by the value at that path, with
//! its type; a `{path}` within a longer string by its text. If there is no such value, the member, the element or the
//! part of the string is omitted. `{{` and `}}` are braces, `$$` at the start is a dollar sign.

use crate::manifest::Mapping;
use serde_json::{Map, Value};

/// The size limit of a mapping's output.
pub const MAX_MAPPED: usize = 4 << 20;
/// The maximum nesting depth of a template.
const MAX_DEPTH: usize = 32;

/// The error for a mapping that produces too much output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the mapping produces more than {MAX_MAPPED} bytes, or is nested too deeply")]
pub struct MappingTooLarge;

impl Mapping {
    /// Applies the template to a value; `None` if the whole template is a path that does not exist.
    pub fn apply(&self, to: &Value) -> Result<Option<Value>, MappingTooLarge> {
        let mut room = MAX_MAPPED;
        fill(&self.0, to, &mut room, 0)
    }

    /// The first step of every path in the template: the arguments that it uses.
    pub fn roots(&self) -> Vec<&str> {
        let mut found = Vec::new();
        gather(&self.0, &mut found, 0);
        found
    }
}

fn fill(
    template: &Value,
    from: &Value,
    room: &mut usize,
    depth: usize,
) -> Result<Option<Value>, MappingTooLarge> {
    if depth > MAX_DEPTH {
        return Err(MappingTooLarge);
    }
    Ok(match template {
        Value::String(text) => match whole_path(text) {
            Some(path) => match look_up(from, path) {
                Some(found) => {
                    spend(room, weight(found, *room))?;
                    Some(found.clone())
                }
                None => None,
            },
            None => Some(Value::String(fill_text(text, from, room)?)),
        },
        Value::Array(elements) => {
            let mut filled = Vec::with_capacity(elements.len());
            for element in elements {
                filled.extend(fill(element, from, room, depth + 1)?);
            }
            Some(Value::Array(filled))
        }
        Value::Object(members) => {
            let mut filled = Map::with_capacity(members.len());
            for (key, value) in members {
                if let Some(value) = fill(value, from, room, depth + 1)? {
                    spend(room, key.len())?;
                    filled.insert(key.clone(), value);
                }
            }
            Some(Value::Object(filled))
        }
        plain => Some(plain.clone()),
    })
}

/// The path, if a string is only a path.
fn whole_path(text: &str) -> Option<&str> {
    let inner = match text.strip_prefix('$') {
        Some(path) => path,
        None => text.strip_prefix('{')?.strip_suffix('}')?,
    };
    is_path(inner).then_some(inner)
}

/// Whether a text is a path: names and numbers separated by dots; `.` alone is the whole value.
fn is_path(text: &str) -> bool {
    let step = |step: &str| !step.is_empty() && !step.contains(['{', '}', '$', '"', ' ', '\n']);
    text == "." || (text.len() <= 256 && text.split('.').all(step))
}

fn look_up<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path == "." {
        return Some(value);
    }
    path.split('.').try_fold(value, |at, step| match at {
        Value::Object(members) => members.get(step),
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The text of a value inside a longer string.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn fill_text(text: &str, from: &Value, room: &mut usize) -> Result<String, MappingTooLarge> {
    let mut out = String::new();
    let mut rest = text.strip_prefix('$').filter(|rest| rest.starts_with('$')).unwrap_or(text);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let after = &rest[at..];
        rest = if let Some(rest) = after.strip_prefix("{{") {
            out.push('{');
            rest
        } else if let Some(rest) = after.strip_prefix("}}") {
            out.push('}');
            rest
        } else if let Some((path, rest)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}'))
            && is_path(path)
        {
            out.push_str(&look_up(from, path).map(text_of).unwrap_or_default());
            rest
        } else {
            out.push_str(&after[..1]);
            &after[1..]
        };
        if out.len() > *room {
            return Err(MappingTooLarge);
        }
    }
    out.push_str(rest);
    spend(room, out.len())?;
    Ok(out)
}

fn gather<'a>(template: &'a Value, found: &mut Vec<&'a str>, depth: usize) {
    let mut add = |path: &'a str| {
        let root = path.split('.').next().unwrap_or(path);
        if !found.contains(&root) {
            found.push(root);
        }
    };
    match template {
        Value::String(text) => match whole_path(text) {
            Some(path) => add(path),
            None => {
                let mut rest = text.as_str();
                while let Some((_, after)) = rest.split_once('{') {
                    match after.strip_prefix('{') {
                        Some(after) => rest = after,
                        None => match after.split_once('}') {
                            Some((path, after)) if is_path(path) => {
                                add(path);
                                rest = after;
                            }
                            _ => rest = after,
                        },
                    }
                }
            }
        },
        Value::Array(elements) if depth < MAX_DEPTH => {
            elements.iter().for_each(|element| gather(element, found, depth + 1));
        }
        Value::Object(members) if depth < MAX_DEPTH => {
            members.values().for_each(|value| gather(value, found, depth + 1));
        }
        _ => {}
    }
}

fn spend(room: &mut usize, bytes: usize) -> Result<(), MappingTooLarge> {
    *room = room.checked_sub(bytes).ok_or(MappingTooLarge)?;
    Ok(())
}

/// The approximate size of a value; counting stops slightly above `most`.
fn weight(value: &Value, most: usize) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => sum(elements.iter().map(|element| weight(element, most)), most),
        Value::Object(members) => {
            sum(members.iter().map(|(key, value)| key.len() + 4 + weight(value, most)), most)
        }
        _ => 8,
    }
}

fn sum(parts: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut total: usize = 2;
    for part in parts {
        total = total.saturating_add(part);
        if total > most {
            break;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_paths_keep_the_type_and_embedded_paths_become_text() {
        let from = json!({"q": "rust", "n": 3, "deep": {"list": [{"x": true}, null]}, "none": null});
        let cases = [
            (json!("{q}"), Some(json!("rust"))),
            (json!("$n"), Some(json!(3))),
            (json!("{deep.list.0.x}"), Some(json!(true))),
            (json!("{deep.list.1}"), Some(Value::Null)),
            (json!("{.}"), Some(from.clone())),
            (json!("{missing}"), None),
            (json!("{deep.list.7}"), None),
            (json!("about {q}, {n} times{missing}"), Some(json!("about rust, 3 times"))),
            (json!("{{q}} costs $5"), Some(json!("{q} costs $5"))),
            (json!("$$n"), Some(json!("$n"))),
            (json!("{not a path}"), Some(json!("{not a path}"))),
            (
                json!({"a": "{q}", "b": "{missing}", "c": ["{n}", "{missing}", 1]}),
                Some(json!({"a": "rust", "c": [3, 1]})),
            ),
            (json!(7), Some(json!(7))),
        ];
        for (template, expected) in cases {
            assert_eq!(Mapping(template.clone()).apply(&from), Ok(expected), "{template}");
        }
    }

    #[test]
    fn inserted_values_are_not_templates() {
        let from = json!({"q": "{secret}", "secret": "s"});
        assert_eq!(Mapping(json!("<{q}>")).apply(&from), Ok(Some(json!("<{secret}>"))));
    }

    #[test]
    fn a_mapping_that_multiplies_is_stopped() {
        let from = json!({"big": "x".repeat(1 << 20)});
        let template = Value::Array(vec![json!("{big}"); 8]);
        assert_eq!(Mapping(template).apply(&from), Err(MappingTooLarge));
        assert_eq!(Mapping(json!("{big}".repeat(8))).apply(&from), Err(MappingTooLarge));
    }

    #[test]
    fn roots_are_the_arguments_in_use() {
        let template = json!({"a": "{q}", "b": ["$n", "in {deep.list.0} and {{not}} {q}"]});
        assert_eq!(Mapping(template).roots(), ["q", "n", "deep"]);
    }
}
