//! Changes single values of a YAML text and keeps its comments and order.
//!
//! Values in block notation are changed line by line, values in brackets are written again. Each result is parsed and
//! compared with the expected content, so that an unusual notation is refused and not damaged.

use crate::node::{Node, Value};
use crate::parse::{Syntax, parse_as};
use crate::texts::SourceTexts;
use serde_json::{Map, Value as Json};
use std::ops::Range;
use std::path::Path;

/// The content of a YAML text as JSON.
pub(crate) fn value(text: &str) -> Result<Json, String> {
    node(text).map(|node| node.used())
}

pub(crate) fn node(text: &str) -> Result<Node, String> {
    let mut texts = SourceTexts::default();
    let parsed = parse_as(&mut texts, Path::new("config.yaml"), text.as_bytes(), Syntax::Yaml);
    parsed.map_err(|finding| format!("it is not valid YAML (line {})", finding.line))
}

/// The text with a value at a path of keys. A missing map on the way is added. An element of a list is found by its `name`.
pub(crate) fn set(text: &str, path: &[&str], value: &Json) -> Result<String, String> {
    let root = node(text)?;
    let mut expected = root.used();
    if !set_json(&mut expected, path, value) {
        return Err(unusual());
    }
    let block = YamlBlock::of_root(text, &root)?;
    checked(&block.set(path, value)?, &expected)
}

/// The text without the value at a path of keys, and without a map that only had this value; of a map with two keys in its
/// path, `{}` stays. A value that does not exist is an error.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<String, String> {
    let root = node(text)?;
    let mut expected = root.used();
    let mut path = path;
    // A map inside an entry goes with its last member.
    while path.len() > 3 && size_at(&expected, &path[..path.len() - 1]) == Some(1) {
        path = &path[..path.len() - 1];
    }
    if !remove_json(&mut expected, path) {
        return Err(unusual());
    }
    let edited = YamlBlock::of_root(text, &root)?.remove(path)?;
    let edited = match path {
        [section, _] if size_at(&expected, &[*section]) == Some(0) => {
            with_brackets(&edited, section, &expected)?
        }
        _ => edited,
    };
    checked(&edited, &expected)
}

/// Whether a comment is in the lines of a top-level key.
pub(crate) fn has_comment(text: &str, key: &str) -> bool {
    let Ok(root) = node(text) else { return true };
    let Ok(block) = YamlBlock::of_root(text, &root) else { return true };
    block.member(key).is_none_or(|(_, _, limit)| text[block.line_of(key)..limit].contains('#'))
}

fn unusual() -> String {
    "its notation is not supported; edit it by hand".to_owned()
}

fn checked(text: &str, expected: &Json) -> Result<String, String> {
    match value(text) {
        Ok(found) if found == *expected => Ok(text.to_owned()),
        _ => Err(unusual()),
    }
}

/// The text with `{}` or `[]` as the value of a key that has none.
fn with_brackets(text: &str, key: &str, expected: &Json) -> Result<String, String> {
    let root = node(text)?;
    let Some((found, Node { value: Value::Null, .. })) = root.entry(key) else { return Ok(text.to_owned()) };
    let colon = text[found.mark.start as usize + key.len()..].find(':').ok_or_else(unusual)?;
    let (head, tail) = text.split_at(found.mark.start as usize + key.len() + colon + 1);
    let brackets = if expected[key].is_array() { "[]" } else { "{}" };
    Ok(format!("{head} {brackets}{tail}"))
}

/// A map in block notation, and the range of its lines.
struct YamlBlock<'a> {
    text: &'a str,
    map: &'a Node,
    range: Range<usize>,
    /// The columns before its keys.
    indent: usize,
}

impl<'a> YamlBlock<'a> {
    fn of_root(text: &'a str, root: &'a Node) -> Result<Self, String> {
        if text.trim_start().starts_with('{') || root.members().is_none() {
            return Err("its top level is not a block of keys".to_owned());
        }
        let markers = ["\n---", "\n..."];
        let first =
            root.members().and_then(|members| Some(members.first()?.0.mark.start as usize)).unwrap_or(0);
        let end = markers.iter().filter_map(|marker| Some(first + text[first..].find(marker)? + 1)).min();
        Ok(Self { text, map: root, range: 0..end.unwrap_or(text.len()), indent: 0 })
    }

