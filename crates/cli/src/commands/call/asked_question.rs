//! A question of a tool's server, and the bodies that answer it.

use super::super::argument_kind;
use crate::exit::Exit;
use crate::global_options::GlobalOptions;
use crate::render::{self, line, plain};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The gateway's answer for a call whose server asks a question.
#[derive(Debug, Deserialize, Serialize)]
pub struct AskedQuestion {
    kind: String,
    /// Id of the call.
    pub call: String,
    /// The question: its server, its message, and the schema of the answer, the page or the sampling request.
    pub question: Value,
}

/// The kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionMode {
    /// A form to fill in.
    Form,
    /// A page to open.
    Page,
    /// A request to a language model.
    Sampling,
}

impl AskedQuestion {
    /// The kind of the question.
    pub(super) fn mode(&self) -> QuestionMode {
        match self.question["mode"].as_str() {
            Some("url") => QuestionMode::Page,
            Some("sampling") => QuestionMode::Sampling,
            _ => QuestionMode::Form,
        }
    }

    /// The schema of a form's answer.
    pub(super) fn schema(&self) -> &Value {
        &self.question["schema"]
    }

    /// The question, with the name of its server.
    pub(super) fn message(&self) -> String {
        let text = |key: &str| self.question[key].as_str().map(plain).unwrap_or_default();
        match self.question["server"].as_str() {
            Some(_) => format!("Server `{}` asks: {}", text("server"), text("message")),
            None => text("message"),
        }
    }

    /// The fields of the form, as the schema orders them.
    pub(super) fn fields(&self) -> Vec<(&str, &Value)> {
        let properties = self.schema()["properties"].as_object();
        properties.into_iter().flatten().map(|(name, field)| (name.as_str(), field)).collect()
    }

    /// Whether a field of the form is required.
    pub(super) fn requires(&self, field: &str) -> bool {
        self.schema()["required"].as_array().is_some_and(|names| names.iter().any(|name| name == field))
    }

    /// The address of the page to open, and its host.
    pub(super) fn address(&self) -> (String, String) {
        let text = |key: &str| self.question["page"][key].as_str().map(line).unwrap_or_default();
        (text("url"), text("host"))
    }

    /// The question and its fields, for a user who is not at a terminal.
    pub fn summary(&self) -> String {
        if self.mode() == QuestionMode::Page {
            return format!("{} {}", self.message(), self.address().0);
        }
        let fields: Vec<String> = self
            .fields()
            .iter()
            .map(|(name, field)| format!("{} ({})", line(name), argument_kind::kind_of(field)))
            .collect();
        match fields.is_empty() {
            true => self.message(),
            false => format!("{} Fields: {}.", self.message(), fields.join(", ")),
        }
    }

    /// Prints the id of the call to standard output and the question to standard error.
    pub fn print(&self, global: &GlobalOptions) -> Exit {
        if global.json {
            render::print_json(self);
        } else {
            let how = match self.mode() {
                QuestionMode::Form => "Answer it with --answer KEY=VALUE, or run the command at a terminal.",
                QuestionMode::Page | QuestionMode::Sampling => "Run the command at a terminal to answer it.",
            };
            render::complain(&format!("{}\n", render::wrap(&format!("{} {how}", self.summary()), 0)));
            render::print(&format!("{}\n", line(&self.call)));
        }
        Exit::Held
    }
}

/// The body that dismisses a question.
pub fn dismissal() -> String {
    json!({ "action": "cancel" }).to_string()
}

/// The body that answers a question.
pub(super) fn accepted(content: &str) -> String {
    format!("{{\"action\":\"accept\",\"content\":{content}}}")
}

#[cfg(test)]
impl AskedQuestion {
    /// A form with two fields.
    pub(super) fn for_tests() -> Self {
        let properties = json!({"name": {"type": "string"}, "age": {"type": "integer"}});
        let schema = json!({"type": "object", "properties": properties, "required": ["name"]});
        let question = json!({"server": "inn", "message": "Who comes?", "schema": schema});
        Self { kind: "question".into(), call: "7".into(), question }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_and_its_fields_are_shown() {
        let shown = AskedQuestion::for_tests().summary();
        assert!(shown.starts_with("Server `inn` asks: Who comes? Fields: "), "{shown}");
    }

    #[test]
    fn a_page_is_shown_with_its_address() {
        let page = json!({"url": "https://inn.example/x", "host": "inn.example", "is_complete": false});
        let question = json!({"server": "inn", "mode": "url", "message": "Please pay.", "page": page});
        let asked = AskedQuestion { kind: "question".into(), call: "7".into(), question };
        assert_eq!(asked.summary(), "Server `inn` asks: Please pay. https://inn.example/x");
        assert_eq!(asked.address().1, "inn.example");
    }
}
