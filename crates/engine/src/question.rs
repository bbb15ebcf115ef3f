//! The question a client puts to its user about a held call, and how the answer is read.

use serde_json::json;
use toolbooth_core::call::Waiting;
use toolbooth_core::held::{Answerer, HeldCall, HeldVerdict, Remember};
use toolbooth_core::json::RawJson;
use toolbooth_core::lint::revealed;
use toolbooth_wire::RpcError;

/// How much of the arguments is shown.
const MAX_SHOWN: usize = 2000;

/// The form: what is asked, and how it may be answered.
pub(crate) fn form(held: &HeldCall, waiting: &Waiting) -> RawJson {
    let shown: String = held.arguments.as_str().chars().take(MAX_SHOWN).collect();
    let cut = if shown.len() < held.arguments.as_str().len() { " …" } else { "" };
    let mut properties = json!({
        "decision": { "type": "string", "enum": ["approve", "reject"], "title": "Decision" },
        "reason": { "type": "string", "title": "Reason, if rejected" }
    });
    // What is asked every time is not remembered.
    if held.answerer == Answerer::CallerOrApprover {
        properties["remember"] = json!({
            "type": "string", "enum": ["once", "session", "always"], "title": "Remember", "default": "once"
        });
    }
    let message = format!("{}. Run `{}` with {shown}{cut}?", waiting.reason, held.exposed);
    // A person decides by what they see: nothing in it may be hidden or read in another order.
    let message = revealed(&message);
    RawJson::from_value(&json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": properties,
            "required": ["decision"]
        },
        "_meta": { "toolbooth/held": held.id.to_string() }
    }))
}

/// An answer without a wish to remember it, where the question is asked every time: the wish counts for nothing.
pub(crate) fn without_memory(verdict: HeldVerdict, answerer: Answerer) -> HeldVerdict {
    match verdict {
        HeldVerdict::Approve { arguments, .. } if answerer != Answerer::CallerOrApprover => {
            HeldVerdict::Approve { arguments, remember: None }
        }
        verdict => verdict,
    }
}

/// Reads an answer: a verdict, or nothing where the question was put away without one.
pub(crate) fn read(reply: Result<RawJson, RpcError>) -> Option<(HeldVerdict, Option<String>)> {
    let reply = reply.ok()?;
    let text = |path: &[&str]| reply.at(path).and_then(|value| value.string().map(|text| text.into_owned()));
    let note = text(&["content", "reason"]).filter(|reason| !reason.is_empty());
    match text(&["action"])?.as_str() {
        "accept" => match text(&["content", "decision"])?.as_str() {
            "approve" => {
                let remember = text(&["content", "remember"]).and_then(|word| word.parse::<Remember>().ok());
                Some((HeldVerdict::Approve { arguments: None, remember }, None))
            }
            "reject" => Some((HeldVerdict::Reject, note)),
            _ => None,
        },
        "decline" => Some((HeldVerdict::Reject, note)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let read = |text: &str| read(Ok(RawJson::parse(text.to_owned()).expect("JSON")));
        let yes = |remember| Some((HeldVerdict::Approve { arguments: None, remember }, None));
        let no = |note: Option<&str>| Some((HeldVerdict::Reject, note.map(str::to_owned)));
        let cases = [
            (r#"{"action":"accept","content":{"decision":"approve"}}"#, yes(None)),
            (
                r#"{"action":"accept","content":{"decision":"approve","remember":"always"}}"#,
                yes(Some(Remember::Always)),
            ),
            (r#"{"action":"accept","content":{"decision":"reject","reason":"no"}}"#, no(Some("no"))),
            (r#"{"action":"decline"}"#, no(None)),
            (r#"{"action":"cancel"}"#, None),
            (r#"{"action":"accept","content":{}}"#, None),
            (r#"{"action":"accept"}"#, None),
            (r#"{"action":"accept","content":{"decision":"yes"}}"#, None),
            (r#"{"action":"accept","content":{"decision":true}}"#, None),
            (r#"{}"#, None),
        ];
        for (reply, expected) in cases {
            assert_eq!(read(reply), expected, "{reply}");
        }
        assert_eq!(super::read(Err(RpcError::new(-1, "gone"))), None);
    }
}
