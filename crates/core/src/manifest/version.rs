//! Versions as people write them: `1.2` means `1.2.0`.

use semver::Version;

/// Parses a version; missing parts are zero, a leading `v` is ignored.
pub fn read_version(text: &str) -> Option<Version> {
    let text = text.trim();
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    if text.len() > 128 {
        return None;
    }
    if let Ok(version) = Version::parse(text) {
        return Some(version);
    }
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let filled = match numbers.split('.').count() {
        1 => format!("{numbers}.0.0{rest}"),
        2 => format!("{numbers}.0{rest}"),
        _ => return None,
    };
    Version::parse(&filled).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_are_zero() {
        let cases = [
            ("1.2.3", Some("1.2.3")),
            ("1.2", Some("1.2.0")),
            ("1", Some("1.0.0")),
            ("v2.0", Some("2.0.0")),
            ("1.2-rc.1", Some("1.2.0-rc.1")),
            ("", None),
            ("new", None),
            ("1.2.3.4", None),
            ("01.2", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read_version(text).map(|version| version.to_string()).as_deref(), expected, "{text}");
        }
    }
}
