//! Chooses the exposure mode from the settings, the client and the size of the catalog.

use super::Mode;
use crate::catalog::ToolPatterns;
use crate::clients::{ClientFamily, ListHandling, family, own_name};
use crate::persona::is_same_name;
use globset::{Glob, GlobMatcher};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The configured mode; `None` is `auto`.
pub type ConfiguredMode = Option<Mode>;

/// The exposure settings.
#[derive(Debug)]
pub struct ExposureTerms {
    /// The mode for clients and personas without their own.
    pub mode: ConfiguredMode,
    clients: Vec<(String, Option<GlobMatcher>, ConfiguredMode)>,
    personas: BTreeMap<String, ConfiguredMode>,
    /// Tools that are listed in full in every mode.
    pub pins: ToolPatterns,
    /// The maximum length of a description in a summary.
    pub description_limit: usize,
    /// The maximum number of hits of a search without a limit.
    pub search_limit: usize,
    /// The token budget for definitions in `auto` mode.
    pub tool_tokens: u32,
    /// The token budget for definitions in `auto` mode, for programs that were built with an SDK.
    pub sdk_tokens: u32,
    /// The token budget for the answer to a search.
    pub answer_tokens: u32,
    key: u64,
}

impl Default for ExposureTerms {
    fn default() -> Self {
        Self {
            mode: None,
            clients: Vec::new(),
            personas: BTreeMap::new(),
            pins: ToolPatterns::default(),
            description_limit: 100,
            search_limit: 10,
            tool_tokens: 10_000,
            sdk_tokens: 100_000,
            answer_tokens: 500,
            key: 0,
        }
        .keyed()
    }
}

impl ExposureTerms {
    /// Sets modes for clients and personas by name. A client is named by its `clientInfo.name`, by the word for its
    /// family, or by a glob.
    pub fn with_modes(
        mut self,
        clients: impl IntoIterator<Item = (String, ConfiguredMode)>,
        personas: impl IntoIterator<Item = (String, ConfiguredMode)>,
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

    /// Computes the key of these settings. Must be called last.
    pub fn keyed(mut self) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.description_limit, self.tool_tokens, self.pins.texts()).hash(&mut hasher);
        self.key = hasher.finish();
        self
    }

    /// A key that differs for settings that produce different lists.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The mode configured for a client. The most specific key wins: the full name, the name without that of a bridge,
    /// the word for its family, and finally a glob over either name.
    fn for_client(&self, name: &str, family: Option<&ClientFamily>) -> Option<(&str, ConfiguredMode)> {
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

/// How much of a caller's tools fits into the token budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Size {
    /// All definitions.
    Small,
    /// Only their summaries.
    Medium,
    /// Not even the summaries.
    Large,
}

/// The mode for a client, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeChoice {
    /// The mode.
    pub mode: Mode,
    /// The reason.
    pub reason: Reason,
}

/// The reason for a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// `exposure.clients` sets it under this key.
    Client(String),
    /// `exposure.personas` sets it for this persona.
    Persona(String),
    /// `exposure.mode` sets it.
    Setting,
    /// The client defers tools on its own.
    Defers(&'static str),
    /// The client was built with an SDK, and all definitions fit into the budget of such clients.
    Sdk(&'static str, u32),
    /// The client was built with an SDK, and the definitions do not fit into the budget of such clients; the size is
    /// relative to the other budget.
    OverSdk(Size, u32, u32),
    /// The size of the catalog relative to the token budget.
    Budget(Size, u32),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client(key) => write!(f, "`exposure.clients` sets it for `{key}`"),
            Self::Persona(name) => write!(f, "`exposure.personas` sets it for `{name}`"),
            Self::Setting => f.write_str("`exposure.mode` sets it"),
            Self::Defers(word) => write!(f, "the client (`{word}`) defers tools on its own"),
            Self::Sdk(word, most) => {
                let why = "is a program, and all definitions fit into `exposure.sdk_tokens`";
                write!(f, "the client (`{word}`) {why} ({most})")
            }
            Self::OverSdk(size, most, sdk_most) => {
                let other = Self::Budget(*size, *most);
                write!(f, "the definitions do not fit into `exposure.sdk_tokens` ({sdk_most}), and {other}")
            }
            Self::Budget(Size::Small, most) => {
                write!(f, "all definitions fit into `exposure.tool_tokens` ({most})")
            }
            Self::Budget(Size::Medium, most) => {
                write!(f, "only summaries fit into `exposure.tool_tokens` ({most})")
            }
            Self::Budget(Size::Large, most) => {
                write!(f, "not even summaries fit into `exposure.tool_tokens` ({most})")
            }
        }
    }
}

