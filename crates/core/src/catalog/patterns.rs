//! Patterns over tool names. This is the only place that matches rules with names: an operator's pattern is compared
//! with every name of a tool, whatever naming style is configured.

use super::spelling;
use super::tool::Tool;
use globset::{Glob, GlobSet, GlobSetBuilder};

/// Characters that make a text a pattern rather than a name.
const WILD: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// Globs over tool names.
#[derive(Debug, Clone, Default)]
pub struct ToolPatterns {
    globs: GlobSet,
    texts: Vec<String>,
}

impl PartialEq for ToolPatterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for ToolPatterns {}

/// The error for a text that is not a valid glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid name pattern")]
pub struct BadPattern(pub String);

impl ToolPatterns {
    /// Compiles globs.
    pub fn new(texts: &[String]) -> Result<Self, BadPattern> {
        let mut builder = GlobSetBuilder::new();
        for text in texts {
            builder.add(Glob::new(text).map_err(|_| BadPattern(text.clone()))?);
        }
        let globs = builder.build().map_err(|_| BadPattern(texts.join(", ")))?;
        Ok(Self { globs, texts: texts.to_vec() })
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The patterns as written.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Whether a pattern matches any name of a tool. For patterns that deny, ask or pin: an additional match only makes
    /// them stricter.
    pub fn match_any(&self, tool: &Tool) -> bool {
        !self.is_empty()
            && (self.match_given_name(tool)
                || (!tool.server.is_virtual() && self.match_any_pair(tool.server.name.as_str(), &tool.name)))
    }

    /// Like [`Self::match_any`], for a tool of which only the server and the own name are known.
    pub fn match_any_pair(&self, server: &str, own: &str) -> bool {
        !self.is_empty()
            && (self.match_own(server, own)
                || self.match_qualified(server, own)
                || spelling::any_shortened(server, own, |form| self.globs.is_match(form)))
    }

    /// Whether a pattern matches a name that the operator gave the tool or that contains its server's name. For
    /// patterns that permit: a server chooses the own names of its tools, so those are not trusted.
    pub fn permit(&self, tool: &Tool) -> bool {
        let before = || tool.original.as_deref().is_some_and(|original| self.permit_exposed(original));
        self.permit_exposed(tool)
            || self.match_manifest_name(tool)
            || before()
            || (!tool.server.is_virtual() && self.match_qualified(tool.server.name.as_str(), &tool.name))
    }

    /// Whether a pattern permits the exposed name. With `naming.style = "tool"` this is the server's own name for the
    /// tool, which counts only if a manifest also gave it, or if the operator wrote it literally.
    fn permit_exposed(&self, tool: &Tool) -> bool {
        // The plain name of another server's tool permits only that tool, also if a caller sees this one under it.
        let exposed = tool.hashed_name.as_deref().unwrap_or(&tool.exposed);
        let server = tool.server.name.as_str();
        // An own name that begins with the server's name has a part that the operator chose.
        let by_server = || {
            spelling::spells_own(exposed, server, &tool.name)
                && !spelling::begins_with_server(server, &tool.name)
        };
        // `entry_names` holds only names that differ from the exposed name, so if it is empty, all entries gave that
        // name.
        let by_manifest = tool.original.is_some() && tool.entry_names.is_empty();
        let by_operator = by_manifest || tool.server.is_virtual() || tool.server.is_own();
        self.equal(exposed) || (self.globs.is_match(exposed) && (by_operator || !by_server()))
    }

    /// Like [`Self::permit`], for any item of a server that clients know as `exposed`.
    pub fn permit_pair(&self, server: &str, own: &str, exposed: &str) -> bool {
        self.globs.is_match(exposed) || self.match_qualified(server, own)
    }

    /// Whether a pattern is literally a tool's own name: an operator who writes a bare name means every tool with it.
    pub fn equal(&self, own: &str) -> bool {
        self.texts.iter().any(|text| text == own && !text.contains(WILD))
    }

    /// Whether a pattern matches an own name, as the globs of a server's entry do.
    pub(crate) fn match_own(&self, server: &str, own: &str) -> bool {
        spelling::any_own(server, own, |form| self.globs.is_match(form))
    }

    /// Whether a pattern is literally a qualified spelling, or a shortened one that clients may see.
    pub(crate) fn equal_qualified(&self, server: &str, own: &str) -> bool {
        // With dots it could be the canonical id of another tool.
        spelling::any_qualified(server, own, |form| self.equal(form))
            || spelling::any_shortened(server, own, |form| !form.contains('.') && self.equal(form))
    }

    fn match_qualified(&self, server: &str, own: &str) -> bool {
        spelling::any_qualified(server, own, |form| self.globs.is_match(form))
    }

    /// Whether a pattern matches the exposed name, a name in a manifest, or the exposed name before a manifest
    /// changed it.
    fn match_given_name(&self, tool: &Tool) -> bool {
        let before =
            || tool.original.as_deref().is_some_and(|original| self.globs.is_match(&*original.exposed));
        let hashed = || tool.hashed_name.as_deref().is_some_and(|name| self.globs.is_match(name));
        self.globs.is_match(&*tool.exposed) || hashed() || self.match_manifest_name(tool) || before()
    }

    /// Whether a pattern matches a name in a manifest.
    fn match_manifest_name(&self, tool: &Tool) -> bool {
        let virtual_name = || {
            tool.server.is_virtual()
                && (self.globs.is_match(&*tool.name) || self.globs.is_match(tool.canonical()))
        };
        tool.entry_names.iter().any(|name| self.globs.is_match(&**name)) || virtual_name()
    }
}

/// Which tools enter the catalog: `allow_tools` and `deny_tools`. The gateway's own tools are exempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolGate {
    allow: ToolPatterns,
    deny: ToolPatterns,
    /// `allow_server_tools` and `deny_server_tools`, which tools of manifests are exempt from.
    server_allow: ToolPatterns,
    server_deny: ToolPatterns,
}

