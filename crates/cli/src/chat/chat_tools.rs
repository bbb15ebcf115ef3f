//! The tools of a chat: a few by name, or the gateway's meta tools, which find and call all others.

use crate::commands::tools;
use crate::failure::CommandFailure;
use crate::gateway_handle::GatewayHandle;
use serde_json::{Value, json};
use toolbooth_core::exposure::meta;

/// The longest name that endpoints accept.
const MAX_NAME: usize = 64;
/// The maximum number of tools by name.
const MAX_TOOLS: usize = 64;

/// The meta tools that only list tools.
const QUERY_TOOLS: [&str; 3] = [meta::SEARCH, meta::LIST, meta::DESCRIBE];

/// The tools of a chat.
#[derive(Debug)]
pub enum ChatTools {
    /// All tools of the caller, through the meta tools: a large catalog costs no more tokens than a small one.
    Search,
    /// Only these tools.
    Named(Vec<NamedTool>),
}

/// A tool that is given by name.
#[derive(Debug)]
pub struct NamedTool {
    /// The name for the endpoint.
    alias: String,
    /// The name in the gateway.
    name: String,
    definition: Value,
}

/// A tool request of the model.
#[derive(Debug, PartialEq)]
pub enum ToolRequest {
    /// A query about tools, through a meta tool.
    Look { name: &'static str, arguments: Value },
    /// A call of a tool, by the gateway's name.
    Call { name: String, arguments: Value },
}

impl ChatTools {
    /// Looks up these tools.
    pub async fn of(gateway: &GatewayHandle, names: &[String]) -> Result<Self, CommandFailure> {
        if names.len() > MAX_TOOLS {
            let message = format!("--tools accepts at most {MAX_TOOLS} tools");
            return Err(CommandFailure::misuse(
                "usage.tools",
                message,
                Some("without it the model searches for tools"),
            ));
        }
        let mut offered: Vec<NamedTool> = Vec::new();
        for name in names {
            let tool = tools::find(gateway, name).await?;
            let name = tool["name"].as_str().unwrap_or(name).to_owned();
            if offered.iter().any(|known| known.name == name) {
                continue;
            }
            let alias = alias(&name, &offered);
            let definition =
                definition(&alias, tool["description"].as_str().unwrap_or_default(), &tool["parameters"]);
            offered.push(NamedTool { alias, name, definition });
        }
        Ok(Self::Named(offered))
    }

    /// The definitions in the format of the endpoint.
    pub fn definitions(&self) -> Vec<Value> {
        match self {
            Self::Named(offered) => offered.iter().map(|tool| tool.definition.clone()).collect(),
            Self::Search => {
                meta::definitions().iter().filter_map(|tool| tool.read().ok()).map(offer).collect()
            }
        }
    }

    /// Instructions for the model about its tools.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Search => {
                "Find tools with mcp_tool_search before you say that something cannot be done, and call what you \
                 found with mcp_tool_call."
            }
            Self::Named(_) => "There are no other tools than the ones you are given.",
        }
    }

    /// Parses a tool request. The error text is for the model, so that it can correct the request.
    pub fn parse_request(&self, name: &str, arguments: &str) -> Result<ToolRequest, String> {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let arguments: Value = serde_json::from_str(text)
            .map_err(|error| format!("error: the arguments are not valid JSON: {error}"))?;
        if !arguments.is_object() {
            return Err("error: the arguments must be a JSON object".to_owned());
        }
        match (self, name) {
            (Self::Named(offered), name) => {
                let found = offered.iter().find(|tool| tool.alias == name || tool.name == name);
                let found = found.ok_or_else(|| format!("error: there is no tool `{name}`"))?;
                Ok(ToolRequest::Call { name: found.name.clone(), arguments })
            }
            (Self::Search, meta::CALL) => {
                let inner = match &arguments["arguments"] {
                    Value::Null => json!({}),
                    // Some models encode the object as a string.
                    Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
                    other => other.clone(),
                };
                let name = arguments["name"].as_str().map(str::trim).filter(|name| !name.is_empty());
                match (name, inner.is_object()) {
                    (None, _) => Err("error: `name` is missing".to_owned()),
                    (_, false) => Err("error: `arguments` must be an object".to_owned()),
                    (Some(name), true) => Ok(ToolRequest::Call { name: name.to_owned(), arguments: inner }),
                }
            }
            (Self::Search, name) if let Some(name) = QUERY_TOOLS.iter().find(|known| **known == name) => {
                Ok(ToolRequest::Look { name, arguments })
            }
            // A model may call a tool from a search result directly.
            (Self::Search, name) => Ok(ToolRequest::Call { name: name.to_owned(), arguments }),
        }
    }
}

