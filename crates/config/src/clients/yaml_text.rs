//! Edits of one section of a YAML file as text, so that comments and notation of the rest stay.

use super::spec::ServerLayout;
use crate::node::{Node, Value};
use crate::yaml_edit::{bracket_length, line_start, member_lines, node, scalar};
use serde_json::Value as Json;
use std::ops::Range;

/// The maximum number of entries with one name that are removed.
const MAX_REPEATS: usize = 100;

/// Removes all entries with a name from a section.
pub(super) fn remove(text: &str, key: &str, layout: ServerLayout, name: &str) -> Result<String, String> {
    let mut text = text.to_owned();
    for _ in 0..MAX_REPEATS {
        let root = node(&text)?;
        let Some(section) = YamlSection::find(&text, &root, key) else { return Ok(text) };
        let entries = section.entries(layout);
        let Some(index) = entries.iter().position(|entry| entry.name == Some(name)) else { return Ok(text) };
        let edited = if section.flow().is_some() {
            let mut servers = section.value.used();
            match &mut servers {
                Json::Object(map) => drop(map.shift_remove(name)),
                Json::Array(list) => {
                    list.retain(|entry| entry.get("name").and_then(Json::as_str) != Some(name));
                }
                _ => return Ok(text),
            }
            section.with_flow(&servers)?
        } else {
            let block = section.block(&entries, index, layout)?.0;
            [&text[..block.start], &text[block.end..]].concat()
        };
        text = edited;
    }
    Err("it has too many entries with one name".to_owned())
}

/// Adds an entry at the end of a section; creates the section if it is missing.
pub(super) fn insert(
    text: &str,
    key: &str,
    layout: ServerLayout,
    name: &str,
    words: &Json,
) -> Result<String, String> {
    let root = node(text)?;
    if root.members().is_none() || text.trim_start().starts_with('{') {
        return Err("its top level is not a block of keys".to_owned());
    }
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let written = |indent: usize| -> String {
        entry_lines(layout, name, words, indent).iter().map(|line| format!("{line}{line_end}")).collect()
    };
    let Some(section) = YamlSection::find(text, &root, key) else {
        let separator = if text.is_empty() || text.ends_with('\n') { "" } else { line_end };
        return Ok(format!("{text}{separator}{key}:{line_end}{}", written(2)));
    };
    let fits = matches!(
        (&section.value.value, layout),
        (Value::Null, _) | (Value::Map(_), ServerLayout::Map) | (Value::List(_), ServerLayout::NamedList)
    );
    if !fits {
        let expected = if layout == ServerLayout::Map { "map" } else { "list" };
        return Err(format!("its `{key}` is not a {expected}"));
    }
    let entries = section.entries(layout);
    match section.flow() {
        Some(_) if !entries.is_empty() => {
            let mut servers = section.value.used();
            match &mut servers {
                Json::Object(map) => drop(map.insert(name.to_owned(), words.clone())),
                Json::Array(list) => list.push(words.clone()),
                _ => {}
            }
            section.with_flow(&servers)
        }
        flow => {
            // An empty section: the entry follows the line of the key. Empty brackets are removed.
            let Some(last) = entries.len().checked_sub(1) else {
                let (head, tail) = match flow {
                    Some(span) => (text[..span.start].trim_end(), &text[span.end..]),
                    None => text.split_at(section.colon + 1),
                };
                let (rest, below) = tail.split_once('\n').unwrap_or((tail, ""));
                let rest = rest.trim_end();
                return Ok(format!("{head}{rest}{line_end}{}{below}", written(2)));
            };
            let (block, indent) = section.block(&entries, last, layout)?;
            let (head, tail) = text.split_at(block.end);
            let separator = if head.ends_with('\n') { "" } else { line_end };
            Ok(format!("{head}{separator}{}{tail}", written(indent)))
        }
    }
}

/// The text without a section that has no entries.
pub(super) fn without_empty_key(text: &str, key: &str) -> String {
    let Ok(root) = node(text) else { return text.to_owned() };
    match YamlSection::find(text, &root, key) {
        Some(section) if matches!(section.value.value, Value::Null) => {
            let start = line_start(text, section.colon);
            let end = text[section.colon..].find('\n').map_or(text.len(), |at| section.colon + at + 1);
            [&text[..start], &text[end..]].concat()
        }
        _ => text.to_owned(),
    }
}

