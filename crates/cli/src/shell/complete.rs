//! What may follow a half-typed line: commands, their actions, servers, tools, arguments and ids.

use super::editor::Continuations;
use super::line;
use crate::reach::{Reach, read};
use crate::remote::{Reply, segment};
use axum::body::Body;
use http::Method;
use serde_json::Value;

/// The most that is offered.
const MOST: usize = 200;

/// What the next word of a line is.
#[derive(Debug, PartialEq)]
enum Wanted<'a> {
    /// A command of the shell.
    Command,
    /// A command of the shell, without its stroke.
    Topic,
    /// What a command can do.
    Action(&'a str),
    Server,
    Tool,
    /// An argument of a tool.
    Argument {
        tool: &'a str,
        given: &'a [&'a str],
    },
    /// The id of a call that waits.
    Approval,
    /// The id of a dead letter.
    DeadLetter,
    File,
    /// Nothing that is known.
    Unknown,
}

/// Finds what may follow.
pub async fn complete(reach: &Reach, typed: &str) -> Continuations {
    let from = last_word(typed);
    let (before, part) = typed.split_at(from);
    let before: Vec<&str> = before.split_whitespace().collect();
    let found = match wanted(&before, part) {
        Wanted::Command => spaced(line::names()),
        Wanted::Topic => {
            line::names().into_iter().map(|name| name.trim_start_matches('/').to_owned()).collect()
        }
        Wanted::Action(command) => spaced(line::actions_of(command)),
        Wanted::Server => spaced(members(&ask(reach, "/servers").await, "servers", "name")),
        Wanted::Tool => spaced(tools(reach, part).await),
        Wanted::Argument { tool, given } => arguments(reach, tool, given, part).await,
        Wanted::Approval => {
            let answer = ask(reach, "/approvals?kind=approval&state=pending&limit=100").await;
            spaced(members(&answer, "approvals", "id"))
        }
        Wanted::DeadLetter => {
            let answer = ask(reach, "/dead-letters?state=pending&limit=100").await;
            spaced(members(&answer, "dead_letters", "id"))
        }
        Wanted::File => {
            let mut names = members(&ask(reach, "/files?limit=100").await, "files", "name");
            names.dedup();
            spaced(names)
        }
        Wanted::Unknown => Vec::new(),
    };
    let fits = |word: &String| word.starts_with(part) && is_harmless(word);
    Continuations { from, words: found.into_iter().filter(fits).take(MOST).collect() }
}

/// Where the word begins that is being typed. Spaces are not all one byte long.
fn last_word(typed: &str) -> usize {
    let space = typed.char_indices().rfind(|(_, letter)| letter.is_whitespace());
    space.map_or(0, |(at, letter)| at + letter.len_utf8())
}

fn wanted<'a>(before: &'a [&'a str], part: &str) -> Wanted<'a> {
    match before {
        [] if part.starts_with('/') || part.is_empty() => Wanted::Command,
        ["/mcp", "connect" | "disconnect"] | ["/servers", _] => Wanted::Server,
        ["/mcp" | "/tools", .., "--server"] => Wanted::Server,
        ["/call"] | ["/mcp", "show"] | ["/tools", "show" | "diff"] => Wanted::Tool,
        ["/tools", "accept" | "release", ..] => Wanted::Tool,
        ["/call", tool, given @ ..] => Wanted::Argument { tool, given },
        ["/approve" | "/reject"] | ["/approvals", "approve" | "reject" | "show"] => Wanted::Approval,
        ["/dlq" | "/dead-letters", "show" | "replay" | "drop"] => Wanted::DeadLetter,
        ["/files", "get" | "rm"] => Wanted::File,
        ["/help"] => Wanted::Topic,
        [command] if command.starts_with('/') => Wanted::Action(command),
        _ => Wanted::Unknown,
    }
}

/// Asks without a sign of life: it would be drawn over the line that is being edited.
async fn ask(reach: &Reach, path: &str) -> Value {
    let Ok(answer) = reach.stream(Method::GET, path, None, Body::empty()).await else { return Value::Null };
    let body = Reply::of(answer).await.good();
    body.and_then(|body| read(&body)).unwrap_or_default()
}

/// What is put into the line by itself must not be more than a word.
fn is_harmless(word: &str) -> bool {
    let word = word.strip_suffix(' ').unwrap_or(word);
    word.chars().all(|letter| letter.is_alphanumeric() || "/_-.=:+@%".contains(letter))
}

fn spaced(words: Vec<String>) -> Vec<String> {
    words.into_iter().map(|word| word + " ").collect()
}

fn members(answer: &Value, list: &str, key: &str) -> Vec<String> {
    let all = answer[list].as_array().into_iter().flatten();
    all.filter_map(|one| one[key].as_str().map(str::to_owned)).collect()
}

async fn tools(reach: &Reach, part: &str) -> Vec<String> {
    let path = match part {
        "" => "/tools?limit=1000".to_owned(),
        part => format!("/tools?limit=1000&q={}", segment(part)),
    };
    members(&ask(reach, &path).await, "tools", "name")
}

/// The arguments that are not given yet, and the values that one may have.
async fn arguments(reach: &Reach, tool: &str, given: &[&str], part: &str) -> Vec<String> {
    let tool = ask(reach, &format!("/tools/{}", segment(tool))).await;
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
    fn a_word_begins_after_any_space() {
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
    fn the_words_before_tell_what_is_wanted() {
        let cases = [
            ("", "", Wanted::Command),
            ("", "hello", Wanted::Unknown),
            ("/help", "", Wanted::Topic),
            ("/mcp", "", Wanted::Action("/mcp")),
            ("/dead-letters", "", Wanted::Action("/dead-letters")),
            ("/mcp connect", "", Wanted::Server),
            ("/servers logs", "", Wanted::Server),
            ("/mcp tools --server", "", Wanted::Server),
            ("/mcp tools --server demo --server", "", Wanted::Server),
            ("/tools list --server", "", Wanted::Server),
            ("/mcp show", "", Wanted::Tool),
            ("/tools show", "", Wanted::Tool),
            ("/tools diff", "", Wanted::Tool),
            ("/tools accept", "", Wanted::Tool),
            ("/tools accept demo_echo", "", Wanted::Tool),
            ("/tools release", "", Wanted::Tool),
            ("/call", "", Wanted::Tool),
            ("/call demo_echo", "", Wanted::Argument { tool: "demo_echo", given: &[] }),
            ("/call demo_echo a=1", "", Wanted::Argument { tool: "demo_echo", given: &["a=1"] }),
            ("/approve", "", Wanted::Approval),
            ("/dlq replay", "", Wanted::DeadLetter),
            ("/dead-letters show", "", Wanted::DeadLetter),
            ("/files rm", "", Wanted::File),
            ("what is", "", Wanted::Unknown),
        ];
        for (before, part, expected) in cases {
            let words: Vec<&str> = before.split_whitespace().collect();
            assert_eq!(wanted(&words, part), expected, "{before:?} {part:?}");
        }
    }
}
