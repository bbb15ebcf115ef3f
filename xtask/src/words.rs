//! `cargo xtask words`: finds wording that is not plain technical English, in code, messages and documentation.
//!
//! Each phrase has a baseline: the number of occurrences that were there when it was added. A higher number fails
//! `cargo xtask test`. If you remove occurrences, lower the baseline; never raise it.

use crate::sources::files_below;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// A phrase to avoid.
struct Phrase {
    /// Whole words, in lower case.
    text: &'static str,
    /// Longer phrases that contain it and are plain English.
    allowed: &'static [&'static str],
    better: &'static str,
    baseline: usize,
}

const fn phrase(text: &'static str, better: &'static str, baseline: usize) -> Phrase {
    Phrase { text, allowed: &[], better, baseline }
}

const PHRASES: &[Phrase] = &[
    phrase("nobody", "name the subject: \"no caller\", \"no task\"", 0),
    phrase("somebody", "name the subject: \"a user\", \"another process\"", 0),
    phrase("whoever", "name the subject: \"the caller that\"", 0),
    phrase("anybody", "name the subject: \"any user\"", 0),
    phrase("everybody", "name the subject: \"all clients\"", 0),
    phrase("anew", "again", 0),
    Phrase {
        allowed: &["there is no", "is no longer", "is no more", "is no less", "is no later", "is no need"],
        ..phrase("is no", "is not a", 0)
    },
    Phrase { allowed: &["there are no", "are no longer", "are no more"], ..phrase("are no", "are not", 0) },
    phrase("there is none", "it does not exist", 9),
    Phrase { allowed: &["stands for"], ..phrase("stands", "is", 0) },
    phrase("stands for itself", "needs no explanation", 0),
    phrase("tells of", "reports", 0),
    phrase("told of", "notified of", 0),
    phrase("is told", "receives, is notified", 0),
    phrase("hears", "receives", 0),
    phrase("goes by", "uses", 0),
    phrase("of its own accord", "automatically", 0),
    phrase("by itself", "automatically, alone", 0),
    phrase("makes way", "is replaced", 0),
    phrase("kept back", "held", 0),
    phrase("what can go wrong", "errors of", 0),
    phrase("what came of", "the result of", 0),
    phrase("what becomes of", "what happens to", 0),
];

/// One occurrence of a phrase.
struct Occurrence {
    phrase: &'static Phrase,
    file: PathBuf,
    line: usize,
}

/// Prints all occurrences, then does the check.
pub fn run(root: &Path) -> Result<()> {
    let found = search(root)?;
    found.iter().for_each(print);
    compare(&found)
}

/// Fails if a phrase occurs more often than its baseline, and prints its occurrences.
pub fn check(root: &Path) -> Result<()> {
    let found = search(root)?;
    for phrase in PHRASES.iter().filter(|phrase| count(phrase, &found) > phrase.baseline) {
        found.iter().filter(|found| found.phrase.text == phrase.text).for_each(print);
    }
    compare(&found)
}

fn print(found: &Occurrence) {
    let Phrase { text, better, .. } = found.phrase;
    println!("{}:{}: \"{text}\"; better: {better}", found.file.display(), found.line);
}

fn count(phrase: &Phrase, found: &[Occurrence]) -> usize {
    found.iter().filter(|found| found.phrase.text == phrase.text).count()
}

fn compare(found: &[Occurrence]) -> Result<()> {
    let mut exceeded = Vec::new();
    for phrase in PHRASES {
        let (text, baseline, count) = (phrase.text, phrase.baseline, count(phrase, found));
        if count > baseline {
            exceeded.push(format!("\"{text}\" {count} times, at most {baseline}"));
        } else if count < baseline {
            println!("notice: the baseline of \"{text}\" can be lowered from {baseline} to {count}");
        }
    }
    if !exceeded.is_empty() {
        bail!("phrases to avoid: {}", exceeded.join("; "));
    }
    Ok(())
}

/// Searches the code, its tests, the guides and the reference. ADRs are left out, because they are never edited.
fn search(root: &Path) -> Result<Vec<Occurrence>> {
    let mut files = vec![root.join("README.md"), root.join("crates/cli/src/faults.md")];
    for folder in ["crates", "xtask", "bench"] {
        files.extend(files_below(&root.join(folder), "rs")?);
    }
    files.extend(files_below(&root.join("docs"), "md")?);
    let this = root.join("xtask/src/words.rs");
    let adrs = root.join("docs/adr");
    let mut found = Vec::new();
    for path in files.into_iter().filter(|path| *path != this && !path.starts_with(&adrs)) {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file = path.strip_prefix(root).unwrap_or(&path);
        for (index, line) in text.lines().enumerate() {
            for phrase in PHRASES {
                let occurrence = || Occurrence { phrase, file: file.to_path_buf(), line: index + 1 };
                found.extend((0..occurrences(phrase, line)).map(|_| occurrence()));
            }
        }
    }
    Ok(found)
}

/// Counts a phrase in a line of comment, text or code; the words of a name such as `is_no_file` count too.
fn occurrences(phrase: &Phrase, line: &str) -> usize {
    let line = line.to_lowercase().replace('_', " ");
    let is_allowed = |at: usize| {
        let covers =
            |longer: &&str| positions(&line, longer).any(|start| (start..start + longer.len()).contains(&at));
        phrase.allowed.iter().any(covers)
    };
    positions(&line, phrase.text).filter(|at| !is_allowed(*at)).count()
}

/// The positions of a phrase as whole words.
fn positions<'a>(line: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_letter = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    line.match_indices(phrase).map(|(at, _)| at).filter(move |at| {
        let (before, after) = (&line[..*at], &line[at + phrase.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_whole_words() {
        let cases = [
            ("nobody", "// Nobody waits, and nobody asks.", 2),
            ("nobody", "fn nobody_waits() {", 1),
            ("anew", "let canew = 1;", 0),
            ("is no", "#[error(\"`{name}` is no file\")]", 1),
            ("is no", "if value.is_none() {", 0),
            ("is no", "there is no file; it is no longer there", 0),
            ("is no", "There is no file, and this is no folder.", 1),
            ("stands", "`…` stands for any text", 0),
        ];
        for (text, line, expected) in cases {
            let phrase = PHRASES.iter().find(|phrase| phrase.text == text).expect("a phrase");
            assert_eq!(occurrences(phrase, line), expected, "{text}: {line}");
        }
    }

    #[test]
    fn phrases_are_distinct_and_in_lower_case() {
        for (index, phrase) in PHRASES.iter().enumerate() {
            assert_eq!(phrase.text.to_lowercase(), phrase.text);
            assert!(PHRASES[..index].iter().all(|other| other.text != phrase.text), "{}", phrase.text);
            assert!(phrase.allowed.iter().all(|allowed| allowed.contains(phrase.text)), "{}", phrase.text);
        }
    }

    #[test]
    fn a_count_above_the_baseline_fails() {
        let phrase = &PHRASES[0];
        let found = |count: usize| -> Vec<Occurrence> {
            (1..=count).map(|line| Occurrence { phrase, file: PathBuf::from("a.rs"), line }).collect()
        };
        assert!(compare(&found(phrase.baseline)).is_ok());
        assert!(compare(&found(phrase.baseline + 1)).is_err());
    }
}
