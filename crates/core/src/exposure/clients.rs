//! Clients the gateway knows by name: which of them defer tools themselves, and what they cannot take.
//!
//! This is the one table about clients. A client that is not in it gets everything as it is, and `auto` goes by
//! the size of the catalog alone.

/// A client, whatever names it goes by.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The word for it in settings (`exposure.clients`) and explanations.
    pub word: &'static str,
    /// The names it gives in `clientInfo.name`, in small letters.
    names: &'static [&'static str],
    /// Whether it keeps tools out of its model's context until they are needed, by itself.
    pub defers: bool,
    /// What it cannot take.
    pub dialect: Dialect,
}

/// What a client cannot take in definitions of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The longest name it takes; longer ones are cut and given a hash for it.
    pub longest_name: Option<usize>,
    /// Which schemas of arguments it takes.
    pub rooted: Rooted,
    /// Which schemas of results it takes.
    pub output: Output,
}

/// What a schema of results may describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Anything.
    Anything,
    /// Objects, which is all that legacy revisions know: a client of those may refuse a whole list for another.
    Objects,
}

/// What may stand at the top of a schema of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rooted {
    /// Anything.
    Anyhow,
    /// An object and its properties: no `anyOf`, `oneOf` or `allOf` there, which the client's model refuses, and
    /// no `$schema`.
    Plainly,
}

impl Dialect {
    /// Everything goes.
    pub const ANY: Self = Self { longest_name: None, rooted: Rooted::Anyhow, output: Output::Anything };
    /// Any name, plain schemas.
    const PLAIN: Self = Self { rooted: Rooted::Plainly, ..Self::ANY };
}

const fn defers(word: &'static str, names: &'static [&'static str], dialect: Dialect) -> Family {
    Family { word, names, defers: true, dialect }
}

const fn lists(word: &'static str, names: &'static [&'static str], dialect: Dialect) -> Family {
    Family { word, names, defers: false, dialect }
}

/// Cursor counts the server's name and the tool's together, and leaves out what is longer than 60.
const CURSOR: Dialect = Dialect { longest_name: Some(48), ..Dialect::PLAIN };

/// Clients by the names they give. Those that defer say so in their own documentation; the others are here for their
/// dialect, or so that settings can name them by one word.
static FAMILIES: &[Family] = &[
    defers("claude-code", &["claude-code", "claude code", "claude-code-cli"], Dialect::PLAIN),
    defers("codex", &["codex-mcp-client", "codex", "codex-cli"], Dialect::ANY),
    defers("cursor", &["cursor-vscode", "cursor", "cursor-cli", "cursor-agent"], CURSOR),
    defers(
        "copilot-cli",
        &["github-copilot-developer", "copilot-cli", "github-copilot-cli", "github copilot"],
        Dialect::ANY,
    ),
    defers(
        "vscode",
        &[
            "visual studio code",
            "visual studio code - insiders",
            "visual-studio-code",
            "code - oss",
            "vscode",
        ],
        Dialect::ANY,
    ),
    defers("goose", &["goose", "goose-desktop", "goose-cli"], Dialect::ANY),
    // A person's tool for looking at servers: there is no model whose context could be filled.
    defers(
        "inspector",
        &["mcp-inspector", "inspector-client", "modelcontextprotocol/inspector"],
        Dialect::ANY,
    ),
    lists("claude", &["claude-ai", "claude-desktop", "claude"], Dialect::PLAIN),
    lists("gemini-cli", &["gemini-cli-mcp-client", "gemini-cli"], Dialect::PLAIN),
    lists("cline", &["cline", "@cline-core"], Dialect::ANY),
    lists("opencode", &["opencode"], Dialect::ANY),
    lists("windsurf", &["windsurf-client", "windsurf"], Dialect::ANY),
    lists("zed", &["zed"], Dialect::ANY),
];

/// A client's own name, in small letters. Bridges add theirs in brackets, which is left out.
pub(super) fn own_name(name: &str) -> String {
    name.split(" (via ").next().unwrap_or_default().trim().to_lowercase()
}

/// The family of a client by the name it gives.
pub fn family(name: &str) -> Option<&'static Family> {
    let own = own_name(name);
    FAMILIES.iter().find(|family| family.names.contains(&&*own))
}

/// The lengths to which names are cut for some client, each once.
pub(crate) fn name_limits() -> impl Iterator<Item = usize> {
    let mut limits: Vec<usize> = FAMILIES.iter().filter_map(|family| family.dialect.longest_name).collect();
    limits.sort_unstable();
    limits.dedup();
    limits.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_the_names_they_give() {
        let cases = [
            ("claude-code", Some(("claude-code", true))),
            ("codex-mcp-client", Some(("codex", true))),
            ("cursor-vscode", Some(("cursor", true))),
            ("Visual Studio Code - Insiders", Some(("vscode", true))),
            ("github-copilot-developer", Some(("copilot-cli", true))),
            ("claude-ai (via mcp-remote 0.1.37)", Some(("claude", false))),
            ("Cline", Some(("cline", false))),
            ("claude-code-lookalike", None),
            ("world", None),
            ("", None),
        ];
        for (name, expected) in cases {
            let found = family(name).map(|family| (family.word, family.defers));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn no_name_and_no_word_stands_for_two_families() {
        let mut seen = std::collections::HashSet::new();
        for family in FAMILIES {
            assert!(seen.insert(("word", family.word)), "{}", family.word);
            for name in family.names {
                assert!(seen.insert(("name", name)), "{name}");
                assert_eq!(*name, name.to_lowercase());
            }
        }
    }
}
