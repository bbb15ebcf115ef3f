//! Questions of servers over REST: a call whose server asks is answered with the question, and waits for the answer
//! in another request of the same user.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{self, JsonBody, NoQuery, PathParam};
use super::super::problem::ProblemDocument;
use super::sampling_question::{self, DraftSupport};
use super::waiting_question::{QuestionView, WaitingQuestion};
use super::{CallAnswerView, CallView, finished};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::{Arc, LazyLock};
use toolbooth_core::caller::{AskedWhen, ClientFacts};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::schema::PublicSchema;
use toolbooth_engine::parked::{OngoingCall, ParkedCall};
use toolbooth_engine::{SamplingAnswer, SamplingDraft};
use toolbooth_upstream::{ClientQuestion, LinkEvent};
use toolbooth_wire::RpcError;
use utoipa::ToSchema;
use uuid::Uuid;

/// An example of a valid answer.
const EXAMPLE: &str =
    "send {\"action\": \"accept\", \"content\": {…}}, or decline with {\"action\": \"decline\"}";

/// REST callers can fill in forms and open pages. The engine adds sampling if a person waits for the result.
static CLIENT: LazyLock<Arc<ClientFacts>> = LazyLock::new(|| {
    let capabilities = RawJson::trusted(&b"{\"elicitation\":{\"form\":{},\"url\":{}}}"[..]);
    // Parallel calls of programs share a connection, as long as its server asks nothing.
    let client = ClientFacts { capabilities, asked_when: AskedWhen::Alone, ..ClientFacts::default() };
    Arc::new(client.with_followed_tasks())
});

/// The client of a REST call as servers see it.
pub(super) fn client() -> Arc<ClientFacts> {
    CLIENT.clone()
}

/// Follows a call until it ends or its server asks a question.
pub(super) async fn follow(
    rest: &RestState,
    user: &Arc<str>,
    id: Uuid,
    mut ongoing: OngoingCall,
) -> Result<CallAnswerView, Problem> {
    loop {
        let event = tokio::select! {
            biased;
            event = ongoing.events.recv() => event,
            answer = &mut ongoing.work => return finished(id, answer?),
        };
        let Some(LinkEvent::Question(question)) = event else { continue };
        let drafts = match rest.engine().calls().can_draft_sampling() {
            true => DraftSupport::Possible,
            false => DraftSupport::Unavailable,
        };
        let waiting = match WaitingQuestion::of(id, &question, &ongoing.events, drafts) {
            Ok(waiting) => waiting,
            Err(refusal) => {
                // The call may have ended meanwhile.
                let _ = question.reply.send(Err(refusal));
                continue;
            }
        };
        let view = QuestionView::of(id, &waiting);
        let parked = ParkedCall { ongoing, questions: vec![(String::new(), question)], task: None };
        rest.running_calls.set_question(id, Some(waiting));
        return match rest.engine().parking().park_as(handle(id), user, parked) {
            Some(_) => Ok(CallAnswerView::Asked(Box::new(view))),
            None => Err(Problem {
                code: "call.too-many-questions",
                blame: Blame::Caller,
                message: "too many calls wait for an answer, so that this one was cancelled".into(),
                hint: Some("answer or decline the open questions first".into()),
            }),
        };
    }
}

/// The handle of a call that waits for an answer over REST. Handles of MCP requests have no prefix.
pub(super) fn handle(id: Uuid) -> String {
    format!("call:{id}")
}

/// The error code that the protocol has for a sampling request that the user rejects.
const USER_REJECTED: i64 = -1;

/// What the caller does with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionAction {
    /// Answers it, with `content`. For a page: the person has opened it, and has finished there if the server wants that.
    Accept,
    /// Refuses to answer.
    Decline,
    /// Dismisses it without a decision.
    Cancel,
}

/// The answer to a question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerBody {
    action: QuestionAction,
    /// The fields of the form, if it is accepted; `{"text": "…"}` for a sampling request; nothing for a page.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    content: Option<RawJson>,
}

