//! Compares every count with that of the reference tokenizer.

use super::pieces::Class;
use super::*;
use proptest::prelude::*;
use std::path::Path;
use tiktoken_rs::o200k_base_singleton;

fn reference(text: &str) -> u32 {
    u32::try_from(o200k_base_singleton().encode_ordinary(text).len()).expect("no test is that long")
}

fn check(text: &str) {
    let expected = reference(text);
    let start: String = text.chars().take(80).collect();
    assert_eq!(tokens(text), expected, "{start:?} ({} bytes)", text.len());
    assert_eq!(tokens_within(text, expected), Some(expected), "{start:?}");
    if expected > 0 {
        assert_eq!(tokens_within(text, expected - 1), None, "{start:?}");
    }
}

#[test]
fn known_counts() {
    let cases = [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("お誕生日おめでとう", 8),
        ("<|endoftext|>", 7), // written out, not a control token
    ];
    for (text, expected) in cases {
        assert_eq!(tokens(text), expected, "{text}");
        check(text);
    }
}

#[test]
fn special_cases_of_the_pattern_match_the_reference() {
    let cases = [
        "don't DON'T I'LL we'Re y'all 'tis rock'n'roll 'ſ it'ſ x'ſx",
        "\u{301}a \u{301}A \u{301}\u{301}'s \u{301}AB  \u{301} \u{301}\n",
        "中A 中AB中 中文Abc中 ABC中def ǅe ǅA ʰA Aʰ Aʰb",
        "camelCase PascalCase HTTPServer snake_case kebab-case SCREAMING_CASE iPhone15Pro",
        "1 12 123 1234 12345678 ١٢٣٤ Ⅷ ½¾ 1.5e-10 3,141",
        "a  b   c\t\td \t e\u{a0}\u{a0}f\u{2003}g",
        "\n\n\r\n  \n  x \n y\r\r\n   ",
        "   trailing   ",
        " ",
        "\u{85}\u{85}a\u{2028}b",
        "// comment\n/// more/\n/path/to//file\r\n//",
        " !? ?!\n/ a/b ({[<\"'`~",
        "'s 't 'RE 've'm'll'd're",
        "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽 ❤️‍🔥 e\u{301}\u{327}",
        "नमस्ते สวัสดี مرحبا שָׁלוֹם ქართული ᏣᎳᎩ 한국어 ቋንቋ",
        "\0\u{1}\u{7f}\u{fffd}\u{e000}\u{10ffff}",
        "\u{feff}{\"name\":\"x\"}",
        r#"{"type":"object","properties":{"path":{"type":"string","description":"It's a path\n"}}}"#,
    ];
    cases.into_iter().for_each(check);
}

#[test]
fn classes_match_the_regex_engine() {
    let set = |class: &str| regex::Regex::new(&format!("^{class}$")).expect("a class");
    let classes = [
        (Class::Upper, set(r"[\p{Lu}\p{Lt}]")),
        (Class::Lower, set(r"\p{Ll}")),
        (Class::Letter, set(r"[\p{Lm}\p{Lo}]")),
        (Class::Mark, set(r"\p{M}")),
        (Class::Number, set(r"\p{N}")),
        (Class::Newline, set(r"[\r\n]")),
        (Class::Space, set(r"[\s--\r\n]")),
        (Class::Other, set(r"[^\s\p{L}\p{M}\p{N}]")),
    ];
    let mut buffer = [0; 4];
    for character in '\0'..=char::MAX {
        let class = Class::of(character);
        let (_, of_reference) = classes.iter().find(|(known, _)| *known == class).expect("all are there");
        assert!(of_reference.is_match(character.encode_utf8(&mut buffer)), "{character:?} is not {class:?}");
    }
}

#[test]
fn long_runs_are_exact() {
    for unit in
        ["a", "A", "aA", " ", "\n", " \n", "-", "=", "é", "中", "👍", "0", "\u{301}", "ab", "\t", "/", "日本"]
    {
        for times in [1, 2, 3, 7, 64, 99, 100, 101, 128, 129, 500, 3000] {
            check(&unit.repeat(times));
            check(&format!("x {} y", unit.repeat(times)));
        }
    }
}

#[test]
fn a_long_run_takes_less_than_quadratic_time() {
    // In quadratic time this test would run for hours.
    let cases = [("a", 1 << 20, 131_072), (" ", 1 << 20, 8_192), ("中", 1 << 18, 262_144)];
    for (unit, times, expected) in cases {
        assert_eq!(tokens(&unit.repeat(times)), expected, "{unit:?}");
    }
}

#[test]
fn a_count_over_the_limit_is_none() {
    let long = "word ".repeat(1 << 20);
    let cases =
        [(&*long, 100, None), (&long[..500], 100, None), ("hello world", 2, Some(2)), ("", 0, Some(0))];
    for (text, most, expected) in cases {
        assert_eq!(tokens_within(text, most), expected, "{most}");
    }
}

/// Real catalogs, if they are next to the checkout.
#[test]
fn real_definitions_are_exact() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/catalogues/real");
    let Ok(files) = std::fs::read_dir(root) else { return };
    for file in files {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("a catalogue");
        assert_eq!(tokens(&text), reference(&text));
    }
}

/// Text as people and programs write it, and random text.
fn text() -> impl Strategy<Value = String> {
    let bit = prop_oneof![
        4 => "[a-zA-Z]{1,12}",
        2 => "[A-Z][a-z]{1,8}([A-Z][a-z]{1,5}){0,3}('s|'T|'re|'LL|'d|'x)?",
        2 => "[ \t\r\n]{1,6}",
        2 => "[ -~]{1,12}",
        1 => "[0-9.,]{1,10}",
        1 => "\\p{Han}{1,10}",
        1 => "[\\p{Hiragana}\\p{Katakana}\\p{Hangul}]{1,10}",
        1 => "[\\p{Cyrillic}\\p{Greek}\\p{Arabic}\\p{Devanagari}\\p{Thai}\\p{Hebrew}]{1,10}",
        1 => "[\\p{M}\\p{Lt}\\p{Lm}\\p{Lu}']{1,8}",
        1 => "\\p{Emoji}{1,5}",
        1 => "[\\s\u{a0}\u{2003}\u{3000}]{1,5}",
        1 => "[\\p{S}\\p{P}/\r\n]{1,8}",
        1 => any::<char>().prop_map(String::from),
        1 => (any::<char>(), 1_usize..200).prop_map(|(c, times)| String::from(c).repeat(times)),
        1 => ("[a-z ]", 1_usize..300).prop_map(|(c, times)| c.repeat(times)),
    ];
    prop::collection::vec(bit, 0..20).prop_map(|bits| bits.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_text_is_exact(text in text()) {
        check(&text);
    }

    #[test]
    fn pieces_make_up_the_text(text in any::<String>()) {
        prop_assert_eq!(TextPieces::of(&text).collect::<String>(), text);
    }
}
