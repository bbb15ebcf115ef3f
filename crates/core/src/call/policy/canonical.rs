//! The canonical text of an argument for patterns: one text for one value, however it was written.
//!
//! A rule about `^9999$` must not be bypassed with `9999.0`, `9.999e3` or `"\\u0039999"`, because servers read all of
//! them alike. So strings are decoded, numbers are written as plain decimals, and lists and objects lose whitespace.
//!
//! Servers do not agree on numbers with more digits than a double holds: most read `9999.00000000000000000000000001`
//! as 9999. Such a value has one text for each way to read it.

use crate::json::{RawJson, TokenKind, Tokenizer, decode, push_string};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Maximum nesting depth of a value that is written out.
const MAX_DEPTH: usize = 128;
/// The maximum number of digits of a written-out number: a few more than the largest and smallest floats have.
const MAX_DIGITS: usize = 400;

/// How a server parses numbers.
#[derive(Debug, Clone, Copy)]
enum Numbers {
    /// Exactly, with all digits.
    Exact,
    /// All of them as doubles, as JavaScript does.
    Doubles,
    /// Those with a fraction or an exponent as doubles, as Python does.
    FloatsAsDoubles,
}

impl Numbers {
    fn spell(self, spelled: &str) -> Option<String> {
        match self {
            Self::Exact => decimal(spelled),
            Self::FloatsAsDoubles if !spelled.contains(['.', 'e', 'E']) => decimal(spelled),
            Self::Doubles | Self::FloatsAsDoubles => double(spelled),
        }
    }
}

/// The texts of a value for patterns, one for each way to read its numbers. `None` if one is longer than `limit` or
/// cannot be written out.
pub(super) fn readings(value: &RawJson, limit: usize) -> Option<Vec<Cow<'_, str>>> {
    if value.as_bytes().len() > limit {
        return None;
    }
    let texts = match value.as_bytes().first()? {
        b'"' => vec![value.string()?],
        b'{' | b'[' => each_reading(|numbers| compact(value.as_str(), numbers))?,
        b'-' | b'0'..=b'9' => each_reading(|numbers| numbers.spell(value.as_str()))?,
        _ => vec![Cow::Borrowed(value.as_str())],
    };
    texts.iter().all(|text| text.len() <= limit).then_some(texts)
}

fn each_reading<'a>(read: impl Fn(Numbers) -> Option<String>) -> Option<Vec<Cow<'a, str>>> {
    let mut texts: Vec<Cow<'a, str>> = Vec::with_capacity(1);
    for numbers in [Numbers::Exact, Numbers::Doubles, Numbers::FloatsAsDoubles] {
        let text = read(numbers)?;
        if !texts.iter().any(|known| **known == *text) {
            texts.push(Cow::Owned(text));
        }
    }
    Some(texts)
}

/// A list or object without whitespace, with one spelling for its strings and numbers.
fn compact(text: &str, numbers: Numbers) -> Option<String> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut last = 0;
    let mut is_whole = true;
    let read = Tokenizer::read_all(text.as_bytes(), MAX_DEPTH, |token| {
        let marks = &text.as_bytes()[last..token.range.start];
        out.extend(marks.iter().filter(|byte| matches!(byte, b',' | b':')));
        last = token.range.end;
        let spelled = &text[token.range];
        match token.kind {
            TokenKind::Number => match numbers.spell(spelled) {
                Some(number) => out.extend_from_slice(number.as_bytes()),
                None => is_whole = false,
            },
            TokenKind::Key | TokenKind::Text if token.escaped => {
                match decode(&spelled[1..spelled.len() - 1]) {
                    Ok(decoded) => push_string(&mut out, &decoded),
                    Err(_) => is_whole = false,
                }
            }
            _ => out.extend_from_slice(spelled.as_bytes()),
        }
        ControlFlow::Continue(())
    });
    read.ok().filter(|()| is_whole)?;
    String::from_utf8(out).ok()
}

