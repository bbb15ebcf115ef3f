//! What may follow a half-typed line: commands, their actions, servers, tools, arguments and ids.

use super::editor::Continuations;
use super::line;
use crate::reach::Reach;
use crate::remote::segment;
use serde_json::Value;

/// The most that is offered.
const MOST: usize = 200;

/// Finds what may follow.
pub async fn complete(reach: &Reach, typed: &str) -> Continuations {
    let from = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, part) = typed.split_at(from);
    let before: Vec<&str> = before.split_whitespace().collect();
    let found = match before.as_slice() {
        [] if part.starts_with('/') || part.is_empty() => spaced(line::names()),
        ["/mcp", "connect" | "disconnect"] | ["/servers", _] => spaced(servers(reach).await),
        ["/call"] | ["/tools", "show"] => spaced(tools(reach, part).await),
        ["/call", tool, given @ ..] => arguments(reach, tool, given, part).await,
        ["/approve" | "/reject"] | ["/approvals", "approve" | "reject" | "show"] => {
            spaced(ids(reach, "/approvals?kind=approval&state=pending&limit=100", "approvals").await)
        }
        ["/dlq", "show" | "replay" | "drop"] => {
            spaced(ids(reach, "/dead-letters?state=pending&limit=100", "dead_letters").await)
        }
        ["/files", "get" | "rm"] => {
            let answer = reach.get("/files?limit=100").await.unwrap_or_default();
            let mut names = members(&answer, "files", "name");
            names.dedup();
            spaced(names)
        }
        ["/help"] => line::names().into_iter().map(|name| name.trim_start_matches('/').to_owned()).collect(),
        [command] if command.starts_with('/') => spaced(line::actions_of(command)),
        _ => Vec::new(),
    };
    let fits = |word: &String| word.starts_with(part) && is_harmless(word);
    Continuations { from, words: found.into_iter().filter(fits).take(MOST).collect() }
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

async fn servers(reach: &Reach) -> Vec<String> {
    members(&reach.get("/servers").await.unwrap_or_default(), "servers", "name")
}

async fn tools(reach: &Reach, part: &str) -> Vec<String> {
    let path = match part {
        "" => "/tools?limit=1000".to_owned(),
        part => format!("/tools?limit=1000&q={}", segment(part)),
    };
    members(&reach.get(&path).await.unwrap_or_default(), "tools", "name")
}

async fn ids(reach: &Reach, path: &str, list: &str) -> Vec<String> {
    members(&reach.get(path).await.unwrap_or_default(), list, "id")
}

/// The arguments that are not given yet, and the values that one may have.
async fn arguments(reach: &Reach, tool: &str, given: &[&str], part: &str) -> Vec<String> {
    let tool = reach.get(&format!("/tools/{}", segment(tool))).await.unwrap_or_default();
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
