//! What can be typed: the commands of the shell, most of them the command line's own by a shorter name.

use super::help::drawn;
use super::words::{ObjectCall, object_call, words};
use crate::arguments::Arguments;
use crate::commands::approvals::{ApprovalsArguments, ApproveArguments, RejectArguments};
use crate::commands::call::CallArguments;
use crate::commands::dead_letters::DeadLettersArguments;
use crate::commands::explain::ExplainArguments;
use crate::commands::files::FilesArguments;
use crate::commands::plan::PlanArguments;
use crate::commands::servers::ServersArguments;
use crate::commands::tools::{Filter, StatsArguments, ToolsArguments};
use crate::failure::Failure;
use crate::render::{self, Paint};
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
    Search(SearchArguments),
    /// Show one tool, its arguments and how to call it.
    Show { name: String },
    /// Show what tools take of a model's context.
    Stats(StatsArguments),
}

/// What is searched for: as for `toolbooth tools search`, but that the words are one query.
#[derive(Debug, Args)]
pub struct SearchArguments {
    /// What the tool should do, in words, or its name.
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    /// The words are a regular expression.
    #[arg(long)]
    regex: bool,
    /// At most this many.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    limit: u32,
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
        line => as_typed_here(line)?,
    };
    if !line.starts_with('/') {
        return Ok(Reading::Text(line));
    }
    let words = match object_call(&line) {
        Some(ObjectCall { tool, object, options }) => {
            is_json(object)?;
            if options.is_empty() {
                let what = What::Call(CallArguments::of_object(tool, object.to_owned()));
                return Ok(Reading::Command(Box::new(Line { json: false, what })));
            }
            let start = ["/call", tool, "--args", object].map(str::to_owned);
            words(options).map(|options| start.into_iter().chain(options).collect::<Vec<_>>())
        }
        None => words(&line),
    };
    let Some(words) = words else {
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

/// A search for tools.
pub fn search(what: &SearchArguments) -> Result<ToolsArguments, Failure> {
    let limit = format!("--limit={}", what.limit);
    let regex = what.regex.then(|| "--regex".to_owned());
    let start = ["/tools", "search", &limit].map(str::to_owned).into_iter();
    about_tools(start.chain(regex).chain(["--".to_owned(), what.words.join(" ")]))
}

/// A look at one tool.
pub fn show(name: &str) -> Result<ToolsArguments, Failure> {
    about_tools(["/tools", "show", "--", name].map(str::to_owned).into_iter())
}

fn about_tools(words: impl Iterator<Item = String>) -> Result<ToolsArguments, Failure> {
    match Line::try_parse_from(words) {
        Ok(Line { what: What::Tools(what), .. }) => Ok(*what),
        Ok(_) => Err(unknown("/tools")),
        Err(error) => Err(misused(&error, "/tools")),
    }
}

/// A line that was copied from a hint, such as `toolbooth approvals show 9f3ac2`. What the shell has no command for is
/// refused: it was not meant for the language model, and may hold what that must not see.
fn as_typed_here(line: &str) -> Result<String, Failure> {
    let copied = line.strip_prefix("toolbooth").filter(|rest| rest.starts_with(char::is_whitespace));
    let Some(copied) = copied.map(str::trim_start) else { return Ok(line.to_owned()) };
    let word = copied.split_whitespace().next().unwrap_or_default();
    let is_option =
        word.strip_prefix("--").is_some_and(|name| name.starts_with(|first: char| first.is_alphabetic()));
    if is_known(&format!("/{word}")) {
        Ok(format!("/{copied}"))
    } else if is_option || Arguments::command().find_subcommand(word).is_some() {
        Err(outside(word))
    } else {
        Ok(line.to_owned())
    }
}

fn outside(word: &str) -> Failure {
    let (message, hint) = match word {
        "chat" => (
            "`toolbooth chat` is not for the shell".to_owned(),
            "type the question alone: plain text goes to the model".to_owned(),
        ),
        option if option.starts_with('-') => (
            "the shell takes no options of the command line before a command".to_owned(),
            "`/help` lists the commands; for another gateway or configuration start another shell".to_owned(),
        ),
        word => (
            format!("`toolbooth {word}` is not for the shell"),
            format!("run `toolbooth {word}` in another terminal; `/help` lists what works here"),
        ),
    };
    Failure::misuse("usage.shell-outside", message, Some(&hint))
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

/// All commands, also those that only hints speak of: what the command line calls them, and the shell.
pub fn everywhere() -> Vec<(String, String)> {
    let command = Line::command();
    let names = command.get_subcommands().flat_map(|command| {
        let all = std::iter::once(command.get_name()).chain(command.get_all_aliases());
        all.map(|name| (name.trim_start_matches('/').to_owned(), command.get_name().to_owned()))
    });
    names.collect()
}

/// The words that may follow a command.
pub fn actions_of(command: &str) -> Vec<String> {
    let all = Line::command();
    let actions = all.find_subcommand(command).into_iter().flat_map(clap::Command::get_subcommands);
    actions.map(|action| action.get_name().to_owned()).collect()
}

/// What is told of a command that does not exist.
pub fn unknown(command: &str) -> Failure {
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
    // Columns are counted in bytes.
    let before = &object[..object.floor_char_boundary(error.column().saturating_sub(1))];
    let message = format!("the arguments are no JSON: {why} after `{}`", render::line(before));
    Err(Failure::misuse("usage.args", message, Some("for example /call demo_echo {\"text\": \"hello\"}")))
}

fn misused(error: &clap::Error, command: &str) -> Failure {
    let failure = Failure::misuse("usage.shell-line", "the command is not complete or not right", None);
    Failure { drawn: Some(drawn(error, command, Paint::stderr())), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Line::command().debug_assert();
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
        for line in ["toolbooth is nice", "what is /mcp?", "toolbooths trust me", "toolbooth -- what is it?"]
        {
            assert!(matches!(read(line), Ok(Reading::Text(_))), "{line}");
        }
    }

    #[test]
    fn what_works_elsewhere_is_not_said_to_the_model() {
        for line in [
            "toolbooth trust x",
            "toolbooth doctor",
            "toolbooth config check",
            "toolbooth tokens list",
            "toolbooth serve",
            "toolbooth login",
            "toolbooth chat hello",
            "toolbooth shell",
            "toolbooth demo-server demo",
            "toolbooth\t trust x",
            "toolbooth --token tb_abc servers",
        ] {
            let failure = read(line).expect_err(line);
            assert_eq!(failure.trouble.code, "usage.shell-outside", "{line}");
            assert!(!format!("{:?}", failure.trouble).contains("tb_abc"), "{line}");
        }
    }

    #[test]
    fn every_command_takes_json() {
        for line in [
            "/mcp search mail --json",
            "/mcp search send mail --limit 3 --json",
            "/mcp search --json send mail",
            "/mcp show demo_echo --json",
            "/call t {\"a\":1} --json",
            "/call t {\"a\":1} --session s --json -y",
            "/call t a=1 --json",
        ] {
            let Ok(Reading::Command(read)) = read(line) else { panic!("{line}") };
            assert!(read.json, "{line}");
        }
    }

    #[test]
    fn words_of_a_search_are_one_query() {
        let Ok(Reading::Command(line)) = read("/mcp search send mail --limit 3 --regex") else { panic!() };
        let What::Mcp(McpArguments { action: Some(McpAction::Search(what)) }) = line.what else { panic!() };
        let shown = format!("{:?}", search(&what).expect("it is right"));
        assert!(shown.contains("queries: [\"send mail\"], regex: true, limit: 3"), "{shown}");
    }

    #[test]
    fn help_is_a_page() {
        for line in ["/mcp search x --help", "/mcp search --help", "/call --help", "/call t {} --help"] {
            assert!(matches!(read(line), Ok(Reading::Page(_))), "{line}");
        }
    }

    #[test]
    fn a_slip_in_json_is_told_where_it_is() {
        let cases = [
            ("/call t {\"ä\": \"öü\" x}", "expected `,` or `}` after `{\"ä\": \"öü\"`"),
            ("/call t {\"a\": }", "expected value after `{\"a\":`"),
            ("/call t {\"a\": 1} }", "trailing characters after `{\"a\": 1}`"),
        ];
        for (line, expected) in cases {
            let failure = read(line).expect_err(line);
            assert_eq!(failure.trouble.message, format!("the arguments are no JSON: {expected}"), "{line}");
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