impl ToolGate {
    /// A gate with these patterns. With an empty `allow`, all tools pass that `deny` does not match.
    pub fn new(allow: &[String], deny: &[String]) -> Result<Self, BadPattern> {
        Ok(Self { allow: ToolPatterns::new(allow)?, deny: ToolPatterns::new(deny)?, ..Self::default() })
    }

    /// The same gate with further patterns for the tools of servers only.
    pub fn with_server_lists(self, allow: &[String], deny: &[String]) -> Result<Self, BadPattern> {
        Ok(Self { server_allow: ToolPatterns::new(allow)?, server_deny: ToolPatterns::new(deny)?, ..self })
    }

    /// Whether every tool passes.
    pub fn is_open(&self) -> bool {
        [&self.allow, &self.deny, &self.server_allow, &self.server_deny].iter().all(|list| list.is_empty())
    }

    /// Whether a tool enters the catalog. Deny wins.
    pub fn admits(&self, tool: &Tool) -> bool {
        self.admits_as(tool, &[])
    }

    /// Like [`Self::admits`], for a tool that manifests also give these names.
    pub(crate) fn admits_as(&self, tool: &Tool, also: &[&str]) -> bool {
        if self.is_open() || tool.server.is_own() {
            return true;
        }
        let named = |patterns: &ToolPatterns| also.iter().any(|name| patterns.globs.is_match(name));
        let passes = |allow: &ToolPatterns, deny: &ToolPatterns| {
            let is_allowed =
                || allow.is_empty() || allow.permit(tool) || allow.equal(&tool.name) || named(allow);
            !deny.match_any(tool) && is_allowed()
        };
        passes(&self.allow, &self.deny)
            && (tool.server.is_virtual() || passes(&self.server_allow, &self.server_deny))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Naming;
    use crate::server::tests::entry;
    use std::sync::Arc;

    fn patterns(texts: &[&str]) -> ToolPatterns {
        ToolPatterns::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).expect("globs")
    }

    /// Audit H2: a rule applies whatever naming style is configured.
    #[test]
    fn every_form_of_a_name_matches_with_every_naming_style() {
        let forms = [
            "bank_transfer",
            "mcp_bank_transfer",
            "bank__transfer",
            "mcp.bank.transfer",
            "mcp__bank__transfer",
            "bank.transfer",
            "transfer",
            "bank_*",
            "*transfer*",
        ];
        for exposed in
            ["bank_transfer", "transfer", "mcp.bank.transfer", "bank__transfer", "mcp_bank_transfer"]
        {
            let tool = Tool::bare(Arc::new(entry("bank")), "transfer", exposed);
            for form in forms {
                assert!(patterns(&[form]).match_any(&tool), "{form} as {exposed}");
            }
            assert!(!patterns(&["shop_*"]).match_any(&tool));
            assert!(!patterns(&[]).match_any(&tool));
        }
    }

    /// A name that repeats its server is shown without the repetition. Rules with either spelling apply.
    #[test]
    fn every_form_of_a_shortened_name_matches() {
        let forms = [
            "git_push",
            "git_git_push",
            "mcp_git_push",
            "git__push",
            "mcp.git.push",
            "mcp.git.git_push",
            "mcp__git__push",
            "mcp__git__git_push",
            "git.push",
            "git_p*",
            "git_git_p*",
        ];
        for exposed in ["git_push", "git_git_push", "git__push", "mcp_git_push", "mcp.git.git_push"] {
            let tool = Tool::bare(Arc::new(entry("git")), "git_push", exposed);
            for form in forms {
                assert!(patterns(&[form]).match_any(&tool), "{form} as {exposed}");
            }
            assert!(!patterns(&["git_pull"]).match_any(&tool) && !patterns(&["hub_*"]).match_any(&tool));
        }
        let tool = Tool::bare(Arc::new(entry("git")), "git_push", "git_push");
        for form in ["git_push", "git_p*", "git_git_push", "git_*", "mcp.git.git_push"] {
            assert!(patterns(&[form]).permit(&tool), "{form}");
        }
        // The canonical id of another tool, which the server may also list.
        assert!(!patterns(&["mcp.git.push"]).permit(&tool));
        // The server chose all of this name.
        let evil = Tool::bare(Arc::new(entry("evil")), "git_push", "evil_git_push");
        assert!(!patterns(&["git_p*"]).permit(&evil));
    }

