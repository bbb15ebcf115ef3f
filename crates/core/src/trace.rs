//! W3C trace context.

use crate::hex;
use std::fmt;

/// The name of the context in `_meta` and in headers.
pub const TRACEPARENT: &str = "traceparent";
/// The name of the vendors' additions to the context.
pub const TRACESTATE: &str = "tracestate";
/// The maximum length of a `tracestate` that is forwarded.
pub const MAX_TRACESTATE: usize = 512;

/// Whether a trace is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampled {
    /// It is recorded.
    Yes,
    /// It is only forwarded.
    No,
}

/// A position in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The current span.
    pub span: [u8; 8],
    /// Whether it is recorded.
    pub sampled: Sampled,
}

impl TraceContext {
    /// Parses a `traceparent`; `None` if it is invalid. Of an unknown version, only the known fields are used.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (version, rest) = (bytes.get(..3)?, bytes.get(55..)?);
        let known = version == b"00-" && rest.is_empty();
        let younger =
            matches!(version, [a, b, b'-'] if is_hex(&[*a, *b])) && version != b"00-" && version != b"ff-";
        if !known && !(younger && (rest.is_empty() || rest.starts_with(b"-"))) {
            return None;
        }
        if bytes[35] != b'-' || bytes[52] != b'-' {
            return None;
        }
        let trace: [u8; 16] = read(&bytes[3..35])?;
        let span: [u8; 8] = read(&bytes[36..52])?;
        let [flags] = read::<1>(&bytes[53..55])?;
        let sampled = if flags & 1 == 1 { Sampled::Yes } else { Sampled::No };
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, sampled })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.sampled == Sampled::Yes { "01" } else { "00" };
        write!(f, "00-{}-{}-{flags}", hex::encode(&self.trace), hex::encode(&self.span))
    }
}

fn is_hex(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn read<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N || !is_hex(text) {
        return None;
    }
    let digit = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_context_is_parsed() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = TraceContext::parse(good).expect("it is right");
        assert_eq!((read.sampled, read.to_string().as_str()), (Sampled::Yes, good));
        let cases = [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", true),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings", true),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.x", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", false),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033é-01", false),
            ("", false),
        ];
        for (text, expected) in cases {
            assert_eq!(TraceContext::parse(text).is_some(), expected, "{text}");
        }
    }
}
