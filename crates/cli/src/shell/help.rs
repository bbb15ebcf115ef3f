//! The pages of the shell, and what others say in its words: commands as they are typed here.

use super::line::{Line, everywhere, unknown};
use crate::failure::Failure;
use crate::render::{self, Cell, Paint, Table, Tone};
use clap::CommandFactory;

/// What the parser says, in the words of the shell.
pub fn drawn(said: &clap::Error, command: &str, paint: Paint) -> String {
    let text = said.render();
    let text = if paint == Paint::Always { text.ansi().to_string() } else { text.to_string() };
    if !said.use_stderr() {
        return page(&text);
    }
    // Styles stand between the words.
    let asked = format!("/help {}", command.trim_start_matches('/'));
    page(&text.replace("--help", &asked))
}

/// A failure whose hint names what can be typed here.
pub fn hinted(mut failure: Failure) -> Failure {
    failure.trouble.hint = failure.trouble.hint.map(|hint| here(&hint));
    failure
}

/// Commands of the command line, as they are typed here; those that are not stay as they are.
fn here(text: &str) -> String {
    const NAME: &str = "toolbooth ";
    let text = text.replace("toolbooth tools list", "/mcp tools");
    let names = everywhere();
    let is_part = |letter: char| letter.is_alphanumeric() || "-_/.".contains(letter);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(NAME) {
        let (before, after) = (&rest[..at], &rest[at + NAME.len()..]);
        let word = &after[..after.find(|letter| !is_part(letter)).unwrap_or(after.len())];
        let word = word.trim_end_matches('.');
        let known = names.iter().find(|(name, _)| name == word).filter(|_| !before.ends_with(is_part));
        out.push_str(before);
        match known {
            Some((_, name)) => out.push_str(name),
            None => out.push_str(&format!("{NAME}{word}")),
        }
        rest = &after[word.len()..];
    }
    out + rest
}

/// A page about the command line, for the shell.
fn page(text: &str) -> String {
    let text = here(text).replace("Usage:  /", "Usage: /").replace("Usage:\u{1b}[0m  ", "Usage:\u{1b}[0m ");
    // There are no pipes here, and standard input is the shell's own.
    let lines = text.lines().filter(|line| !line.contains(" | /"));
    lines.map(|line| format!("{line}\n").replace(", or - for standard input", "")).collect()
}

/// The page of `/help`, or of one command.
pub fn help(command: Option<&str>) -> Result<String, Failure> {
    let paint = Paint::stdout();
    if let Some(named) = command {
        let named = format!("/{}", named.trim_start_matches('/'));
        let mut all = Line::command();
        // What every command takes is known only once the whole is put together.
        all.build();
        let found = all.find_subcommand_mut(&named).ok_or_else(|| unknown(&named))?;
        let text = found.render_help();
        let text = if paint == Paint::Always { text.ansi().to_string() } else { text.to_string() };
        return Ok(page(&text));
    }
    let mut table = Table::new(&["COMMAND", ""]);
    let mut row = |usage: &str, about: &str| table.row([Cell::toned(usage, Tone::Strong), about.into()]);
    for (usage, about) in PAGE {
        row(usage, about);
    }
    let more = "Plain text goes to the language model, if one is configured. `/help COMMAND` tells more; every \
                command takes --json. Tab completes, Ctrl-C cancels a call, Ctrl-D leaves.";
    Ok(format!("{}\n{}\n", table.draw(paint), render::wrap(more, 0)))
}

/// The commands as people look for them.
const PAGE: &[(&str, &str)] = &[
    ("/mcp", "servers with their state and tools"),
    ("/mcp connect NAME", "connect a server now"),
    ("/mcp disconnect NAME", "disconnect it until somebody asks for it"),
    ("/mcp tools", "tools with their quality scores"),
    ("/mcp search WORDS", "search for tools"),
    ("/mcp show TOOL", "one tool, its arguments and how to call it"),
    ("/mcp stats", "what tools take of a model's context"),
    ("/call TOOL KEY=VALUE …", "call a tool; or /call TOOL {JSON}"),
    ("/plan on|off|show|approve N", "queue calls and run them in order"),
    ("/approvals", "calls that wait for a person"),
    ("/approve ID", "say yes to one"),
    ("/reject ID", "say no to one"),
    ("/files", "your files; also put, get, rm"),
    ("/events [N]", "what happened lately"),
    ("/dlq", "calls that failed for good; also show, replay, drop"),
    ("/new", "forget what was said to the model so far"),
    ("/explain CODE", "what a fault code means"),
    ("/help [COMMAND]", "this page, or more about a command"),
    ("/quit", "leave"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::line::names;

    #[test]
    fn every_command_is_on_the_page() {
        for name in names() {
            let mut usages = PAGE.iter().map(|(usage, _)| usage.split([' ']).next().unwrap_or_default());
            assert!(usages.any(|usage| usage == name), "{name}");
        }
    }

    #[test]
    fn hints_name_what_works_here() {
        let cases = [
            (
                "`toolbooth tools show mail_send` lists the arguments",
                "`/tools show mail_send` lists the arguments",
            ),
            ("`toolbooth approvals list --all` shows them", "`/approvals list --all` shows them"),
            ("`toolbooth tools list`, or `toolbooth servers`.", "`/mcp tools`, or `/servers`."),
            ("see toolbooth servers.", "see /servers."),
            ("`toolbooth dead-letters show 1`", "`/dlq show 1`"),
            ("run `toolbooth serve` or `toolbooth doctor`", "run `toolbooth serve` or `toolbooth doctor`"),
            ("/bin/toolbooth call x, toolbooth callers", "/bin/toolbooth call x, toolbooth callers"),
            ("toolbooth ", "toolbooth "),
        ];
        for (hint, expected) in cases {
            assert_eq!(here(hint), expected);
        }
    }
}