    /// The starts of the keys, in the order of the text. Keys from elsewhere (`<<`) are left out.
    fn starts(&self) -> Vec<usize> {
        let members = self.map.members().unwrap_or_default().iter();
        let mut starts: Vec<usize> =
            members.map(|(key, _)| key.mark.start as usize).filter(|at| self.range.contains(at)).collect();
        starts.sort_unstable();
        starts
    }

    /// A member: the start of its key, its value, and the end of its lines, without comments and empty lines after it.
    fn member(&self, key: &str) -> Option<(usize, &'a Node, usize)> {
        let (found, node) = self.map.entry(key)?;
        let start = found.mark.start as usize;
        let starts = self.starts();
        let next = starts.get(starts.iter().position(|at| *at == start)? + 1);
        let limit = next.map_or(self.range.end, |next| line_start(self.text, *next));
        Some((start, node, limit - trailing(self.text.get(start..limit)?, self.indent)))
    }

    /// The start of the line of a key.
    fn line_of(&self, key: &str) -> usize {
        self.member(key).map_or(0, |(start, ..)| line_start(self.text, start))
    }

    /// The map that is the value of a member.
    fn inner(&self, key: &str) -> Option<BlockValue<'a>> {
        let (start, node, end) = self.member(key)?;
        Some(BlockValue::of(self.text, node, start + key.len()..end))
    }

    fn set(&self, path: &[&str], value: &Json) -> Result<String, String> {
        let [key, rest @ ..] = path else { return Err(unusual()) };
        if rest.is_empty() {
            return self.put(key, value);
        }
        match self.inner(key) {
            None | Some(BlockValue::Empty) => self.put(key, &nested(rest, value)),
            Some(BlockValue::Brackets(range, mut whole)) => {
                set_json(&mut whole, rest, value);
                Ok(replaced(self.text, range, &in_brackets(&whole)))
            }
            Some(BlockValue::Block(block)) => block.set(rest, value),
            Some(BlockValue::List(elements)) => {
                let [name, rest @ ..] = rest else { return Err(unusual()) };
                let element = elements.into_iter().find(|element| element.name() == Some(name));
                element.ok_or_else(unusual)?.set(rest, value)
            }
            Some(BlockValue::Other) => Err(unusual()),
        }
    }

    /// Writes a member.
    fn put(&self, key: &str, value: &Json) -> Result<String, String> {
        let line_end = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let lines: String =
            member_lines(key, value, self.indent).into_iter().map(|line| line + line_end).collect();
        let Some((start, node, end)) = self.member(key) else {
            let at = self.end_of_members();
            let separator = if self.text[..at].ends_with('\n') || at == 0 { "" } else { line_end };
            return Ok(replaced(self.text, at..at, &format!("{separator}{lines}")));
        };
        let old = node.mark.start as usize..node.mark.end as usize;
        if matches!(node.value, Value::Null) && old.is_empty() && value.is_object() {
            // The comments below the key stay.
            let below = lines.split_once('\n').map_or("", |(_, below)| below);
            let separator = if self.text[..end].ends_with('\n') { "" } else { line_end };
            return Ok(replaced(self.text, end..end, &format!("{separator}{below}")));
        }
        let is_scalar = !matches!(node.value, Value::Map(_) | Value::List(_) | Value::Null);
        let on_line = self.text.get(start..old.end).is_some_and(|text| !text.contains('\n'));
        if is_scalar && on_line && !value.is_object() && !value.is_array() {
            // The comment after the value stays.
            return Ok(replaced(self.text, old, &scalar(value)));
        }
        let line = line_start(self.text, start);
        let lead = self.text.get(line..start).ok_or_else(unusual)?;
        let rest = lines.get(self.indent..).ok_or_else(unusual)?;
        Ok(replaced(self.text, line..end, &format!("{lead}{rest}")))
    }

    /// The end of the last member's lines.
    fn end_of_members(&self) -> usize {
        let Some(last) = self.starts().last().copied() else { return self.range.end };
        let lines = self.text.get(last..self.range.end).unwrap_or_default();
        self.range.end - trailing(lines, self.indent)
    }

    fn remove(&self, path: &[&str]) -> Result<String, String> {
        let [key, rest @ ..] = path else { return Err(unusual()) };
        if rest.is_empty() {
            let (start, _, end) = self.member(key).ok_or_else(unusual)?;
            let line = line_start(self.text, start);
            // The first key of a list's element has the dash before it.
            return match self.text.get(line..start).is_some_and(|lead| lead.trim().is_empty()) {
                true => Ok(replaced(self.text, line..end, "")),
                false => Err(unusual()),
            };
        }
        match self.inner(key) {
            Some(BlockValue::Brackets(range, mut whole)) => {
                remove_json(&mut whole, rest);
                Ok(replaced(self.text, range, &in_brackets(&whole)))
            }
            Some(BlockValue::Block(block)) => block.remove(rest),
            Some(BlockValue::List(elements)) => {
                let [name, rest @ ..] = rest else { return Err(unusual()) };
                let element = elements.into_iter().find(|element| element.name() == Some(name));
                let element = element.ok_or_else(unusual)?;
                match rest.is_empty() {
                    true => Ok(replaced(self.text, element.range, "")),
                    false => element.remove(rest),
                }
            }
            None | Some(BlockValue::Empty | BlockValue::Other) => Err(unusual()),
        }
    }

    /// The `name` of a list's element.
    fn name(&self) -> Option<&'a str> {
        self.map.get("name").and_then(Node::text)
    }
}