/// Answers the question of a call's server.
///
/// The answer is that of the call: its result, or 202 with the next question.
#[utoipa::path(
    post,
    path = "/calls/{id}/answer",
    params(("id" = String, Path, description = "The id of the call.")),
    request_body(content = AnswerBody, example = json!({ "action": "accept", "content": { "name": "Bo" } })),
    responses(
        (status = 200, description = "The result of the tool.", body = CallView),
        (status = 202, description = "The server asks another question.", body = CallAnswerView),
        (status = 400, description = "`call.bad-answer`: the answer does not match the schema of the question."),
        (status = 404, description = "`call.no-question`."),
        (status = 409, description = "`call.cancelled`."),
        (status = 502, description = "The server failed."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn answer(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Response, ProblemDocument> {
    let answer: AnswerBody = extract::object(&body, EXAMPLE)?;
    let id = extract::id(&id, "call.no-question", "call")?;
    let parking = rest.engine().parking();
    let parked = parking.take_of(&caller.user, &handle(id)).ok_or_else(|| no_question(id))?;
    let ParkedCall { ongoing, mut questions, task } = parked;
    let Some((key, question)) = questions.pop() else { return Err(no_question(id).into()) };
    let waiting = rest.running_calls.question(id);
    let replied = match waiting.as_ref().and_then(|waiting| waiting.sampling.as_ref()) {
        Some(asked) => {
            let draft = waiting.as_ref().and_then(|waiting| waiting.draft.as_ref());
            let replied = sampling_reply(&answer, draft);
            if let Ok((_, how)) = &replied {
                rest.engine().calls().record_sampling_answer(&caller, asked, *how).await;
            }
            replied.map(|(reply, _)| reply)
        }
        None => reply(answer, &question).map(Ok),
    };
    match replied {
        // The call may have ended meanwhile; its answer says so.
        Ok(reply) => {
            rest.running_calls.set_question(id, None);
            let _ = question.reply.send(reply);
        }
        Err(problem) => {
            // The question stays open.
            questions.push((key, question));
            parking.park_as(handle(id), &caller.user, ParkedCall { ongoing, questions, task });
            return Err(problem.into());
        }
    }
    Ok(follow(&rest, &caller.user, id, ongoing).await?.into_response())
}

/// The answer of a person to a sampling request, and how the person made it.
fn sampling_reply<'a>(
    answer: &AnswerBody,
    draft: Option<&'a SamplingDraft>,
) -> Result<(Result<RawJson, RpcError>, SamplingAnswer<'a>), Problem> {
    if answer.action != QuestionAction::Accept {
        let rejection = RpcError::new(USER_REJECTED, "the user rejected the sampling request");
        return Ok((Err(rejection), SamplingAnswer::Declined));
    }
    let content = answer.content.clone().unwrap_or_else(RawJson::empty_object);
    sampling_question::result(&content, draft).map(|(result, how)| (Ok(result), how))
}

/// The answer to a form or a page for the server, checked against the schema of its question.
fn reply(answer: AnswerBody, question: &ClientQuestion) -> Result<RawJson, Problem> {
    let AnswerBody { action, content } = answer;
    let mut reply = ObjectWriter::default();
    let params = question.params.as_ref();
    let mode = params.and_then(|params| params.member("mode"));
    let is_page = mode.is_some_and(|mode| mode.string().as_deref() == Some("url"));
    let schema = params.filter(|_| !is_page).and_then(|params| params.member("requestedSchema"));
    match (action, schema) {
        (QuestionAction::Decline, _) => drop(reply.text("action", "decline")),
        (QuestionAction::Cancel, _) => drop(reply.text("action", "cancel")),
        // What the person does on a page does not pass through the gateway.
        (QuestionAction::Accept, None) => drop(reply.text("action", "accept")),
        (QuestionAction::Accept, Some(schema)) => {
            let content = content.unwrap_or_else(RawJson::empty_object);
            if !content.is_object() {
                return Err(extract::bad_body("`content` is not an object".into(), EXAMPLE));
            }
            let objections = PublicSchema::compile(&schema).objections(&content);
            if !objections.is_empty() {
                let objections: Vec<String> = objections.iter().map(ToString::to_string).collect();
                return Err(Problem {
                    code: "call.bad-answer",
                    blame: Blame::Caller,
                    message: format!("the answer does not match the question: {}", objections.join("; ")),
                    hint: Some("the question is still open: send a corrected answer, or decline".into()),
                });
            }
            reply.text("action", "accept").raw("content", &content);
        }
    }
    Ok(reply.finish())
}

/// The problem of a call that does not wait for an answer.
pub(super) fn no_question(id: Uuid) -> Problem {
    Problem {
        code: "call.no-question",
        blame: Blame::Caller,
        message: format!("call `{id}` does not wait for an answer"),
        hint: Some("a question is open for ten minutes, for the user who made the call".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tokio::sync::oneshot;

    fn question(params: &Value) -> ClientQuestion {
        let (reply, _) = oneshot::channel();
        ClientQuestion {
            server: Some("inn".into()),
            method: "elicitation/create".into(),
            params: Some(RawJson::from_value(params)),
            reply,
        }
    }

    fn guest() -> ClientQuestion {
        let properties = json!({"name": {"type": "string"}, "age": {"type": "integer"}});
        let schema = json!({"type": "object", "properties": properties, "required": ["name"]});
        question(&json!({"message": "Server `inn` asks: Who comes?", "requestedSchema": schema}))
    }

    #[test]
    fn an_answer_is_checked_against_the_schema_of_its_question() {
        let cases = [
            (json!({"action": "accept", "content": {"name": "Bo", "age": 5}}), Ok("Bo")),
            (json!({"action": "accept", "content": {"name": "Bo", "age": "x"}}), Err("/age")),
            (json!({"action": "accept"}), Err("name")),
            (json!({"action": "accept", "content": [1]}), Err("not an object")),
            (json!({"action": "decline"}), Ok("decline")),
            (json!({"action": "cancel", "content": {"age": "x"}}), Ok("cancel")),
        ];
        for (body, expected) in cases {
            let answer: AnswerBody = serde_json::from_str(&body.to_string()).expect("a body");
            match (reply(answer, &guest()), expected) {
                (Ok(reply), Ok(part)) => assert!(reply.as_str().contains(part), "{body}: {reply:?}"),
                (Err(problem), Err(part)) => assert!(problem.message.contains(part), "{body}: {problem:?}"),
                (found, _) => panic!("{body}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_page_is_answered_without_content() {
        let page = question(
            &json!({"mode": "url", "url": "https://x.example/", "message": "Server `inn` asks: Go?"}),
        );
        for (action, expected) in
            [("accept", r#"{"action":"accept"}"#), ("decline", r#"{"action":"decline"}"#)]
        {
            let body = json!({"action": action, "content": {"note": "not for the server"}});
            let answer: AnswerBody = serde_json::from_str(&body.to_string()).expect("a body");
            assert_eq!(reply(answer, &page).expect("a reply").as_str(), expected);
        }
    }
}
