//! Compliance levels: which servers a caller with a level may use. The table is one-sided: a level may use the levels
//! that it lists, whatever those list.

use crate::caller::Caller;
use crate::server::ServerEntry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One level, with every spelling of the levels it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Its name.
    pub name: Box<str>,
    may_use: BTreeSet<String>,
}

/// The settings of one level.
#[derive(Debug, Clone, Default)]
pub struct LevelRule {
    /// Its name.
    pub name: String,
    /// Other spellings of it.
    pub aliases: Vec<String>,
    /// Levels that callers of this level may use, in any spelling.
    pub allowed_with: Vec<String>,
}

/// All levels, by every spelling.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    known: HashMap<String, Arc<Level>>,
}

impl Levels {
    /// Builds the levels of these rules.
    pub fn new(rules: &[LevelRule]) -> Self {
        let spellings =
            |rule: &LevelRule| std::iter::once(&rule.name).chain(&rule.aliases).cloned().collect();
        let mut known = HashMap::new();
        for rule in rules {
            let own: Vec<String> = spellings(rule);
            let mut may_use: BTreeSet<String> = own.iter().cloned().collect();
            for named in &rule.allowed_with {
                let other = rules.iter().find(|other| other.name == *named || other.aliases.contains(named));
                may_use.insert(named.clone());
                may_use.extend(other.map(spellings).unwrap_or_else(Vec::new));
            }
            let level = Arc::new(Level { name: rule.name.as_str().into(), may_use });
            for spelling in own {
                known.entry(spelling).or_insert_with(|| level.clone());
            }
        }
        Self { known }
    }

    /// The level with a name. A level that is not configured may only use itself.
    pub fn level(&self, name: &str) -> Arc<Level> {
        self.known.get(name).cloned().unwrap_or_else(|| {
            Arc::new(Level { name: name.into(), may_use: BTreeSet::from([name.to_owned()]) })
        })
    }
}

/// Whether a caller's level may use a server's level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compatibility {
    /// It may.
    Allowed,
    /// The caller's level does not list the server's.
    Forbidden,
}

/// Decides whether a caller's level may use a server. It may if either has no level.
pub fn compatibility(caller: &Caller, server: &ServerEntry) -> Compatibility {
    match (&caller.compliance_level, &server.compliance_level) {
        (Some(level), Some(other)) if !level.may_use.contains(other) => Compatibility::Forbidden,
        _ => Compatibility::Allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;

    #[test]
    fn the_table_is_one_sided_and_accepts_aliases() {
        let rule = |name: &str, aliases: &[&str], with: &[&str]| LevelRule {
            name: name.into(),
            aliases: aliases.iter().map(|a| (*a).to_owned()).collect(),
            allowed_with: with.iter().map(|a| (*a).to_owned()).collect(),
        };
        let levels = Levels::new(&[
            rule("Public", &["open"], &[]),
            rule("HIPAA", &["PHI"], &["SOC2"]),
            rule("SOC2", &["SOC-2"], &["Public"]),
        ]);
        use Compatibility::{Allowed, Forbidden};
        let cases = [
            (Some("HIPAA"), Some("HIPAA"), Allowed),
            (Some("PHI"), Some("HIPAA"), Allowed),
            (Some("HIPAA"), Some("SOC-2"), Allowed), // an alias of what is named
            (Some("SOC2"), Some("HIPAA"), Forbidden), // one-sided
            (Some("HIPAA"), Some("Public"), Forbidden), // not through a third
            (Some("HIPAA"), Some("SOC3"), Forbidden), // not configured
            (Some("SOC3"), Some("SOC3"), Allowed),
            (Some("SOC3"), Some("Public"), Forbidden),
            (None, Some("HIPAA"), Allowed),
            (Some("HIPAA"), None, Allowed),
        ];
        for (mine, theirs, expected) in cases {
            let mut server = entry("s");
            server.compliance_level = theirs.map(str::to_owned);
            let mut caller = Caller::owner("ann");
            caller.compliance_level = mine.map(|name| levels.level(name));
            assert_eq!(compatibility(&caller, &server), expected, "{mine:?} {theirs:?}");
        }
    }
}
