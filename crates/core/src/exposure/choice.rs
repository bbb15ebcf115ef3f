//! The choice of a mode: one function, from what is configured, who asks and how much there is to show.

use super::Mode;
use super::clients::{Family, family, own_name};
use crate::catalog::ToolPatterns;
use globset::{Glob, GlobMatcher};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What is configured of the mode: one, or `auto`, which is none.
pub type Forced = Option<Mode>;

/// What the configuration says about exposure.
#[derive(Debug)]
pub struct Terms {
    /// The mode where neither client nor persona has its own.
    pub mode: Forced,
    clients: Vec<(String, Option<GlobMatcher>, Forced)>,
    personas: BTreeMap<String, Forced>,
    /// Tools that are listed in full in every mode.
    pub pins: ToolPatterns,
    /// Characters of a description in a summary.
    pub description_limit: usize,
    /// Hits of a search that names no limit.
    pub search_limit: usize,
    /// Tokens of definitions that `auto` lists.
    pub tool_tokens: u32,
    /// Tokens of the answer to a search.
    pub answer_tokens: u32,
    key: u64,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            mode: None,
            clients: Vec::new(),
            personas: BTreeMap::new(),
            pins: ToolPatterns::default(),
            description_limit: 100,
            search_limit: 5,
            tool_tokens: 10_000,
            answer_tokens: 500,
            key: 0,
        }
        .keyed()
    }
}

impl Terms {
    /// The same with modes for clients and personas by name. A client is named as it names itself, by the word the
    /// table of clients has for it, or by a glob.
    pub fn with_modes(
        mut self,
        clients: impl IntoIterator<Item = (String, Forced)>,
        personas: impl IntoIterator<Item = (String, Forced)>,
    ) -> Self {
        let matcher = |key: &str| {
            let is_glob = key.contains(['*', '?', '[', '{']);
            is_glob.then(|| Glob::new(key).ok().map(|glob| glob.compile_matcher())).flatten()
        };
        self.clients = clients
            .into_iter()
            .map(|(key, mode)| (key.to_lowercase(), mode))
            .map(|(key, mode)| (key.clone(), matcher(&key), mode))
            .collect();
        self.personas = personas.into_iter().collect();
        self
    }

    /// The same, ready to be told from others whose lists differ. Called last.
    pub fn keyed(mut self) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.description_limit, self.tool_tokens, self.pins.texts()).hash(&mut hasher);
        self.key = hasher.finish();
        self
    }

    /// What tells lists made by these terms from others'.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// What is said of a client. The most particular key decides: the name it gives, its own without that of a bridge,
    /// the word for its family, and last a glob over either name.
    fn for_client(&self, name: &str, family: Option<&Family>) -> Option<(&str, Forced)> {
        if self.clients.is_empty() {
            return None;
        }
        let (given, own) = (name.to_lowercase(), own_name(name));
        let named = |wanted: &str| self.clients.iter().find(|(key, ..)| key == wanted);
        let fits = |glob: &GlobMatcher| glob.is_match(&own) || glob.is_match(&given);
        let found = named(&given)
            .or_else(|| named(&own))
            .or_else(|| named(family?.word))
            .or_else(|| self.clients.iter().find(|(_, glob, _)| glob.as_ref().is_some_and(fits)));
        found.map(|(key, _, mode)| (key.as_str(), *mode))
    }
}

/// How much of a caller's tools fits into the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Size {
    /// Every definition.
    Small,
    /// Their summaries.
    Middling,
    /// Not even those.
    Large,
}

/// The mode for a client, and why it is that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The mode.
    pub mode: Mode,
    /// Why.
    pub reason: Reason,
}

/// Why a mode was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// `exposure.clients` says so under this key.
    Client(String),
    /// `exposure.personas` says so of this persona.
    Persona(String),
    /// `exposure.mode` says so.
    Setting,
    /// The client keeps tools out of its model's context by itself.
    Defers(&'static str),
    /// By how much fits into the budget of so many tokens.
    Budget(Size, u32),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client(key) => write!(f, "`exposure.clients` says so for `{key}`"),
            Self::Persona(name) => write!(f, "`exposure.personas` says so for `{name}`"),
            Self::Setting => f.write_str("`exposure.mode` says so"),
            Self::Defers(word) => write!(f, "the client (`{word}`) defers tools by itself"),
            Self::Budget(Size::Small, most) => {
                write!(f, "all definitions fit into `exposure.tool_tokens` ({most})")
            }
            Self::Budget(Size::Middling, most) => {
                write!(f, "only summaries fit into `exposure.tool_tokens` ({most})")
            }
            Self::Budget(Size::Large, most) => {
                write!(f, "not even summaries fit into `exposure.tool_tokens` ({most})")
            }
        }
    }
}