/// The value of a member.
enum BlockValue<'a> {
    Empty,
    Block(YamlBlock<'a>),
    /// A list of maps, each with the range of its lines.
    List(Vec<YamlBlock<'a>>),
    /// A value in brackets, which is written again as a whole.
    Brackets(Range<usize>, Json),
    Other,
}

impl<'a> BlockValue<'a> {
    /// Reads the value of a member, which is in this range.
    fn of(text: &'a str, node: &'a Node, range: Range<usize>) -> Self {
        let start = node.mark.start as usize;
        if matches!(node.value, Value::Null) {
            return Self::Empty;
        }
        // The value of an alias is elsewhere.
        let Some(rest) = text.get(start..).filter(|_| range.contains(&start)) else { return Self::Other };
        if rest.starts_with(['{', '[']) {
            return match bracket_length(rest) {
                Some(length) => Self::Brackets(start..start + length, node.used()),
                None => Self::Other,
            };
        }
        let first_of = |map: &Node| {
            let starts = map.members()?.iter().map(|(key, _)| key.mark.start as usize);
            starts.filter(|at| range.contains(at)).min()
        };
        let column = |at: usize| at - line_start(text, at);
        match &node.value {
            Value::Map(_) => match first_of(node) {
                Some(first) => Self::Block(YamlBlock {
                    text,
                    map: node,
                    range: line_start(text, first)..range.end,
                    indent: column(first),
                }),
                None => Self::Other,
            },
            Value::List(elements) => {
                let Some(firsts) = elements.iter().map(first_of).collect::<Option<Vec<usize>>>() else {
                    return Self::Other;
                };
                let blocks = elements.iter().enumerate().map(|(index, map)| {
                    let first = line_start(text, firsts[index]);
                    let next = firsts.get(index + 1).map_or(range.end, |next| line_start(text, *next));
                    let dash = text[first..].len() - text[first..].trim_start().len();
                    let end = next - trailing(&text[first..next.max(first)], dash);
                    YamlBlock { text, map, range: first..end, indent: column(firsts[index]) }
                });
                Self::List(blocks.collect())
            }
            _ => Self::Other,
        }
    }
}

fn replaced(text: &str, range: Range<usize>, new: &str) -> String {
    [&text[..range.start], new, &text[range.end..]].concat()
}

/// The length of the comments and empty lines at the end of lines that belong to what follows.
fn trailing(lines: &str, indent: usize) -> usize {
    let follows = |line: &&str| {
        let content = line.trim_start();
        content.is_empty() || (content.starts_with('#') && line.len() - content.len() <= indent)
    };
    // The first line has the key itself.
    let after: Vec<&str> = lines.split_inclusive('\n').skip(1).collect();
    after.into_iter().rev().take_while(follows).map(str::len).sum()
}

pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
}

