//! References in the arguments of a step: `${steps.ID.results.path}` and `${arguments.path}`.
//!
//! A string that is only a reference is replaced by the value, with its type; a reference within a longer string by the
//! value's text. `$${` is written for `${`. If the caller did not give an argument, the member that refers to it is
//! left out. A value that an earlier step did not return is an error. All values of a skipped step are null.

use super::record::{StepRecords, StepState};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The maximum nesting depth of arguments.
const MAX_DEPTH: usize = 32;
/// The maximum length of a reference.
const MAX_REFERENCE: usize = 256;
/// The maximum size of the arguments of a step with all values.
const MAX_FILLED_BYTES: usize = 4 << 20;

/// A parsed reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValueReference {
    /// The source of the value.
    pub(super) source: ValueSource,
    /// The keys and indexes that lead to the value.
    path: Vec<String>,
}

/// The source of a referenced value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueSource {
    /// The results of a step.
    Step(String),
    /// The arguments of the caller.
    Arguments,
}

impl ValueReference {
    /// Parses the text between the braces; the error is a reason.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_REFERENCE {
            return Err(format!("a reference may have at most {MAX_REFERENCE} characters"));
        }
        let mut path = split(text.trim())?.into_iter();
        match (path.next().as_deref(), path.next(), path.next().as_deref()) {
            (Some("steps"), Some(step), Some("results" | "result")) => {
                Ok(Self { source: ValueSource::Step(step), path: path.collect() })
            }
            (Some("steps"), ..) => Err(format!("`${{{text}}}` must be `${{steps.ID.results...}}`")),
            (Some("arguments" | "inputs"), first, second) => {
                let second = second.map(str::to_owned);
                let path = first.into_iter().chain(second).chain(path).collect();
                Ok(Self { source: ValueSource::Arguments, path })
            }
            _ => Err(format!("`${{{text}}}` must begin with `steps.` or `arguments.`")),
        }
    }

    /// The name of the caller's argument that it uses.
    pub(super) fn argument(&self) -> Option<&str> {
        match self.source {
            ValueSource::Arguments => self.path.first().map(String::as_str),
            ValueSource::Step(_) => None,
        }
    }
}

/// Splits `a.b[0].c` into keys.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut keys = Vec::new();
    for part in text.split('.') {
        let (name, indexes) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        if name.is_empty() || name.contains([']', '{', '}', '"', ' ', '\n']) {
            return Err(format!("`${{{text}}}` is not a reference"));
        }
        keys.push(name.to_owned());
        let mut rest = indexes;
        while let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']').ok_or_else(|| format!("`${{{text}}}` lacks a `]`"))?;
            if index.is_empty() || !index.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("`{index}` in `${{{text}}}` is not an index"));
            }
            keys.push(index.to_owned());
            rest = after;
        }
        if !rest.is_empty() {
            return Err(format!("`${{{text}}}` is not a reference"));
        }
    }
    Ok(keys)
}

/// A part of a string with references.
#[derive(Debug, PartialEq, Eq)]
enum TextPiece<'a> {
    Plain(&'a str),
    /// The text between the braces.
    Reference(&'a str),
}

/// Splits a string at its references; `$${` is a plain `${`.
fn pieces(text: &str) -> Result<Vec<TextPiece<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            found.push(TextPiece::Plain(&rest[..at - 1]));
            found.push(TextPiece::Plain("${"));
            rest = &rest[at + 2..];
            continue;
        }
        if at > 0 {
            found.push(TextPiece::Plain(&rest[..at]));
        }
        let (inner, after) =
            rest[at + 2..].split_once('}').ok_or_else(|| format!("`{}` lacks a `}}`", cut(&rest[at..])))?;
        found.push(TextPiece::Reference(inner));
        rest = after;
    }
    if !rest.is_empty() {
        found.push(TextPiece::Plain(rest));
    }
    Ok(found)
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The references in a template, in order; the errors have JSON pointers below `pointer`.
pub(super) fn references_in(
    template: &Value,
    pointer: &str,
    found: &mut Vec<ValueReference>,
    errors: &mut Vec<(String, String)>,
) {
    gather(template, pointer, found, errors, 0);
}

