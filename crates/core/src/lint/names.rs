//! Names that are easily mistaken for others: letters of other scripts that look alike, and the names of the gateway's
//! own tools.

use crate::own_names::RESERVED;
use std::collections::HashMap;
use std::sync::LazyLock;
use unicode_security::confusable_detection::skeleton as drawn;
use unicode_security::{RestrictionLevel, RestrictionLevelDetection};

/// Maximum number of characters of a name that are compared.
const MAX_COMPARED: usize = 256;

/// The gateway's own tool that a name equals or looks like, ignoring case, separators and look-alike letters.
pub fn reserved(name: &str) -> Option<&'static str> {
    static LOOKS: LazyLock<[(String, &str); RESERVED.len()]> =
        LazyLock::new(|| RESERVED.map(|own| (look(own), own)));
    let look = look(name);
    LOOKS.iter().find(|(own, _)| *own == look).map(|(_, own)| *own)
}

/// The reason why the letters of a name may deceive a reader, if any. A name in one script is fine, unless all of it
/// looks like Latin letters.
pub fn misleading_letters(name: &str) -> Option<String> {
    if name.is_ascii() {
        return None;
    }
    let letters: String = name.chars().filter(|c| c.is_alphabetic()).take(MAX_COMPARED).collect();
    let skeleton: String = drawn(&letters).collect();
    if !letters.is_ascii() && skeleton.is_ascii() {
        let skeleton: String = drawn(name).take(MAX_COMPARED).collect();
        return Some(format!(
            "it has letters of another script that look like `{}`",
            super::visible(&skeleton)
        ));
    }
    let level = letters.as_str().detect_restriction_level();
    (level > RestrictionLevel::ModeratelyRestrictive)
        .then(|| "it mixes letters of scripts that are easily confused".to_owned())
}

/// The look of a name: two names that a reader confuses have the same look.
fn look(name: &str) -> String {
    let plain: String = match name.is_ascii() {
        true => name.chars().take(MAX_COMPARED).collect(),
        false => drawn(name).take(MAX_COMPARED).collect(),
    };
    let mut look = String::with_capacity(plain.len());
    for c in plain.chars().flat_map(char::to_lowercase) {
        match c {
            '1' | 'i' | '|' => look.push('l'),
            '0' => look.push('o'),
            // Unicode's skeleton turns `m` into `rn`; so does this, for names with and without foreign letters.
            'm' => look.push_str("rn"),
            '-' | '.' | ' ' | '/' | ':' => look.push('_'),
            c => look.push(c),
        }
    }
    look
}

/// Names of tools by their look, to find names that are easily confused.
#[derive(Debug, Default)]
pub(super) struct SimilarNames {
    /// For each look the first two names that have it: one may be that of the tool that is linted.
    seen: HashMap<String, (String, Option<String>)>,
}

impl SimilarNames {
    /// Adds a name.
    pub(super) fn add(&mut self, name: &str) {
        let known = self.seen.entry(look(name)).or_insert_with(|| (name.to_owned(), None));
        if !is_same(&known.0, name) && known.1.is_none() {
            known.1 = Some(name.to_owned());
        }
    }

    /// Another name with the same look.
    pub(super) fn like(&self, name: &str) -> Option<&str> {
        let (first, second) = self.seen.get(&look(name))?;
        if is_same(first, name) { second.as_deref() } else { Some(first) }
    }
}

/// Whether two names differ only in case and separators, which is not confusing: `read-file` and `Read_File`.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(['-', '.', ' ', '/', ':'], "_");
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_recognised_in_any_spelling() {
        let cases = [
            ("mcp_tool_search", Some("mcp_tool_search")),
            ("MCP-Tool-Search", Some("mcp_tool_search")),
            ("mcp.tool.search", Some("mcp_tool_search")),
            ("mcp_too1_search", Some("mcp_tool_search")),
            ("mcp_t0ol_call", Some("mcp_tool_call")),
            ("rncp_tool_call", Some("mcp_tool_call")),
            ("mсp_tool_call", Some("mcp_tool_call")), // Cyrillic с
            ("artifact_read", Some("artifact_read")),
            ("artlfact_read", Some("artifact_read")),
            ("artifact_reader", None),
            ("tool_search", None),
            ("search", None),
        ];
        for (name, expected) in cases {
            assert_eq!(reserved(name), expected, "{name}");
        }
    }

    #[test]
    fn deceptive_letters_are_found_and_ordinary_names_are_not() {
        let cases = [
            ("read_file", false),
            ("größe messen", false),
            ("naïve.search", false),
            ("東京_weather", false),
            ("検索tool", false),
            ("поиск", false), // Russian
            ("αναζήτηση", false),
            ("חיפוש_find", false),
            ("pаy", true),              // Cyrillic а
            ("ｔｒａｎｓｆｅｒ", true), // full width
            ("сору", true),             // wholly Cyrillic, and drawn like Latin letters
            ("sendж", true),            // Latin and Cyrillic
            ("𝐬𝐞𝐧𝐝", true),
        ];
        for (name, expected) in cases {
            assert_eq!(
                misleading_letters(name).is_some(),
                expected,
                "{name}: {:?}",
                misleading_letters(name)
            );
        }
    }

    #[test]
    fn names_with_the_same_look_are_found() {
        let mut names_by_look = SimilarNames::default();
        let names = ["transfer_all", "transfer_a11", "read-file", "read_file", "list", "Iist", "pay", "pаy"];
        names.iter().for_each(|name| names_by_look.add(name));
        let alike: Vec<_> = names.iter().map(|name| names_by_look.like(name)).collect();
        let expected = [
            Some("transfer_a11"),
            Some("transfer_all"),
            None,
            None,
            Some("Iist"),
            Some("list"),
            Some("pаy"),
            Some("pay"),
        ];
        assert_eq!(alike, expected);
    }
}
