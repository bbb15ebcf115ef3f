//! The tools that a plan may use, parsed from `_mcp_data`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use toolbooth_core::json::RawJson;
use toolbooth_core::schema::PublicSchema;

/// The maximum length of the reference, which is part of a prompt.
const LONGEST_REFERENCE: usize = 120_000;
/// The maximum length of a description in it.
const LONGEST_DESCRIPTION: usize = 400;
/// The planner's own tool, which plans must not use.
const SELF: &str = "plan_task";

/// The tools that the caller may use.
#[derive(Debug, Default)]
pub(super) struct PlannerCatalog {
    servers: Vec<PlannerCatalogServer>,
    parameters: BTreeMap<String, Value>,
}

#[derive(Debug)]
struct PlannerCatalogServer {
    name: String,
    description: String,
    tools: Vec<(String, String)>,
}

impl PlannerCatalog {
    /// Parses the catalog that the gateway supplied.
    pub(super) fn read(data: &Value) -> Self {
        let mut known = Self::default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for server in data["available_servers"].as_array().into_iter().flatten() {
            let mut tools = Vec::new();
            for tool in server["tools"].as_array().into_iter().flatten() {
                let name = text(&tool["name"]);
                if name.is_empty() || name.ends_with(SELF) {
                    continue;
                }
                tools.push((name.clone(), text(&tool["description"])));
                known.parameters.insert(name, tool["parameters"].clone());
            }
            if !tools.is_empty() {
                let (name, description) = (text(&server["server_name"]), text(&server["description"]));
                known.servers.push(PlannerCatalogServer { name, description, tools });
            }
        }
        known
    }

    /// The names of all tools.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters.keys().map(String::as_str)
    }

    /// The errors of a step, in words for the model.
    pub(super) fn objections(&self, tool: &str, arguments: &RawJson) -> Vec<String> {
        let Some(parameters) = self.parameters.get(tool) else {
            let shown: String = tool.chars().take(100).collect();
            return vec![format!("there is no tool `{shown}`{}", self.nearest(tool))];
        };
        let schema = PublicSchema::compile(&RawJson::from_value(parameters));
        let given = arguments.members().unwrap_or_default();
        let unknown = given.iter().filter(|member| !schema.takes(&member.key));
        let unknown = unknown.map(|member| {
            let shown: String = member.key.chars().take(100).collect();
            format!("`{tool}` takes no argument `{shown}`")
        });
        let wrong =
            schema.objections(arguments).into_iter().map(|objection| format!("`{tool}`: {objection}"));
        unknown.chain(wrong).collect()
    }

    /// A suggestion: the tool with the same last word, if there is exactly one.
    fn nearest(&self, tool: &str) -> String {
        let last = |name: &str| name.rsplit(['_', '.']).next().unwrap_or_default().to_owned();
        let last_word = last(tool);
        let mut alike = self.names().filter(|name| last(name) == last_word);
        match (alike.next(), alike.next()) {
            (Some(one), None) => format!(" (did you mean `{one}`?)"),
            _ => String::new(),
        }
    }

    /// A description of all tools, for a prompt.
    pub(super) fn reference(&self) -> String {
        if self.servers.is_empty() {
            return "(No tools available)\n".into();
        }
        let mut text = String::new();
        for server in &self.servers {
            let about = match server.description.is_empty() {
                true => String::new(),
                false => format!(" ({})", line(&server.description)),
            };
            let _ = writeln!(text, "Server: {}{about}", server.name);
            for (name, description) in &server.tools {
                let _ = writeln!(text, "  Tool: {name}\n    Description: {}", line(description));
                if let Some(parameters) = self.parameters.get(name) {
                    write_parameters(&mut text, parameters);
                }
                if text.len() > LONGEST_REFERENCE {
                    text.push_str("(There are more tools than fit here.)\n");
                    return text;
                }
            }
            text.push('\n');
        }
        text
    }
}

fn write_parameters(text: &mut String, parameters: &Value) {
    let required: Vec<&str> =
        parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, schema) in parameters["properties"].as_object().into_iter().flatten() {
        let need = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let kind = match &schema["type"] {
            Value::String(kind) => kind.clone(),
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
            _ => "any".into(),
        };
        let about =
            schema["description"].as_str().map(|about| format!(": {}", line(about))).unwrap_or_default();
        let _ = writeln!(text, "    - {name} ({kind}, {need}){about}");
    }
}

/// A text on one line, truncated.
fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(LONGEST_DESCRIPTION).collect()
}
