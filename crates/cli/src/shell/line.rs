//! What can be typed: the commands of the shell, most of them the command line's own by a shorter name.

use super::words::{object_call, words};
use crate::commands::approvals::{ApprovalsArguments, ApproveArguments, RejectArguments};
use crate::commands::call::CallArguments;
use crate::commands::dead_letters::DeadLettersArguments;
use crate::commands::explain::ExplainArguments;
use crate::commands::files::FilesArguments;
use crate::commands::plan::PlanArguments;
use crate::commands::servers::ServersArguments;
use crate::commands::tools::{Filter, StatsArguments, ToolsArguments};
use crate::failure::Failure;
use crate::render::{self, Cell, Paint, Table, Tone};
use clap::{Args, CommandFactory, Parser, Subcommand};
use toolbooth_config::nearest;

/// A line that is a command.
#[derive(Debug, Parser)]
#[command(
    name = "",
    bin_name = "",
    no_binary_name = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Line {
    /// Print JSON for programs.
    #[arg(long, global = true, display_order = 901)]
    pub json: bool,
    #[command(subcommand)]
    pub what: What,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Servers, their tools, and what tools cost.
    #[command(name = "/mcp")]
    Mcp(McpArguments),
    /// Call a tool.
    #[command(name = "/call")]
    Call(CallArguments),
    /// Queue calls, read them, and run them in order.
    #[command(name = "/plan")]
    Plan(PlanArguments),
    /// Answer for calls that wait for a person.
    #[command(name = "/approvals")]
    Approvals(ApprovalsArguments),
    /// Say yes to a call that waits: it runs, once.
    #[command(name = "/approve")]
    Approve(ApproveArguments),
    /// Say no to a call that waits.
    #[command(name = "/reject")]
    Reject(RejectArguments),
    /// Upload files, list, fetch and remove them.
    #[command(name = "/files")]
    Files(FilesArguments),
    /// Show what happened lately.
    #[command(name = "/events")]
    Events {
        /// How many of the latest.
        #[arg(value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Calls that failed for good: look at them, make them again, or give them up.
    #[command(name = "/dlq", alias = "/dead-letters")]
    DeadLetters(DeadLettersArguments),
    /// Explain a fault code.
    #[command(name = "/explain")]
    Explain(ExplainArguments),
    /// List servers, look at one, connect, disconnect or restart it.
    #[command(name = "/servers", hide = true)]
    Servers(ServersArguments),
    /// List, search, score, weigh and compare tools.
    #[command(name = "/tools", hide = true)]
    Tools(Box<ToolsArguments>),
    /// Begin a new conversation with the model.
    #[command(name = "/new")]
    New,
    /// List commands, or explain one.
    #[command(name = "/help", alias = "/?")]
    Help {
        /// The command.
        command: Option<String>,
    },
    /// Leave; so does Ctrl-D.
    #[command(name = "/quit", alias = "/exit")]
    Quit,
}

/// What about servers.
#[derive(Debug, Args)]
pub struct McpArguments {
    #[command(subcommand)]
    pub action: Option<McpAction>,
}

/// What can be done about servers and their tools.
#[derive(Debug, Subcommand)]
pub enum McpAction {
    /// Connect a server now.
    Connect { name: String },
    /// Disconnect a server until somebody asks for it.
    Disconnect { name: String },
    /// List tools with their quality scores.
    Tools(Box<Filter>),
    /// Search for tools.
    Search {
        /// What they are to do, in words; options of `toolbooth tools search` may follow.
        #[arg(required = true, value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Show what tools take of a model's context.
    Stats(StatsArguments),
}

/// What a line stands for.
#[derive(Debug)]
pub enum Reading {
    /// Nothing: it is empty or a comment.
    Nothing,
    /// A command.
    Command(Box<Line>),
    /// A page to read.
    Page(String),
    /// Plain text.
    Text(String),
}

/// Reads a line.
pub fn read(line: &str) -> Result<Reading, Failure> {
    let line = line.trim();
    let line = match line {
        "" => return Ok(Reading::Nothing),
        comment if comment.starts_with('#') => return Ok(Reading::Nothing),
        // What people type who do not know where they are.
        "help" | "?" => "/help".to_owned(),
        "quit" | "exit" => "/quit".to_owned(),
        line => as_typed_here(line),
    };
    if !line.starts_with('/') {
        return Ok(Reading::Text(line));
    }
    if let Some((tool, object)) = object_call(&line) {
        is_json(object)?;
        let what = What::Call(CallArguments::of_object(tool, object.to_owned()));
        return Ok(Reading::Command(Box::new(Line { json: false, what })));
    }
    let Some(words) = words(&line) else {
        return Err(Failure::misuse(
            "usage.shell-line",
            "a quote is left open",
            Some("close it, or write \\' for the sign itself"),
        ));
    };
    let command = words.first().map(String::as_str).unwrap_or_default();
    if !is_known(command) {
        return Err(unknown(command));
    }
    match Line::try_parse_from(&words) {
        Ok(line) => Ok(Reading::Command(Box::new(line))),
        Err(error) if error.use_stderr() => Err(misused(&error, command)),
        Err(page) => Ok(Reading::Page(drawn(&page, command, Paint::stdout()))),
    }
}

/// A search for tools: the words are one query, up to the first option.
pub fn search(words: &[String]) -> Result<ToolsArguments, Failure> {
    let end = words.iter().position(|word| word.starts_with("--")).unwrap_or(words.len());
    let (words, options) = words.split_at(end);
    let query = words.join(" ");
    let start = ["/tools", "search", query.as_str()];
    let line = start.into_iter().chain(options.iter().map(String::as_str));
    match Line::try_parse_from(line) {
        Ok(Line { what: What::Tools(what), .. }) => Ok(*what),
        Ok(_) => Err(unknown("/mcp search")),
        Err(error) => Err(misused(&error, "/mcp")),
    }
}

/// A line that was copied from a hint, such as `toolbooth approvals show 9f3ac2`.
fn as_typed_here(line: &str) -> String {
    let copied = line.strip_prefix("toolbooth ").map(|rest| format!("/{}", rest.trim_start()));
    match copied {
        Some(copied) if is_known(copied.split_whitespace().next().unwrap_or_default()) => copied,
        _ => line.to_owned(),
    }
}

fn is_known(command: &str) -> bool {
    Line::command().find_subcommand(command).is_some()
}

/// The names of all commands that are shown.
pub fn names() -> Vec<String> {
    let command = Line::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

/// The words that may follow a command.
pub fn actions_of(command: &str) -> Vec<String> {
    let all = Line::command();
    let actions = all.find_subcommand(command).into_iter().flat_map(clap::Command::get_subcommands);
    actions.map(|action| action.get_name().to_owned()).collect()
}

fn unknown(command: &str) -> Failure {
    let names = names();
    let hint = match nearest(command, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`/help` lists the commands".to_owned(),
    };
    let message = format!("there is no command `{}`", render::line(command));
    Failure::misuse("usage.shell-command", message, Some(&hint))
}

/// Whether arguments can be read at all; where they cannot, the place is told as the line shows it.
fn is_json(object: &str) -> Result<(), Failure> {
    let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(object) else { return Ok(()) };
    let whole = error.to_string();
    let why = whole.split(" at line ").next().unwrap_or(&whole);
    let before: String = object.chars().take(error.column().saturating_sub(1)).collect();
    let message = format!("the arguments are no JSON: {why} after `{}`", render::line(&before));
    Err(Failure::misuse("usage.args", message, Some("for example /call demo_echo {\"text\": \"hello\"}")))
}

fn misused(error: &clap::Error, command: &str) -> Failure {
    let failure = Failure::misuse("usage.shell-line", "the command is not complete or not right", None);
    Failure { drawn: Some(drawn(error, command, Paint::stderr())), ..failure }
}

/// What the parser says, in the words of the shell.
fn drawn(said: &clap::Error, command: &str, paint: Paint) -> String {
    let text = said.render();
    let text = if paint == Paint::Always { text.ansi().to_string() } else { text.to_string() };
    // Styles stand between the words.
    let asked = format!("/help {}", command.trim_start_matches('/'));
    here(&text.replace("--help", &asked))
}

/// Examples of the command line, as they are typed here.
fn here(text: &str) -> String {
    let mut text = text.to_owned();
    for name in names() {
        let bare = name.trim_start_matches('/');
        text = text.replace(&format!("toolbooth {bare}"), &name);
    }
    let text = text
        .replace("toolbooth dead-letters", "/dlq")
        .replace("toolbooth tools list", "/mcp tools")
        .replace("Usage:  /", "Usage: /")
        .replace("Usage:\u{1b}[0m  ", "Usage:\u{1b}[0m ");
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
        return Ok(here(&text));
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

    #[test]
    fn the_grammar_is_sound() {
        Line::command().debug_assert();
    }

    #[test]
    fn every_command_is_on_the_page() {
        for name in names() {
            let mut usages = PAGE.iter().map(|(usage, _)| usage.split([' ']).next().unwrap_or_default());
            assert!(usages.any(|usage| usage == name), "{name}");
        }
    }

    #[test]
    fn hints_can_be_copied() {
        for line in [
            "toolbooth approvals show 9f3ac2",
            "toolbooth tools list",
            "toolbooth dead-letters",
            "toolbooth plan on",
        ] {
            assert!(matches!(read(line), Ok(Reading::Command(_))), "{line}");
        }
        for line in ["toolbooth is nice", "what is /mcp?"] {
            assert!(matches!(read(line), Ok(Reading::Text(_))), "{line}");
        }
    }

    #[test]
    fn a_slip_is_told_with_what_was_meant() {
        let cases = [
            ("/mpc", "did you mean `/mcp`?"),
            ("/aprove x", "did you mean `/approve`?"),
            ("/zzzzz", "`/help` lists the commands"),
        ];
        for (line, expected) in cases {
            let failure = read(line).expect_err(line);
            assert_eq!(failure.trouble.hint.as_deref(), Some(expected), "{line}");
        }
    }
}