fn gather(
    template: &Value,
    pointer: &str,
    found: &mut Vec<ValueReference>,
    errors: &mut Vec<(String, String)>,
    depth: usize,
) {
    if depth > MAX_DEPTH {
        errors.push((pointer.to_owned(), format!("arguments may be nested at most {MAX_DEPTH} deep")));
        return;
    }
    match template {
        Value::String(text) => {
            let parsed = pieces(text).and_then(|pieces| {
                let references = pieces.into_iter().filter_map(|piece| match piece {
                    TextPiece::Reference(inner) => Some(ValueReference::parse(inner)),
                    TextPiece::Plain(_) => None,
                });
                references.collect::<Result<Vec<_>, _>>()
            });
            match parsed {
                Ok(references) => found.extend(references),
                Err(reason) => errors.push((pointer.to_owned(), reason)),
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                gather(element, &format!("{pointer}/{index}"), found, errors, depth + 1);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                gather(member, &format!("{pointer}/{escaped}"), found, errors, depth + 1);
            }
        }
        _ => {}
    }
}

/// Why arguments could not be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingValue {
    /// A reference without a value, as written.
    Reference(String),
    /// The values are too large.
    TooLarge,
}

/// The values that steps can refer to.
#[derive(Debug, Clone, Copy)]
pub struct StepValues<'a> {
    /// The arguments of the caller.
    pub arguments: &'a Map<String, Value>,
    /// The outcomes of the steps so far.
    pub steps: &'a StepRecords,
}

impl StepValues<'_> {
    /// The value of a reference; `Ok(None)` for an argument that the caller did not give.
    pub(super) fn value(&self, reference: &ValueReference) -> Result<Option<Value>, MissingValue> {
        let missing = || MissingValue::Reference(written(reference));
        match &reference.source {
            ValueSource::Arguments => {
                let Some((name, rest)) = reference.path.split_first() else {
                    return Ok(Some(Value::Object(self.arguments.clone())));
                };
                Ok(self.arguments.get(name).and_then(|given| look_up(given, rest)).cloned())
            }
            ValueSource::Step(id) => {
                let record = self.steps.get(id).ok_or_else(missing)?;
                if record.state == StepState::Skipped {
                    return Ok(Some(Value::Null));
                }
                let results = record.results.as_ref().ok_or_else(missing)?;
                look_up(results, &reference.path).cloned().map(Some).ok_or_else(missing)
            }
        }
    }

    /// The arguments of a step with all references replaced.
    pub fn fill(&self, template: &Map<String, Value>) -> Result<Map<String, Value>, MissingValue> {
        let mut room = MAX_FILLED_BYTES;
        let mut filled = Map::with_capacity(template.len());
        for (key, value) in template {
            if let Some(value) = self.fill_value(value, &mut room)? {
                filled.insert(key.clone(), value);
            }
        }
        Ok(filled)
    }

    fn fill_value(&self, template: &Value, room: &mut usize) -> Result<Option<Value>, MissingValue> {
        Ok(Some(match template {
            Value::String(text) => return self.fill_text(text, room),
            Value::Array(elements) => {
                let mut filled = Vec::with_capacity(elements.len());
                for element in elements {
                    filled.extend(self.fill_value(element, room)?);
                }
                Value::Array(filled)
            }
            Value::Object(members) => {
                let mut filled = Map::with_capacity(members.len());
                for (key, member) in members {
                    if let Some(value) = self.fill_value(member, room)? {
                        filled.insert(key.clone(), value);
                    }
                }
                Value::Object(filled)
            }
            plain => plain.clone(),
        }))
    }

    fn fill_text(&self, text: &str, room: &mut usize) -> Result<Option<Value>, MissingValue> {
        let unreadable = |_| MissingValue::Reference(cut(text));
        let parts = pieces(text).map_err(unreadable)?;
        if let [TextPiece::Reference(inner)] = parts.as_slice() {
            let value = self.value(&ValueReference::parse(inner).map_err(unreadable)?)?;
            if let Some(value) = &value {
                spend(room, value.to_string().len())?;
            }
            return Ok(value);
        }
        let mut out = String::new();
        for part in parts {
            match part {
                TextPiece::Plain(plain) => out.push_str(plain),
                TextPiece::Reference(inner) => {
                    let value = self.value(&ValueReference::parse(inner).map_err(unreadable)?)?;
                    match value {
                        None | Some(Value::Null) => {}
                        Some(Value::String(text)) => out.push_str(&text),
                        Some(other) => out.push_str(&other.to_string()),
                    }
                }
            }
            if out.len() > *room {
                return Err(MissingValue::TooLarge);
            }
        }
        spend(room, out.len())?;
        Ok(Some(Value::String(out)))
    }
}

