//! The question about a held call that a client shows its user, and the parsing of the answer.

use serde_json::json;
use toolbooth_core::call::HeldDraft;
use toolbooth_core::held::{Answerer, HeldCall, HeldVerdict, Remember};
use toolbooth_core::json::RawJson;
use toolbooth_core::lint::revealed;
use toolbooth_wire::RpcError;

/// How much of the arguments is shown, in characters.
const MAX_SHOWN: usize = 2000;

/// The elicitation form about a held call.
pub(super) fn form(held: &HeldCall, waiting: &HeldDraft) -> RawJson {
    let shown: String = held.arguments.as_str().chars().take(MAX_SHOWN).collect();
    let cut = if shown.len() < held.arguments.as_str().len() { " …" } else { "" };
    let mut properties = json!({
        "decision": { "type": "string", "enum": ["approve", "reject"], "title": "Decision" },
        "reason": { "type": "string", "title": "Reason, if rejected" }
    });
    // An answer to a question that is asked every time is not remembered.
    if held.answerer == Answerer::CallerOrApprover {
        properties["remember"] = json!({
            "type": "string", "enum": ["once", "session", "always"], "title": "Remember", "default": "once"
        });
    }
    let message = format!("{}. Run `{}` with {shown}{cut}?", waiting.reason, held.exposed);
    // The person decides by what they see, so hidden and reordering characters are made visible.
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

/// Drops the wish to remember the answer, if the question is asked every time.
pub(super) fn without_memory(verdict: HeldVerdict, answerer: Answerer) -> HeldVerdict {
    match verdict {
        HeldVerdict::Approve { arguments, .. } if answerer != Answerer::CallerOrApprover => {
            HeldVerdict::Approve { arguments, remember: None }
        }
        verdict => verdict,
    }
}

/// Parses an answer; `None` if the question was dismissed without a decision.
pub(super) fn read(reply: Result<RawJson, RpcError>) -> Option<(HeldVerdict, Option<String>)> {
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
    fn only_an_explicit_approval_approves() {
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