/// A meta tool in the format of the endpoint.
fn offer(tool: Value) -> Value {
    let text = |key: &str| tool[key].as_str().unwrap_or_default();
    definition(text("name"), text("description"), &tool["inputSchema"])
}

fn definition(name: &str, description: &str, parameters: &Value) -> Value {
    let parameters = if parameters.is_object() { parameters.clone() } else { json!({ "type": "object" }) };
    json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
}

/// A unique name that endpoints accept.
fn alias(name: &str, taken: &[NamedTool]) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let base: String = name.chars().map(safe).take(MAX_NAME).collect();
    let is_taken = |alias: &str| taken.iter().any(|known| known.alias == alias);
    let mut alias = base.clone();
    let mut number = 2;
    while is_taken(&alias) {
        let end = format!("_{number}");
        alias = format!("{}{end}", &base[..base.len().min(MAX_NAME - end.len())]);
        number += 1;
    }
    alias
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::history::ChatHistory;

    #[test]
    fn tool_requests_are_parsed_as_models_write_them() {
        let call = |name: &str, arguments: Value| Ok(ToolRequest::Call { name: name.to_owned(), arguments });
        let cases = [
            (
                meta::SEARCH,
                r#"{"query":"mail"}"#,
                Ok(ToolRequest::Look { name: meta::SEARCH, arguments: json!({ "query": "mail" }) }),
            ),
            (
                meta::DESCRIBE,
                r#"{"name":"x"}"#,
                Ok(ToolRequest::Look { name: meta::DESCRIBE, arguments: json!({ "name": "x" }) }),
            ),
            (meta::CALL, "{}", Err("error: `name` is missing".to_owned())),
            (meta::CALL, r#"{"name":"x"}"#, call("x", json!({}))),
            (meta::CALL, r#"{"name":"x","arguments":{"n":1}}"#, call("x", json!({ "n": 1 }))),
            (meta::CALL, r#"{"name":"x","arguments":"{\"n\":1}"}"#, call("x", json!({ "n": 1 }))),
            (
                meta::CALL,
                r#"{"name":"x","arguments":[1]}"#,
                Err("error: `arguments` must be an object".to_owned()),
            ),
            ("x", "", call("x", json!({}))),
            ("x", "[]", Err("error: the arguments must be a JSON object".to_owned())),
        ];
        for (name, arguments, expected) in cases {
            assert_eq!(ChatTools::Search.parse_request(name, arguments), expected, "{name} {arguments}");
        }
        assert!(
            ChatTools::Search.parse_request("x", "{").is_err_and(|error| error.contains("not valid JSON"))
        );
    }

    #[test]
    fn advice_names_only_tools_that_are_given() {
        for tools in [ChatTools::Search, ChatTools::Named(Vec::new())] {
            let offered: Vec<String> =
                tools.definitions().iter().map(|tool| tool["function"]["name"].to_string()).collect();
            let messages = ChatHistory::default().messages(tools.advice());
            let text = messages[0]["content"].as_str().expect("a text");
            let named = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            for name in named.filter(|word| word.starts_with("mcp_")) {
                assert!(offered.contains(&format!("\"{name}\"")), "{name} of {offered:?}");
            }
        }
    }

    #[test]
    fn aliases_are_valid_and_unique() {
        let offered =
            |name: &str, alias: String| NamedTool { alias, name: name.into(), definition: Value::Null };
        let mut all = Vec::new();
        for name in ["mail.send", "mail_send", "mail-send"] {
            let made = alias(name, &all);
            all.push(offered(name, made));
        }
        let aliases: Vec<&str> = all.iter().map(|tool| tool.alias.as_str()).collect();
        assert_eq!(aliases, ["mail_send", "mail_send_2", "mail-send"]);
        let tools = ChatTools::Named(all);
        assert_eq!(
            tools.parse_request("mail_send_2", "{}"),
            Ok(ToolRequest::Call { name: "mail_send".into(), arguments: json!({}) })
        );
        assert!(tools.parse_request("rm", "{}").is_err(), "no others");
    }
}
