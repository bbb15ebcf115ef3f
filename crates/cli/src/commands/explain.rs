//! `toolbooth explain CODE`: prints the page of a fault code.

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone};
use clap::Args;
use serde_json::json;
use toolbooth_config::nearest;

/// All pages: a heading with the code, then its meaning and the fix.
const PAGES: &str = include_str!("../faults.md");

/// Arguments of `toolbooth explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Code such as server.command-not-found; without it, all codes are listed.
    code: Option<String>,
}

/// The shortest last part of a code for which a similar code is suggested.
const SHORTEST_GUESS: usize = 6;

struct FaultPage {
    code: &'static str,
    text: &'static str,
}

fn pages() -> impl Iterator<Item = FaultPage> {
    PAGES.split("\n## ").skip(1).filter_map(|page| {
        let (code, text) = page.split_once('\n')?;
        Some(FaultPage { code: code.trim(), text: text.trim() })
    })
}

/// The same code as a constant, if it has a page.
pub fn known_code(code: &str) -> Option<&'static str> {
    pages().map(|page| page.code).find(|known| *known == code)
}

/// Runs `toolbooth explain`.
pub fn run(global: &GlobalOptions, arguments: &ExplainArguments) -> CommandResult {
    let Some(code) = &arguments.code else { return list(global) };
    // Users paste the code as printed: error[code].
    let code = code.trim().trim_start_matches("error").trim_matches(['[', ']', ':']);
    let Some(page) = pages().find(|page| page.code == code) else {
        let known: Vec<&str> = pages().map(|page| page.code).collect();
        let near = nearest(code, known.iter().copied());
        let near = near.or_else(|| {
            let last = last_part(code);
            let word = nearest(last, known.iter().copied().map(last_part))?;
            // Short words are similar to too many others.
            if word != last && last.len() < SHORTEST_GUESS {
                return None;
            }
            known.iter().copied().find(|known| last_part(known) == word)
        });
        let hint = near.map_or_else(
            || "`toolbooth explain` lists all".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(CommandFailure::misuse(
            "usage.code",
            format!("there is no fault code `{code}`"),
            Some(&hint),
        ));
    };
    if global.json {
        render::print_json(&json!({ "code": page.code, "text": page.text }));
    } else {
        render::print(&format!(
            "{}\n\n{}\n",
            Paint::stdout().tone(Tone::Strong, page.code),
            wrapped(page.text)
        ));
    }
    Ok(Exit::Ok)
}

fn wrapped(text: &str) -> String {
    text.split('\n').map(|line| render::wrap(line, 0)).collect::<Vec<_>>().join("\n")
}

fn last_part(code: &str) -> &str {
    code.rsplit('.').next().unwrap_or(code)
}

fn list(global: &GlobalOptions) -> CommandResult {
    if global.json {
        let codes: Vec<_> = pages().map(|page| json!({ "code": page.code, "text": page.text })).collect();
        render::print_json(&json!({ "codes": codes }));
        return Ok(Exit::Ok);
    }
    let mut table = render::Table::new(&["CODE", "MEANING"]);
    for page in pages() {
        table.row([page.code.into(), page.text.split("\n\n").next().unwrap_or_default().into()]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;
    use toolbooth_core::event::EventKind;

    /// The first parts of codes.
    const AREAS: [&str; 48] = [
        "approval",
        "auth",
        "blobs",
        "call",
        "config",
        "connect",
        "consent",
        "dead-letter",
        "download",
        "events",
        "file",
        "files",
        "gateway",
        "import",
        "job",
        "lint",
        "listen",
        "llm",
        "manifest",
        "oauth",
        "openapi",
        "output",
        "persona",
        "plan",
        "prompt",
        "provider",
        "registry",
        "request",
        "resource",
        "sampling",
        "search",
        "secret",
        "serve",
        "server",
        "servers",
        "service",
        "skill",
        "start",
        "stats",
        "stdio",
        "stop",
        "store",
        "task",
        "token",
        "tool",
        "trust",
        "up",
        "usage",
    ];

    /// Texts that look like codes: files, settings and events.
    const OTHERS: [&str; 14] = [
        "blobs.url",
        "config.toml",
        "config.yaml",
        "events.gap",
        "files.key",
        "gateway.json",
        "gateway.log",
        "gateway.sock",
        "server.json",
        "service.name",
        "service.version",
        "start.lock",
        "store.url",
        "trust.json",
    ];

    fn gather(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                gather(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let text = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                found.extend(text.split('"').filter(|word| is_code(word)).map(str::to_owned));
            }
        }
    }

    fn is_code(word: &str) -> bool {
        let Some((area, rest)) = word.split_once('.') else { return false };
        let plain = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        AREAS.contains(&area) && plain && !OTHERS.contains(&word)
    }

    #[test]
    fn every_code_in_the_sources_has_a_page() {
        let mut used = BTreeSet::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in ["core", "search", "wire", "config", "store", "upstream", "engine", "server", "cli"] {
            gather(&crates.join(name).join("src"), &mut used);
        }
        assert!(used.len() > 50, "the source files were not found");
        let pages: BTreeSet<String> = pages().map(|page| page.code.to_owned()).collect();
        // Event names have the same form, and some are equal to a fault code.
        let is_event = |word: &&String| word.parse::<EventKind>().is_ok();
        let missing: Vec<&String> = used.difference(&pages).filter(|word| !is_event(word)).collect();
        let unused: Vec<&String> = pages.difference(&used).collect();
        assert!(
            missing.is_empty() && unused.is_empty(),
            "write pages in faults.md for {missing:?}; remove {unused:?}"
        );
    }

    #[test]
    fn pages_are_sorted_and_not_too_short() {
        let codes: Vec<&str> = pages().map(|page| page.code).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(codes, sorted);
        for page in pages() {
            assert!(page.text.len() > 40, "the page of {} is too short", page.code);
        }
    }
}
