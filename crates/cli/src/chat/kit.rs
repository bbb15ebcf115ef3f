//! What a model is given to work with: a few tools by name, or the three by which it finds and calls all others.

use crate::commands::tools;
use crate::failure::Failure;
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::line;
use serde_json::{Value, json};

/// The longest name that endpoints take.
const LONGEST_NAME: usize = 64;
/// The most tools that can be given by name.
const MOST: usize = 64;
/// How many tools a search answers with unless the model says.
const USUAL: u64 = 5;

const SEARCH: &str = "mcp_tool_search";
const DESCRIBE: &str = "mcp_tool_describe";
const CALL: &str = "mcp_tool_call";

/// The tools of a chat.
#[derive(Debug)]
pub enum Kit {
    /// All that the caller may use, found by searching: so a large catalog costs no more than a small one.
    Search,
    /// These and no others.
    Named(Vec<Offered>),
}

/// A tool that is given by name.
#[derive(Debug)]
pub struct Offered {
    /// What the endpoint knows it by.
    alias: String,
    /// What the gateway does.
    name: String,
    definition: Value,
}

/// What a model's wish comes down to.
#[derive(Debug, PartialEq)]
pub enum Wish {
    /// A search for tools.
    Search { query: String, limit: u64 },
    /// One tool's definition.
    Describe(String),
    /// A call of a tool, by the gateway's name.
    Call { name: String, arguments: Value },
}

impl Kit {
    /// Exactly these tools.
    pub async fn of(reach: &Reach, names: &[String]) -> Result<Self, Failure> {
        if names.len() > MOST {
            let message = format!("--tools takes at most {MOST} tools");
            return Err(Failure::misuse(
                "usage.tools",
                message,
                Some("without it the model searches by itself"),
            ));
        }
        let mut offered: Vec<Offered> = Vec::new();
        for name in names {
            let tool = tools::find(reach, name).await?;
            let name = tool["name"].as_str().unwrap_or(name).to_owned();
            if offered.iter().any(|known| known.name == name) {
                continue;
            }
            let alias = alias(&name, &offered);
            let definition =
                definition(&alias, tool["description"].as_str().unwrap_or_default(), &tool["parameters"]);
            offered.push(Offered { alias, name, definition });
        }
        Ok(Self::Named(offered))
    }

    /// The definitions, in the endpoint's own form.
    pub fn definitions(&self) -> Vec<Value> {
        match self {
            Self::Named(offered) => offered.iter().map(|tool| tool.definition.clone()).collect(),
            Self::Search => vec![
                definition(
                    SEARCH,
                    "Searches the tools of this gateway. Returns the best matches with their arguments.",
                    &json!({ "type": "object", "required": ["query"], "properties": {
                        "query": { "type": "string", "description": "What the tool is to do, in a few words." },
                        "limit": { "type": "integer", "minimum": 1, "maximum": 50, "description": "How many; 5 unless given." },
                    } }),
                ),
                definition(
                    DESCRIBE,
                    "Returns the full definition of one tool: its description and the JSON Schema of its arguments.",
                    &json!({ "type": "object", "required": ["name"], "properties": {
                        "name": { "type": "string", "description": "The tool's name, as a search returned it." },
                    } }),
                ),
                definition(
                    CALL,
                    "Calls a tool by its name.",
                    &json!({ "type": "object", "required": ["name"], "properties": {
                        "name": { "type": "string", "description": "The tool's name, as a search returned it." },
                        "arguments": { "type": "object", "description": "The tool's arguments, by its schema." },
                    } }),
                ),
            ],
        }
    }

    /// Reads a wish; the error is for the model, so that it can do better.
    pub fn wish(&self, name: &str, arguments: &str) -> Result<Wish, String> {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let arguments: Value = serde_json::from_str(text)
            .map_err(|error| format!("error: the arguments are no JSON: {error}"))?;
        if !arguments.is_object() {
            return Err("error: the arguments must be a JSON object".to_owned());
        }
        let text = |key: &str| {
            let text = arguments[key].as_str().map(str::trim).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| format!("error: `{key}` is missing"))
        };
        match (self, name) {
            (Self::Named(offered), name) => {
                let found = offered.iter().find(|tool| tool.alias == name || tool.name == name);
                let found = found.ok_or_else(|| format!("error: there is no tool `{name}`"))?;
                Ok(Wish::Call { name: found.name.clone(), arguments })
            }
            (Self::Search, SEARCH) => {
                let limit = arguments["limit"].as_u64().unwrap_or(USUAL).clamp(1, 50);
                Ok(Wish::Search { query: text("query")?, limit })
            }
            (Self::Search, DESCRIBE) => text("name").map(Wish::Describe),
            (Self::Search, CALL) => {
                let inner = match &arguments["arguments"] {
                    Value::Null => json!({}),
                    // Some models write the object as a text.
                    Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
                    other => other.clone(),
                };
                if !inner.is_object() {
                    return Err("error: `arguments` must be an object".to_owned());
                }
                Ok(Wish::Call { name: text("name")?, arguments: inner })
            }
            // A model that has seen a tool in a search may as well call it straight.
            (Self::Search, name) => Ok(Wish::Call { name: name.to_owned(), arguments }),
        }
    }
}

