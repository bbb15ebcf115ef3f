//! Sampling requests of servers to a person: what is shown of them, and the answer.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::lint::revealed;
use toolbooth_engine::{SamplingAnswer, SamplingDraft};
use utoipa::ToSchema;

/// The longest request that a person is shown, in bytes of JSON.
const MAX_REQUEST_BYTES: usize = 256 << 10;
/// The maximum number of messages of a request.
const MAX_MESSAGES: usize = 256;
/// The maximum number of model names that are shown.
const MAX_HINTS: usize = 16;
/// The longest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// The model name in an answer that a person wrote.
const PERSON: &str = "person";

/// A server's request to a language model, which a person answers.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SamplingRequestView {
    /// The conversation that the server wants to have continued.
    #[schema(min_items = 1, max_items = 256)]
    messages: Vec<SamplingMessageView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    /// Names of models that the server prefers, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_hints: Vec<String>,
    /// The server's priorities for the choice of a model, from 0 to 1, such as `speed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    priorities: Option<Value>,
    /// The longest answer that the server wants, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// Whether the gateway's model can draft an answer: `POST /calls/{id}/draft`.
    can_draft: bool,
}

/// A message of a sampling request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SamplingMessageView {
    /// `user` or `assistant`.
    role: String,
    /// The text, with hidden characters escaped.
    text: String,
    /// Kinds of content that are not shown, such as `image`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other: Vec<String>,
}

impl SamplingRequestView {
    /// Reads the parameters of `sampling/createMessage`; the error says why a person is not asked.
    pub(super) fn of(params: &RawJson, drafts: DraftSupport) -> Result<Self, &'static str> {
        if params.as_bytes().len() > MAX_REQUEST_BYTES {
            return Err("the sampling request is too long");
        }
        let params: Value = params.read().map_err(|_| "the sampling request cannot be read")?;
        if params.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty()) {
            return Err("a person cannot use the tools of a sampling request");
        }
        let messages = params["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        if messages.is_empty() || messages.len() > MAX_MESSAGES {
            return Err("a sampling request must have 1 to 256 messages");
        }
        let messages: Option<Vec<_>> = messages.iter().map(SamplingMessageView::of).collect();
        let preferences = &params["modelPreferences"];
        let hints = preferences["hints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let hints = hints.iter().filter_map(|hint| hint["name"].as_str()).take(MAX_HINTS);
        let priority = |name: &str| preferences[format!("{name}Priority")].as_f64();
        let priorities = ["cost", "speed", "intelligence"].map(|name| (name.to_owned(), priority(name)));
        let priorities: serde_json::Map<String, Value> =
            priorities.into_iter().filter_map(|(name, value)| Some((name, Value::from(value?)))).collect();
        Ok(Self {
            messages: messages.ok_or("a message of the sampling request cannot be read")?,
            system_prompt: params["systemPrompt"].as_str().map(|text| revealed(text).into_owned()),
            model_hints: hints.map(|name| revealed(name).chars().take(200).collect()).collect(),
            priorities: (!priorities.is_empty()).then_some(Value::Object(priorities)),
            max_tokens: params["maxTokens"].as_u64(),
            temperature: params["temperature"].as_f64(),
            can_draft: drafts == DraftSupport::Possible,
        })
    }
}

/// Whether the gateway's model can draft answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DraftSupport {
    /// It can.
    Possible,
    /// No model is configured.
    Unavailable,
}

impl SamplingMessageView {
    fn of(message: &Value) -> Option<Self> {
        let role = message["role"].as_str().filter(|role| matches!(*role, "user" | "assistant"))?;
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.as_slice(),
            block @ Value::Object(_) => std::slice::from_ref(block),
            _ => return None,
        };
        let (mut texts, mut other) = (Vec::new(), Vec::new());
        for block in blocks {
            match (block["type"].as_str()?, block["text"].as_str()) {
                ("text", Some(text)) => texts.push(revealed(text)),
                (kind, _) => other.push(revealed(kind).chars().take(40).collect()),
            }
        }
        Some(Self { role: role.to_owned(), text: texts.join("\n"), other })
    }
}

/// The answer to a sampling request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SamplingText {
    text: String,
}