/// The text with `[]` as the value of a section that has none.
pub(super) fn with_empty_list(text: &str, key: &str) -> String {
    let Ok(root) = node(text) else { return text.to_owned() };
    match YamlSection::find(text, &root, key) {
        Some(section) if matches!(section.value.value, Value::Null) => {
            let (head, tail) = text.split_at(section.colon + 1);
            format!("{head} []{tail}")
        }
        _ => text.to_owned(),
    }
}

/// A top-level key and its value.
struct YamlSection<'a> {
    text: &'a str,
    value: &'a Node,
    /// The offset of the colon after the key.
    colon: usize,
    /// The offset at which the next top-level key, or the end of the document, begins.
    end: usize,
}

/// An entry of a section: its name, and the offset of its first key.
struct YamlEntry<'a> {
    name: Option<&'a str>,
    start: usize,
}

impl<'a> YamlSection<'a> {
    fn find(text: &'a str, root: &'a Node, key: &str) -> Option<Self> {
        let (found, value) = root.entry(key)?;
        let start = found.mark.start as usize;
        let colon = start + key.len();
        let colon = colon + text.get(colon..)?.find(':')?;
        let next_key =
            root.members()?.iter().map(|(key, _)| key.mark.start as usize).filter(|at| *at > start);
        let marker =
            ["\n---", "\n..."].iter().filter_map(|marker| Some(colon + text[colon..].find(marker)? + 1));
        let end = next_key.map(|at| line_start(text, at)).chain(marker).min().unwrap_or(text.len());
        Some(Self { text, value, colon, end })
    }

