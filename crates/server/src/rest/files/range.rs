//! Parses the `Range` header (RFC 9110, single ranges).

use std::ops::Range;

/// The bytes that a `Range` header asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedRange {
    /// The whole file: the header is absent, or may be ignored.
    Whole,
    /// These bytes.
    Some(Range<u64>),
    /// No byte of the file.
    Unsatisfiable,
}

/// Parses a `Range` header for a file of this size. Multiple ranges are ignored, which the RFC allows.
pub fn requested_range(header: Option<&str>, size: u64) -> RequestedRange {
    let Some(spec) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else {
        return RequestedRange::Whole;
    };
    let Some((first, last)) = spec.trim().split_once('-') else { return RequestedRange::Whole };
    let number = |text: &str| {
        // A number that overflows is beyond the end of any file.
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (first, last) {
        ("", last) => match number(last) {
            None => RequestedRange::Whole,
            Some(0) => RequestedRange::Unsatisfiable,
            Some(_) if size == 0 => RequestedRange::Unsatisfiable,
            Some(suffix) => RequestedRange::Some(size.saturating_sub(suffix)..size),
        },
        (first, last) => {
            let end = if last.is_empty() { Some(u64::MAX) } else { number(last) };
            match (number(first), end) {
                (Some(first), Some(last)) if first > last => RequestedRange::Whole,
                (Some(first), Some(_)) if first >= size => RequestedRange::Unsatisfiable,
                (Some(first), Some(last)) => RequestedRange::Some(first..last.saturating_add(1).min(size)),
                _ => RequestedRange::Whole,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_the_rfc() {
        let cases = [
            (None, 10, RequestedRange::Whole),
            (Some("bytes=0-4"), 10, RequestedRange::Some(0..5)),
            (Some("bytes=5-"), 10, RequestedRange::Some(5..10)),
            (Some("bytes=-3"), 10, RequestedRange::Some(7..10)),
            (Some("bytes=-30"), 10, RequestedRange::Some(0..10)),
            (Some("bytes=0-99"), 10, RequestedRange::Some(0..10)),
            (Some("bytes=9-9"), 10, RequestedRange::Some(9..10)),
            (Some("bytes=10-"), 10, RequestedRange::Unsatisfiable),
            (Some("bytes=-0"), 10, RequestedRange::Unsatisfiable),
            (Some("bytes=0-"), 0, RequestedRange::Unsatisfiable),
            (Some("bytes=99999999999999999999999-"), 10, RequestedRange::Unsatisfiable),
            (Some("bytes=0-99999999999999999999999"), 10, RequestedRange::Some(0..10)),
            (Some("bytes=5-4"), 10, RequestedRange::Whole),
            (Some("bytes=a-b"), 10, RequestedRange::Whole),
            (Some("bytes=+1-2"), 10, RequestedRange::Whole),
            (Some("bytes=-"), 10, RequestedRange::Whole),
            (Some("bytes=0-1,3-4"), 10, RequestedRange::Whole),
            (Some("lines=0-1"), 10, RequestedRange::Whole),
        ];
        for (header, size, expected) in cases {
            assert_eq!(requested_range(header, size), expected, "{header:?} of {size}");
        }
    }
}
