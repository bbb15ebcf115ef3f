//! Error messages for JSON that the tokenizer refuses: the fault, in the words of the file's author, and where to look.

use super::{SyntaxError, TreeBuilder};
use crate::node::Value;
use toolbooth_core::json::{SyntaxFault, decode};

impl TreeBuilder<'_> {
    /// The error for a fault at `at`, in a token or comment that starts at `from`.
    pub(super) fn explain(&mut self, fault: SyntaxFault, from: usize, at: usize) -> SyntaxError {
        let is_map = self.open.last().is_some_and(|open| matches!(open.value, Value::Map(_)));
        let expects_value = !is_map || self.key.is_some();
        let is_in_token = from < at && fault != SyntaxFault::CommentNotClosed;
        let is_at_value = matches!(fault, SyntaxFault::ExpectedValue | SyntaxFault::EndBeforeValue);
        if expects_value
            && (is_in_token || is_at_value)
            && let Err(error) = self.count_value(self.open.len(), from)
        {
            return error;
        }
        let first = self.text.as_bytes().get(from);
        match fault {
            SyntaxFault::CommentNotClosed => {
                SyntaxError::new("this comment is not closed", from).hint("close it with `*/`")
            }
            SyntaxFault::TextAfterValue => SyntaxError::new("unexpected text after the end of the value", at),
            SyntaxFault::EndBeforeValue => SyntaxError::new("the file ends where a value is expected", at),
            SyntaxFault::ExpectedKey => match first {
                Some(b',') => SyntaxError::new("expected a key, found `,`", at).hint("one comma too many?"),
                _ => SyntaxError::new("expected a key in double quotes, or `}`", at),
            },
            SyntaxFault::ExpectedColon => {
                let key = self.key.as_ref().map_or("", |key| &key.text);
                SyntaxError::new(format!("expected `:` after the key `{key}`"), at)
            }
            SyntaxFault::ExpectedComma => self.no_comma(at),
            SyntaxFault::ExpectedValue if first == Some(&b'\'') => {
                SyntaxError::new("a value cannot start with `'`", at).hint("write strings in double quotes")
            }
            SyntaxFault::ExpectedValue | SyntaxFault::UnknownLiteral => not_a_value(self.text, from),
            SyntaxFault::InvalidNumber => not_a_number(self.text, from),
            SyntaxFault::End if !is_in_token => self.unclosed(),
            SyntaxFault::End if matches!(first, Some(b'-' | b'0'..=b'9')) => not_a_number(self.text, from),
            SyntaxFault::End if first != Some(&b'"') => not_a_value(self.text, from),
            SyntaxFault::End
            | SyntaxFault::ControlCharacter
            | SyntaxFault::InvalidEscape
            | SyntaxFault::InvalidHexEscape => self.bad_string(fault, from, at),
        }
    }

    /// The error for a byte after a value that is neither a comma nor a closing bracket.
    fn no_comma(&self, at: usize) -> SyntaxError {
        match self.text.as_bytes().get(at) {
            // Report the missing comma at the end of the value, not at the start of the next one.
            Some(b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                SyntaxError::new("a comma is missing after this value", self.last_end)
            }
            _ => {
                let is_list = self.open.last().is_some_and(|open| matches!(open.value, Value::List(_)));
                SyntaxError::new(format!("expected `,` or `{}`", if is_list { ']' } else { '}' }), at)
            }
        }
    }

    /// The error for a file that ends inside of a list or map.
    fn unclosed(&self) -> SyntaxError {
        let (start, is_list) =
            self.open.last().map_or((0, false), |open| (open.start, matches!(open.value, Value::List(_))));
        let (bracket, missing) = if is_list { ('[', ']') } else { ('{', '}') };
        let line = self.text[..start].bytes().filter(|byte| *byte == b'\n').count() + 1;
        SyntaxError::new(
            format!("the file ends before the `{bracket}` of line {line} is closed"),
            self.text.len(),
        )
        .hint(format!("add the missing `{missing}`"))
    }

    /// The error for a string that starts at `from` and has a fault at `at`.
    fn bad_string(&self, fault: SyntaxFault, from: usize, at: usize) -> SyntaxError {
        // An invalid character may precede the fault; the tokenizer does not decode strings.
        let invalid = decode(&self.text[from + 1..at]).err().map(|invalid| from + 1 + invalid.at);
        let backslash = at - 1;
        match (fault, invalid) {
            (SyntaxFault::InvalidEscape, Some(start)) if start == backslash => {
                SyntaxError { end: start + 2, ..SyntaxError::new("unknown escape sequence", start) }
                    .hint("write a backslash as `\\\\`, as in `C:\\\\Users`")
            }
            (SyntaxFault::End, Some(start)) if start == backslash => {
                SyntaxError::new("the file ends inside an escape sequence", at)
            }
            (_, Some(start)) => invalid_escape(start),
            (SyntaxFault::ControlCharacter, None) if !matches!(self.text.as_bytes()[at], b'\n' | b'\r') => {
                let byte = self.text.as_bytes()[at];
                SyntaxError::new(format!("a string may not contain the control character {byte:#04x}"), at)
            }
            (_, None) => SyntaxError::new("this string has no closing quote", from),
        }
    }
}

/// The error for an escape at `start` that is not a character.
pub(super) fn invalid_escape(start: usize) -> SyntaxError {
    SyntaxError::new("a `\\u` escape needs four hexadecimal digits of a character", start)
}

/// The letters, digits and underscores from `start`.
pub(super) fn word_at(text: &str, start: usize) -> &str {
    let rest = &text[start..];
    &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
}

/// The error for text at `start` that is not a value.
pub(super) fn not_a_value(text: &str, start: usize) -> SyntaxError {
    let word = word_at(text, start);
    let found = match word {
        "" => text[start..].chars().next().unwrap_or(' ').to_string(),
        word => word.to_owned(),
    };
    let mut error = SyntaxError::new(format!("expected a value, found `{found}`"), start);
    error.end = start + found.len();
    match found.as_str() {
        "True" | "False" | "None" => error.hint("write true, false or null in lowercase"),
        "," => error.hint("one comma too many?"),
        _ if !word.is_empty() => error.hint("write strings in double quotes"),
        _ => error,
    }
}

/// The digits, letters and signs from `start`.
pub(super) fn number_at(text: &str, start: usize) -> &str {
    let belongs = |byte: &u8| matches!(byte, b'+' | b'-' | b'.') || byte.is_ascii_alphanumeric();
    let length = text.as_bytes()[start..].iter().take_while(|byte| belongs(byte)).count();
    &text[start..start + length]
}

/// The error for text at `start` that looks like a number but is not one.
pub(super) fn not_a_number(text: &str, start: usize) -> SyntaxError {
    let written = number_at(text, start);
    SyntaxError {
        end: start + written.len(),
        ..SyntaxError::new(format!("`{written}` is not a number"), start)
    }
}