/// A number in plain decimals: no exponent, no redundant zeros, no negative zero.
fn decimal(spelled: &str) -> Option<String> {
    let (minus, rest) = match spelled.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", spelled),
    };
    let (base, power) = match rest.split_once(['e', 'E']) {
        Some((base, power)) => (base, power.parse::<i64>().ok()),
        None => (rest, Some(0)),
    };
    let (whole, fraction) = base.split_once('.').unwrap_or((base, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    // The position of the decimal point among the significant digits.
    let zeros = digits.len() - significant.len();
    let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()? + power?;
    let significant = significant.trim_end_matches('0');
    let count = i64::try_from(significant.len()).ok()?;
    let longest = i64::try_from(MAX_DIGITS).ok()?;
    if point > longest || point < -longest {
        return None;
    }
    Some(match point {
        ..=0 => format!("{minus}0.{}{significant}", "0".repeat(usize::try_from(-point).ok()?)),
        point if point >= count => {
            format!("{minus}{significant}{}", "0".repeat(usize::try_from(point - count).ok()?))
        }
        point => {
            let (whole, fraction) = significant.split_at(usize::try_from(point).ok()?);
            format!("{minus}{whole}.{fraction}")
        }
    })
}

/// The double nearest to a number, in plain decimals; the number itself if it is larger than any double.
fn double(spelled: &str) -> Option<String> {
    let nearest: f64 = spelled.parse().ok()?;
    if nearest.is_finite() { decimal(&nearest.to_string()) } else { decimal(spelled) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_text() {
        let cases = [
            (&["9999", "9999.0", "9.999e3", "9.999E+3", "99990e-1", "9999.000"][..], "9999"),
            (&["0", "-0", "0.0", "0e9", "-0.00e-7"], "0"),
            (&["0.5", "5e-1", "0.50", "50E-2"], "0.5"),
            (&["-1200", "-1.2e3", "-0.0012e6"], "-1200"),
            (&["0.001", "1e-3"], "0.001"),
            (&["1e22", "10000000000000000000000"], "10000000000000000000000"),
            (&[r#""a\"b""#, r#""\u0061\"\u0062""#], "a\"b"),
            (&["true"], "true"),
            (
                &[r#"[1, {"a" : 2.0, "b":"x"}]"#, r#"[1.0,{"\u0061":2,"b":"\u0078"}]"#],
                r#"[1,{"a":2,"b":"x"}]"#,
            ),
            (&[r#"["a , b : c"]"#], r#"["a , b : c"]"#),
        ];
        for (spellings, expected) in cases {
            for spelled in spellings {
                let value = RawJson::parse((*spelled).to_owned()).expect("JSON");
                assert_eq!(readings(&value, 1000), Some(vec![Cow::Borrowed(expected)]), "{spelled}");
            }
        }
    }

    #[test]
    fn more_digits_than_a_double_holds_are_read_in_each_way() {
        let (huge, tiny) = (format!("1{}", "0".repeat(309)), format!("-0.{}1", "0".repeat(398)));
        let cases = [
            ("9999.00000000000000000000000001", &["9999.00000000000000000000000001", "9999"][..]),
            ("9007199254740993", &["9007199254740993", "9007199254740992"]),
            ("1e309", &[huge.as_str()]), // more than a double holds
            ("-1e-399", &[tiny.as_str(), "0"]),
            (
                "[9007199254740993, 1.00000000000000000001]",
                &[
                    "[9007199254740993,1.00000000000000000001]",
                    "[9007199254740992,1]",
                    "[9007199254740993,1]",
                ],
            ),
        ];
        for (spelled, expected) in cases {
            let value = RawJson::parse(spelled.to_owned()).expect("JSON");
            assert_eq!(readings(&value, 1000).expect("readable"), expected, "{spelled}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_written_out_have_no_text() {
        for spelled in ["1e401", "1e-4000", "1e99999999999999999999", "[1e401]", r#"{"\ud800":1}"#] {
            let value = RawJson::parse(spelled.to_owned()).expect("JSON");
            assert_eq!(readings(&value, 1000), None, "{spelled}");
        }
        let long = RawJson::from_value(&"x".repeat(100));
        assert_eq!(readings(&long, 99), None);
    }
}
