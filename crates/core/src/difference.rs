//! Compares two definitions of a tool for display.
//!
//! Definitions are compared leaf by leaf, each named by its JSON pointer: the order of keys does not matter, and every
//! line shows its place. Invisible characters are escaped.

use crate::lint::visible;
use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum number of differences.
pub const MAX_DIFFERENCES: usize = 500;
/// The maximum length of a shown text.
const MAX_TEXT: usize = 8_000;
/// Lists of plain values up to this length are shown as one leaf.
const SHORT_LIST: usize = 200;
/// How many lines, or characters of a long line, are shown around a change.
const AROUND: usize = 2;
const AROUND_CHARACTERS: usize = 60;
/// Lines longer than this are shortened to the part that changed.
const LONG_LINE: usize = 300;

/// One place that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionDifference {
    /// A JSON pointer, safe to display.
    pub pointer: String,
    /// The old value.
    pub before: Option<String>,
    /// The new value.
    pub after: Option<String>,
}

/// The places where two definitions differ. The name is ignored, because the gateway assigns it.
pub fn differences(before: &str, after: &str) -> Vec<DefinitionDifference> {
    let [mut old, mut new] = [before, after].map(leaves);
    let mut pointers: Vec<String> = old.keys().chain(new.keys()).cloned().collect();
    pointers.sort_unstable();
    pointers.dedup();
    let all = pointers.into_iter().filter_map(|pointer| {
        let (before, after) = (old.remove(&pointer), new.remove(&pointer));
        (before != after).then_some(DefinitionDifference { pointer, before, after })
    });
    all.take(MAX_DIFFERENCES).collect()
}

/// Differences as text: each place, then the old value after `-` and the new one after `+`.
pub fn unified(differences: &[DefinitionDifference]) -> String {
    let mut out = String::new();
    for DefinitionDifference { pointer, before, after } in differences {
        out.push_str(&format!("@@ {pointer}\n"));
        let lines = |text: &Option<String>| -> Vec<String> {
            text.iter().flat_map(|text| text.split('\n').map(str::to_owned)).collect()
        };
        hunk(&lines(before), &lines(after), &mut out);
    }
    out
}

/// Writes the lines that differ, with a few of the common lines before and after them.
fn hunk(before: &[String], after: &[String], out: &mut String) {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (old, new) = (&before[same..], &after[same..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, rest) = old.split_at(old.len() - tail);
    let new = &new[..new.len() - tail];
    let mut say = |sign: char, line: &str| out.push_str(&format!("{sign}{line}\n"));
    before[same.saturating_sub(AROUND)..same].iter().for_each(|line| say(' ', line));
    if let ([old], [new]) = (old, new)
        && (old.len() > LONG_LINE || new.len() > LONG_LINE)
    {
        let (old, new) = cut(old, new);
        say('-', &old);
        say('+', &new);
    } else {
        old.iter().for_each(|line| say('-', line));
        new.iter().for_each(|line| say('+', line));
    }
    rest.iter().take(AROUND).for_each(|line| say(' ', line));
}

/// Two long lines, shortened to where they differ.
fn cut(old: &str, new: &str) -> (String, String) {
    let [old, new] = [old, new].map(|line| line.chars().collect::<Vec<char>>());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let from = head.saturating_sub(AROUND_CHARACTERS);
    let shown = |line: &[char]| {
        let to = (line.len() - tail + AROUND_CHARACTERS).min(line.len());
        let text: String = line[from..to].iter().collect();
        let (left, right) = (if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" });
        format!("{left}{text}{right}")
    };
    (shown(&old), shown(&new))
}

/// The leaves of a definition by their pointers. Text that is not JSON is one leaf.
fn leaves(definition: &str) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    match serde_json::from_str::<Value>(definition) {
        Ok(Value::Object(mut members)) => {
            members.remove("name");
            for (key, value) in &members {
                gather(&step("", key), value, &mut leaves);
            }
        }
        _ => drop(leaves.insert(String::new(), shown(definition))),
    }
    leaves
}

fn gather(pointer: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(key, value)| gather(&step(pointer, key), value, leaves));
        }
        Value::Array(elements) if !elements.is_empty() && !is_short_list(elements) => {
            let numbered = elements.iter().enumerate();
            numbered.for_each(|(index, value)| gather(&format!("{pointer}/{index}"), value, leaves));
        }
        Value::String(text) => drop(leaves.insert(pointer.to_owned(), shown(text))),
        other => drop(leaves.insert(pointer.to_owned(), shown(&other.to_string()))),
    }
}