/// The length of a value in brackets at the start of a text.
pub(crate) fn bracket_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some('"') if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => match c {
                '"' | '\'' => quote = Some(c),
                '{' | '[' => depth += 1,
                '}' | ']' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at + c.len_utf8());
                    }
                }
                _ => {}
            },
        }
    }
    None
}

/// The lines of a member in block notation.
pub(crate) fn member_lines(key: &str, value: &Json, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    let head = scalar(&Json::from(key));
    match value {
        Json::Object(members) if !members.is_empty() => {
            let inner = members.iter().flat_map(|(key, value)| member_lines(key, value, indent + 2));
            std::iter::once(format!("{pad}{head}:")).chain(inner).collect()
        }
        Json::Array(list) if !list.is_empty() => {
            let elements = list.iter().map(|element| format!("{pad}  - {}", scalar(element)));
            std::iter::once(format!("{pad}{head}:")).chain(elements).collect()
        }
        value => vec![format!("{pad}{head}: {}", scalar(value))],
    }
}

/// A value in brackets, as it is usually written.
fn in_brackets(value: &Json) -> String {
    match value {
        Json::Object(members) => {
            let pair = |(key, value): (&String, &Json)| {
                format!("{}: {}", scalar(&Json::from(key.as_str())), in_brackets(value))
            };
            format!("{{{}}}", members.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Json::Array(list) => format!("[{}]", list.iter().map(in_brackets).collect::<Vec<_>>().join(", ")),
        value => scalar(value),
    }
}

/// A value on one line. A text without special characters is written without quotes.
pub(crate) fn scalar(word: &Json) -> String {
    let Some(text) = word.as_str() else { return word.to_string() };
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { word.to_string() }
}

/// A value in maps with these keys.
fn nested(keys: &[&str], value: &Json) -> Json {
    keys.iter()
        .rev()
        .fold(value.clone(), |inner, key| Json::Object(Map::from_iter([((*key).to_owned(), inner)])))
}

/// The member of a map, or the element of a list with this `name`.
fn child<'a>(value: &'a mut Json, key: &str) -> Option<&'a mut Json> {
    match value {
        Json::Object(members) => members.get_mut(key),
        Json::Array(list) => list.iter_mut().find(|element| element["name"] == key),
        _ => None,
    }
}

fn size_at(value: &Json, path: &[&str]) -> Option<usize> {
    let mut whole = value.clone();
    let found = path.iter().try_fold(&mut whole, |value, key| child(value, key))?;
    match found {
        Json::Object(members) => Some(members.len()),
        Json::Array(list) => Some(list.len()),
        _ => None,
    }
}

fn set_json(value: &mut Json, path: &[&str], new: &Json) -> bool {
    let [key, rest @ ..] = path else { return false };
    if value.is_null() {
        *value = Json::Object(Map::new());
    }
    if !rest.is_empty() && child(value, key).is_some() {
        return child(value, key).is_some_and(|inner| set_json(inner, rest, new));
    }
    match value {
        Json::Object(members) => {
            members.insert((*key).to_owned(), if rest.is_empty() { new.clone() } else { nested(rest, new) });
            true
        }
        _ => false,
    }
}

fn remove_json(value: &mut Json, path: &[&str]) -> bool {
    match (path, value) {
        ([key], Json::Object(members)) => members.shift_remove(*key).is_some(),
        ([key], Json::Array(list)) => {
            let before = list.len();
            list.retain(|element| element["name"] != *key);
            list.len() < before
        }
        ([key, rest @ ..], value) => child(value, key).is_some_and(|inner| remove_json(inner, rest)),
        ([], _) => false,
    }
}
