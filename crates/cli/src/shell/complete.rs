//! Completion of a line: commands, their subcommands, servers, tools, arguments and ids.

use super::command;
use super::editor::Completions;
use crate::gateway_handle::{GatewayHandle, read};
use crate::remote_gateway::{GatewayReply, segment};
use axum::body::Body;
use http::Method;
use serde_json::Value;

/// The maximum number of completions.
const MAX_COMPLETIONS: usize = 200;

/// The kind of the next word of a line.
#[derive(Debug, PartialEq)]
enum CompletionKind<'a> {
    /// A command of the shell.
    Command,
    /// A command of the shell without its slash.
    Topic,
    /// A subcommand of a command.
    Action(&'a str),
    Server,
    Tool,
    /// An argument of a tool.
    Argument {
        tool: &'a str,
        given: &'a [&'a str],
    },
    /// The id of a held call.
    Approval,
    /// The id of a dead letter.
    DeadLetter,
    File,
    /// Anything else, which is not completed.
    Unknown,
}

/// Finds the completions of a line.
pub async fn complete(gateway: &GatewayHandle, typed: &str) -> Completions {
    let from = last_word(typed);
    let (before, part) = typed.split_at(from);
    let before: Vec<&str> = before.split_whitespace().collect();
    let found = match kind_of_next(&before, part) {
        CompletionKind::Command => with_space(command::names()),
        CompletionKind::Topic => {
            command::names().into_iter().map(|name| name.trim_start_matches('/').to_owned()).collect()
        }
        CompletionKind::Action(command) => with_space(command::actions_of(command)),
        CompletionKind::Server => with_space(members(&ask(gateway, "/servers").await, "servers", "name")),
        CompletionKind::Tool => with_space(tools(gateway, part).await),
        CompletionKind::Argument { tool, given } => arguments(gateway, tool, given, part).await,
        CompletionKind::Approval => {
            let answer = ask(gateway, "/approvals?kind=approval&state=pending&limit=100").await;
            with_space(members(&answer, "approvals", "id"))
        }
        CompletionKind::DeadLetter => {
            let answer = ask(gateway, "/dead-letters?state=pending&limit=100").await;
            with_space(members(&answer, "dead_letters", "id"))
        }
        CompletionKind::File => {
            let mut names = members(&ask(gateway, "/files?limit=100").await, "files", "name");
            names.dedup();
            with_space(names)
        }
        CompletionKind::Unknown => Vec::new(),
    };
    let fits = |word: &String| word.starts_with(part) && is_plain_word(word);
    Completions { from, words: found.into_iter().filter(fits).take(MAX_COMPLETIONS).collect() }
}

/// The byte offset of the last word. Whitespace characters may be longer than one byte.
fn last_word(typed: &str) -> usize {
    let space = typed.char_indices().rfind(|(_, letter)| letter.is_whitespace());
    space.map_or(0, |(at, letter)| at + letter.len_utf8())
}

