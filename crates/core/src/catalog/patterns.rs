//! Patterns over tools: the one place where rules meet names. What an operator writes about a tool is compared with
//! every name that the tool goes by, whatever the naming style in force.

use super::spelling;
use super::tool::Tool;
use globset::{Glob, GlobSet, GlobSetBuilder};

/// Characters that make a pattern more than a name.
const WILD: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// Globs over the names of tools.
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

/// A text that is not a glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a pattern for names")]
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

    /// Whether there is no pattern at all.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The patterns as they were written.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Whether a pattern fits any name of a tool. For patterns that take away, ask or pin: a name too many only makes
    /// them stricter.
    pub fn touch(&self, tool: &Tool) -> bool {
        !self.is_empty()
            && (self.fits_given_name(tool)
                || (!tool.server.is_virtual() && self.touch_pair(tool.server.name.as_str(), &tool.name)))
    }

    /// The same for a tool of which only its server and its own name are known.
    pub fn touch_pair(&self, server: &str, own: &str) -> bool {
        !self.is_empty() && (self.fits_own(server, own) || self.fits_qualified(server, own))
    }

    /// Whether a pattern fits a name that the operator gave the tool or that holds its server's name. For patterns that
    /// permit: a server chooses the own names of its tools, so one of those vouches for nothing.
    pub fn permit(&self, tool: &Tool) -> bool {
        let before = || tool.under.as_deref().is_some_and(|under| self.permits_exposed(under));
        self.permits_exposed(tool)
            || self.fits_manifest_name(tool)
            || before()
            || (!tool.server.is_virtual() && self.fits_qualified(tool.server.name.as_str(), &tool.name))
    }

    /// Whether a pattern permits the exposed name. With `naming.style = "tool"` it is the server's own name for the
    /// tool, which then counts only if a manifest gave it as well, or if the operator wrote it to the letter.
    fn permits_exposed(&self, tool: &Tool) -> bool {
        let by_server = || spelling::spells_own(&tool.exposed, tool.server.name.as_str(), &tool.name);
        // The names of entries are kept if they differ from the exposed name: with none kept, all of them are it.
        let by_manifest = tool.under.is_some() && tool.entry_names.is_empty();
        let by_operator = by_manifest || tool.server.is_virtual() || tool.server.is_own();
        self.say_exactly(&tool.exposed)
            || (self.globs.is_match(&*tool.exposed) && (by_operator || !by_server()))
    }

    /// The same for anything of a server that clients know as `exposed`.
    pub fn permit_pair(&self, server: &str, own: &str, exposed: &str) -> bool {
        self.globs.is_match(exposed) || self.fits_qualified(server, own)
    }

    /// Whether a text is a tool's own name to the letter: an operator who writes a bare name means every tool of it.
    pub fn say_exactly(&self, own: &str) -> bool {
        self.texts.iter().any(|text| text == own && !text.contains(WILD))
    }

    /// Whether a pattern fits an own name, as globs of a server's entry do.
    pub(crate) fn fits_own(&self, server: &str, own: &str) -> bool {
        spelling::any_own(server, own, |form| self.globs.is_match(form))
    }

    /// Whether a text is a qualified spelling to the letter.
    pub(crate) fn say_qualified(&self, server: &str, own: &str) -> bool {
        spelling::any_qualified(server, own, |form| self.say_exactly(form))
    }

    fn fits_qualified(&self, server: &str, own: &str) -> bool {
        spelling::any_qualified(server, own, |form| self.globs.is_match(form))
    }

    /// The exposed name, what manifests call it, and what it was called before they did.
    fn fits_given_name(&self, tool: &Tool) -> bool {
        let before = || tool.under.as_deref().is_some_and(|under| self.globs.is_match(&*under.exposed));
        self.globs.is_match(&*tool.exposed) || self.fits_manifest_name(tool) || before()
    }

    /// What manifests call it.
    fn fits_manifest_name(&self, tool: &Tool) -> bool {
        let virtual_name = || {
            tool.server.is_virtual()
                && (self.globs.is_match(&*tool.name) || self.globs.is_match(tool.canonical()))
        };
        tool.entry_names.iter().any(|name| self.globs.is_match(&**name)) || virtual_name()
    }
}

