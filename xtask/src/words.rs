//! `cargo xtask words`: finds wording that is not plain technical English, in code, messages and documentation.
//!
//! `cargo xtask test` fails if it finds one of the phrases.

use crate::sources::files_below;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// A phrase to avoid.
struct Phrase {
    /// Whole words, in lower case.
    text: &'static str,
    /// Longer phrases that contain it and are plain English.
    allowed: &'static [&'static str],
    better: &'static str,
}

const fn phrase(text: &'static str, better: &'static str) -> Phrase {
    Phrase { text, allowed: &[], better }
}

const PHRASES: &[Phrase] = &[
    phrase("nobody", "name the subject: \"no caller\", \"no task\""),
    phrase("somebody", "name the subject: \"a user\", \"another process\""),
    phrase("whoever", "name the subject: \"the caller that\""),
    phrase("anybody", "name the subject: \"any user\""),
    phrase("everybody", "name the subject: \"all clients\""),
    phrase("anew", "again"),
    Phrase {
        allowed: &["there is no", "is no longer", "is no more", "is no less", "is no later", "is no need"],
        ..phrase("is no", "is not a")
    },
    Phrase { allowed: &["there are no", "are no longer", "are no more"], ..phrase("are no", "are not") },
    phrase("there is none", "it does not exist"),
    Phrase { allowed: &["stands for"], ..phrase("stands", "is") },
    phrase("stands for itself", "needs no explanation"),
    phrase("tells of", "reports"),
    phrase("told of", "notified of"),
    phrase("is told", "receives, is notified"),
    phrase("hears", "receives"),
    phrase("goes by", "uses"),
    phrase("of its own accord", "automatically"),
    phrase("by itself", "automatically, alone"),
    phrase("makes way", "is replaced"),
    phrase("kept back", "held"),
    phrase("what can go wrong", "errors of"),
    phrase("what came of", "the result of"),
    phrase("what becomes of", "what happens to"),
    phrase("vouches", "confirms"),
    phrase("sign of life", "activity"),
    phrase("in vain", "without success"),
    phrase("so to speak", "leave it out"),
    phrase("as it were", "leave it out"),
    phrase("lets go of", "releases"),
    Phrase { allowed: &["open-door"], ..phrase("door", "front end") },
    phrase("doors", "front ends"),
    phrase("waiting room", "name what waits"),
    phrase("once more", "again"),
    phrase("knows of", "knows"),
];

/// One occurrence of a phrase.
struct Occurrence {
    phrase: &'static Phrase,
    file: PathBuf,
    line: usize,
}

/// Prints all occurrences, and fails if there is any.
pub fn check(root: &Path) -> Result<()> {
    let found = search(root)?;
    for Occurrence { phrase: Phrase { text, better, .. }, file, line } in &found {
        println!("{}:{line}: \"{text}\"; better: {better}", file.display());
    }
    ensure!(found.is_empty(), "wording to avoid was found in {} places", found.len());
    Ok(())
}

/// The extensions of the files in a folder that are searched.
const SEARCHED: &[(&str, &[&str])] = &[
    ("crates", &["rs"]),
    ("xtask", &["rs"]),
    ("bench", &["rs"]),
    ("docs", &["md"]),
    ("changelog.d", &["md"]),
    ("examples", &["md", "toml", "yaml", "yml", "json", "py", "cjs"]),
    ("console/src", &["ts", "tsx"]),
];

/// Searches the code, its tests, the console, the examples and the documentation.
fn search(root: &Path) -> Result<Vec<Occurrence>> {
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "crates/cli/src/faults.md",
    ];
    let mut files: Vec<PathBuf> = pages.iter().map(|page| root.join(page)).collect();
    for (folder, extensions) in SEARCHED {
        for extension in *extensions {
            files.extend(files_below(&root.join(folder), extension)?);
        }
    }
    let this = root.join("xtask/src/words.rs");
    let mut found = Vec::new();
    for path in files.into_iter().filter(|path| *path != this) {
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
}
