//! A question of a tool's server: answered from the command line or asked at the terminal.

use super::super::{argument_kind, call_arguments};
use super::asked_question::{AskedQuestion, QuestionMode, accepted, dismissal};
use super::{page_prompt, sampling_prompt};
use crate::failure::CommandFailure;
use crate::gateway_handle::GatewayHandle;
use crate::prompter::Prompter;
use crate::render::{self, Paint, Tone, line};
use serde_json::{Value, json};

/// The answer to a question: the body of the request.
pub enum QuestionReply {
    /// An answer to send.
    Send(String),
    /// There is no person to ask.
    Unanswered,
}

/// Answers a question with the pairs of `--answer`, else at the terminal. Only forms are answered with pairs.
pub async fn reply(
    gateway: &GatewayHandle,
    asked: &AskedQuestion,
    pairs: &[(String, String)],
    prompter: &Prompter,
) -> Result<QuestionReply, CommandFailure> {
    let mode = asked.mode();
    if !pairs.is_empty() && mode == QuestionMode::Form {
        return from_pairs(asked, pairs).map(QuestionReply::Send);
    }
    if !prompter.answers_questions() {
        return Ok(QuestionReply::Unanswered);
    }
    Ok(QuestionReply::Send(match mode {
        QuestionMode::Form => at_terminal(asked, prompter).await,
        QuestionMode::Page => page_prompt::at_terminal(asked, prompter).await,
        QuestionMode::Sampling => sampling_prompt::at_terminal(gateway, asked, prompter).await,
    }))
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
    use crate::exit::Exit;

    fn pairs(words: &[(&str, &str)]) -> Vec<(String, String)> {
        words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn answers_get_the_types_of_the_form() {
        let body =
            from_pairs(&AskedQuestion::for_tests(), &pairs(&[("name", "Bo"), ("age", "5"), ("later", "x")]));
        assert_eq!(body.ok().as_deref(), Some(r#"{"action":"accept","content":{"name":"Bo","age":5}}"#));
    }

    #[test]
    fn answers_that_fit_no_field_are_refused_with_the_fields() {
        let failure =
            from_pairs(&AskedQuestion::for_tests(), &pairs(&[("nmae", "Bo")])).expect_err("refused");
        assert_eq!((failure.exit, &*failure.fault.code), (Exit::Usage, "usage.answer"));
        assert!(failure.fault.hint.as_deref().is_some_and(|hint| hint.contains("age")), "{failure:?}");
    }
}
