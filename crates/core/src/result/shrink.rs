//! Makes structured content smaller without changing its shape: long strings are cut and long arrays end early, so that
//! a client which checks it against a schema still accepts it.

use crate::json::{JsonCursor, JsonKind, MemberSpan, RawJson};

/// Deeper values, and objects with more members, are not changed.
const MAX_DEPTH: usize = 32;
const MAX_MEMBERS: usize = 1_000;
/// Minimum length of a cut string.
const MIN_TEXT: usize = 24;

/// The value in about `room` bytes, in the same shape.
pub fn shrunk(value: &RawJson, room: usize) -> RawJson {
    let mut out = String::with_capacity(room.min(1 << 20));
    write(value.as_str(), room, 0, &mut out);
    RawJson::trusted(out)
}

fn write(text: &str, room: usize, depth: usize, out: &mut String) {
    if text.len() <= room || depth == MAX_DEPTH {
        out.push_str(text);
        return;
    }
    match JsonCursor::new(text, 0).kind() {
        JsonKind::Object => write_object(text, room, depth, out),
        JsonKind::Array => write_array(text, room, depth, out),
        JsonKind::Text => {
            let whole = JsonCursor::new(text, 0).text();
            let mut end = room.max(MIN_TEXT).min(whole.len());
            while !whole.is_char_boundary(end) {
                end -= 1;
            }
            let cut = if end < whole.len() { format!("{}…", &whole[..end]) } else { whole.into_owned() };
            out.push_str(RawJson::from_value(&cut).as_str());
        }
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => out.push_str(text),
    }
}

/// Writes every member; the long ones share the space that the short ones leave.
fn write_object(text: &str, room: usize, depth: usize, out: &mut String) {
    let members: Vec<MemberSpan<'_>> = JsonCursor::new(text, 0).member_spans();
    if members.is_empty() || members.len() > MAX_MEMBERS {
        return out.push_str(text);
    }
    let share = room / members.len();
    let (short, long): (Vec<_>, Vec<_>) =
        members.iter().map(|member| member.whole.len()).partition(|size| *size <= share);
    let left = room.saturating_sub(short.iter().sum());
    let each = left / long.len().max(1);
    out.push('{');
    for (place, member) in members.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push_str(&text[member.whole.start..member.value.start]);
        let key = member.value.start - member.whole.start;
        let room = if member.whole.len() <= share { member.whole.len() } else { each.saturating_sub(key) };
        write(&text[member.value.clone()], room, depth + 1, out);
    }
    out.push('}');
}

/// Writes the first elements, as many as fit and at least one.
fn write_array(text: &str, room: usize, depth: usize, out: &mut String) {
    out.push('[');
    let start = out.len();
    let mut is_first = true;
    let _ = JsonCursor::new(text, 0).elements(|cursor| {
        let element = &text[cursor.skip()];
        let left = room.saturating_sub(out.len() - start);
        if !is_first && element.len() > left {
            return Err(());
        }
        if !is_first {
            out.push(',');
        }
        is_first = false;
        write(element, left, depth + 1, out);
        Ok(())
    });
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn it_becomes_small_and_keeps_its_shape() {
        let long = "é".repeat(5_000);
        let values = [
            json!({ "rows": vec![json!({ "id": 1, "name": "x" }); 2_000], "total": 2_000, "next": null }),
            json!({ "a": long, "b": [long], "c": { "d": long } }),
            json!([[[long]]]),
            json!(long),
        ];
        for value in values {
            let small = shrunk(&RawJson::from_value(&value), 1_000);
            assert!(small.as_bytes().len() < 1_400, "{}", small.as_bytes().len());
            assert!(same_shape(&value, &small.read().expect("JSON")), "{small}");
        }
        let small = RawJson::parse(r#"{"a" : 1.50}"#).expect("JSON");
        assert_eq!(shrunk(&small, 100), small);
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        assert_eq!(shrunk(&RawJson::parse(deep.clone()).expect("JSON"), 10).as_str(), deep);
    }

    fn same_shape(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((k, x), (l, y))| k == l && same_shape(x, y))
            }
            (Value::Array(a), Value::Array(b)) => {
                !b.is_empty() && b.len() <= a.len() && a.iter().zip(b).all(|(x, y)| same_shape(x, y))
            }
            (Value::String(a), Value::String(b)) => a == b || a.starts_with(b.trim_end_matches('…')),
            (a, b) => a == b,
        }
    }
}