/// Chooses: what is said of the client, then of the persona, then of everybody; where that is `auto`, by what the
/// client does itself and by how much there is. `size` is asked only when it decides.
pub fn choose(terms: &Terms, client: &str, persona: Option<&str>, size: impl FnOnce() -> Size) -> Choice {
    let family = family(client);
    let of_client = terms.for_client(client, family);
    let of_persona = || persona.and_then(|name| terms.personas.get(name).map(|mode| (name, *mode)));
    let said = match of_client {
        Some((key, mode)) => mode.map(|mode| (mode, Reason::Client(key.to_owned()))),
        None => match of_persona() {
            Some((name, mode)) => mode.map(|mode| (mode, Reason::Persona(name.to_owned()))),
            None => terms.mode.map(|mode| (mode, Reason::Setting)),
        },
    };
    if let Some((mode, reason)) = said {
        return Choice { mode, reason };
    }
    if let Some(family) = family.filter(|family| family.defers) {
        return Choice { mode: Mode::Full, reason: Reason::Defers(family.word) };
    }
    let size = size();
    let mode = match size {
        Size::Small => Mode::Full,
        Size::Middling => Mode::Summary,
        Size::Large => Mode::Search,
    };
    Choice { mode, reason: Reason::Budget(size, terms.tool_tokens) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;
    use crate::server::tests::entry;
    use std::sync::Arc;

    #[test]
    fn the_most_particular_word_decides() {
        let modes = |pairs: &[(&str, Forced)]| -> Vec<(String, Forced)> {
            pairs.iter().map(|(key, mode)| ((*key).to_owned(), *mode)).collect()
        };
        let terms = Terms { mode: Some(Mode::Summary), ..Terms::default() }.with_modes(
            modes(&[("cursor", Some(Mode::Search)), ("my-*", Some(Mode::Full)), ("my-auto", None)]),
            modes(&[("dev", Some(Mode::Full)), ("free", None)]),
        );
        let cases = [
            ("cursor-vscode", Some("dev"), Mode::Search),
            ("My-Agent", Some("dev"), Mode::Full),
            ("my-auto", Some("dev"), Mode::Search), // `auto`, and too much for anything else
            ("other", Some("dev"), Mode::Full),
            ("other", Some("free"), Mode::Search),
            ("claude-code", Some("free"), Mode::Full),
            ("other", Some("unsaid"), Mode::Summary),
            ("claude-code", None, Mode::Summary),
        ];
        for (client, persona, expected) in cases {
            let choice = choose(&terms, client, persona, || Size::Large);
            assert_eq!(choice.mode, expected, "{client} {persona:?}: {}", choice.reason);
        }
    }

    #[test]
    fn the_most_particular_key_decides_whatever_their_order() {
        let mut keys = [
            ("cursor", Some(Mode::Search)),
            ("cursor-*", Some(Mode::Full)),
            ("cursor-vscode", Some(Mode::Summary)),
            ("my-agent", Some(Mode::Search)),
            ("my-agent (via odd 1)", Some(Mode::Summary)),
        ];
        let cases = [
            ("cursor-vscode", Some("cursor-vscode")),
            ("Cursor-VSCode (via mcp-remote 0.1.37)", Some("cursor-vscode")),
            ("cursor", Some("cursor")),
            ("cursor-cli", Some("cursor")),
            ("cursor-lookalike (via mcp-remote 0.1.37)", Some("cursor-*")),
            ("my-agent", Some("my-agent")),
            ("My-Agent (via mcp-remote 0.1.37)", Some("my-agent")),
            ("my-agent (via odd 1)", Some("my-agent (via odd 1)")),
            ("other (via mcp-remote 0.1.37)", None),
        ];
        let named = |keys: &[(&str, Forced)]| -> Vec<(String, Forced)> {
            keys.iter().map(|(key, mode)| ((*key).to_owned(), *mode)).collect()
        };
        for _ in ["forwards", "backwards"] {
            let terms = Terms::default().with_modes(named(&keys), []);
            for (client, expected) in cases {
                let found = terms.for_client(client, family(client)).map(|(key, _)| key);
                assert_eq!(found, expected, "{client} among {keys:?}");
            }
            keys.reverse();
        }
        let bridged = Terms::default().with_modes(named(&[("* (via mcp-*)", None)]), []);
        assert!(bridged.for_client("x (via mcp-remote 0.1.37)", None).is_some());
        assert!(bridged.for_client("x", None).is_none());
    }

    #[test]
    fn auto_goes_by_the_client_and_then_by_size() {
        let terms = Terms::default();
        for (size, expected) in
            [(Size::Small, Mode::Full), (Size::Middling, Mode::Summary), (Size::Large, Mode::Search)]
        {
            assert_eq!(choose(&terms, "somebody", None, || size).mode, expected);
            assert_eq!(choose(&terms, "codex-mcp-client", None, || size).mode, Mode::Full);
        }
    }

    #[test]
    fn pins_know_tools_by_all_their_names() {
        let pins = |glob: &str| ToolPatterns::new(&[glob.to_owned()]).expect("a glob");
        let tool = Tool::bare(Arc::new(entry("fs")), "read", "fs_read");
        for glob in ["fs_read", "fs_*", "fs.read", "mcp.fs.*", "*read*", "read", "mcp__fs__read"] {
            assert!(pins(glob).touch(&tool), "{glob}");
        }
        assert!(!pins("git_*").touch(&tool));
        assert!(!ToolPatterns::default().touch(&tool));
    }
}
