//! Converts read errors to findings, with a suggestion for misspelt words.

use crate::finding::Finding;
use crate::read::{ReadError, ReadErrorKind};
use crate::suggest::{nearest, simplify};
use crate::texts::SourceTexts;

/// The part of the configuration that was read, as findings describe it.
pub(crate) struct ReadSubject<'a> {
    /// The start of each message, such as "server `fs`".
    pub name: &'a str,
    /// The dotted key of the tree that was read, such as `servers.fs`.
    pub key: &'a str,
    /// Valid keys that were removed before reading.
    pub also_known: &'a [&'a str],
}

/// Converts a read error to a finding.
pub(crate) fn finding(texts: &SourceTexts, subject: &ReadSubject<'_>, error: &ReadError) -> Finding {
    let dotted = error.dotted();
    let whole = match (subject.key, dotted.as_str()) {
        ("", key) | (key, "") => key.to_owned(),
        (above, key) if key.starts_with('[') => format!("{above}{key}"),
        (above, key) => format!("{above}.{key}"),
    };
    let at_key = |sentence: String| match (subject.name, dotted.as_str()) {
        ("", _) if whole.is_empty() => sentence,
        ("", _) => format!("`{whole}`: {sentence}"),
        (name, "") => format!("{name}: {sentence}"),
        (name, key) => format!("{name}, `{key}`: {sentence}"),
    };
    let mut finding = match &error.kind {
        ReadErrorKind::UnknownKey { key, known } => {
            let top = error.path.len() == 1;
            let more = if top { subject.also_known } else { &[] };
            let sentence = match (subject.name, top) {
                ("", true) => format!("unknown key `{key}`"),
                (name, true) => format!("{name}: unknown key `{key}`"),
                ("", false) => at_parent("", &whole, key),
                (name, false) => at_parent(name, &dotted, key),
            };
            did_you_mean(Finding::error("config.unknown-key", sentence), key, known, more)
        }
        ReadErrorKind::UnknownWord { word, known } => {
            let finding =
                Finding::error("config.unknown-word", at_key(format!("`{word}` is not a valid value")));
            did_you_mean(finding, word, known, &[])
        }
        ReadErrorKind::Missing(key) => {
            Finding::error("config.missing-key", at_key(format!("`{key}` is missing")))
        }
        ReadErrorKind::Twice(key) => {
            Finding::error("config.duplicate-key", at_key(format!("`{key}` is given twice")))
                .hint("two spellings of the same key count as one; keep one of them")
        }
        ReadErrorKind::Type { found, expected } => {
            Finding::error("config.wrong-type", at_key(format!("expected {expected}, found {found}")))
                .label(format!("expected {expected}"))
        }
        ReadErrorKind::Other(sentence) => Finding::error("config.wrong-value", at_key(sentence.clone())),
    };
    finding.key = Some(whole);
    match error.mark {
        Some(mark) => finding.at(texts, mark),
        None => finding,
    }
}

fn at_parent(name: &str, dotted: &str, key: &str) -> String {
    let parent = dotted.strip_suffix(key).unwrap_or(dotted).trim_end_matches('.');
    match name {
        "" => format!("unknown key `{key}` in `{parent}`"),
        name => format!("{name}: unknown key `{key}` in `{parent}`"),
    }
}

/// The maximum number of known words that a hint lists.
const LISTED: usize = 12;

fn did_you_mean(finding: Finding, written: &str, known: &[&str], more: &[&str]) -> Finding {
    let all = || known.iter().chain(more).copied();
    if let Some(word) = nearest(written, all()) {
        // Suggest the spelling that matches the style of the written key.
        let word = if word == "mcp_servers" && !written.contains('_') { "mcpServers" } else { word };
        return finding.label(format!("did you mean `{word}`?")).hint(format!("did you mean `{word}`?"));
    }
    let mut known: Vec<&str> = Vec::new();
    for word in all() {
        // List only one spelling of each word.
        if !known.iter().any(|other| simplify(other) == simplify(word)) {
            known.push(word);
        }
    }
    if known.len() > LISTED {
        return finding;
    }
    let words: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    finding.hint(format!("expected one of {}", words.join(", ")))
}
