//! The pages of `docs`: every page is in the summary, and the links and commands in the pages exist.

use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The Markdown files below a folder.
fn pages_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// All pages for readers, with their text: the book, the README and the examples.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = repository();
    let mut files = vec![root.join("README.md"), root.join("SECURITY.md"), root.join("CONTRIBUTING.md")];
    pages_below(&root.join("docs"), &mut files);
    pages_below(&root.join("examples"), &mut files);
    files.into_iter().map(|file| (file.clone(), fs::read_to_string(&file).unwrap_or_default())).collect()
}

/// The targets of the links in a page, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // Between backticks is code; the parts with an even number are outside.
        let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in outside.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            found.push(target.to_owned());
        }
    }
    found
}

/// The anchor of a heading, as mdBook and GitHub write it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).any(|found| found == wanted)
}

#[test]
fn every_page_is_in_the_summary() {
    let docs = repository().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("docs/SUMMARY.md");
    let listed: Vec<String> = links(&summary);
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice");
    let mut files = Vec::new();
    pages_below(&docs, &mut files);
    let names = files.iter().filter_map(|file| file.strip_prefix(&docs).ok()?.to_str());
    let missing: Vec<&str> =
        names.filter(|name| *name != "SUMMARY.md" && !unique.contains(&(*name).to_owned())).collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

#[test]
fn every_link_leads_to_a_file() {
    let pages = pages();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, wanted) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file.is_empty() {
                true => page.clone(),
                false => page.parent().expect("a folder").join(file),
            };
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            let content = fs::read_to_string(&target).unwrap_or_default();
            if !target.exists() || (!wanted.is_empty() && is_page && !has_anchor(&content, wanted)) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

// The book is built from `docs` alone, so a link to another folder would lead nowhere in it.
#[test]
fn no_link_leaves_the_book() {
    let docs = repository().join("docs");
    let mut leaving = Vec::new();
    for (page, text) in pages().iter().filter(|(page, _)| page.starts_with(&docs)) {
        for link in links(text) {
            let file = link.split('#').next().unwrap_or_default();
            if link.contains("://") || link.starts_with("mailto:") || file.is_empty() {
                continue;
            }
            let target = page.parent().expect("a folder").join(file);
            if !target.canonicalize().is_ok_and(|target| target.starts_with(&docs)) {
                leaving.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(leaving.is_empty(), "{}", leaving.join("\n"));
}

/// The command lines of `toolbooth` in a page: in blocks of code and between backticks.
fn command_lines(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code || line.starts_with("    ") {
            let line = line.trim_start().trim_start_matches("$ ");
            if line.starts_with("toolbooth ") {
                found.push(line.to_owned());
            }
        } else {
            let inside = line.split('`').skip(1).step_by(2);
            found.extend(inside.filter(|code| code.starts_with("toolbooth ")).map(str::to_owned));
        }
    }
    found
}

/// The words of a command line up to a comment, a pipe or the next command.
fn words(line: &str) -> Vec<&str> {
    let ends = |word: &&str| !matches!(*word, "#" | "|" | "&&" | ">" | "<" | "&" | "\\");
    line.split_whitespace().skip(1).take_while(ends).map(|word| word.trim_end_matches([';', ','])).collect()
}

/// The manual pages by command, such as `servers-connect`.
fn manual() -> BTreeMap<String, String> {
    let world = World::new(&[]);
    assert!(world.run("man --dir pages").status.success());
    let files = fs::read_dir(world.path("work/pages")).expect("the manual").flatten();
    let pages = files.map(|file| {
        let name = file.file_name().to_string_lossy().trim_end_matches(".1").to_owned();
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        (name.trim_start_matches("toolbooth").trim_start_matches('-').to_owned(), text)
    });
    pages.collect()
}

/// What is wrong with a command line.
fn fault_of(line: &str, manual: &BTreeMap<String, String>) -> Option<String> {
    let words = words(line);
    let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let names: Vec<&str> =
        words.iter().take_while(|word| !word.starts_with('-')).take_while(is_name).copied().collect();
    // Placeholders such as `toolbooth COMMAND`, and options of the program.
    let first = names.first()?;
    if matches!(*first, "help" | "demo-server") {
        return None;
    }
    let depth = (1..=names.len().min(3)).rev().find(|depth| manual.contains_key(&names[..*depth].join("-")));
    let Some(depth) = depth else { return Some(format!("there is no command `{first}`")) };
    let (command, whole) = (&manual[&names[..depth].join("-")], &manual[""]);
    let options = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
    for option in options.map(|word| word.split(['=', ']']).next().unwrap_or(word)) {
        let written = option.replace('-', "\\-");
        if !command.contains(&written) && !whole.contains(&written) {
            return Some(format!("`{}` has no option `{option}`", names[..depth].join(" ")));
        }
    }
    None
}

#[test]
fn every_command_in_the_pages_exists() {
    let manual = manual();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (page, text) in pages() {
        // Decisions and changes of the past name commands of their time.
        if page.components().any(|part| part.as_os_str() == "adr") {
            continue;
        }
        for line in command_lines(&text) {
            count += 1;
            wrong
                .extend(fault_of(&line, &manual).map(|fault| format!("{}: {line}: {fault}", page.display())));
        }
    }
    assert!(count > 100, "only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_commands_are_found() {
    let manual = manual();
    let cases = [
        ("toolbooth servers connect mail", true),
        ("toolbooth tools list --sort -name --limit 10", true),
        ("toolbooth call demo_hash text=hi --json", true),
        ("toolbooth serve --env-file .env && true", true),
        ("toolbooth COMMAND", true),
        ("toolbooth srvers", false),
        ("toolbooth tools list --srt name", false),
    ];
    for (line, is_right) in cases {
        assert_eq!(fault_of(line, &manual).is_none(), is_right, "{line}: {:?}", fault_of(line, &manual));
    }
}
