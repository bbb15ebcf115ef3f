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
    /// The exposed name of a tool or prompt, before name collisions are resolved.
    pub fn expose(&self, server: &str, own: &str) -> String {
        let joined = self.join(server, own);
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

#[cfg(test)]
mod tests {
    use super::*;

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
