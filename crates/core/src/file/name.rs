//! Safe file names.

use std::fmt;
use unicode_normalization::UnicodeNormalization;

/// The maximum length of a name, in characters.
pub const MAX_NAME_CHARS: usize = 150;
/// How much of a longer text is read.
const MAX_LOOK: usize = 4096;
/// The maximum length of an extension that is kept when a long name is truncated.
const MAX_ENDING_CHARS: usize = 16;

/// A name that is safe on every file system, in every header and on every screen: one path component, no control or
/// invisible characters, no leading dot, no name that a system reserves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(String);

impl FileName {
    /// The safe name for a text; different spellings give the same name. `None` if nothing usable is left.
    pub fn made_safe(text: &str) -> Option<Self> {
        let text: String = text.chars().rev().take(MAX_LOOK).collect::<Vec<_>>().into_iter().rev().collect();
        // Only the last component of a path counts, with the separators of any system.
        let last = text.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
        let clean: String = last.nfc().filter(|c| !is_unseen(*c)).map(plain).collect();
        let trimmed = clean.trim_start_matches(|c: char| c == '.' || c.is_whitespace());
        let trimmed = trimmed.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
        if trimmed.chars().all(|c| c == '_') {
            return None;
        }
        let name = if is_reserved(trimmed) { format!("_{trimmed}") } else { trimmed.to_owned() };
        Some(Self(cut(&name)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last dot, in lower case.
    pub fn extension(&self) -> Option<String> {
        let (stem, ending) = self.0.rsplit_once('.')?;
        (!stem.is_empty() && !ending.is_empty()).then(|| ending.to_ascii_lowercase())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> Self {
        name.0
    }
}

/// Whether a character is invisible, or changes how others are displayed.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

fn plain(c: char) -> char {
    match c {
        '<' | '>' | ':' | '"' | '|' | '?' | '*' => '_',
        // Characters that look like a slash.
        '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{ff0f}' | '\u{ff3c}' => '_',
        c if c.is_whitespace() => ' ',
        c => c,
    }
}

/// Whether Windows treats a name as a device, whatever its extension.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" | "conin$" | "conout$" => true,
        stem => stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt")).is_some_and(|rest| {
            matches!(rest, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³")
        }),
    }
}

/// Truncates a name to the limit and keeps its extension.
fn cut(name: &str) -> String {
    let length = name.chars().count();
    if length <= MAX_NAME_CHARS {
        return name.to_owned();
    }
    let ending = match name.rsplit_once('.') {
        Some((_, ending)) if ending.chars().count() <= MAX_ENDING_CHARS => format!(".{ending}"),
        _ => String::new(),
    };
    let room = MAX_NAME_CHARS - ending.chars().count();
    let start: String = name.chars().take(room).collect();
    format!("{}{ending}", start.trim_end_matches(|c: char| c == '.' || c.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_safe() {
        let cases = [
            ("report.pdf", Some("report.pdf")),
            ("Ünïcode – name (1).tar.gz", Some("Ünïcode – name (1).tar.gz")),
            ("../../etc/passwd", Some("passwd")),
            ("C:\\fakepath\\photo.jpg", Some("photo.jpg")),
            ("/a/b/", Some("b")),
            ("..\\..\\boot.ini", Some("boot.ini")),
            ("..", None),
            ("", None),
            ("/", None),
            ("...", None),
            ("???", None),
            (" . ", None),
            (".bashrc", Some("bashrc")),
            ("..hidden.", Some("hidden")),
            ("a\u{0}b\r\nc.txt", Some("abc.txt")),
            ("tab\there", Some("tabhere")),
            ("gpj\u{202e}.exe", Some("gpj.exe")),
            ("zero\u{200b}width\u{feff}.md", Some("zerowidth.md")),
            ("fraction\u{2044}slash\u{ff0f}wide", Some("fraction_slash_wide")),
            ("a<b>:\"|?*.txt", Some("a_b______.txt")),
            ("CON", Some("_CON")),
            ("nul.txt", Some("_nul.txt")),
            ("Com1.log", Some("_Com1.log")),
            ("com10.log", Some("com10.log")),
            ("e\u{301}.txt", Some("é.txt")),
        ];
        for (text, expected) in cases {
            let name = FileName::made_safe(text);
            assert_eq!(name.as_ref().map(FileName::as_str), expected, "{text:?}");
            // A safe name stays the same, so that a file is found by the name it is shown under.
            if let Some(name) = name {
                assert_eq!(FileName::made_safe(name.as_str()), Some(name));
            }
        }
    }

    #[test]
    fn long_names_keep_their_extension() {
        let name = FileName::made_safe(&format!("{}.jpeg", "é".repeat(100_000))).expect("a name");
        assert_eq!(name.as_str().chars().count(), MAX_NAME_CHARS);
        assert!(name.as_str().ends_with("é.jpeg"), "{name}");
        assert_eq!(name.extension().as_deref(), Some("jpeg"));
        let name = FileName::made_safe(&format!("a.{}", "b".repeat(400))).expect("a name");
        assert_eq!(name.as_str().chars().count(), MAX_NAME_CHARS);
        assert_eq!(FileName::made_safe(name.as_str()), Some(name));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_an_unsafe_name(text in "\\PC{0,40}|[./\\\\ :\u{0}-\u{1f}a-c]{0,300}") {
            if let Some(name) = FileName::made_safe(&text) {
                let text = name.as_str();
                assert!(!text.is_empty() && text.chars().count() <= MAX_NAME_CHARS);
                assert!(!text.contains(['/', '\\', '\0', '\n', '\r', '"']) && !text.starts_with('.'));
                assert!(!text.chars().any(char::is_control));
                assert_eq!(FileName::made_safe(text), Some(name.clone()), "{text:?}");
            }
        }
    }
}
