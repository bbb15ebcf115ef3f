//! A question of a tool's server: answered from the command line or asked at the terminal.

use super::super::{argument_kind, call_arguments};
use crate::exit::Exit;
use crate::failure::CommandFailure;
use crate::global_options::GlobalOptions;
use crate::prompter::Prompter;
use crate::render::{self, Paint, Tone, line, plain};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The gateway's answer for a call whose server asks a question.
#[derive(Debug, Deserialize, Serialize)]
pub struct AskedQuestion {
    kind: String,
    /// Id of the call.
    pub call: String,
    /// The question: its server, message and the schema of the answer.
    pub question: Value,
}

impl AskedQuestion {
    fn schema(&self) -> &Value {
        &self.question["schema"]
    }

    fn message(&self) -> String {
        let text = |key: &str| self.question[key].as_str().map(plain).unwrap_or_default();
        match self.question["server"].as_str() {
            Some(_) => format!("Server `{}` asks: {}", text("server"), text("message")),
            None => text("message"),
        }
    }

    /// The fields of the form, as the schema orders them.
    fn fields(&self) -> Vec<(&str, &Value)> {
        let properties = self.schema()["properties"].as_object();
        properties.into_iter().flatten().map(|(name, field)| (name.as_str(), field)).collect()
    }

    fn requires(&self, field: &str) -> bool {
        self.schema()["required"].as_array().is_some_and(|names| names.iter().any(|name| name == field))
    }

    /// The question and its fields, for a user who is not at a terminal.
    pub fn summary(&self) -> String {
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
            let how = "Answer it with --answer KEY=VALUE, or run the command at a terminal.";
            render::complain(&format!("{}\n", render::wrap(&format!("{} {how}", self.summary()), 0)));
            render::print(&format!("{}\n", line(&self.call)));
        }
        Exit::Held
    }
}

/// The answer to a question: the body of the request.
pub enum QuestionReply {
    /// An answer to send.
    Send(String),
    /// There is no person to ask.
    Unanswered,
}

/// Answers a question with the pairs of `--answer`, else at the terminal.
pub async fn reply(
    asked: &AskedQuestion,
    pairs: &[(String, String)],
    prompter: &Prompter,
) -> Result<QuestionReply, CommandFailure> {
    if !pairs.is_empty() {
        return from_pairs(asked, pairs).map(QuestionReply::Send);
    }
    if !prompter.answers_questions() {
        return Ok(QuestionReply::Unanswered);
    }
    Ok(QuestionReply::Send(at_terminal(asked, prompter).await))
}

/// The body that dismisses a question.
pub fn dismissal() -> String {
    json!({ "action": "cancel" }).to_string()
}

fn accepted(content: &str) -> String {
    format!("{{\"action\":\"accept\",\"content\":{content}}}")
}

fn from_pairs(asked: &AskedQuestion, pairs: &[(String, String)]) -> Result<String, CommandFailure> {
    let fields = asked.fields();
    // A call may have several questions, each with its own fields.
    let mine: Vec<(String, String)> =
        pairs.iter().filter(|(key, _)| fields.iter().any(|(name, _)| name == key)).cloned().collect();
    if mine.is_empty() && !fields.is_empty() {
        let message = format!("no --answer names a field of the question: {}", asked.message());
        let known: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        let hint = format!("its fields are {}", known.join(", "));
        return Err(CommandFailure::misuse("usage.answer", message, Some(&hint)));
    }
    call_arguments::typed("the question", asked.schema(), &mine).map(|content| accepted(&content))
}

/// Asks for each field. The end of the input dismisses the question.
async fn at_terminal(asked: &AskedQuestion, prompter: &Prompter) -> String {
    let paint = Paint::stderr();
    let mut intro = format!("{}\n", paint.tone(Tone::Strong, &asked.message()));
    let mut members = Vec::new();
    for (name, field) in asked.fields() {
        let kind = argument_kind::kind_of(field);
        let note = if asked.requires(name) { kind } else { format!("{kind}, optional") };
        let title = field["title"].as_str().unwrap_or(name);
        let prompt = format!("{} {}: ", line(title), paint.tone(Tone::Dim, &format!("({note})")));
        loop {
            let Some(typed) = prompter.read(&format!("{}{prompt}", std::mem::take(&mut intro))).await else {
                return dismissal();
            };
            let typed = typed.trim();
            if typed.is_empty() && !asked.requires(name) {
                break;
            }
            match argument_kind::value(asked.schema(), field, typed) {
                Ok(value) if !typed.is_empty() => {
                    members.push(format!("{}:{value}", Value::from(name)));
                    break;
                }
                Ok(_) => render::complain("An answer is required; Ctrl-D dismisses the question.\n"),
                Err(expected) => render::complain(&format!("It must be {expected}.\n")),
            }
        }
    }
    if asked.fields().is_empty() {
        let typed = prompter.read(&format!("{intro}Accept? [y/N] ")).await.unwrap_or_default();
        let word = if matches!(typed.trim(), "y" | "Y" | "yes") { "accept" } else { "decline" };
        return json!({ "action": word, "content": {} }).to_string();
    }
    accepted(&format!("{{{}}}", members.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> AskedQuestion {
        let properties = json!({"name": {"type": "string"}, "age": {"type": "integer"}});
        let schema = json!({"type": "object", "properties": properties, "required": ["name"]});
        let question = json!({"server": "inn", "message": "Who comes?", "schema": schema});
        AskedQuestion { kind: "question".into(), call: "7".into(), question }
    }

    fn pairs(words: &[(&str, &str)]) -> Vec<(String, String)> {
        words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn answers_get_the_types_of_the_form() {
        let body = from_pairs(&asked(), &pairs(&[("name", "Bo"), ("age", "5"), ("later", "x")]));
        assert_eq!(body.ok().as_deref(), Some(r#"{"action":"accept","content":{"name":"Bo","age":5}}"#));
    }

    #[test]
    fn answers_that_fit_no_field_are_refused_with_the_fields() {
        let failure = from_pairs(&asked(), &pairs(&[("nmae", "Bo")])).expect_err("refused");
        assert_eq!((failure.exit, &*failure.fault.code), (Exit::Usage, "usage.answer"));
        assert!(failure.fault.hint.as_deref().is_some_and(|hint| hint.contains("age")), "{failure:?}");
    }

    #[test]
    fn the_question_and_its_fields_are_shown() {
        let shown = asked().summary();
        assert!(shown.starts_with("Server `inn` asks: Who comes? Fields: "), "{shown}");
    }
}