fn is_short_list(elements: &[Value]) -> bool {
    let length = |value: &Value| match value {
        Value::Object(_) | Value::Array(_) => SHORT_LIST + 1,
        Value::String(text) => text.len() + 3,
        _ => 6,
    };
    elements.len() <= SHORT_LIST && elements.iter().map(length).sum::<usize>() <= SHORT_LIST
}

fn step(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", visible(&key.replace('~', "~0").replace('/', "~1")).replace('\n', "\\n"))
}

/// A text with hidden characters escaped. A long text is truncated, with a hash that distinguishes it from others.
fn shown(text: &str) -> String {
    let text = visible(text);
    match text.char_indices().nth(MAX_TEXT) {
        Some((cut, _)) => {
            use sha2::{Digest, Sha256};
            let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
            let [a, b, c, d, ..] = digest;
            format!("{}… ({} bytes, {a:02x}{b:02x}{c:02x}{d:02x})", &text[..cut], text.len())
        }
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(before: &str, after: &str, expected: &Expect) {
        expected.assert_eq(&unified(&differences(before, after)));
    }

    #[test]
    fn key_order_is_not_a_difference() {
        check(
            r#"{"name":"a","description":"x","inputSchema":{"b":1,"a":[1,2],"c":{}}}"#,
            r#"{"inputSchema":{"c":{},"a":[1, 2],"b":1},"description":"\u0078","name":"b"}"#,
            &expect![[""]],
        );
    }

    #[test]
    fn each_change_is_shown_with_its_place() {
        check(
            r#"{"description":"Adds two numbers.","inputSchema":{"properties":{"a":{"type":"number"},"b/c":{"type":"number"}},"required":["a"]}}"#,
            r#"{"description":"Adds two\u200b numbers.","inputSchema":{"properties":{"a":{"type":"string"},"note":{"description":"Anything\nelse","type":"string"}},"required":["a","note"]},"annotations":{"readOnlyHint":true}}"#,
            &expect![[r#"
                @@ /annotations/readOnlyHint
                +true
                @@ /description
                -Adds two numbers.
                +Adds two\u{200b} numbers.
                @@ /inputSchema/properties/a/type
                -number
                +string
                @@ /inputSchema/properties/b~1c/type
                -number
                @@ /inputSchema/properties/note/description
                +Anything
                +else
                @@ /inputSchema/properties/note/type
                +string
                @@ /inputSchema/required
                -["a"]
                +["a","note"]
            "#]],
        );
    }

    #[test]
    fn long_texts_are_shown_where_they_differ() {
        let lines = |third: &str| format!(r#"{{"description":"1\n2\n{third}\n4\n5\n6\n7"}}"#);
        check(
            &lines("3"),
            &lines(r"three\nand more"),
            &expect![[r#"
                @@ /description
                 1
                 2
                -3
                +three
                +and more
                 4
                 5
            "#]],
        );
        let line =
            |word: &str| format!(r#"{{"description":"{} {word} {}"}}"#, "é".repeat(400), "z".repeat(400));
        let text = unified(&differences(&line("old"), &line("new")));
        let shown: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(shown, [15, 126, 126], "{text}");
        let huge = |end: &str| format!(r#"{{"description":"{}{end}"}}"#, "x".repeat(MAX_TEXT + 10));
        assert_eq!(differences(&huge("a"), &huge("b")).len(), 1, "beyond the end, too");
    }

    #[test]
    fn the_output_is_limited() {
        let many: Vec<String> = (0..2_000).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let found = differences("{}", &format!("{{{}}}", many.join(",")));
        assert_eq!(found.len(), MAX_DIFFERENCES);
        for text in ["", "[", "7", "null", "[1]"] {
            let _ = unified(&differences(text, r#"{"a":1}"#));
        }
    }
}
