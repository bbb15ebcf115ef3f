//! Parses a line of the shell.

use super::command::{SearchArguments, ShellCommand, ShellLine, is_known, unknown};
use super::help::render_message;
use super::words::{ObjectCall, object_call, words};
use crate::commands::call::CallArguments;
use crate::commands::tools::ToolsArguments;
use crate::failure::CommandFailure;
use crate::render::{self, Paint};
use clap::{Command, Parser};

/// The meaning of a line.
#[derive(Debug)]
pub enum ParsedLine {
    /// An empty line or a comment.
    Nothing,
    /// A command.
    Command(Box<ShellLine>),
    /// A help page.
    Page(String),
    /// Plain text for the language model.
    Text(String),
}

/// Parses a line. `program` is the definition of the command line.
pub fn read(line: &str, program: &Command) -> Result<ParsedLine, CommandFailure> {
    let line = line.trim();
    let line = match line {
        "" => return Ok(ParsedLine::Nothing),
        comment if comment.starts_with('#') => return Ok(ParsedLine::Nothing),
        // Users expect these from other shells.
        "help" | "?" => "/help".to_owned(),
        "quit" | "exit" => "/quit".to_owned(),
        line => translate(line, program)?,
    };
    if !line.starts_with('/') {
        return Ok(ParsedLine::Text(line));
    }
    let words = match object_call(&line) {
        Some(ObjectCall { tool, object, options }) => {
            check_json(object)?;
            if options.is_empty() {
                let command = ShellCommand::Call(CallArguments::of_object(tool, object.to_owned()));
                return Ok(ParsedLine::Command(Box::new(ShellLine { json: false, command })));
            }
            let start = ["/call", tool, "--args", object].map(str::to_owned);
            words(options).map(|options| start.into_iter().chain(options).collect::<Vec<_>>())
        }
        None => words(&line),
    };
    let Some(words) = words else {
        return Err(CommandFailure::misuse(
            "usage.shell-line",
            "a quote is not closed",
            Some("close it, or write \\' for a literal quote"),
        ));
    };
    let command = words.first().map(String::as_str).unwrap_or_default();
    if !is_known(command) {
        return Err(unknown(command));
    }
    match ShellLine::try_parse_from(&words) {
        Ok(line) => Ok(ParsedLine::Command(Box::new(line))),
        Err(error) if error.use_stderr() => Err(misused(&error, command)),
        Err(page) => Ok(ParsedLine::Page(render_message(&page, command, Paint::stdout()))),
    }
}

/// The arguments of `toolbooth tools search` for `/mcp search`.
pub fn search(arguments: &SearchArguments) -> Result<ToolsArguments, CommandFailure> {
    let limit = format!("--limit={}", arguments.limit);
    let regex = arguments.regex.then(|| "--regex".to_owned());
    let start = ["/tools", "search", &limit].map(str::to_owned).into_iter();
    tools_arguments(start.chain(regex).chain(["--".to_owned(), arguments.words.join(" ")]))
}

/// The arguments of `toolbooth tools show` for a tool.
pub fn show(name: &str) -> Result<ToolsArguments, CommandFailure> {
    tools_arguments(["/tools", "show", "--", name].map(str::to_owned).into_iter())
}

fn tools_arguments(words: impl Iterator<Item = String>) -> Result<ToolsArguments, CommandFailure> {
    match ShellLine::try_parse_from(words) {
        Ok(ShellLine { command: ShellCommand::Tools(arguments), .. }) => Ok(*arguments),
        Ok(_) => Err(unknown("/tools")),
        Err(error) => Err(misused(&error, "/tools")),
    }
}

/// Translates a command copied from a hint, such as `toolbooth approvals show 9f3ac2`. Commands that the shell lacks are
/// refused: they are not meant for the language model, and may contain secrets.
fn translate(line: &str, program: &Command) -> Result<String, CommandFailure> {
    let copied = line.strip_prefix("toolbooth").filter(|rest| rest.starts_with(char::is_whitespace));
    let Some(copied) = copied.map(str::trim_start) else { return Ok(line.to_owned()) };
    let word = copied.split_whitespace().next().unwrap_or_default();
    let is_option =
        word.strip_prefix("--").is_some_and(|name| name.starts_with(|first: char| first.is_alphabetic()));
    if is_known(&format!("/{word}")) {
        Ok(format!("/{copied}"))
    } else if is_option || program.find_subcommand(word).is_some() {
        Err(not_in_shell(word))
    } else {
        Ok(line.to_owned())
    }
}

