//! Taking what belongs to one era out of a long result while it goes by.
//!
//! A result that may be streamed starts with a member that every era knows (see `head`), so each member
//! that goes takes the comma before it along. Nothing but `_meta` is kept back, and that only up to a bound.
//! What a legacy server must not say is blanked, so that the result stays as long as it was said to be.

use crate::meta::without_protocol_keys;
use bytes::{Bytes, BytesMut};
use toolbooth_core::json::RawJson;

/// The longest `_meta` rewritten; a longer one passes as it is. A member with a longer key goes.
const MAX_KEPT_BACK: usize = 256 << 10;

/// A result on its way to a client of the other era. Feed it the text from the result's `{` on.
#[derive(Debug)]
pub struct Undress {
    way: Way,
    mode: Mode,
    depth: u32,
    string: Text,
    /// What was kept back: a comma and a key, or a whole `_meta`.
    kept: BytesMut,
    /// Where the value of `_meta` starts in `kept`.
    value_at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From a modern server to a legacy client.
    ToLegacy,
    /// From a legacy server to a modern client.
    ToModern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// What comes goes on.
    Pass,
    /// A key of the result is being read.
    Key,
    /// A member that goes is being skipped.
    Skip,
    /// `_meta` is being gathered.
    Meta,
    /// The value of `structuredContent` is about to start.
    Structure,
    /// The result is over.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    /// In a string, after an even number of backslashes.
    Inside,
    /// In a string, after an odd number of them: the next byte is escaped.
    Escaped,
}

/// How much of a string is looked at in one step, and the first byte of the next.
const BLOCK: usize = 65;

/// Whether a string may end in a block whose first byte is not escaped. Long texts are full of escaped quotes, so those
/// do not count: only a quote without a backslash before it, or two backslashes in a row, which may escape each other.
///
/// Without branches, so that many bytes are compared at once.
fn may_end(block: &[u8; BLOCK]) -> bool {
    let (before, after) = (&block[..BLOCK - 1], &block[1..]);
    let pairs = before.iter().zip(after);
    let seen = pairs.fold(0_u8, |seen, (before, after)| {
        let escapes = u8::from(*before == b'\\');
        let (quote, backslash) = (u8::from(*after == b'"'), u8::from(*after == b'\\'));
        seen | (quote & (escapes ^ 1)) | (backslash & escapes)
    });
    (seen | u8::from(block[0] == b'"')) != 0
}

impl Undress {
    /// For a legacy client: what only modern ones know goes.
    pub fn for_legacy() -> Self {
        Self::new(Way::ToLegacy)
    }

    /// For a modern client: what a legacy server must not say goes, and blanks stand in its place.
    pub fn for_modern() -> Self {
        Self::new(Way::ToModern)
    }

    fn new(way: Way) -> Self {
        let kept = BytesMut::new();
        Self { way, mode: Mode::Pass, depth: 0, string: Text::Outside, kept, value_at: 0 }
    }

