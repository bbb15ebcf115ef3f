//! A parser for JSON with comments and trailing commas that records the position of every value.

use super::{MAX_DEPTH, MAX_NODES, ParseResult, SyntaxError};
use crate::node::{MapKey, Mark, Node, TemplateText, TextId, Value};
use serde_json::Number;

/// Parses a JSON document; an empty document is an empty map.
pub(super) fn parse(text: &str, id: TextId) -> ParseResult<Node> {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut reader = JsonReader { text, bytes: text.as_bytes(), at: start, id, nodes: 0 };
    reader.skip_blank()?;
    if reader.peek().is_none() {
        return Ok(Node::empty_map(reader.mark(reader.at)));
    }
    let node = reader.value(0)?;
    reader.skip_blank()?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.error("unexpected text after the end of the value")),
    }
}

struct JsonReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    id: TextId,
    nodes: usize,
}

impl JsonReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn mark(&self, start: usize) -> Mark {
        Mark::new(self.id, start, self.at)
    }

    fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(message, self.at)
    }

    /// Skips whitespace and comments.
    fn skip_blank(&mut self) -> ParseResult<()> {
        loop {
            let rest = &self.bytes[self.at..];
            match rest {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'/', b'/', ..] => {
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
                }
                [b'/', b'*', ..] => match self.text[self.at + 2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => return Err(self.error("this comment is not closed").hint("close it with `*/`")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> ParseResult<Node> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return Err(self.error(format!("lists and maps are nested deeper than {MAX_DEPTH}")));
        }
        if self.nodes > MAX_NODES {
            return Err(self.error(format!("the file contains more than {MAX_NODES} values")));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(TemplateText::written(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            Some(b'\'') => {
                return Err(self
                    .error("a value cannot start with `'`")
                    .hint("write strings in double quotes"));
            }
            Some(_) => self.word()?,
            None => return Err(self.error("the file ends where a value is expected")),
        };
        Ok(Node { value, mark: self.mark(start) })
    }

    fn word(&mut self) -> ParseResult<Value> {
        let start = self.at;
        let rest = &self.text[start..];
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += length;
        let found = match &rest[..length] {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            "null" => return Ok(Value::Null),
            "" => rest.chars().next().unwrap_or(' ').to_string(),
            word => word.to_owned(),
        };
        let mut error = SyntaxError::new(format!("expected a value, found `{found}`"), start);
        error.end = start + found.len();
        Err(match found.as_str() {
            "True" | "False" | "None" => error.hint("write true, false or null in lowercase"),
            "," => error.hint("one comma too many?"),
            _ if length > 0 => error.hint("write strings in double quotes"),
            _ => error,
        })
    }

    fn map(&mut self, depth: usize) -> ParseResult<Value> {
        let open = self.at;
        self.at += 1;
        let mut members = Vec::new();
        loop {
            self.skip_blank()?;
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Map(members));
                }
                Some(b'"') => {}
                None => return Err(self.unclosed(open, '{')),
                Some(b',') => {
                    return Err(self.error("expected a key, found `,`").hint("one comma too many?"));
                }
                Some(_) => return Err(self.error("expected a key in double quotes, or `}`")),
            }
            let start = self.at;
            let text = self.string()?;
            let key = MapKey { text, mark: self.mark(start) };
            self.skip_blank()?;
            match self.peek() {
                Some(b':') => self.at += 1,
                None => return Err(self.unclosed(open, '{')),
                Some(_) => return Err(self.error(format!("expected `:` after the key `{}`", key.text))),
            }
            self.skip_blank()?;
            let node = self.value(depth + 1)?;
            members.push((key, node));
            self.separator(open, b'}')?;
        }
    }

    fn list(&mut self, depth: usize) -> ParseResult<Value> {
        let open = self.at;
        self.at += 1;
        let mut elements = Vec::new();
        loop {
            self.skip_blank()?;
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(elements));
                }
                None => return Err(self.unclosed(open, '[')),
                Some(_) => {}
            }
            elements.push(self.value(depth + 1)?);
            self.separator(open, b']')?;
        }
    }

    /// Reads the comma after a member, unless the closing bracket follows.
    fn separator(&mut self, open: usize, close: u8) -> ParseResult<()> {
        let after_value = self.at;
        self.skip_blank()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(())
            }
            Some(byte) if byte == close => Ok(()),
            None => Err(self.unclosed(open, if close == b'}' { '{' } else { '[' })),
            // Report the missing comma at the end of the value, not at the start of the next one.
            Some(b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                Err(SyntaxError::new("a comma is missing after this value", after_value))
            }
            Some(_) => Err(self.error(format!("expected `,` or `{}`", char::from(close)))),
        }
    }

    fn unclosed(&self, open: usize, bracket: char) -> SyntaxError {
        let line = self.text[..open].bytes().filter(|byte| *byte == b'\n').count() + 1;
        SyntaxError::new(
            format!("the file ends before the `{bracket}` of line {line} is closed"),
            self.text.len(),
        )
        .hint(format!("add the missing `{}`", if bracket == '{' { '}' } else { ']' }))
    }

    fn number(&mut self) -> ParseResult<Number> {
        let start = self.at;
        let rest = &self.bytes[start..];
        let length = rest
            .iter()
            .take_while(|b| matches!(b, b'+' | b'-' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z'));
        self.at += length.count();
        let text = &self.text[start..self.at];
        let number = serde_json::from_str::<Number>(text).ok();
        let number = match number {
            // The standard library rounds correctly; serde_json's fast path does not.
            Some(number) if number.is_f64() => text.parse().ok().and_then(Number::from_f64),
            other => other,
        };
        number.ok_or_else(|| SyntaxError {
            end: self.at,
            ..SyntaxError::new(format!("`{text}` is not a number"), start)
        })
    }

    fn string(&mut self) -> ParseResult<String> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(stop) = rest.find(|c: char| c == '"' || c == '\\' || (c as u32) < 0x20) else {
                return Err(SyntaxError::new("this string has no closing quote", open));
            };
            out.push_str(&rest[..stop]);
            self.at += stop;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => out.push(self.escape()?),
                b'\n' | b'\r' => return Err(SyntaxError::new("this string has no closing quote", open)),
                byte => {
                    return Err(
                        self.error(format!("a string may not contain the control character {byte:#04x}"))
                    );
                }
            }
        }
    }

    fn escape(&mut self) -> ParseResult<char> {
        let start = self.at;
        self.at += 1;
        let Some(byte) = self.peek() else {
            return Err(self.error("the file ends inside an escape sequence"));
        };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(start),
            _ => {
                return Err(SyntaxError {
                    end: start + 2,
                    ..SyntaxError::new("unknown escape sequence", start)
                }
                .hint("write a backslash as `\\\\`, as in `C:\\\\Users`"));
            }
        })
    }

    fn unicode_escape(&mut self, start: usize) -> ParseResult<char> {
        let bad = || SyntaxError::new("a `\\u` escape needs four hexadecimal digits of a character", start);
        let first = self.hex().ok_or_else(bad)?;
        let code = match first {
            0xd800..=0xdbff => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(bad());
                }
                self.at += 2;
                let second = self.hex().filter(|code| (0xdc00..=0xdfff).contains(code)).ok_or_else(bad)?;
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(bad)
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}
