//! Which part of a file is asked for (RFC 9110, single ranges).

use std::ops::Range;

/// What a `Range` header comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Everything: no range was given, or one that need not be heeded.
    Whole,
    /// These bytes.
    Some(Range<u64>),
    /// Nothing that the file has.
    Unsatisfiable,
}

/// Reads a `Range` header for a file of this size. Several ranges at once are not heeded, which is allowed.
pub fn part(header: Option<&str>, size: u64) -> Part {
    let Some(spec) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((first, last)) = spec.trim().split_once('-') else { return Part::Whole };
    let number = |text: &str| {
        // Numbers beyond counting are beyond the end.
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (first, last) {
        ("", last) => match number(last) {
            None => Part::Whole,
            Some(0) => Part::Unsatisfiable,
            Some(_) if size == 0 => Part::Unsatisfiable,
            Some(suffix) => Part::Some(size.saturating_sub(suffix)..size),
        },
        (first, last) => {
            let end = if last.is_empty() { Some(u64::MAX) } else { number(last) };
            match (number(first), end) {
                (Some(first), Some(last)) if first > last => Part::Whole,
                (Some(first), Some(_)) if first >= size => Part::Unsatisfiable,
                (Some(first), Some(last)) => Part::Some(first..last.saturating_add(1).min(size)),
                _ => Part::Whole,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        let cases = [
            (None, 10, Part::Whole),
            (Some("bytes=0-4"), 10, Part::Some(0..5)),
            (Some("bytes=5-"), 10, Part::Some(5..10)),
            (Some("bytes=-3"), 10, Part::Some(7..10)),
            (Some("bytes=-30"), 10, Part::Some(0..10)),
            (Some("bytes=0-99"), 10, Part::Some(0..10)),
            (Some("bytes=9-9"), 10, Part::Some(9..10)),
            (Some("bytes=10-"), 10, Part::Unsatisfiable),
            (Some("bytes=-0"), 10, Part::Unsatisfiable),
            (Some("bytes=0-"), 0, Part::Unsatisfiable),
            (Some("bytes=99999999999999999999999-"), 10, Part::Unsatisfiable),
            (Some("bytes=0-99999999999999999999999"), 10, Part::Some(0..10)),
            (Some("bytes=5-4"), 10, Part::Whole),
            (Some("bytes=a-b"), 10, Part::Whole),
            (Some("bytes=+1-2"), 10, Part::Whole),
            (Some("bytes=-"), 10, Part::Whole),
            (Some("bytes=0-1,3-4"), 10, Part::Whole),
            (Some("lines=0-1"), 10, Part::Whole),
        ];
        for (header, size, expected) in cases {
            assert_eq!(part(header, size), expected, "{header:?} of {size}");
        }
    }
}
