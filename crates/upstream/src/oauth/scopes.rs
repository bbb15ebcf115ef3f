//! Ordered sets of valid OAuth scopes.

use serde::{Deserialize, Serialize};

const MAX_SCOPES: usize = 64;
const MAX_SCOPE_BYTES: usize = 256;

/// A set of scopes in insertion order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Scopes(Vec<String>);

impl Scopes {
    /// Parses a space-separated list of scopes.
    pub(super) fn parse(list: &str) -> Self {
        list.split(' ').collect()
    }

    /// The scopes as a space-separated list.
    pub(super) fn joined(&self) -> String {
        self.0.join(" ")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Whether every scope of `other` is in this set.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|scope| self.contains(scope))
    }

    /// Both sets, this one's scopes first.
    pub(super) fn union(mut self, other: &Self) -> Self {
        self.extend(other.0.iter().map(String::as_str));
        self
    }

    /// This set without one scope.
    pub(super) fn without(mut self, scope: &str) -> Self {
        self.0.retain(|known| known != scope);
        self
    }

    fn extend<'a>(&mut self, scopes: impl Iterator<Item = &'a str>) {
        for scope in scopes {
            if self.0.len() < MAX_SCOPES && is_scope(scope) && !self.contains(scope) {
                self.0.push(scope.into());
            }
        }
    }
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut set = Self::default();
        set.extend(scopes.into_iter());
        set
    }
}

/// RFC 6749's scope-token: printable ASCII without space, quote and backslash.
fn is_scope(text: &str) -> bool {
    (1..=MAX_SCOPE_BYTES).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_keeps_order_and_drops_invalid_scopes() {
        let scopes = Scopes::parse("read  write read").union(&Scopes::parse("admin \"x write"));
        assert_eq!(scopes.joined(), "read write admin");
        assert!(scopes.covers(&Scopes::parse("admin read")));
        assert!(!scopes.covers(&Scopes::parse("admin other")));
    }

    #[test]
    fn the_number_of_scopes_is_limited() {
        let flood: Vec<String> = (0..1000).map(|n| format!("s{n}")).collect();
        assert_eq!(flood.iter().map(String::as_str).collect::<Scopes>().0.len(), MAX_SCOPES);
    }
}
