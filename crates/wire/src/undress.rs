//! Taking what only modern clients know out of a long result while it goes by.
//!
//! A result that may be streamed starts with a member that every era knows (see `head`), so each member
//! that goes takes the comma before it along. Nothing but `_meta` is kept back, and that only up to a bound.

use crate::meta::without_protocol_keys;
use bytes::{Bytes, BytesMut};
use toolbooth_core::json::RawJson;

/// The longest key looked at, and the longest `_meta` rewritten; longer ones pass as they are.
const MAX_KEPT_BACK: usize = 256 << 10;

/// A result on its way to a legacy client. Feed it the text from the result's `{` on.
#[derive(Debug)]
pub struct Undress {
    mode: Mode,
    depth: u32,
    string: Text,
    /// What was kept back: a comma and a key, or a whole `_meta`.
    kept: BytesMut,
    /// Where the value of `_meta` starts in `kept`.
    value_at: usize,
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

impl Default for Undress {
    fn default() -> Self {
        Self { mode: Mode::Pass, depth: 0, string: Text::Outside, kept: BytesMut::new(), value_at: 0 }
    }
}

impl Undress {
    /// Takes the next chunk; what goes on is added to `out`.
    pub fn push(&mut self, chunk: &Bytes, out: &mut Vec<Bytes>) {
        let mut from = 0;
        let mut at = 0;
        while at < chunk.len() {
            if self.mode == Mode::Over {
                break;
            }
            let byte = chunk[at];
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
            Mode::Key => {
                self.kept.extend_from_slice(&chunk[from..at]);
                out.push(self.kept.split().freeze());
            }
            Mode::Pass | Mode::Skip | Mode::Over => {}
        }
        at
    }

    /// A key was read: does its member go?
    fn key_read(&mut self, out: &mut Vec<Bytes>) {
        let text = &self.kept[..];
        let start = text.iter().position(|byte| *byte == b'"').unwrap_or(0);
        let end = text.iter().rposition(|byte| *byte == b'"').map_or(text.len(), |end| end + 1);
        let key: Option<String> = serde_json::from_slice(&text[start..end.max(start)]).ok();
        match key.as_deref() {
            Some("resultType" | "ttlMs" | "cacheScope") => {
                self.kept.clear();
                self.mode = Mode::Skip;
            }
            Some("_meta") => {
                self.value_at = self.kept.len();
                self.mode = Mode::Meta;
            }
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
            Mode::Skip => {}
            Mode::Key | Mode::Meta => {
                self.kept.extend_from_slice(&chunk[from..]);
                if self.kept.len() > MAX_KEPT_BACK {
                    self.let_go(out);
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
        let mut undress = Undress::default();
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
