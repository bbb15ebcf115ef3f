//! All spellings of a tool's name. Lookups, rules, allow and deny lists, pins and personas compare with these, so that
//! no rule depends on the configured naming style.

use super::naming::{Naming, NamingStyle, after_server};

/// The prefix and the separator between server and tool name, for every accepted form.
const FORMS: [(&str, &str); 6] =
    [("", "_"), ("mcp_", "_"), ("", "__"), ("mcp.", "."), ("mcp__", "__"), ("", ".")];

/// The default length limit of exposed names.
const USUAL_LENGTH: usize = 64;

/// Whether `fits` accepts any spelling that contains the server's name. All spellings share one buffer, because whole
/// catalogs are compared with this.
pub(crate) fn any_qualified(server: &str, own: &str, fits: impl FnMut(&str) -> bool) -> bool {
    any_joined(server, own, own, fits)
}

/// Whether `fits` accepts any spelling that contains the server's name once, for an own name that begins with it too.
/// Another tool of the server may have the same spelling as its qualified one.
pub(crate) fn any_shortened(server: &str, own: &str, fits: impl FnMut(&str) -> bool) -> bool {
    after_server(server, own).is_some_and(|rest| any_joined(server, rest, own, fits))
}

/// Whether the own name of a tool begins with its server's name.
pub(crate) fn begins_with_server(server: &str, own: &str) -> bool {
    after_server(server, own).is_some()
}

/// Tries all forms of a server's name and a part of the own name.
fn any_joined(server: &str, part: &str, own: &str, mut fits: impl FnMut(&str) -> bool) -> bool {
    let mut form = String::with_capacity(server.len() + part.len() + 8);
    FORMS.iter().any(|(before, between)| {
        form.clear();
        [before, server, between, part].iter().for_each(|part| form.push_str(part));
        fits(&form) || any_cleaned(&form, server, own, &mut fits)
    })
}

/// Whether `fits` accepts a spelling of the tool's own name, without its server.
pub(crate) fn any_own(server: &str, own: &str, mut fits: impl FnMut(&str) -> bool) -> bool {
    fits(own) || any_cleaned(own, server, own, &mut fits)
}

/// Whether an exposed name is only a form of the tool's own name: unchanged, cleaned, truncated, or with a hash suffix.
pub(crate) fn spells_own(exposed: &str, server: &str, own: &str) -> bool {
    let bare = |max_length| Naming { style: NamingStyle::Bare, max_length };
    let clean = bare(usize::MAX).expose(server, own);
    exposed == own || exposed == clean || exposed == bare(exposed.len()).suffixed(&clean, server, own)
}

/// Tries the form with invalid characters replaced and truncated, if that differs.
fn any_cleaned(form: &str, server: &str, own: &str, fits: &mut impl FnMut(&str) -> bool) -> bool {
    let dotted = form.starts_with("mcp.");
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || (dotted && c == '.');
    if form.len() <= USUAL_LENGTH && form.chars().all(is_legal) {
        return false;
    }
    let clean: String = form.chars().map(|c| if is_legal(c) { c } else { '_' }).collect();
    if fits(&clean) {
        return true;
    }
    let naming = Naming { style: NamingStyle::Bare, max_length: USUAL_LENGTH };
    clean.len() > USUAL_LENGTH && fits(&naming.suffixed(&clean, server, own))
}

/// Every spelling of a tool's name, including its own name.
pub(crate) fn all(server: &str, own: &str) -> Vec<String> {
    let mut spellings: Vec<String> = Vec::with_capacity(FORMS.len() + 1);
    let mut collect = |form: &str| {
        if !spellings.iter().any(|known| known == form) {
            spellings.push(form.to_owned());
        }
        false
    };
    any_qualified(server, own, &mut collect);
    any_own(server, own, &mut collect);
    spellings
}

/// The spellings of [`any_shortened`].
pub(crate) fn shortened(server: &str, own: &str) -> Vec<String> {
    let mut spellings: Vec<String> = Vec::new();
    any_shortened(server, own, |form| {
        spellings.push(form.to_owned());
        false
    });
    spellings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_names_are_among_the_spellings() {
        let long = format!("git_{}", "x".repeat(80));
        for own in ["git_status", "git-status", "git.status now", long.as_str()] {
            for style in [NamingStyle::ServerTool, NamingStyle::McpServerTool, NamingStyle::ServerDoubleTool]
            {
                let naming = Naming { style, ..Naming::default() };
                let exposed = naming.expose_tool("git", own);
                assert!(shortened("git", own).contains(&exposed), "{exposed}");
                assert!(all("git", own).contains(&naming.expose("git", own)), "the name before stays");
            }
        }
        assert!(shortened("git", "status").is_empty());
    }

    #[test]
    fn every_style_is_among_the_spellings() {
        let styles = [
            NamingStyle::ServerTool,
            NamingStyle::McpServerTool,
            NamingStyle::ServerDoubleTool,
            NamingStyle::Dotted,
            NamingStyle::Bare,
        ];
        let long = "x".repeat(80);
        for (server, own) in [("fs", "read"), ("my.fs", "read.file"), ("fs", "größe messen"), ("fs", &long)]
        {
            let spellings = all(server, own);
            for style in styles {
                let exposed = Naming { style, ..Naming::default() }.expose(server, own);
                assert!(spellings.contains(&exposed), "{style:?} {exposed}: {spellings:?}");
            }
        }
        assert!(all("fs", "read").contains(&"mcp__fs__read".to_owned()));
    }

    #[test]
    fn own_names_are_distinguished_from_qualified_ones() {
        let long = "x".repeat(80);
        for own in ["read", "read.file", "mcp.fs.read", "größe messen", long.as_str()] {
            for max_length in [20, 64] {
                let named = |style| Naming { style, max_length };
                let bare = named(NamingStyle::Bare);
                assert!(spells_own(&bare.expose("fs", own), "fs", own), "{own}");
                assert!(spells_own(&bare.suffixed(&bare.expose("fs", own), "fs", own), "fs", own), "{own}");
                for style in [NamingStyle::ServerTool, NamingStyle::McpServerTool, NamingStyle::Dotted] {
                    assert!(!spells_own(&named(style).expose("fs", own), "fs", own), "{style:?} {own}");
                }
            }
        }
    }
}
