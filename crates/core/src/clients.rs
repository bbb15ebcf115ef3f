//! Clients known by name: which of them defer tools themselves, and the limits of their tool definitions.
//!
//! This is the only table about clients. A client that is not in it receives definitions unchanged, and `auto`
//! depends only on the size of the catalog.

/// A client and the names it uses.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFamily {
    /// The word for it in settings (`exposure.clients`) and explanations.
    pub word: &'static str,
    /// The names it sends in `clientInfo.name`, in lower case.
    names: &'static [&'static str],
    /// What it does with a long list of tools.
    pub listing: ListHandling,
    /// The limits of its tool definitions.
    pub dialect: Dialect,
}

/// What a client does with a long list of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListHandling {
    /// It keeps tools out of its model's context until they are needed.
    Defers,
    /// It is a program that was built with an SDK. Many of them call tools by name without a model, and SDKs check the
    /// names and results of calls with the list, so it gets all definitions within a larger budget.
    Program,
    /// It passes all of them to its model.
    Lists,
}

/// The limits of a client's tool definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The maximum length of a name; longer ones are truncated and get a hash.
    pub longest_name: Option<usize>,
    /// The input schemas it accepts.
    pub input: InputSchemas,
    /// The output schemas it accepts.
    pub output: OutputSchemas,
    /// How tasks are announced to it.
    pub tasks: ListedTaskSupport,
}

/// What `execution.taskSupport` of a listed tool says. Only revision 2025-11-25 has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListedTaskSupport {
    /// What the server says.
    AsServed,
    /// The same, but never `required`: the gateway follows the task of such a tool, and SDKs refuse ordinary calls of it.
    NotRequired,
    /// `optional` for every tool, because the gateway runs any call as a task.
    Optional,
}

/// The output schemas that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputSchemas {
    /// Anything.
    Any,
    /// Only objects, as in legacy revisions: a client of those may reject a whole list because of another schema.
    Objects,
}

/// The input schemas that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputSchemas {
    /// Anything.
    Any,
    /// An object with properties: no `anyOf`, `oneOf` or `allOf` at the top, which the client's model rejects, and no
    /// `$schema`.
    Plain,
}

impl Dialect {
    /// No limits.
    pub const ANY: Self = Self {
        longest_name: None,
        input: InputSchemas::Any,
        output: OutputSchemas::Any,
        tasks: ListedTaskSupport::AsServed,
    };
    /// Any name, plain schemas.
    const PLAIN: Self = Self { input: InputSchemas::Plain, ..Self::ANY };
}

const fn defers(word: &'static str, names: &'static [&'static str], dialect: Dialect) -> ClientFamily {
    ClientFamily { word, names, listing: ListHandling::Defers, dialect }
}

const fn lists(word: &'static str, names: &'static [&'static str], dialect: Dialect) -> ClientFamily {
    ClientFamily { word, names, listing: ListHandling::Lists, dialect }
}

/// Cursor counts the server's name and the tool's together, and drops tools over 60 characters.
const CURSOR: Dialect = Dialect { longest_name: Some(48), ..Dialect::PLAIN };

/// Clients by the names they send. Those that defer document it; the others are listed for their dialect, or so that
/// settings can name them with one word.
static FAMILIES: &[ClientFamily] = &[
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
    // A tool for people to inspect servers: there is no model whose context could fill up.
    defers(
        "inspector",
        &["mcp-inspector", "inspector-client", "modelcontextprotocol/inspector"],
        Dialect::ANY,
    ),
    // The names that SDKs send if a program sets none, and those of their examples.
    ClientFamily {
        word: "sdk",
        names: &[
            "mcp",
            "mcp-client",
            "mcp-client-cli",
            "example-client",
            "ai-sdk-mcp-client",
            "mcp-use",
            "mcp-use cli",
            "mcp-use inspector",
        ],
        listing: ListHandling::Program,
        dialect: Dialect::ANY,
    },
    lists("claude", &["claude-ai", "claude-desktop", "claude"], Dialect::PLAIN),
    lists("gemini-cli", &["gemini-cli-mcp-client", "gemini-cli"], Dialect::PLAIN),
    lists("cline", &["cline", "@cline-core"], Dialect::ANY),
    lists("opencode", &["opencode"], Dialect::ANY),
    lists("windsurf", &["windsurf-client", "windsurf"], Dialect::ANY),
    lists("zed", &["zed"], Dialect::ANY),
];

/// A client's own name, in lower case, without the name that bridges append in parentheses.
pub(crate) fn own_name(name: &str) -> String {
    name.split(" (via ").next().unwrap_or_default().trim().to_lowercase()
}

/// The family of a client by the name it sends.
pub fn family(name: &str) -> Option<&'static ClientFamily> {
    let own = own_name(name);
    FAMILIES.iter().find(|family| family.names.contains(&&*own))
}

/// The lengths to which names are truncated for some clients, without duplicates.
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
    fn clients_are_known_by_the_names_they_send() {
        let cases = [
            ("claude-code", Some(("claude-code", ListHandling::Defers))),
            ("codex-mcp-client", Some(("codex", ListHandling::Defers))),
            ("cursor-vscode", Some(("cursor", ListHandling::Defers))),
            ("Visual Studio Code - Insiders", Some(("vscode", ListHandling::Defers))),
            ("github-copilot-developer", Some(("copilot-cli", ListHandling::Defers))),
            ("mcp-inspector", Some(("inspector", ListHandling::Defers))),
            ("mcp", Some(("sdk", ListHandling::Program))),
            ("claude-ai (via mcp-remote 0.1.37)", Some(("claude", ListHandling::Lists))),
            ("Cline", Some(("cline", ListHandling::Lists))),
            ("claude-code-lookalike", None),
            ("world", None),
            ("", None),
        ];
        for (name, expected) in cases {
            let found = family(name).map(|family| (family.word, family.listing));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn names_and_words_are_unique_among_families() {
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