fn definition(name: &str, description: &str, parameters: &Value) -> Value {
    let parameters = if parameters.is_object() { parameters.clone() } else { json!({ "type": "object" }) };
    json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
}

/// A name as endpoints take it, unlike all others.
fn alias(name: &str, taken: &[Offered]) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let base: String = name.chars().map(safe).take(LONGEST_NAME).collect();
    let is_taken = |alias: &str| taken.iter().any(|known| known.alias == alias);
    let mut alias = base.clone();
    let mut number = 2;
    while is_taken(&alias) {
        let end = format!("_{number}");
        alias = format!("{}{end}", &base[..base.len().min(LONGEST_NAME - end.len())]);
        number += 1;
    }
    alias
}

/// One tool's definition, for a model.
pub async fn describe(reach: &Reach, name: &str) -> Result<String, Failure> {
    let tool = tools::find(reach, name).await?;
    let about =
        json!({ "name": tool["name"], "description": tool["description"], "arguments": tool["parameters"] });
    Ok(about.to_string())
}

/// The tools that fit a query, for a model.
pub async fn search(reach: &Reach, query: &str, limit: u64) -> Result<String, Failure> {
    let path = format!("/tools?q={}&limit={limit}", segment(query));
    let mut answer = reach.get(&path).await?;
    let tools = answer["tools"].take();
    let found = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    if found.is_empty() {
        return Ok("No tool matches. Try other words.".to_owned());
    }
    let told: Vec<String> = found
        .iter()
        .map(|tool| {
            let text = |key: &str| tool[key].as_str().map(line).unwrap_or_default();
            format!("{}: {}", text("name"), text("description"))
        })
        .collect();
    Ok(told.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_as_models_write_them() {
        let call = |name: &str, arguments: Value| Ok(Wish::Call { name: name.to_owned(), arguments });
        let cases = [
            (SEARCH, r#"{"query":"mail"}"#, Ok(Wish::Search { query: "mail".into(), limit: 5 })),
            (SEARCH, r#"{"query":"mail","limit":500}"#, Ok(Wish::Search { query: "mail".into(), limit: 50 })),
            (SEARCH, r#"{"query":" "}"#, Err("error: `query` is missing".to_owned())),
            (DESCRIBE, r#"{"name":"x"}"#, Ok(Wish::Describe("x".into()))),
            (CALL, r#"{"name":"x"}"#, call("x", json!({}))),
            (CALL, r#"{"name":"x","arguments":{"n":1}}"#, call("x", json!({ "n": 1 }))),
            (CALL, r#"{"name":"x","arguments":"{\"n\":1}"}"#, call("x", json!({ "n": 1 }))),
            (CALL, r#"{"name":"x","arguments":[1]}"#, Err("error: `arguments` must be an object".to_owned())),
            ("x", "", call("x", json!({}))),
            ("x", "[]", Err("error: the arguments must be a JSON object".to_owned())),
        ];
        for (name, arguments, expected) in cases {
            assert_eq!(Kit::Search.wish(name, arguments), expected, "{name} {arguments}");
        }
        assert!(Kit::Search.wish("x", "{").is_err_and(|error| error.contains("no JSON")));
    }

    #[test]
    fn names_are_made_for_endpoints() {
        let offered =
            |name: &str, alias: String| Offered { alias, name: name.into(), definition: Value::Null };
        let mut all = Vec::new();
        for name in ["mail.send", "mail_send", "mail-send"] {
            let made = alias(name, &all);
            all.push(offered(name, made));
        }
        let aliases: Vec<&str> = all.iter().map(|tool| tool.alias.as_str()).collect();
        assert_eq!(aliases, ["mail_send", "mail_send_2", "mail-send"]);
        let kit = Kit::Named(all);
        assert_eq!(
            kit.wish("mail_send_2", "{}"),
            Ok(Wish::Call { name: "mail_send".into(), arguments: json!({}) })
        );
        assert!(kit.wish("rm", "{}").is_err(), "no others");
    }
}