    #[test]
    fn a_servers_own_name_for_a_tool_permits_nothing() {
        let evil = Tool::bare(Arc::new(entry("evil")), "git_push", "evil_git_push");
        let real = Tool::bare(Arc::new(entry("git")), "push", "git_push");
        assert!(patterns(&["git_*"]).permit(&real));
        assert!(!patterns(&["git_*"]).permit(&evil));
        assert!(patterns(&["git_*"]).match_any(&evil), "denying patterns match more names");
        assert!(patterns(&["git_push"]).equal("git_push"));
        assert!(!patterns(&["git_*"]).equal("git_*"));
    }

    /// With `naming.style = "tool"`, a server could choose tool names that an operator's pattern allows.
    #[test]
    fn an_exposed_name_that_a_server_chose_permits_nothing() {
        let evil = Arc::new(Tool::bare(Arc::new(entry("evil")), "git_push", "git_push"));
        let cleaned = Tool::bare(Arc::new(entry("evil")), "git.push", "git_push");
        let taken = Naming::default().suffixed("git_push", "evil", "git_push");
        let taken = Tool::bare(Arc::new(entry("evil")), "git_push", &taken);
        let real = Tool::bare(Arc::new(entry("git")), "push", "push");
        for tool in [&*evil, &cleaned, &taken] {
            for glob in ["git_*", "git?push*", "*push*"] {
                let match_qualified = glob == "*push*";
                assert_eq!(patterns(&[glob]).permit(tool), match_qualified, "{glob} {}", tool.exposed);
            }
            assert!(patterns(&["git_*"]).match_any(tool), "denying patterns match more names");
            assert!(patterns(&["evil_*"]).permit(tool));
        }
        assert!(patterns(&["git_*"]).permit(&real));
        assert!(patterns(&["git_push"]).permit(&evil), "written literally");

        // A manifest over the tool may give it a name, or only refer to it.
        let laid = |exposed: &str, entry_names: &[&str]| Tool {
            original: Some(evil.clone()),
            entry_names: entry_names.iter().map(|name| (*name).into()).collect(),
            ..Tool::bare(Arc::new(entry("evil")), "git_push", exposed)
        };
        let cases = [
            (laid("git_push", &[]), true),
            (laid("git_publish", &[]), true),
            (laid("git_push", &["git.push", "git_send"]), true),
            (laid("git_push", &["mcp.evil.git_push"]), false),
        ];
        for (tool, expected) in cases {
            assert_eq!(
                patterns(&["git_*"]).permit(&tool),
                expected,
                "{} {:?}",
                tool.exposed,
                tool.entry_names
            );
        }
    }

    /// Audit H1.
    #[test]
    fn deny_wins_over_allow() {
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let tool = Tool::bare(Arc::new(entry("bank")), "transfer", "bank_transfer");
        let cases: [(&[&str], &[&str], bool); 8] = [
            (&[], &[], true),
            (&["bank_*"], &[], true),
            (&["mcp.bank.transfer"], &[], true),
            (&["transfer"], &[], true),
            (&["shop_*"], &[], false),
            (&[], &["*transfer*"], false),
            (&["bank_transfer"], &["transfer"], false),
            (&["*"], &["mcp__bank__*"], false),
        ];
        for (allow, deny, expected) in cases {
            let gate = ToolGate::new(&texts(allow), &texts(deny)).expect("globs");
            assert_eq!(gate.admits(&tool), expected, "{allow:?} {deny:?}");
            let gate = ToolGate::default().with_server_lists(&texts(allow), &texts(deny)).expect("globs");
            assert_eq!(gate.admits(&tool), expected, "for servers: {allow:?} {deny:?}");
        }
    }

    #[test]
    fn lists_for_servers_do_not_apply_to_tools_of_manifests() {
        let mut server = entry("_manifest");
        server.transport = crate::server::Transport::Virtual;
        let tool = Tool::bare(Arc::new(server), "web_search", "web_search");
        let lists = (vec!["browser.*".to_owned()], vec!["*search*".to_owned()]);
        let gate = ToolGate::default().with_server_lists(&lists.0, &lists.1).expect("globs");
        assert!(gate.admits(&tool) && !gate.is_open());
        assert!(!ToolGate::new(&lists.0, &lists.1).expect("globs").admits(&tool));
    }
}