/// The result for the server, and how the person made it.
pub(super) fn result<'a>(
    content: &RawJson,
    draft: Option<&'a SamplingDraft>,
) -> Result<(RawJson, SamplingAnswer<'a>), Problem> {
    let refused = |message: &str| Problem {
        code: "call.bad-answer",
        blame: Blame::Caller,
        message: format!("the answer does not match the question: {message}"),
        hint: Some("the question is still open: send {\"text\": \"…\"} as `content`, or decline".into()),
    };
    let SamplingText { text } =
        content.read().map_err(|_| refused("`content` must be an object with a `text`"))?;
    if text.trim().is_empty() {
        return Err(refused("the text is empty"));
    }
    if text.len() > MAX_ANSWER_BYTES {
        return Err(refused("the text is longer than 256 KiB"));
    }
    let (model, answer) = match draft {
        Some(draft) if draft.text == text => (draft.model.as_str(), SamplingAnswer::Drafted(&draft.model)),
        Some(draft) => (PERSON, SamplingAnswer::Edited(&draft.model)),
        None => (PERSON, SamplingAnswer::Written),
    };
    let result = RawJson::from_value(&json!({
        "role": "assistant", "content": { "type": "text", "text": text }, "model": model, "stopReason": "endTurn",
    }));
    Ok((result, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(params: &Value) -> Result<SamplingRequestView, &'static str> {
        SamplingRequestView::of(&RawJson::from_value(params), DraftSupport::Unavailable)
    }

    #[test]
    fn a_request_is_shown_with_its_text_and_without_hidden_characters() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let params = json!({
            "messages": [
                {"role": "user", "content": text("Say \u{202e}hi")},
                {"role": "assistant", "content": [text("a"), text("b"), {"type": "image", "data": "AA=="}]},
            ],
            "systemPrompt": "Be brief.", "maxTokens": 50, "temperature": 0.5,
            "modelPreferences": {"hints": [{"name": "small"}, {}], "speedPriority": 0.9},
        });
        let shown = serde_json::to_value(view(&params).expect("a request")).expect("JSON");
        assert_eq!(
            shown,
            json!({
                "messages": [
                    {"role": "user", "text": "Say \\u{202e}hi"},
                    {"role": "assistant", "text": "a\nb", "other": ["image"]},
                ],
                "system_prompt": "Be brief.", "model_hints": ["small"], "priorities": {"speed": 0.9},
                "max_tokens": 50, "temperature": 0.5, "can_draft": false,
            })
        );
    }

    #[test]
    fn a_request_that_a_person_cannot_answer_is_refused() {
        let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
        let long = "x".repeat(MAX_REQUEST_BYTES);
        let cases = [
            (json!({}), "1 to 256"),
            (json!({"messages": []}), "1 to 256"),
            (json!({"messages": vec![message.clone(); 257]}), "1 to 256"),
            (
                json!({"messages": [{"role": "system", "content": {"type": "text", "text": "x"}}]}),
                "cannot be read",
            ),
            (json!({"messages": [{"role": "user", "content": "hi"}]}), "cannot be read"),
            (json!({"messages": [message], "tools": [{"name": "x"}]}), "tools"),
            (json!({"messages": [message], "systemPrompt": long}), "too long"),
        ];
        for (params, expected) in cases {
            let refused = view(&params).expect_err("refused");
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn an_answer_says_whether_the_model_or_a_person_wrote_it() {
        let draft = SamplingDraft { text: "drip".into(), model: "small-1".into() };
        let cases = [
            ("drip", Some(&draft), ("small-1", SamplingAnswer::Drafted("small-1"))),
            ("drop", Some(&draft), ("person", SamplingAnswer::Edited("small-1"))),
            ("drop", None, ("person", SamplingAnswer::Written)),
        ];
        for (text, draft, (model, expected)) in cases {
            let (sent, answer) =
                result(&RawJson::from_value(&json!({"text": text})), draft).expect("an answer");
            let sent: Value = sent.read().expect("JSON");
            assert_eq!((&sent["content"]["text"], &sent["model"]), (&json!(text), &json!(model)));
            assert_eq!(answer, expected);
        }
        for content in [json!({}), json!({"text": " "}), json!({"text": 3}), json!({"text": "x", "more": 1})]
        {
            let refused = result(&RawJson::from_value(&content), None).expect_err("refused");
            assert_eq!(refused.code, "call.bad-answer", "{content}");
        }
    }
}
