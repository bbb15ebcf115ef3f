//! What a model is given to work with: a few tools by name, or the gateway's meta tools, by which it finds and calls
//! all others.

use crate::commands::tools;
use crate::failure::Failure;
use crate::reach::Reach;
use serde_json::{Value, json};
use toolbooth_core::exposure::meta;

/// The longest name that endpoints take.
const LONGEST_NAME: usize = 64;
/// The most tools that can be given by name.
const MOST: usize = 64;

/// The meta tools that only look.
const LOOKS: [&str; 3] = [meta::SEARCH, meta::LIST, meta::DESCRIBE];

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
    /// A look at what tools there are, by one of the gateway's own.
    Look { name: &'static str, arguments: Value },
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
            Self::Search => {
                meta::definitions().iter().filter_map(|tool| tool.read().ok()).map(offer).collect()
            }
        }
    }

    /// What a model should know about its tools.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Search => {
                "Find tools with mcp_tool_search before you say that something cannot be done, and call what you \
                 found with mcp_tool_call."
            }
            Self::Named(_) => "There are no other tools than the ones you are given.",
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
        match (self, name) {
            (Self::Named(offered), name) => {
                let found = offered.iter().find(|tool| tool.alias == name || tool.name == name);
                let found = found.ok_or_else(|| format!("error: there is no tool `{name}`"))?;
                Ok(Wish::Call { name: found.name.clone(), arguments })
            }
            (Self::Search, meta::CALL) => {
                let inner = match &arguments["arguments"] {
                    Value::Null => json!({}),
                    // Some models write the object as a text.
                    Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
                    other => other.clone(),
                };
                let name = arguments["name"].as_str().map(str::trim).filter(|name| !name.is_empty());
                match (name, inner.is_object()) {
                    (None, _) => Err("error: `name` is missing".to_owned()),
                    (_, false) => Err("error: `arguments` must be an object".to_owned()),
                    (Some(name), true) => Ok(Wish::Call { name: name.to_owned(), arguments: inner }),
                }
            }
            (Self::Search, name) if let Some(name) = LOOKS.iter().find(|known| **known == name) => {
                Ok(Wish::Look { name, arguments })
            }
            // A model that has seen a tool in a search may as well call it straight.
            (Self::Search, name) => Ok(Wish::Call { name: name.to_owned(), arguments }),
        }
    }
}

/// A tool of the gateway's own, in the endpoint's form.
fn offer(tool: Value) -> Value {
    let text = |key: &str| tool[key].as_str().unwrap_or_default();
    definition(text("name"), text("description"), &tool["inputSchema"])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::memory::Memory;

    #[test]
    fn wishes_are_read_as_models_write_them() {
        let call = |name: &str, arguments: Value| Ok(Wish::Call { name: name.to_owned(), arguments });
        let cases = [
            (
                meta::SEARCH,
                r#"{"query":"mail"}"#,
                Ok(Wish::Look { name: meta::SEARCH, arguments: json!({ "query": "mail" }) }),
            ),
            (
                meta::DESCRIBE,
                r#"{"name":"x"}"#,
                Ok(Wish::Look { name: meta::DESCRIBE, arguments: json!({ "name": "x" }) }),
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
            assert_eq!(Kit::Search.wish(name, arguments), expected, "{name} {arguments}");
        }
        assert!(Kit::Search.wish("x", "{").is_err_and(|error| error.contains("no JSON")));
    }

    #[test]
    fn advice_names_no_tool_that_is_not_given() {
        for kit in [Kit::Search, Kit::Named(Vec::new())] {
            let offered: Vec<String> =
                kit.definitions().iter().map(|tool| tool["function"]["name"].to_string()).collect();
            let messages = Memory::default().messages(kit.advice());
            let told = messages[0]["content"].as_str().expect("a text");
            let named = told.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            for name in named.filter(|word| word.starts_with("mcp_")) {
                assert!(offered.contains(&format!("\"{name}\"")), "{name} of {offered:?}");
            }
        }
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
