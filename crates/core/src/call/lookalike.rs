//! Look-alikes: names that a person, or a careless server, takes for another.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// No argument name is compared further than this.
const MAX_COMPARED: usize = 256;

/// Whether `name` reads like `other` once case, width, accents, invisible characters and foreign letters
/// of the same look are taken away.
pub(super) fn looks_like(name: &str, other: &str) -> bool {
    let graphic = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if graphic(name) && graphic(other) {
        return name.eq_ignore_ascii_case(other);
    }
    skeleton(name).eq(skeleton(other))
}

fn skeleton(text: &str) -> impl Iterator<Item = char> + '_ {
    text.nfkd()
        .filter(|c| !is_combining_mark(*c) && !is_invisible(*c))
        .flat_map(char::to_lowercase)
        .map(latin)
        .nfkd()
        .filter(|c| !is_combining_mark(*c))
        .take(MAX_COMPARED)
}

/// Characters that show nothing: controls, spaces, joiners, marks of direction, fillers, tags.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The Latin letter that a lower-case letter of another script is drawn like.
fn latin(c: char) -> char {
    match c {
        'а' | 'α' | 'ɑ' => 'a',
        'Ь' | 'ь' | 'ƅ' => 'b',
        'с' | 'ϲ' | 'ᴄ' => 'c',
        'ԁ' | 'ɗ' => 'd',
        'е' | 'ҽ' | 'ε' | 'є' => 'e',
        'ɡ' | 'ց' => 'g',
        'һ' | 'հ' => 'h',
        'і' | 'ι' | 'ı' | 'ɩ' | 'ӏ' | 'ׁ' => 'i',
        'ј' | 'ϳ' => 'j',
        'к' | 'κ' => 'k',
        'ⅼ' | 'ן' | 'ǀ' => 'l',
        'м' | 'ᴍ' => 'm',
        'п' | 'ո' | 'η' => 'n',
        'о' | 'ο' | 'օ' | 'σ' | 'ᴏ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' | 'ᴦ' | 'ꭇ' => 'r',
        'ѕ' | 'ꜱ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' | 'ᴜ' | 'ʋ' => 'u',
        'ν' | 'ѵ' | 'ᴠ' => 'v',
        'ѡ' | 'ԝ' | 'ᴡ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' | 'ү' => 'y',
        'ᴢ' => 'z',
        '‐'..='―' | '−' | 'ー' | '╴' | 'ˍ' | '‗' | '﹍'..='﹏' => '_',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_seen_through() {
        let cases = [
            ("Username", "username", true),
            ("_ATLAS_USER", "_atlas_user", true),
            ("_atlas\u{200d}_user", "_atlas_user", true),
            ("ｕｓｅｒｎａｍｅ", "username", true),
            ("usеrnаmе", "username", true), // Cyrillic е and а
            ("USΕRNAMΕ", "username", true), // Greek capital Ε
            ("üsername", "username", true),
            ("username ", "username", true),
            ("user\u{ad}name\u{feff}", "username", true),
            ("𝓾𝓼𝓮𝓻𝓷𝓪𝓶𝓮", "username", true),
            ("＿mcp＿data", "_mcp_data", true),
            ("user_name", "username", false),
            ("usernames", "username", false),
            ("名前", "username", false),
        ];
        for (name, other, expected) in cases {
            assert_eq!(looks_like(name, other), expected, "{name:?}");
        }
    }
}