/// Chooses the mode: the setting for the client, then for the persona, then the general one; for `auto`, by what the
/// client supports and by size. `size` computes the size relative to a token budget, and is only called if it decides.
pub fn choose(
    terms: &ExposureTerms,
    client: &str,
    persona: Option<&str>,
    size: impl Fn(u32) -> Size,
) -> ModeChoice {
    let family = family(client);
    let of_client = terms.for_client(client, family);
    let of_persona = || {
        let name = persona?;
        let mut set = terms.personas.iter().filter(|(known, _)| is_same_name(known, name));
        let mode = terms.personas.get(name).or_else(|| set.next().map(|(_, mode)| mode))?;
        Some((name, *mode))
    };
    let chosen = match of_client {
        Some((key, mode)) => mode.map(|mode| (mode, Reason::Client(key.to_owned()))),
        None => match of_persona() {
            Some((name, mode)) => mode.map(|mode| (mode, Reason::Persona(name.to_owned()))),
            None => terms.mode.map(|mode| (mode, Reason::Setting)),
        },
    };
    if let Some((mode, reason)) = chosen {
        return ModeChoice { mode, reason };
    }
    let (tool_tokens, sdk_tokens) = (terms.tool_tokens, terms.sdk_tokens);
    let is_program = match family.map(|family| (family.listing, family.word)) {
        Some((ListHandling::Defers, word)) => {
            return ModeChoice { mode: Mode::Full, reason: Reason::Defers(word) };
        }
        Some((ListHandling::Program, word)) if size(sdk_tokens) == Size::Small => {
            return ModeChoice { mode: Mode::Full, reason: Reason::Sdk(word, sdk_tokens) };
        }
        Some((ListHandling::Program, _)) => true,
        Some((ListHandling::Lists, _)) | None => false,
    };
    let size = size(tool_tokens);
    let mode = match size {
        Size::Small => Mode::Full,
        Size::Medium => Mode::Summary,
        Size::Large => Mode::Search,
    };
    let reason = match is_program && size != Size::Small {
        true => Reason::OverSdk(size, tool_tokens, sdk_tokens),
        false => Reason::Budget(size, tool_tokens),
    };
    ModeChoice { mode, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;
    use crate::server::tests::entry;
    use std::sync::Arc;

    #[test]
    fn the_most_specific_setting_decides() {
        let modes = |pairs: &[(&str, ConfiguredMode)]| -> Vec<(String, ConfiguredMode)> {
            pairs.iter().map(|(key, mode)| ((*key).to_owned(), *mode)).collect()
        };
        let terms = ExposureTerms { mode: Some(Mode::Summary), ..ExposureTerms::default() }.with_modes(
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
            let choice = choose(&terms, client, persona, |_| Size::Large);
            assert_eq!(choice.mode, expected, "{client} {persona:?}: {}", choice.reason);
        }
    }

    #[test]
    fn the_most_specific_key_decides_in_any_order() {
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
        let named = |keys: &[(&str, ConfiguredMode)]| -> Vec<(String, ConfiguredMode)> {
            keys.iter().map(|(key, mode)| ((*key).to_owned(), *mode)).collect()
        };
        for _ in ["forwards", "backwards"] {
            let terms = ExposureTerms::default().with_modes(named(&keys), []);
            for (client, expected) in cases {
                let found = terms.for_client(client, family(client)).map(|(key, _)| key);
                assert_eq!(found, expected, "{client} among {keys:?}");
            }
            keys.reverse();
        }
        let bridged = ExposureTerms::default().with_modes(named(&[("* (via mcp-*)", None)]), []);
        assert!(bridged.for_client("x (via mcp-remote 0.1.37)", None).is_some());
        assert!(bridged.for_client("x", None).is_none());
    }

    #[test]
    fn auto_depends_on_the_client_and_then_on_size() {
        let terms = ExposureTerms::default();
        for (size, expected) in
            [(Size::Small, Mode::Full), (Size::Medium, Mode::Summary), (Size::Large, Mode::Search)]
        {
            assert_eq!(choose(&terms, "some-client", None, |_| size).mode, expected);
            assert_eq!(choose(&terms, "codex-mcp-client", None, |_| size).mode, Mode::Full);
        }
    }

    // A program that was built with an SDK does not search for tools.
    #[test]
    fn programs_get_all_definitions_within_their_own_budget() {
        let terms = ExposureTerms::default();
        let of_tokens = |tokens: u32| move |most: u32| if tokens <= most { Size::Small } else { Size::Large };
        let cases = [
            ("mcp", 60_000, Mode::Full, "`exposure.sdk_tokens` (100000)"),
            ("mcp", 200_000, Mode::Search, "`exposure.sdk_tokens` (100000), and not even summaries"),
            ("mcp-inspector", 200_000, Mode::Full, "defers"),
            ("some-client", 60_000, Mode::Search, "`exposure.tool_tokens` (10000)"),
            ("mcp", 5_000, Mode::Full, "`exposure.sdk_tokens` (100000)"),
        ];
        for (client, tokens, mode, reason) in cases {
            let choice = choose(&terms, client, None, of_tokens(tokens));
            assert_eq!(choice.mode, mode, "{client} {tokens}");
            assert!(choice.reason.to_string().contains(reason), "{}", choice.reason);
        }
    }

    #[test]
    fn pins_match_any_name_of_a_tool() {
        let pins = |glob: &str| ToolPatterns::new(&[glob.to_owned()]).expect("a glob");
        let tool = Tool::bare(Arc::new(entry("fs")), "read", "fs_read");
        for glob in ["fs_read", "fs_*", "fs.read", "mcp.fs.*", "*read*", "read", "mcp__fs__read"] {
            assert!(pins(glob).match_any(&tool), "{glob}");
        }
        assert!(!pins("git_*").match_any(&tool));
        assert!(!ToolPatterns::default().match_any(&tool));
    }
}
