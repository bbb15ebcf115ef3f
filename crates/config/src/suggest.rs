//! Suggestions for misspelt words: "did you mean …?"

/// The known word most similar to a written one, if any is similar enough.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = simplify(written);
    let near = known.into_iter().filter_map(|word| {
        let simple = simplify(word);
        if simple == plain {
            return Some((0, word));
        }
        let distance = strsim::osa_distance(&simple, &plain);
        // One typo per three letters: `grops` matches `groups`, but `key` does not match `env`.
        let allowed = (plain.chars().count().max(simple.chars().count()) / 3).clamp(1, 3);
        (distance <= allowed).then_some((distance, word))
    });
    // Of two spellings of a key, prefer the one without capitals, which is our own.
    let foreign = |word: &str| word.chars().any(char::is_uppercase);
    near.min_by_key(|(distance, word)| (*distance, foreign(word))).map(|(_, word)| word)
}

/// Removes differences of case and separators, which vary between dialects.
pub(crate) fn simplify(word: &str) -> String {
    word.chars().take(64).filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_match_and_unrelated_words_do_not() {
        let known = ["groups", "env", "require_approval", "command", "url", "cwd"];
        let cases = [
            ("grops", Some("groups")),
            ("requireApproval", Some("require_approval")),
            ("comand", Some("command")),
            ("URL", Some("url")),
            ("evn", Some("env")),
            ("key", None),
            ("something_else", None),
        ];
        for (written, expected) in cases {
            assert_eq!(nearest(written, known), expected, "{written}");
        }
    }
}