    /// Takes the next chunk; what goes on is added to `out`.
    pub fn push(&mut self, chunk: &Bytes, out: &mut Vec<Bytes>) {
        let mut from = 0;
        let mut at = 0;
        while at < chunk.len() {
            if self.mode == Mode::Over {
                break;
            }
            let byte = chunk[at];
            if self.mode == Mode::Structure && !byte.is_ascii_whitespace() {
                match byte {
                    b'{' => self.let_go(out),
                    _ => self.skip(out),
                }
            }
            match self.string {
                Text::Inside | Text::Escaped => {
                    at = self.string_end(chunk, at);
                    continue;
                }
                Text::Outside => match byte {
                    b'"' => self.string = Text::Inside,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            from = self.member_ends(chunk, from, at, out);
                            self.mode = Mode::Over;
                        }
                    }
                    b',' if self.depth == 1 => {
                        from = self.member_ends(chunk, from, at, out);
                        self.mode = Mode::Key;
                    }
                    b':' if self.depth == 1 && self.mode == Mode::Key => {
                        self.kept.extend_from_slice(&chunk[from..=at]);
                        from = at + 1;
                        self.key_read(out);
                    }
                    _ => {}
                },
            }
            at += 1;
        }
        self.rest_of_chunk(chunk, from, out);
    }

    /// Runs to the end of a string, or of the chunk; where what follows starts.
    fn string_end(&mut self, chunk: &[u8], start: usize) -> usize {
        // What stands at `at` is never escaped.
        let mut at = start + usize::from(self.string == Text::Escaped);
        while at < chunk.len() {
            if let Some(block) = chunk[at..].first_chunk::<BLOCK>()
                && !may_end(block)
            {
                // The last byte of the block is looked at again, as the first of the next, unless it is escaped.
                let last = BLOCK - 1;
                at += last + usize::from(block[last - 1] == b'\\');
                continue;
            }
            let stop = chunk.len().min(at + BLOCK);
            while at < stop {
                match chunk[at] {
                    b'"' => {
                        self.string = Text::Outside;
                        return at + 1;
                    }
                    b'\\' => at += 2,
                    _ => at += 1,
                }
            }
        }
        self.string = if at > chunk.len() { Text::Escaped } else { Text::Inside };
        chunk.len()
    }

    /// A member ends before `at`; where what follows starts.
    fn member_ends(&mut self, chunk: &Bytes, from: usize, at: usize, out: &mut Vec<Bytes>) -> usize {
        match self.mode {
            Mode::Pass if from < at => out.push(chunk.slice(from..at)),
            Mode::Meta => {
                self.kept.extend_from_slice(&chunk[from..at]);
                self.finish_meta(out);
            }
            // A key without a value is no JSON; what there is goes on, for the client to refuse.
            Mode::Key | Mode::Structure => {
                self.kept.extend_from_slice(&chunk[from..at]);
                out.push(self.kept.split().freeze());
            }
            Mode::Skip => self.blank(at - from, out),
            Mode::Pass | Mode::Over => {}
        }
        at
    }

    /// Leaves a member out whose key was kept back.
    fn skip(&mut self, out: &mut Vec<Bytes>) {
        self.blank(self.kept.len(), out);
        self.kept.clear();
        self.mode = Mode::Skip;
    }

    fn blank(&self, length: usize, out: &mut Vec<Bytes>) {
        if self.way == Way::ToModern && length > 0 {
            out.push(vec![b' '; length].into());
        }
    }

    /// A key was read: does its member go?
    fn key_read(&mut self, out: &mut Vec<Bytes>) {
        let text = &self.kept[..];
        let start = text.iter().position(|byte| *byte == b'"').unwrap_or(0);
        let end = text.iter().rposition(|byte| *byte == b'"').map_or(text.len(), |end| end + 1);
        let key: Option<String> = serde_json::from_slice(&text[start..end.max(start)]).ok();
        match (self.way, key.as_deref()) {
            (Way::ToLegacy, Some("resultType" | "ttlMs" | "cacheScope"))
            | (Way::ToModern, Some("resultType" | "inputRequests" | "requestState")) => self.skip(out),
            (Way::ToLegacy, Some("_meta")) => {
                self.value_at = self.kept.len();
                self.mode = Mode::Meta;
            }
            (Way::ToLegacy, Some("structuredContent")) => self.mode = Mode::Structure,
            _ => self.let_go(out),
        }
    }

    fn let_go(&mut self, out: &mut Vec<Bytes>) {
        out.push(self.kept.split().freeze());
        self.mode = Mode::Pass;
    }

    fn finish_meta(&mut self, out: &mut Vec<Bytes>) {
        let member = self.kept.split().freeze();
        match RawJson::parse(member.slice(self.value_at..)) {
            Ok(meta) => {
                if let Some(meta) = without_protocol_keys(&meta) {
                    out.push(member.slice(..self.value_at));
                    out.push(meta.bytes().clone());
                }
            }
            Err(_) => out.push(member),
        }
    }

    fn rest_of_chunk(&mut self, chunk: &Bytes, from: usize, out: &mut Vec<Bytes>) {
        if from >= chunk.len() {
            return;
        }
        match self.mode {
            Mode::Pass | Mode::Over => out.push(chunk.slice(from..)),
            Mode::Skip => self.blank(chunk.len() - from, out),
            Mode::Key | Mode::Meta | Mode::Structure => {
                self.kept.extend_from_slice(&chunk[from..]);
                if self.kept.len() > MAX_KEPT_BACK {
                    match self.mode {
                        Mode::Meta => self.let_go(out),
                        _ => self.skip(out),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::strip_modern;

    fn undressed(text: &str, size: usize) -> String {
        passed(Undress::for_legacy(), text, size)
    }

    fn passed(mut undress: Undress, text: &str, size: usize) -> String {
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            undress.push(&Bytes::copy_from_slice(chunk), &mut out);
        }
        String::from_utf8(out.concat()).expect("text")
    }

    #[test]
    fn every_chunking_gives_what_reading_it_whole_gives() {
        let results = [
            r#"{"content":[]}"#,
            r#"{"content":[],"resultType":"complete"}"#,
            r#"{"content":[{"text":"a,\"resultType\":1}"}],"resultType":"complete","x":1}"#,
            r#"{"content":[],"ttlMs":0,"cacheScope":"private","isError":false}"#,
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"a":[1,2]}},"z":{}}"#,
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/x":1,"mine":{"a":",}"}},"resultType":"complete"}"#,
            r#"{"content":[{"resultType":"inner","_meta":{"io.modelcontextprotocol/x":1}}],"resultType":"complete"}"#,
            r#"{"content":["\\","\\\"",{"a":[[[{"b":"}"}]]]}],"\u0072esultType":"complete","y":null}"#,
            r#"{ "content" : [ ] , "resultType" : "complete" , "k" : "v" }"#,
        ];
        for result in results {
            let whole = strip_modern(&RawJson::parse(result.to_owned()).expect("JSON"));
            let expected: serde_json::Value = whole.read().expect("JSON");
            for size in 1..=result.len() + 1 {
                let found = undressed(&format!("{result}}}"), size);
                let found = found.strip_suffix('}').expect("the envelope's brace");
                let found: serde_json::Value = serde_json::from_str(found).expect(found);
                assert_eq!(found, expected, "{result} by {size}");
            }
        }
    }

    #[test]
    fn long_texts_end_where_they_end() {
        for text in ["\\\"", "\\\\", "x\\\"y", "\\\\\\\"", "\\n", "é", "xxxxxxx"] {
            for length in 0..160 {
                let long = "x".repeat(length % 67) + &text.repeat(length);
                let result = format!(r#"{{"content":["{long}"],"resultType":"complete","k":"{long}"}}}}"#);
                let expected = format!(r#"{{"content":["{long}"],"k":"{long}"}}}}"#);
                for size in [7, 64, 65, 66, 130, 4096] {
                    assert_eq!(undressed(&result, size), expected, "{text} {length} {size}");
                }
            }
        }
    }

    #[test]
    fn only_objects_are_structure_for_legacy_clients() {
        for odd in ["[1,{\"a\":2}]", "\"a,b\"", "7", "null", " [ ]"] {
            let result = format!(r#"{{"content":[],"structuredContent":{odd},"x":1}}}}"#);
            for size in 1..result.len() {
                assert_eq!(undressed(&result, size), r#"{"content":[],"x":1}}"#, "{odd} by {size}");
            }
        }
        let even = r#"{"content":[],"structuredContent" :  {"a":[1]},"x":1}}"#;
        for size in 1..even.len() {
            assert_eq!(undressed(even, size), even);
        }
    }

    #[test]
    fn a_legacy_server_asks_no_modern_client_in_a_result() {
        let long = " ".repeat(MAX_KEPT_BACK + 10);
        let results = [
            r#"{"content":[],"resultType":"input_required"}}"#.to_owned(),
            r#"{"content":[{"resultType":1}],"resultType":"complete","requestState":"s,}","resultType":"input_required","_meta":{"io.modelcontextprotocol/a":1}}}"#.to_owned(),
            r#"{"content":[],"\u0072esultType":"input_required","inputRequests":{"a":{"b":[1,"]"]}},"x":1.0}}"#.to_owned(),
            format!(r#"{{"content":[],{long}"resultType":"input_required","x":2}}}}"#),
        ];
        for result in results {
            let whole = RawJson::parse(result[..result.len() - 1].to_owned()).expect("JSON");
            let expected = toolbooth_core::json::edit_object(&whole, |key, _| match key {
                "resultType" | "inputRequests" | "requestState" => toolbooth_core::json::Edit::Drop,
                _ => toolbooth_core::json::Edit::Keep,
            });
            let expected: serde_json::Value = expected.expect("an object").read().expect("JSON");
            let sizes = if result.len() < 1000 { 1..=result.len() } else { 4096..=4097 };
            for size in sizes {
                let found = passed(Undress::for_modern(), &result, size);
                assert_eq!(found.len(), result.len(), "it stays as long as it was");
                let found: serde_json::Value = serde_json::from_str(&found[..found.len() - 1]).expect(&found);
                assert_eq!(found, expected, "by {size}");
            }
        }
    }

    #[test]
    fn what_stays_keeps_its_spelling() {
        let result = r#"{"content": [1.0, "\u0041"],"resultType":"complete","x" :  1e400}}"#;
        assert_eq!(undressed(result, 7), r#"{"content": [1.0, "\u0041"],"x" :  1e400}}"#);
    }

    #[test]
    fn nothing_is_kept_back_without_bound() {
        let huge = format!(
            r#"{{"content":[],"_meta":{{"a":"{}"}},"resultType":"complete"}}}}"#,
            "x".repeat(1 << 20)
        );
        let out = undressed(&huge, 4096);
        assert!(out.contains("xxxx") && !out.contains("resultType"), "{}", out.len());
    }
}
