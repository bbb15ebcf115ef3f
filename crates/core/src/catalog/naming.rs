//! Exposed names: valid for every client, unique, and not changed when another server is added.

use sha2::{Digest, Sha256};

/// How the exposed name of a tool is built from its server's name and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamingStyle {
    /// `server_tool`.
    #[default]
    ServerTool,
    /// `mcp_server_tool`.
    McpServerTool,
    /// `server__tool`.
    ServerDoubleTool,
    /// `mcp.server.tool`.
    Dotted,
    /// The tool's own name only.
    Bare,
}

/// The rules for exposed names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    /// How names are built.
    pub style: NamingStyle,
    /// The maximum length of a name.
    pub max_length: usize,
}

impl Default for Naming {
    fn default() -> Self {
        Self { style: NamingStyle::default(), max_length: 64 }
    }
}

impl Naming {
    /// The exposed name of a prompt, or of a tool with its whole own name, before name collisions are resolved.
    pub fn expose(&self, server: &str, own: &str) -> String {
        self.cleaned(&self.join(server, own), server, own)
    }

    /// The exposed name of a tool, before name collisions are resolved: if its own name begins with its server's name,
    /// that is not repeated. In the dotted style the name is the canonical id, which has the whole own name.
    pub fn expose_tool(&self, server: &str, own: &str) -> String {
        let repeats = matches!(
            self.style,
            NamingStyle::ServerTool | NamingStyle::McpServerTool | NamingStyle::ServerDoubleTool
        );
        match after_server(server, own).filter(|_| repeats) {
            Some(rest) => self.cleaned(&self.join(server, rest), server, own),
            None => self.expose(server, own),
        }
    }

    /// The name with invalid characters replaced, truncated if it is too long.
    fn cleaned(&self, joined: &str, server: &str, own: &str) -> String {
        let clean: String = joined.chars().map(|c| if self.is_legal(c) { c } else { '_' }).collect();
        if clean.len() <= self.max_length { clean } else { self.suffixed(&clean, server, own) }
    }

    /// The same name with a hash of the server and tool names, for names that are too long or taken.
    pub fn suffixed(&self, clean: &str, server: &str, own: &str) -> String {
        let digest = Sha256::digest(format!("{server}\0{own}"));
        let hash = format!("_{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2]);
        let keep = self.max_length.saturating_sub(hash.len());
        // Valid names are ASCII, so any cut is between characters.
        format!("{}{hash}", &clean[..keep.min(clean.len())])
    }

    fn join(&self, server: &str, own: &str) -> String {
        match self.style {
            NamingStyle::ServerTool => format!("{server}_{own}"),
            NamingStyle::McpServerTool => format!("mcp_{server}_{own}"),
            NamingStyle::ServerDoubleTool => format!("{server}__{own}"),
            NamingStyle::Dotted => format!("mcp.{server}.{own}"),
            NamingStyle::Bare => own.to_owned(),
        }
    }

    fn is_legal(&self, c: char) -> bool {
        c.is_ascii_alphanumeric() || c == '_' || c == '-' || (c == '.' && self.style == NamingStyle::Dotted)
    }

    /// The spellings of a name for which search ranks the tool first. `spelling` has all accepted ones.
    pub fn forms(server: &str, own: &str) -> [String; 5] {
        [
            format!("{server}_{own}"),
            format!("mcp_{server}_{own}"),
            format!("{server}__{own}"),
            format!("mcp.{server}.{own}"),
            own.to_owned(),
        ]
    }
}

/// The part of a tool's own name after its server's name and a separator, if the own name begins with these. Case and
/// the kind of separator do not matter. The own name that is only the server's name is not shortened: one word, such as
/// `fetch`, is often the name of a tool of the client.
pub(super) fn after_server<'a>(server: &str, own: &'a str) -> Option<&'a str> {
    let is_separator = |byte: u8| matches!(byte, b'_' | b'-' | b'.' | b'/');
    let is_same = |(a, b): (u8, u8)| a.eq_ignore_ascii_case(&b) || (is_separator(a) && is_separator(b));
    let (start, rest) = own.as_bytes().split_at_checked(server.len())?;
    let begins = !start.is_empty() && start.iter().copied().zip(server.bytes()).all(is_same);
    // Some names have two separators, as in `git__status`.
    let separators = rest.iter().take(2).take_while(|byte| is_separator(**byte)).count();
    // The bytes before this position are ASCII, or equal to those of the server's name.
    let rest = own.get(server.len() + separators..)?;
    let is_name = rest.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
    (begins && separators > 0 && is_name).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_repeat_the_server() {
        let cases = [
            ("git", "git_status", "git_status", "git__status"),
            ("git", "git-status", "git_status", "git__status"),
            ("git", "git.status", "git_status", "git__status"),
            ("git", "git__status", "git_status", "git__status"),
            ("GitHub", "github_search", "GitHub_search", "GitHub__search"),
            ("google-maps", "google_maps_geocode", "google-maps_geocode", "google-maps__geocode"),
            ("git", "github_status", "git_github_status", "git__github_status"),
            ("git", "gits", "git_gits", "git__gits"),
            ("git", "git", "git_git", "git__git"),
            ("git", "git_", "git_git_", "git__git_"),
            ("git", "git___x", "git_git___x", "git__git___x"),
            ("git", "status_git", "git_status_git", "git__status_git"),
            ("git", "gi", "git_gi", "git__gi"),
            ("größe", "gröx", "gr__e_gr_x", "gr__e__gr_x"),
        ];
        for (server, own, single, double) in cases {
            let exposed = |style| Naming { style, ..Naming::default() }.expose_tool(server, own);
            assert_eq!(exposed(NamingStyle::ServerTool), single, "{server} {own}");
            assert_eq!(exposed(NamingStyle::ServerDoubleTool), double, "{server} {own}");
        }
        let exposed = |style| Naming { style, ..Naming::default() }.expose_tool("git", "git_status");
        assert_eq!(exposed(NamingStyle::McpServerTool), "mcp_git_status");
        assert_eq!(exposed(NamingStyle::Dotted), "mcp.git.git_status", "the canonical id");
        assert_eq!(exposed(NamingStyle::Bare), "git_status");
    }

    #[test]
    fn names_follow_the_naming_style() {
        let cases = [
            (NamingStyle::ServerTool, "fs_read.file", "fs_read_file"),
            (NamingStyle::McpServerTool, "mcp_fs_read.file", "mcp_fs_read_file"),
            (NamingStyle::ServerDoubleTool, "fs__read.file", "fs__read_file"),
            (NamingStyle::Dotted, "mcp.fs.read.file", "mcp.fs.read.file"),
            (NamingStyle::Bare, "read.file", "read_file"),
        ];
        for (style, _, expected) in cases {
            let naming = Naming { style, ..Naming::default() };
            assert_eq!(naming.expose("fs", "read.file"), expected);
        }
    }

    #[test]
    fn long_and_foreign_names_become_short_and_valid() {
        let naming = Naming::default();
        let long = naming.expose("server", &"x".repeat(100));
        assert_eq!(long.len(), 64);
        assert_ne!(long, naming.expose("server", &"x".repeat(101)));
        assert_eq!(naming.expose("s", "größe messen"), "s_gr__e_messen");
    }
}
