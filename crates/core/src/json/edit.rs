//! Changes and removes parts of JSON text; all other bytes stay unchanged.

use super::cursor::{JsonCursor, JsonKind};
use super::raw::{JsonError, RawJson};
use super::tokenizer::{ANY_DEPTH, Tokenizer};
use super::write::ObjectWriter;
use std::ops::{ControlFlow, Range};

/// The change to one member while an object is edited.
#[derive(Debug)]
pub enum Edit {
    /// Keeps the member.
    Keep,
    /// Removes the member.
    Drop,
    /// Replaces the value and keeps the position.
    Replace(RawJson),
}

/// Changes some members of an object and leaves all others, their spelling and their order unchanged.
pub fn edit_object(
    object: &RawJson,
    mut decide: impl FnMut(&str, &str) -> Edit,
) -> Result<RawJson, JsonError> {
    let text = object.as_str();
    let mut cursor = object_at(text)?;
    let mut writer = ObjectWriter::with_capacity(text.len() + 64);
    cursor.each_member(|spot| match decide(&spot.key, text.get(spot.value.clone()).unwrap_or_default()) {
        Edit::Keep => writer.copy_spelled(text, spot.whole),
        Edit::Drop => {}
        Edit::Replace(other) => {
            writer.copy_spelled(text, spot.whole.start..spot.value.start);
            writer.value(&other);
        }
    });
    Ok(writer.finish())
}

/// Sets members of an object: in place if the key exists, else at the end.
pub fn with_members(object: &RawJson, set: &[(&str, RawJson)]) -> Result<RawJson, JsonError> {
    let text = object.as_str();
    let mut cursor = object_at(text)?;
    let size = set.iter().map(|(key, value)| key.len() + value.as_bytes().len() + 4).sum::<usize>();
    let mut writer = ObjectWriter::with_capacity(text.len() + size);
    let mut there = vec![false; set.len()];
    cursor.each_member(|spot| match set.iter().position(|(name, _)| *name == spot.key) {
        Some(index) => {
            there[index] = true;
            writer.copy_spelled(text, spot.whole.start..spot.value.start);
            writer.value(&set[index].1);
        }
        None => writer.copy_spelled(text, spot.whole),
    });
    for ((name, value), _) in set.iter().zip(there).filter(|(_, there)| !there) {
        writer.raw(name, value);
    }
    Ok(writer.finish())
}

fn object_at(text: &str) -> Result<JsonCursor<'_>, JsonError> {
    let mut cursor = JsonCursor::new(text, 0);
    match cursor.kind() {
        JsonKind::Object => Ok(cursor),
        other => Err(JsonError(format!("expected an object, found {}", other.in_words()))),
    }
}

/// The text without these ranges.
pub fn without(text: &str, mut cuts: Vec<Range<usize>>) -> String {
    cuts.sort_by_key(|cut| cut.start);
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for cut in cuts {
        out.push_str(text.get(from..cut.start.max(from)).unwrap_or_default());
        from = from.max(cut.end);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// The ranges to cut so that some entries of an object or array disappear, each with one comma.
pub fn cuts(entries: &[Range<usize>], mut is_removed: impl FnMut(usize) -> bool) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    let mut kept_before = false;
    for (index, entry) in entries.iter().enumerate() {
        if !is_removed(index) {
            kept_before = true;
        } else if kept_before {
            cuts.push(entries[index - 1].end..entry.end);
        } else {
            let end = entries.get(index + 1).map_or(entry.end, |next| next.start);
            cuts.push(entry.start..end);
        }
    }
    cuts
}

/// The text without white space between its tokens; `None` if it is not JSON.
pub(crate) fn compacted(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut last = 0;
    let read = Tokenizer::read_all(text, ANY_DEPTH, |token| {
        let between = &text[last..token.range.start];
        out.extend(between.iter().filter(|byte| matches!(byte, b',' | b':')));
        last = token.range.end;
        out.extend_from_slice(&text[token.range]);
        ControlFlow::Continue(())
    });
    read.ok().map(|()| out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).expect("test JSON")
    }

    #[test]
    fn editing_changes_only_the_named_members() {
        let value = json(r#"{"b":1e2,"name":"x","c":[1, 2]}"#);
        let edited = edit_object(&value, |key, _| match key {
            "name" => Edit::Replace(json(r#""y""#)),
            "b" => Edit::Drop,
            _ => Edit::Keep,
        });
        assert_eq!(edited.expect("object").as_str(), r#"{"name":"y","c":[1, 2]}"#);
        let spelled = json(r#"{ "\u00e9" : 1 , "name":"x"}"#);
        let edited = edit_object(&spelled, |key, _| if key == "é" { Edit::Keep } else { Edit::Drop });
        assert_eq!(edited.expect("object").as_str(), r#"{"\u00e9" : 1}"#);
        let set = with_members(&value, &[("name", json("2")), ("new", json("3"))]);
        assert_eq!(set.expect("object").as_str(), r#"{"b":1e2,"name":2,"c":[1, 2],"new":3}"#);
    }

    #[test]
    fn entries_are_cut_with_one_comma_and_nothing_else_changes() {
        let text = r#" { "a" : 1 ,"b":[1, {"x":"}\""}], "c\u0041": null }"#;
        let cases = [
            (&["a"][..], r#" { "b":[1, {"x":"}\""}], "c\u0041": null }"#),
            (&["b"], r#" { "a" : 1, "c\u0041": null }"#),
            (&["cA"], r#" { "a" : 1 ,"b":[1, {"x":"}\""}] }"#),
            (&["a", "b"], r#" { "c\u0041": null }"#),
            (&["b", "cA"], r#" { "a" : 1 }"#),
            (&["a", "b", "cA"], r#" {  }"#),
            (&[], text),
        ];
        for (removed, expected) in cases {
            let spots = JsonCursor::new(text, 0).member_spans();
            let places: Vec<_> = spots.iter().map(|spot| spot.whole.clone()).collect();
            let left = without(text, cuts(&places, |index| removed.contains(&&*spots[index].key)));
            assert_eq!(left, expected, "{removed:?}");
        }
    }

    #[test]
    fn white_space_is_removed_only_between_tokens() {
        let compact =
            |text: &str| compacted(text.as_bytes()).map(|text| String::from_utf8(text).expect("text"));
        let text = " { \"a b\" : [ 1 , \"x \\\" y\" ,{ } ] }\n";
        assert_eq!(compact(text).as_deref(), Some(r#"{"a b":[1,"x \" y",{}]}"#));
        assert_eq!(compact("1 2"), None);
    }
}