fn spend(room: &mut usize, bytes: usize) -> Result<(), MissingValue> {
    *room = room.checked_sub(bytes).ok_or(MissingValue::TooLarge)?;
    Ok(())
}

fn look_up<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |at, step| match at {
        Value::Object(members) => members.get(step),
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn written(reference: &ValueReference) -> String {
    let head = match &reference.source {
        ValueSource::Step(id) => format!("steps.{id}.results"),
        ValueSource::Arguments => "arguments".to_owned(),
    };
    let path: String = reference.path.iter().map(|step| format!(".{step}")).collect();
    format!("${{{head}{path}}}")
}

/// The names of the caller's arguments among references.
pub(super) fn argument_names(references: &[ValueReference]) -> BTreeSet<String> {
    references.iter().filter_map(|reference| reference.argument().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::StepRecord;
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn references_are_replaced_by_values() {
        let arguments = object(json!({ "topic": "cats", "limit": 3 }));
        let mut steps = StepRecords::new();
        let results = json!({ "url": "http://x", "items": [{ "id": 7 }] });
        steps.insert("fetch".into(), StepRecord::succeeded(None, results));
        steps.insert("maybe".into(), StepRecord::of_state(StepState::Skipped));
        let values = StepValues { arguments: &arguments, steps: &steps };
        let cases = [
            (json!("${steps.fetch.results.url}"), json!("http://x")),
            (json!("${steps.fetch.results.items[0].id}"), json!(7)),
            (json!("${steps.fetch.results.items.0.id}"), json!(7)),
            (json!("about ${arguments.topic}, ${arguments.limit}"), json!("about cats, 3")),
            (json!("${arguments.limit}"), json!(3)),
            (json!("$${arguments.limit} costs 5$"), json!("${arguments.limit} costs 5$")),
            (json!({ "a": ["${arguments.topic}", "${arguments.absent}"] }), json!({ "a": ["cats"] })),
            (json!("${steps.maybe.results.x}"), json!(null)),
        ];
        for (template, expected) in cases {
            let filled = values.fill(&object(json!({ "x": template })));
            assert_eq!(filled, Ok(object(json!({ "x": expected }))), "{template}");
        }
        assert_eq!(values.fill(&object(json!({ "x": "${arguments.absent}" }))), Ok(Map::new()));
        let missing = values.fill(&object(json!({ "x": "${steps.fetch.results.gone}" })));
        assert_eq!(missing, Err(MissingValue::Reference("${steps.fetch.results.gone}".into())));
    }

    #[test]
    fn bad_references_are_found() {
        for bad in ["${steps.a}", "${steps.a.output}", "${env.HOME}", "${steps.a.results[x]}", "${unclosed"] {
            let (mut found, mut errors) = (Vec::new(), Vec::new());
            references_in(&json!({ "a/b": [bad] }), "/0", &mut found, &mut errors);
            assert_eq!(errors.len(), 1, "{bad}");
            assert_eq!(errors[0].0, "/0/a~1b/0");
        }
    }
}
