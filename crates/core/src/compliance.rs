//! Compliance levels: which servers a caller with a level may use. The table is one-sided: a level may use the levels
//! that it lists, whatever those list.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One level, with every spelling of the levels it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Its name.
    pub name: Box<str>,
    may_use: BTreeSet<String>,
}

impl Level {
    /// Whether callers of this level may use a server of another level, in any spelling.
    pub fn may_use(&self, other: &str) -> bool {
        self.may_use.contains(other)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let cases = [
            ("HIPAA", "HIPAA", true),
            ("PHI", "HIPAA", true),
            ("HIPAA", "SOC-2", true),   // an alias of what is named
            ("SOC2", "HIPAA", false),   // one-sided
            ("HIPAA", "Public", false), // not through a third
            ("HIPAA", "SOC3", false),   // not configured
            ("SOC3", "SOC3", true),
            ("SOC3", "Public", false),
        ];
        for (mine, theirs, expected) in cases {
            assert_eq!(levels.level(mine).may_use(theirs), expected, "{mine} {theirs}");
        }
    }
}