/// Which tools enter the catalog at all: `allow_tools` and `deny_tools`. The gateway's own tools are not asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gate {
    allow: ToolPatterns,
    deny: ToolPatterns,
}

impl Gate {
    /// A gate for these patterns; without any in `allow` all pass that `deny` does not name.
    pub fn new(allow: &[String], deny: &[String]) -> Result<Self, BadPattern> {
        Ok(Self { allow: ToolPatterns::new(allow)?, deny: ToolPatterns::new(deny)? })
    }

    /// Whether every tool passes.
    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether a tool enters the catalog. Deny wins.
    pub fn admits(&self, tool: &Tool) -> bool {
        self.admits_as(tool, &[])
    }

    /// The same for a tool that manifests give these names as well.
    pub(crate) fn admits_as(&self, tool: &Tool, also: &[&str]) -> bool {
        if self.is_open() || tool.server.is_own() {
            return true;
        }
        let named = |patterns: &ToolPatterns| also.iter().any(|name| patterns.globs.is_match(name));
        let is_denied = self.deny.touch(tool);
        let is_allowed = || {
            self.allow.is_empty()
                || self.allow.permit(tool)
                || self.allow.say_exactly(&tool.name)
                || named(&self.allow)
        };
        !is_denied && is_allowed()
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

    /// Audit H2: a rule holds whatever the naming style in force.
    #[test]
    fn every_form_of_a_name_is_touched_whatever_the_style_in_force() {
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
                assert!(patterns(&[form]).touch(&tool), "{form} as {exposed}");
            }
            assert!(!patterns(&["shop_*"]).touch(&tool));
            assert!(!patterns(&[]).touch(&tool));
        }
    }

    #[test]
    fn a_servers_own_name_for_a_tool_vouches_for_nothing() {
        let evil = Tool::bare(Arc::new(entry("evil")), "git_push", "evil_git_push");
        let real = Tool::bare(Arc::new(entry("git")), "push", "git_push");
        assert!(patterns(&["git_*"]).permit(&real));
        assert!(!patterns(&["git_*"]).permit(&evil));
        assert!(patterns(&["git_*"]).touch(&evil), "what forbids errs on the strict side");
        assert!(patterns(&["git_push"]).say_exactly("git_push"));
        assert!(!patterns(&["git_*"]).say_exactly("git_*"));
    }

    /// With `naming.style = "tool"` a server could name its tools into what an operator allows.
    #[test]
    fn an_exposed_name_that_a_server_chose_vouches_for_nothing() {
        let evil = Arc::new(Tool::bare(Arc::new(entry("evil")), "git_push", "git_push"));
        let cleaned = Tool::bare(Arc::new(entry("evil")), "git.push", "git_push");
        let taken = Naming::default().suffixed("git_push", "evil", "git_push");
        let taken = Tool::bare(Arc::new(entry("evil")), "git_push", &taken);
        let real = Tool::bare(Arc::new(entry("git")), "push", "push");
        for tool in [&*evil, &cleaned, &taken] {
            for glob in ["git_*", "git?push*", "*push*"] {
                let fits_qualified = glob == "*push*";
                assert_eq!(patterns(&[glob]).permit(tool), fits_qualified, "{glob} {}", tool.exposed);
            }
            assert!(patterns(&["git_*"]).touch(tool), "what forbids errs on the strict side");
            assert!(patterns(&["evil_*"]).permit(tool));
        }
        assert!(patterns(&["git_*"]).permit(&real));
        assert!(patterns(&["git_push"]).permit(&evil), "to the letter");

        // A manifest that is laid over it gives a name, or merely finds the tool.
        let laid = |exposed: &str, entry_names: &[&str]| Tool {
            under: Some(evil.clone()),
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
            let gate = Gate::new(&texts(allow), &texts(deny)).expect("globs");
            assert_eq!(gate.admits(&tool), expected, "{allow:?} {deny:?}");
        }
    }
}