fn kind_of_next<'a>(before: &'a [&'a str], part: &str) -> CompletionKind<'a> {
    match before {
        [] if part.starts_with('/') || part.is_empty() => CompletionKind::Command,
        ["/mcp", "connect" | "disconnect"] | ["/servers", _] => CompletionKind::Server,
        ["/mcp" | "/tools", .., "--server"] => CompletionKind::Server,
        ["/call"] | ["/mcp", "show"] | ["/tools", "show" | "diff"] => CompletionKind::Tool,
        ["/tools", "accept" | "release", ..] => CompletionKind::Tool,
        ["/call", tool, given @ ..] => CompletionKind::Argument { tool, given },
        ["/approve" | "/reject"] | ["/approvals", "approve" | "reject" | "show"] => CompletionKind::Approval,
        ["/dlq" | "/dead-letters", "show" | "replay" | "drop"] => CompletionKind::DeadLetter,
        ["/files", "get" | "rm"] => CompletionKind::File,
        ["/help"] => CompletionKind::Topic,
        [command] if command.starts_with('/') => CompletionKind::Action(command),
        _ => CompletionKind::Unknown,
    }
}

/// Queries the gateway without a spinner, which would overwrite the edited line.
async fn ask(gateway: &GatewayHandle, path: &str) -> Value {
    let Ok(answer) = gateway.stream(Method::GET, path, None, Body::empty()).await else { return Value::Null };
    let body = GatewayReply::of(answer).await.good();
    body.and_then(|body| read(&body)).unwrap_or_default()
}

/// Whether a completion is a single word that needs no quotes.
fn is_plain_word(word: &str) -> bool {
    let word = word.strip_suffix(' ').unwrap_or(word);
    word.chars().all(|letter| letter.is_alphanumeric() || "/_-.=:+@%".contains(letter))
}

fn with_space(words: Vec<String>) -> Vec<String> {
    words.into_iter().map(|word| word + " ").collect()
}

fn members(answer: &Value, list: &str, key: &str) -> Vec<String> {
    let all = answer[list].as_array().into_iter().flatten();
    all.filter_map(|one| one[key].as_str().map(str::to_owned)).collect()
}

async fn tools(gateway: &GatewayHandle, part: &str) -> Vec<String> {
    let path = match part {
        "" => "/tools?limit=1000".to_owned(),
        part => format!("/tools?limit=1000&q={}", segment(part)),
    };
    members(&ask(gateway, &path).await, "tools", "name")
}

/// The arguments that are not given yet, or the possible values of one.
async fn arguments(gateway: &GatewayHandle, tool: &str, given: &[&str], part: &str) -> Vec<String> {
    let tool = ask(gateway, &format!("/tools/{}", segment(tool))).await;
    let Some(properties) = tool["parameters"]["properties"].as_object() else { return Vec::new() };
    if let Some((key, _)) = part.split_once('=') {
        let schema = properties.get(key).unwrap_or(&Value::Null);
        let values = schema["enum"].as_array().into_iter().flatten().map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let flags = (schema["type"] == "boolean").then_some(["true", "false"].map(str::to_owned));
        return values.chain(flags.into_iter().flatten()).map(|value| format!("{key}={value} ")).collect();
    }
    let is_given =
        |key: &str| given.iter().any(|word| word.split_once('=').is_some_and(|(known, _)| known == key));
    properties.keys().filter(|key| !is_given(key)).map(|key| format!("{key}=")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_begins_after_any_whitespace() {
        let cases = [
            ("", ""),
            ("/ca", "/ca"),
            ("/call ", ""),
            ("/call a\tb", "b"),
            ("/call\u{a0}de", "de"),
            ("/call\u{3000}", ""),
            ("/call ü\u{2003}ä", "ä"),
        ];
        for (typed, expected) in cases {
            assert_eq!(&typed[last_word(typed)..], expected, "{typed:?}");
        }
    }

    #[test]
    fn the_previous_words_determine_the_kind_of_the_next() {
        let cases = [
            ("", "", CompletionKind::Command),
            ("", "hello", CompletionKind::Unknown),
            ("/help", "", CompletionKind::Topic),
            ("/mcp", "", CompletionKind::Action("/mcp")),
            ("/dead-letters", "", CompletionKind::Action("/dead-letters")),
            ("/mcp connect", "", CompletionKind::Server),
            ("/servers logs", "", CompletionKind::Server),
            ("/mcp tools --server", "", CompletionKind::Server),
            ("/mcp tools --server demo --server", "", CompletionKind::Server),
            ("/tools list --server", "", CompletionKind::Server),
            ("/mcp show", "", CompletionKind::Tool),
            ("/tools show", "", CompletionKind::Tool),
            ("/tools diff", "", CompletionKind::Tool),
            ("/tools accept", "", CompletionKind::Tool),
            ("/tools accept demo_echo", "", CompletionKind::Tool),
            ("/tools release", "", CompletionKind::Tool),
            ("/call", "", CompletionKind::Tool),
            ("/call demo_echo", "", CompletionKind::Argument { tool: "demo_echo", given: &[] }),
            ("/call demo_echo a=1", "", CompletionKind::Argument { tool: "demo_echo", given: &["a=1"] }),
            ("/approve", "", CompletionKind::Approval),
            ("/dlq replay", "", CompletionKind::DeadLetter),
            ("/dead-letters show", "", CompletionKind::DeadLetter),
            ("/files rm", "", CompletionKind::File),
            ("what is", "", CompletionKind::Unknown),
        ];
        for (before, part, expected) in cases {
            let words: Vec<&str> = before.split_whitespace().collect();
            assert_eq!(kind_of_next(&words, part), expected, "{before:?} {part:?}");
        }
    }
}
