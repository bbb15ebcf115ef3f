//! "Did you mean …?"

/// The known word nearest to what was written, if any is near.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = simplify(written);
    let near = known.into_iter().filter_map(|word| {
        let simple = simplify(word);
        if simple == plain {
            return Some((0, word));
        }
        let distance = strsim::osa_distance(&simple, &plain);
        // One slip per three letters: `grops` is `groups`, but `key` is not `env`.
        let allowed = (plain.chars().count().max(simple.chars().count()) / 3).clamp(1, 3);
        (distance <= allowed).then_some((distance, word))
    });
    // Of two spellings of one key, ours is the one without capitals.
    let foreign = |word: &str| word.chars().any(char::is_uppercase);
    near.min_by_key(|(distance, word)| (*distance, foreign(word))).map(|(_, word)| word)
}

/// Case and separators are habits of dialects, not meanings.
pub(crate) fn simplify(word: &str) -> String {
    word.chars().take(64).filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
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