fn not_in_shell(word: &str) -> CommandFailure {
    let (message, hint) = match word {
        "chat" => (
            "`toolbooth chat` is not available in the shell".to_owned(),
            "type only the question: plain text is sent to the model".to_owned(),
        ),
        option if option.starts_with('-') => (
            "the shell does not accept command-line options before a command".to_owned(),
            "`/help` lists the commands; for another gateway or configuration start another shell".to_owned(),
        ),
        word => (
            format!("`toolbooth {word}` is not available in the shell"),
            format!("run `toolbooth {word}` in another terminal; `/help` lists the commands of the shell"),
        ),
    };
    CommandFailure::misuse("usage.shell-outside", message, Some(&hint))
}

/// Checks that the arguments are valid JSON. The failure shows the text before the error.
fn check_json(object: &str) -> Result<(), CommandFailure> {
    let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(object) else { return Ok(()) };
    let whole = error.to_string();
    let why = whole.split(" at line ").next().unwrap_or(&whole);
    // Columns are counted in bytes.
    let before = &object[..object.floor_char_boundary(error.column().saturating_sub(1))];
    let message = format!("the arguments are not valid JSON: {why} after `{}`", render::line(before));
    Err(CommandFailure::misuse(
        "usage.args",
        message,
        Some("for example /call demo_echo {\"text\": \"hello\"}"),
    ))
}

fn misused(error: &clap::Error, command: &str) -> CommandFailure {
    let failure = CommandFailure::misuse("usage.shell-line", "the command is incomplete or not valid", None);
    CommandFailure { drawn: Some(render_message(error, command, Paint::stderr())), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::CliArguments;
    use crate::shell::command::{McpAction, McpArguments};
    use clap::CommandFactory;

    fn read(line: &str) -> Result<ParsedLine, CommandFailure> {
        super::read(line, &CliArguments::command())
    }

    #[test]
    fn the_command_definitions_are_valid() {
        ShellLine::command().debug_assert();
    }

    #[test]
    fn hints_can_be_copied() {
        for line in [
            "toolbooth approvals show 9f3ac2",
            "toolbooth tools list",
            "toolbooth dead-letters",
            "toolbooth plan on",
        ] {
            assert!(matches!(read(line), Ok(ParsedLine::Command(_))), "{line}");
        }
        for line in ["toolbooth is nice", "what is /mcp?", "toolbooths trust me", "toolbooth -- what is it?"]
        {
            assert!(matches!(read(line), Ok(ParsedLine::Text(_))), "{line}");
        }
    }

    #[test]
    fn commands_of_the_command_line_are_not_sent_to_the_model() {
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
            assert_eq!(failure.fault.code, "usage.shell-outside", "{line}");
            assert!(!format!("{:?}", failure.fault).contains("tb_abc"), "{line}");
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
            let Ok(ParsedLine::Command(read)) = read(line) else { panic!("{line}") };
            assert!(read.json, "{line}");
        }
    }

    #[test]
    fn words_of_a_search_are_one_query() {
        let Ok(ParsedLine::Command(line)) = read("/mcp search send mail --limit 3 --regex") else { panic!() };
        let ShellCommand::Mcp(McpArguments { action: Some(McpAction::Search(arguments)) }) = line.command
        else {
            panic!()
        };
        let shown = format!("{:?}", search(&arguments).expect("the arguments are valid"));
        assert!(shown.contains("queries: [\"send mail\"], regex: true, limit: Some(3)"), "{shown}");
    }

    #[test]
    fn help_is_a_page() {
        for line in ["/mcp search x --help", "/mcp search --help", "/call --help", "/call t {} --help"] {
            assert!(matches!(read(line), Ok(ParsedLine::Page(_))), "{line}");
        }
    }

    #[test]
    fn a_json_error_shows_its_position() {
        let cases = [
            ("/call t {\"ä\": \"öü\" x}", "expected `,` or `}` after `{\"ä\": \"öü\"`"),
            ("/call t {\"a\": }", "expected value after `{\"a\":`"),
            ("/call t {\"a\": 1} }", "trailing characters after `{\"a\": 1}`"),
        ];
        for (line, expected) in cases {
            let failure = read(line).expect_err(line);
            let message = format!("the arguments are not valid JSON: {expected}");
            assert_eq!(failure.fault.message, message, "{line}");
        }
    }

    #[test]
    fn a_typo_gets_a_suggestion() {
        let cases = [
            ("/mpc", "did you mean `/mcp`?"),
            ("/aprove x", "did you mean `/approve`?"),
            ("/zzzzz", "`/help` lists the commands"),
        ];
        for (line, expected) in cases {
            let failure = read(line).expect_err(line);
            assert_eq!(failure.fault.hint.as_deref(), Some(expected), "{line}");
        }
    }
}
