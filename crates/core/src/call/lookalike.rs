//! Look-alikes: names that a person or a careless server could mistake for another.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::confusable_detection::skeleton as drawn;

/// The maximum length of compared argument names.
const MAX_COMPARED: usize = 256;

/// Whether `name` looks like `other`, ignoring case, width, accents, invisible characters and similar letters of other
/// scripts.
pub(super) fn looks_like(name: &str, other: &str) -> bool {
    let graphic = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if graphic(name) && graphic(other) {
        return name.eq_ignore_ascii_case(other);
    }
    let name = bare(name);
    // Some letters look alike in one case only: Greek capital M does, its small letter does not.
    [name.clone(), name.to_lowercase()].iter().any(|name| look(name) == look(other))
}

/// The text without width variants, accents and invisible characters.
fn bare(text: &str) -> String {
    text.nfkd().filter(|c| !is_combining_mark(*c) && !is_invisible(*c)).take(MAX_COMPARED).collect()
}

/// The text in similar small Latin letters; mapped twice, because one mapping may lead to another.
fn look(text: &str) -> String {
    let once = |text: &str| -> String {
        let letters: String = text.chars().map(latin).collect();
        drawn(&letters).filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect()
    };
    once(&once(text))
}

/// Whether a character is invisible or ignored by some readers: controls, spaces, joiners, direction marks, fillers,
/// tags, surrogate halves.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffd}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The Latin letter that a letter looks like, if Unicode's own list of look-alikes has none.
fn latin(c: char) -> char {
    match c {
        'а' | 'α' | 'ɑ' | 'ᴀ' | 'ꭺ' | 'ⲁ' => 'a',
        'Ь' | 'ь' | 'ƅ' | 'ʙ' => 'b',
        'с' | 'ϲ' | 'ᴄ' | 'ꮯ' => 'c',
        'ԁ' | 'ɗ' | 'ᴅ' | 'ꭰ' => 'd',
        'е' | 'ҽ' | 'ε' | 'є' | 'ᴇ' | 'ⲉ' | 'ꭼ' => 'e',
        'ɡ' | 'ց' | 'ɢ' | 'ꮐ' => 'g',
        'һ' | 'հ' | 'ʜ' | 'ꮋ' => 'h',
        'і' | 'ι' | 'ı' | 'ɩ' | 'ӏ' | 'ׁ' => 'i',
        'ј' | 'ϳ' | 'ᴊ' | 'ꭻ' => 'j',
        'к' | 'κ' | 'ᴋ' | 'ꮶ' => 'k',
        'ⅼ' | 'ן' | 'ǀ' | 'ʟ' | 'ꮮ' => 'l',
        'м' | 'ᴍ' | 'ꮇ' => 'm',
        'п' | 'ո' | 'η' | 'ɴ' => 'n',
        'о' | 'ο' | 'օ' | 'σ' | 'ᴏ' => 'o',
        'р' | 'ρ' | 'ᴘ' | 'ꮲ' => 'p',
        'ԛ' => 'q',
        'г' | 'ᴦ' | 'ꭇ' | 'ʀ' | 'ꭱ' | 'ꮁ' => 'r',
        'ѕ' | 'ꜱ' | 'ꮪ' => 's',
        'т' | 'τ' | 'ᴛ' | 'ꭲ' => 't',
        'υ' | 'ս' | 'ᴜ' | 'ʋ' => 'u',
        'ν' | 'ѵ' | 'ᴠ' | 'ꮩ' => 'v',
        'ѡ' | 'ԝ' | 'ᴡ' | 'ꮃ' | 'ꮤ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' | 'ү' | 'ʏ' => 'y',
        'ᴢ' | 'ꮓ' => 'z',
        '‐'..='―' | '−' | 'ー' | '╴' | 'ˍ' | '‗' | '‿' | '⁀' | '﹍'..='﹏' => '_',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_detected() {
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
            ("‿mcp﹎data", "_mcp_data", true),
            ("ᴜꜱᴇʀɴᴀᴍᴇ", "username", true), // small capitals
            ("USERNΑΜΕ", "username", true), // Greek capitals, of which one has no small look-alike
            ("UᏚᎬᎡNᎪᎷᎬ", "username", true), // Cherokee
            ("uꮪꭼꮁnꭺꮇꭼ", "username", true),
            ("ꓴꓢꓰꓣꓠꓮꓟꓰ", "username", true),         // Lisu
            ("սsernⲁmⲉ", "username", true),         // Armenian, Coptic
            ("\u{fffd}username", "username", true), // how half a surrogate pair is read
            ("user_name", "username", false),
            ("usernames", "username", false),
            ("名前", "username", false),
        ];
        for (name, other, expected) in cases {
            assert_eq!(looks_like(name, other), expected, "{name:?}");
        }
    }
}
