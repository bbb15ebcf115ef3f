//! Help pages of the shell, and the translation of `toolbooth …` commands to their shell form.

use super::command::{ShellLine, all_names, unknown};
use crate::failure::CommandFailure;
use crate::render::{self, Paint, Table, TableCell, Tone};
use clap::CommandFactory;

/// Renders a message of clap with the commands of the shell.
pub fn render_message(message: &clap::Error, command: &str, paint: Paint) -> String {
    let text = message.render();
    let text = if paint == Paint::Always { text.ansi().to_string() } else { text.to_string() };
    if !message.use_stderr() {
        return page(&text);
    }
    let help = format!("/help {}", command.trim_start_matches('/'));
    page(&text.replace("--help", &help))
}

/// Translates the commands in the hint of a failure.
pub fn translate_hint(mut failure: CommandFailure) -> CommandFailure {
    failure.fault.hint = failure.fault.hint.map(|hint| translate(&hint));
    failure
}

/// Replaces `toolbooth …` commands by their shell form; commands that the shell lacks stay unchanged.
fn translate(text: &str) -> String {
    const NAME: &str = "toolbooth ";
    let text = text.replace("toolbooth tools list", "/mcp tools");
    let names = all_names();
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

/// Adapts a help page of the command line to the shell.
fn page(text: &str) -> String {
    let text =
        translate(text).replace("Usage:  /", "Usage: /").replace("Usage:\u{1b}[0m  ", "Usage:\u{1b}[0m ");
    // The shell has no pipes, and its commands cannot read standard input.
    let lines = text.lines().filter(|line| !line.contains(" | /"));
    lines.map(|line| format!("{line}\n").replace(", or - for standard input", "")).collect()
}

/// The page of `/help`, or of one command.
pub fn help(command: Option<&str>) -> Result<String, CommandFailure> {
    let paint = Paint::stdout();
    if let Some(named) = command {
        let named = format!("/{}", named.trim_start_matches('/'));
        let mut all = ShellLine::command();
        // Global options are added to subcommands only by `build`.
        all.build();
        let found = all.find_subcommand_mut(&named).ok_or_else(|| unknown(&named))?;
        let text = found.render_help();
        let text = if paint == Paint::Always { text.ansi().to_string() } else { text.to_string() };
        return Ok(page(&text));
    }
    let mut table = Table::new(&["COMMAND", ""]);
    let mut row = |usage: &str, about: &str| table.row([TableCell::toned(usage, Tone::Strong), about.into()]);
    for (usage, about) in PAGE {
        row(usage, about);
    }
    let more = "Plain text is sent to the language model, if one is configured. `/help COMMAND` explains a command; \
                every command takes --json. Tab completes, Ctrl-C cancels a call, Ctrl-D exits.";
    Ok(format!("{}\n{}\n", table.draw(paint), render::wrap(more, 0)))
}

/// The rows of the `/help` page.
const PAGE: &[(&str, &str)] = &[
    ("/mcp", "list servers with their state and tools"),
    ("/mcp connect NAME", "connect a server now"),
    ("/mcp disconnect NAME", "disconnect a server until it is connected again"),
    ("/mcp tools", "list tools with their quality scores"),
    ("/mcp search WORDS", "search for tools"),
    ("/mcp show TOOL", "show a tool, its arguments and how to call it"),
    ("/mcp stats", "show how many context tokens the tools use"),
    ("/call TOOL KEY=VALUE …", "call a tool; or /call TOOL {JSON}"),
    ("/plan on|off|show|approve N", "queue calls and run them in order"),
    ("/approvals", "list calls that wait for approval"),
    ("/approve ID", "approve a held call"),
    ("/reject ID", "reject a held call"),
    ("/files", "list your files; also put, get, rm"),
    ("/events [N]", "show recent events"),
    ("/dlq", "list dead letters; also show, replay, drop"),
    ("/skills", "list skills; also show, check, run"),
    ("/jobs", "list jobs; also show, schedule, run, history"),
    ("/tasks", "list tasks; also show, move"),
    ("/new", "start a new conversation with the model"),
    ("/explain CODE", "explain a fault code"),
    ("/help [COMMAND]", "show this page, or explain a command"),
    ("/quit", "exit"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::command::names;

    #[test]
    fn every_command_is_on_the_page() {
        for name in names() {
            let mut usages = PAGE.iter().map(|(usage, _)| usage.split([' ']).next().unwrap_or_default());
            assert!(usages.any(|usage| usage == name), "{name}");
        }
    }

    #[test]
    fn hints_name_commands_of_the_shell() {
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
            assert_eq!(translate(hint), expected);
        }
    }
}