    fn entries(&self, layout: ServerLayout) -> Vec<YamlEntry<'a>> {
        match (&self.value.value, layout) {
            (Value::Map(members), ServerLayout::Map) => members
                .iter()
                .map(|(key, _)| YamlEntry { name: Some(&key.text), start: key.mark.start as usize })
                .collect(),
            (Value::List(elements), ServerLayout::NamedList) => {
                let entry = |element: &'a Node| {
                    let keys = element.members().unwrap_or_default().iter().map(|(key, _)| key.mark.start);
                    let start = keys.min().unwrap_or(element.mark.start) as usize;
                    YamlEntry { name: element.get("name").and_then(Node::text), start }
                };
                elements.iter().map(entry).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The lines of an entry in block notation, without the comments and empty lines after it, and its indentation.
    fn block(
        &self,
        entries: &[YamlEntry<'_>],
        index: usize,
        layout: ServerLayout,
    ) -> Result<(Range<usize>, usize), String> {
        let unusual = || "its notation is not supported; edit it by hand".to_owned();
        let at = entries.get(index).ok_or_else(unusual)?.start;
        let start = line_start(self.text, at);
        let before = self.text.get(start..at).ok_or_else(unusual)?;
        let indent = before.len() - before.trim_start_matches(' ').len();
        let leads = before.trim();
        let is_alone = match layout {
            ServerLayout::Map => leads.is_empty(),
            ServerLayout::NamedList => leads == "-",
        };
        if !is_alone || start <= self.colon {
            return Err(unusual());
        }
        let later = entries.iter().map(|entry| entry.start).filter(|other| *other > at).min();
        let limit = later.map_or(self.end, |other| line_start(self.text, other));
        let lines = self.text.get(start..limit).ok_or_else(unusual)?;
        let follows = |line: &str| {
            let content = line.trim_start();
            let depth = line.len() - line.trim_start_matches(' ').len();
            content.is_empty() || (content.starts_with('#') && depth <= indent)
        };
        let trailing: usize =
            lines.split_inclusive('\n').rev().take_while(|line| follows(line)).map(str::len).sum();
        Ok((start..limit - trailing, indent))
    }

    /// The range of the value if it is written with brackets.
    fn flow(&self) -> Option<Range<usize>> {
        let mut at = self.colon + 1;
        loop {
            let rest = self.text.get(at..self.end)?;
            let trimmed = rest.trim_start();
            at += rest.len() - trimmed.len();
            match trimmed.chars().next()? {
                '{' | '[' => return Some(at..at + bracket_length(trimmed)?),
                '#' => at += trimmed.find('\n')?,
                _ => return None,
            }
        }
    }

    /// The text with this value in brackets.
    fn with_flow(&self, value: &Json) -> Result<String, String> {
        let span = self.flow().ok_or("its notation is not supported; edit it by hand")?;
        Ok(format!("{}{value}{}", &self.text[..span.start], &self.text[span.end..]))
    }
}

/// The lines of an entry.
fn entry_lines(layout: ServerLayout, name: &str, words: &Json, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    let members = words.as_object().into_iter().flatten();
    let lines: Vec<String> = members.flat_map(|(key, word)| member_lines(key, word, 0)).collect();
    match layout {
        ServerLayout::Map => {
            let head = format!("{pad}{}:", scalar(&Json::from(name)));
            std::iter::once(head).chain(lines.into_iter().map(|line| format!("{pad}  {line}"))).collect()
        }
        ServerLayout::NamedList => {
            let marked = |(index, line): (usize, String)| {
                format!("{pad}{}{line}", if index == 0 { "- " } else { "  " })
            };
            lines.into_iter().enumerate().map(marked).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    fn check(layout: ServerLayout, before: &str, expected: Expect) {
        let words = json!({"name": "new", "cmd": "/bin/new", "args": ["a b"]});
        let text = remove(before, "servers", layout, "old").expect("it can be edited");
        let text = insert(&text, "servers", layout, "new", &words).expect("it can be edited");
        node(&text).expect("it is valid");
        expected.assert_eq(&text);
    }

    #[test]
    fn an_entry_of_a_block_is_replaced_and_comments_stay() {
        check(
            ServerLayout::Map,
            "# head\nservers:\n  # first\n  old:\n    cmd: x\n    text: |\n      # not a comment\n\n  # second\n  keep: {cmd: y} # here\n\n# tail\nother: 1\n",
            expect![[r##"
                # head
                servers:
                  # first

                  # second
                  keep: {cmd: y} # here
                  new:
                    name: new
                    cmd: /bin/new
                    args:
                      - "a b"

                # tail
                other: 1
            "##]],
        );
    }

    #[test]
    fn the_only_entry_is_replaced() {
        check(
            ServerLayout::Map,
            "servers:\n    old:\n        cmd: x\nother: 1",
            expect![[r#"
                servers:
                  new:
                    name: new
                    cmd: /bin/new
                    args:
                      - "a b"
                other: 1"#]],
        );
    }

    #[test]
    fn a_section_is_created_or_filled() {
        let created = expect![[r#"
            a: 1
            servers:
              new:
                name: new
                cmd: /bin/new
                args:
                  - "a b"
        "#]];
        check(ServerLayout::Map, "a: 1", created);
        check(
            ServerLayout::Map,
            "servers: {} # none\nb: 2\n",
            expect![[r##"
                servers: # none
                  new:
                    name: new
                    cmd: /bin/new
                    args:
                      - "a b"
                b: 2
            "##]],
        );
    }

    #[test]
    fn brackets_are_written_again() {
        check(
            ServerLayout::Map,
            "servers: {old: {cmd: x}, keep: {cmd: 'y}'}} # all\nb: 2\n",
            expect![[r#"
                servers: {"keep":{"cmd":"y}"},"new":{"name":"new","cmd":"/bin/new","args":["a b"]}} # all
                b: 2
            "#]],
        );
    }

    #[test]
    fn an_element_of_a_list_is_replaced() {
        check(
            ServerLayout::NamedList,
            "servers:\n- name: keep\n  cmd: y\n# about old\n- cmd: x\n  name: old\nb: 2\n",
            expect![[r#"
                servers:
                - name: keep
                  cmd: y
                - name: new
                  cmd: /bin/new
                  args:
                    - "a b"
                # about old
                b: 2
            "#]],
        );
    }
}
