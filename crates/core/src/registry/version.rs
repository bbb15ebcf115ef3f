//! Version ranges in queries: `>=1.2, <2`, `^1.4`, `~1.2.3`, or one version.

use crate::manifest::read_version;
use semver::{Version, VersionReq};

/// The maximum number of conditions in a range.
const MAX_CONDITIONS: usize = 16;

/// A range of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange(VersionReq);

impl VersionRange {
    /// Parses a range; all comma-separated conditions must hold. A single version means exactly that version.
    pub fn read(text: &str) -> Option<Self> {
        let conditions = text.split(',').take(MAX_CONDITIONS + 1).map(condition);
        let conditions: Vec<VersionReq> = conditions.collect::<Option<_>>()?;
        if conditions.len() > MAX_CONDITIONS {
            return None;
        }
        // As one requirement: a condition with a pre-release version also admits pre-releases for the others.
        let comparators = conditions.into_iter().flat_map(|condition| condition.comparators).collect();
        Some(Self(VersionReq { comparators }))
    }

    /// Whether the range contains a version. No range contains an absent version.
    pub fn holds(&self, version: Option<&Version>) -> bool {
        version.is_some_and(|version| self.0.matches(version))
    }
}

fn condition(text: &str) -> Option<VersionReq> {
    let text = text.trim();
    if text.len() > 128 {
        return None;
    }
    let end = text.find(|c| !matches!(c, '<' | '>' | '=' | '^' | '~')).unwrap_or(text.len());
    let (sign, version) = text.split_at(end);
    let version = version.trim();
    // Wildcards, `^` and `~` depend on which parts are written.
    let as_written = matches!(sign, "^" | "~") || version.contains(['*', 'x', 'X']);
    let sign = match sign {
        "" | "=" | "==" => "=",
        "<" | "<=" | ">" | ">=" | "^" | "~" => sign,
        _ => return None,
    };
    if as_written {
        let plain = version.strip_prefix(['v', 'V']).unwrap_or(version);
        let sign = if plain.contains(['*', 'x', 'X']) && sign == "=" { "" } else { sign };
        return VersionReq::parse(&format!("{sign}{plain}")).ok();
    }
    VersionReq::parse(&format!("{sign}{}", read_version(version)?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_semver() {
        let cases = [
            // The missing parts of a short version are zero.
            (">=1.2.0", "1.2", true),
            (">=1.2", "1.2.0", true),
            (">=1.2", "1.1.9", false),
            ("1.0", "1.0.0", true),
            ("1.0", "1.0.1", false),
            ("=1.2", "1.2.0", true),
            ("==1.2.0", "1.2.0", true),
            (">1.2", "1.2.1", true),
            ("<=2", "2.0.0", true),
            ("<2", "1.99.99", true),
            // Parts are compared as numbers.
            (">=1.9", "1.10.0", true),
            // A pre-release of 1.0.0 is lower than 1.0.0.
            (">=1.0.0", "1.0.0-beta", false),
            (">=1.0.0-alpha", "1.0.0-beta", true),
            (">=1.0.0-alpha, <=1.0.0", "1.0.0-beta", true),
            (">=1.0.0-alpha, <1.0.0-beta", "1.0.0-beta", false),
            ("=1.0.0-beta", "1.0.0-beta", true),
            // All conditions must hold.
            (">=1.2, <2", "1.5.0", true),
            (">=1.2,<2", "2.0.0", false),
            ("^1.2", "1.9.0", true),
            ("^1.2", "2.0.0", false),
            ("^0.2.1", "0.3.0", false),
            ("~1.2", "1.2.9", true),
            ("~1.2", "1.3.0", false),
            ("~1", "1.9.0", true),
            ("1.*", "1.7.2", true),
            ("*", "0.0.1", true),
            ("v1.2", "1.2.0", true),
        ];
        for (range, version, expected) in cases {
            let read = VersionRange::read(range).expect(range);
            assert_eq!(read.holds(read_version(version).as_ref()), expected, "{range} {version}");
        }
        assert!(!VersionRange::read("*").expect("a range").holds(None), "no version is in no range");
    }

    #[test]
    fn an_invalid_range_is_refused() {
        for bad in ["", ">>x", ">=", "1.2.3.4", "!=1", "a", ">=1,", "=>1", "^^1", "1 2"] {
            assert_eq!(VersionRange::read(bad), None, "{bad}");
        }
    }
}
