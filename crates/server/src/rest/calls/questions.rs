//! Questions of servers over REST: a call whose server asks is answered with the question, and waits for the answer
//! in another request of the same user.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{self, JsonBody, NoQuery, PathParam};
use super::super::problem::ProblemDocument;
use super::{CallAnswerView, CallView, finished};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};
use toolbooth_core::caller::{AskedWhen, ClientFacts};
use toolbooth_core::elicitation::asked_by;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::schema::PublicSchema;
use toolbooth_engine::parked::{OngoingCall, ParkedCall};
use toolbooth_upstream::{ClientQuestion, LinkEvent};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::METHOD_NOT_FOUND;
use utoipa::ToSchema;
use uuid::Uuid;

/// An example of a valid answer.
const EXAMPLE: &str =
    "send {\"action\": \"accept\", \"content\": {…}}, or decline with {\"action\": \"decline\"}";

/// REST callers can fill in forms, and nothing else.
static CLIENT: LazyLock<Arc<ClientFacts>> = LazyLock::new(|| {
    let capabilities = RawJson::trusted(&b"{\"elicitation\":{}}"[..]);
    // Parallel calls of programs share a connection, as long as its server asks nothing.
    let client = ClientFacts { capabilities, asked_when: AskedWhen::Alone, ..ClientFacts::default() };
    Arc::new(client.with_followed_tasks())
});

/// The client of a REST call as servers see it.
pub(super) fn client() -> Arc<ClientFacts> {
    CLIENT.clone()
}

/// A call whose server asks the caller a question.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuestionView {
    /// Always `question`.
    kind: &'static str,
    /// The id of the call: `POST /calls/{id}/answer` answers the question.
    call: String,
    question: ServerQuestionView,
    /// What to do next.
    message: String,
}

/// The question of a server.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ServerQuestionView {
    /// The server that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// The question, as the server wrote it.
    message: String,
    /// The JSON Schema of the answer's `content`.
    #[schema(value_type = Object)]
    schema: RawJson,
}

#[cfg(test)]
impl ServerQuestionView {
    /// A question without fields.
    pub(super) fn for_tests() -> Self {
        Self { server: None, message: "Who comes?".into(), schema: RawJson::empty_object() }
    }
}

impl QuestionView {
    /// The question, if it is one that a REST caller can answer.
    fn of(id: Uuid, question: &ClientQuestion) -> Option<Self> {
        let params = question.params.as_ref().filter(|_| question.method == "elicitation/create")?;
        // The gateway's own question about an approval: over REST, such a call is held.
        if params.at(&["_meta", "toolbooth/held"]).is_some() {
            return None;
        }
        let schema = params.member("requestedSchema").filter(RawJson::is_object)?;
        let message = params.member("message");
        let message = message.as_ref().and_then(RawJson::string).unwrap_or_default();
        let (server, message) = match asked_by(&message) {
            Some((server, message)) => (Some(server.to_owned()), message.to_owned()),
            None => (None, message.into_owned()),
        };
        Some(Self {
            kind: "question",
            call: id.to_string(),
            question: ServerQuestionView { server, message, schema },
            message: format!("the server asks a question; answer it with POST /calls/{id}/answer"),
        })
    }
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
        let Some(view) = QuestionView::of(id, &question) else {
            let refusal = RpcError::new(METHOD_NOT_FOUND, "the caller cannot be asked this over REST");
            // The call may have ended meanwhile.
            let _ = question.reply.send(Err(refusal));
            continue;
        };
        let parked = ParkedCall { ongoing, questions: vec![(String::new(), question)], task: None };
        rest.running_calls.set_question(id, Some(view.question.clone()));
        return match rest.door.engine.parking().park_as(handle(id), user, parked) {
            Some(_) => Ok(CallAnswerView::Asked(view)),
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

/// What the caller does with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionAction {
    /// Answers it, with `content`.
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
    /// The fields of the form, if it is accepted.
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
    let parking = rest.door.engine.parking();
    let parked = parking.take_of(&caller.user, &handle(id)).ok_or_else(|| no_question(id))?;
    let ParkedCall { ongoing, mut questions, task } = parked;
    let Some((key, question)) = questions.pop() else { return Err(no_question(id).into()) };
    match reply(answer, &question) {
        // The call may have ended meanwhile; its answer says so.
        Ok(reply) => {
            rest.running_calls.set_question(id, None);
            let _ = question.reply.send(Ok(reply));
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

/// The answer for the server, checked against the schema of its question.
fn reply(answer: AnswerBody, question: &ClientQuestion) -> Result<RawJson, Problem> {
    let AnswerBody { action, content } = answer;
    let mut reply = ObjectWriter::default();
    match action {
        QuestionAction::Decline => drop(reply.text("action", "decline")),
        QuestionAction::Cancel => drop(reply.text("action", "cancel")),
        QuestionAction::Accept => {
            let content = content.unwrap_or_else(RawJson::empty_object);
            if !content.is_object() {
                return Err(extract::bad_body("`content` is not an object".into(), EXAMPLE));
            }
            let schema = question.params.as_ref().and_then(|params| params.member("requestedSchema"));
            let schema = schema.unwrap_or_else(RawJson::empty_object);
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

fn no_question(id: Uuid) -> Problem {
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
    fn a_question_names_its_server_apart_from_its_text() {
        let view = QuestionView::of(Uuid::nil(), &guest()).expect("a question");
        let view = serde_json::to_value(view).expect("JSON");
        assert_eq!((&view["kind"], &view["question"]["server"]), (&json!("question"), &json!("inn")));
        assert_eq!(view["question"]["message"], "Who comes?");
        assert_eq!(view["question"]["schema"]["required"], json!(["name"]));
    }

    #[test]
    fn the_gateways_own_question_about_an_approval_is_not_asked_over_rest() {
        let schema = json!({"type": "object"});
        let own = json!({"message": "Run it?", "requestedSchema": schema, "_meta": {"toolbooth/held": "1"}});
        assert!(QuestionView::of(Uuid::nil(), &question(&own)).is_none());
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
}
