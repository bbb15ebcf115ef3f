//! A server asks for an answer of a language model. The user writes it, lets the gateway's model draft it, or declines.

use super::asked_question::{AskedQuestion, accepted, dismissal};
use crate::gateway_handle::GatewayHandle;
use crate::prompter::Prompter;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Tone, line, plain};
use serde_json::{Value, json};

/// The line that requests a draft.
const DRAFT: &str = "/draft";
/// The line that declines.
const DECLINE: &str = "/decline";

/// The request as the user reads it. Texts of the server are indented, so that they cannot pass for texts of this command.
fn shown(request: &Value) -> String {
    let mut text = String::new();
    let mut add = |title: &str, words: &str| {
        text.push_str(&format!("{title}\n  {}\n", plain(words).replace('\n', "\n  ")));
    };
    if let Some(system) = request["system_prompt"].as_str() {
        add("system prompt:", system);
    }
    for message in request["messages"].as_array().into_iter().flatten() {
        let other = message["other"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let other: Vec<String> = other.map(|kind| format!("[{}]", line(kind))).collect();
        let words = message["text"].as_str().unwrap_or_default();
        let role = line(message["role"].as_str().unwrap_or_default());
        add(&format!("{role}:"), format!("{words} {}", other.join(" ")).trim_end());
    }
    let mut limits = Vec::new();
    if let Some(tokens) = request["max_tokens"].as_u64() {
        limits.push(format!("at most {tokens} tokens"));
    }
    let hints = request["model_hints"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let hints: Vec<String> = hints.map(line).collect();
    if !hints.is_empty() {
        limits.push(format!("preferred models: {}", hints.join(", ")));
    }
    if !limits.is_empty() {
        text.push_str(&format!("({})\n", limits.join("; ")));
    }
    text
}

/// Shows the request and asks for the answer. The end of the input dismisses it.
pub(super) async fn at_terminal(
    gateway: &GatewayHandle,
    asked: &AskedQuestion,
    prompter: &Prompter,
) -> String {
    let paint = Paint::stderr();
    let request = &asked.question["sampling"];
    let server = asked.question["server"].as_str().map(line).unwrap_or_default();
    let title = format!("Server `{server}` asks for an answer of a language model:");
    render::complain(&format!("{}\n{}", paint.tone(Tone::Strong, &title), shown(request)));
    let can_draft = request["can_draft"] == true;
    let how = match can_draft {
        true => format!("Write the answer, {DRAFT} for a draft of the gateway's model, or {DECLINE}: "),
        false => format!("Write the answer, or {DECLINE}: "),
    };
    loop {
        let Some(typed) = prompter.read(&how).await else { return dismissal() };
        let text = match typed.trim() {
            "" => continue,
            DECLINE => return json!({ "action": "decline" }).to_string(),
            DRAFT if can_draft => match approved_draft(gateway, asked, prompter).await {
                Some(text) => text,
                None => continue,
            },
            typed => typed.to_owned(),
        };
        return accepted(&json!({ "text": text }).to_string());
    }
}

/// A draft of the gateway's model, if the user wants to send it.
async fn approved_draft(
    gateway: &GatewayHandle,
    asked: &AskedQuestion,
    prompter: &Prompter,
) -> Option<String> {
    let path = format!("/calls/{}/draft", segment(&asked.call));
    let answer = match gateway.post("drafting an answer", &path, None).await {
        Ok(answer) => answer,
        Err(failure) => {
            render::complain(&render::failure(&failure, Paint::stderr()));
            return None;
        }
    };
    let draft: Value = serde_json::from_slice(&answer).ok()?;
    let text = draft["text"].as_str()?;
    let model = line(draft["model"].as_str().unwrap_or_default());
    render::complain(&format!("{model}:\n  {}\n", plain(text).replace('\n', "\n  ")));
    let typed = prompter.read("Send this answer? [y/N] ").await?;
    matches!(typed.trim(), "y" | "Y" | "yes").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_shown_with_its_limits_and_without_hidden_characters() {
        let request = json!({
            "system_prompt": "Be brief.\nHave you finished? [y/N]",
            "messages": [{"role": "user", "text": "Say \u{202e}hi", "other": ["image"]}],
            "max_tokens": 50, "model_hints": ["small"],
        });
        assert_eq!(
            shown(&request),
            "system prompt:\n  Be brief.\n  Have you finished? [y/N]\nuser:\n  Say \\u{202e}hi [image]\n(at most 50 tokens; \
             preferred models: small)\n"
        );
    }
}
