//! The question that a call over REST waits for, and what its caller sees of it.

use super::sampling_question::{DraftSupport, SamplingRequestView};
use super::url_question::QuestionPageView;
use serde::Serialize;
use toolbooth_core::elicitation::asked_by;
use toolbooth_core::json::RawJson;
use toolbooth_engine::{PersonSampling, SamplingDraft};
use toolbooth_upstream::{ClientQuestion, LinkEvents, UrlCompletions};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::{INVALID_PARAMS, METHOD_NOT_FOUND};
use utoipa::ToSchema;
use uuid::Uuid;

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

impl QuestionView {
    /// The answer of a call that waits for a question.
    pub(super) fn of(id: Uuid, waiting: &WaitingQuestion) -> Self {
        Self {
            kind: "question",
            call: id.to_string(),
            question: waiting.view(),
            message: format!("the server asks a question; answer it with POST /calls/{id}/answer"),
        }
    }
}

/// The question of a server.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ServerQuestionView {
    /// The server that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// `form`: data is asked for, see `schema`. `url`: a page is to be opened, see `page`. `sampling`: a language model, or a
    /// person in its place, is to answer, see `sampling`.
    mode: &'static str,
    /// The question, as the server wrote it.
    message: String,
    /// The JSON Schema of the answer's `content`, if the mode is `form`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    schema: Option<RawJson>,
    /// The page, if the mode is `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<QuestionPageView>,
    /// The request, if the mode is `sampling`. The answer's `content` is `{"text": "…"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<SamplingRequestView>,
}

/// The question that a call waits for.
#[derive(Debug, Clone)]
pub(super) struct WaitingQuestion {
    view: ServerQuestionView,
    /// The id of a page, and the pages that the server reports as complete.
    visit: Option<(String, UrlCompletions)>,
    /// The sampling request, if it is one.
    pub(super) sampling: Option<PersonSampling>,
    /// The latest draft of the answer to a sampling request.
    pub(super) draft: Option<SamplingDraft>,
}

impl WaitingQuestion {
    /// The question, if it is one that a REST caller can answer; otherwise the error for the server.
    pub(super) fn of(
        call: Uuid,
        question: &ClientQuestion,
        events: &LinkEvents,
        drafts: DraftSupport,
    ) -> Result<Self, RpcError> {
        let unsupported = || RpcError::new(METHOD_NOT_FOUND, "the caller cannot be asked this over REST");
        let refused = |reason: &str| RpcError::new(INVALID_PARAMS, format!("refused: {reason}"));
        let params = question.params.as_ref().ok_or_else(unsupported)?;
        if question.method == "sampling/createMessage" && events.person_samples() {
            let request = SamplingRequestView::of(params, drafts).map_err(refused)?;
            let server = question.server.clone();
            let view = ServerQuestionView {
                server: server.clone(),
                mode: "sampling",
                message: "Answer this request in place of a language model.".to_owned(),
                schema: None,
                page: None,
                sampling: Some(request),
            };
            let sampling = PersonSampling { call, server, params: params.clone() };
            return Ok(Self { view, visit: None, sampling: Some(sampling), draft: None });
        }
        // The gateway's own question about an approval: over REST, such a call is held.
        let is_own = params.at(&["_meta", "toolbooth/held"]).is_some();
        if question.method != "elicitation/create" || is_own {
            return Err(unsupported());
        }
        let text =
            |key: &str| params.member(key).and_then(|value| value.string().map(|text| text.into_owned()));
        let message = text("message").unwrap_or_default();
        let (server, message) = match asked_by(&message) {
            Some((server, message)) => (Some(server.to_owned()), message.to_owned()),
            None => (None, message),
        };
        let view =
            ServerQuestionView { server, mode: "form", message, schema: None, page: None, sampling: None };
        if text("mode").as_deref() == Some("url") {
            let page = QuestionPageView::of(&text("url").unwrap_or_default()).map_err(refused)?;
            let visit = text("elicitationId").map(|id| (id, events.url_completions()));
            let view = ServerQuestionView { mode: "url", page: Some(page), ..view };
            return Ok(Self { view, visit, sampling: None, draft: None });
        }
        let schema = params.member("requestedSchema").filter(RawJson::is_object).ok_or_else(unsupported)?;
        let view = ServerQuestionView { schema: Some(schema), ..view };
        Ok(Self { view, visit: None, sampling: None, draft: None })
    }

    /// The question as the caller sees it now.
    pub(super) fn view(&self) -> ServerQuestionView {
        let is_complete =
            self.visit.as_ref().is_some_and(|(id, completions)| completions.contains(id.as_str()));
        let view = self.view.clone();
        match is_complete {
            true => ServerQuestionView { page: view.page.map(QuestionPageView::completed), ..view },
            false => view,
        }
    }
}

#[cfg(test)]
impl WaitingQuestion {
    /// A form without fields.
    pub(super) fn for_tests() -> Self {
        let view = ServerQuestionView {
            server: None,
            mode: "form",
            message: "Who comes?".into(),
            schema: Some(RawJson::empty_object()),
            page: None,
            sampling: None,
        };
        Self { view, visit: None, sampling: None, draft: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tokio::sync::oneshot;
    use toolbooth_upstream::CallLink;

    fn question(method: &str, params: &Value) -> ClientQuestion {
        let (reply, _) = oneshot::channel();
        let (server, params) = (Some("inn".into()), Some(RawJson::from_value(params)));
        ClientQuestion { server, method: method.into(), params, reply }
    }

    fn waiting(question: &ClientQuestion, events: &LinkEvents) -> Result<WaitingQuestion, i64> {
        let waiting = WaitingQuestion::of(Uuid::nil(), question, events, DraftSupport::Possible);
        waiting.map_err(|error| error.code)
    }

    fn shown(waiting: &WaitingQuestion) -> Value {
        serde_json::to_value(QuestionView::of(Uuid::nil(), waiting)).expect("JSON")
    }

    #[test]
    fn a_question_names_its_server_apart_from_its_text() {
        let (_link, events) = CallLink::new();
        let schema = json!({"type": "object", "required": ["name"]});
        let form = json!({"message": "Server `inn` asks: Who comes?", "requestedSchema": schema});
        let view = shown(&waiting(&question("elicitation/create", &form), &events).expect("a question"));
        assert_eq!((&view["kind"], &view["question"]["server"]), (&json!("question"), &json!("inn")));
        assert_eq!(
            (&view["question"]["mode"], &view["question"]["message"]),
            (&json!("form"), &json!("Who comes?"))
        );
        assert_eq!(view["question"]["schema"]["required"], json!(["name"]));
    }

    #[test]
    fn the_gateways_own_question_about_an_approval_is_not_asked_over_rest() {
        let (_link, events) = CallLink::new();
        let schema = json!({"type": "object"});
        let own = json!({"message": "Run it?", "requestedSchema": schema, "_meta": {"toolbooth/held": "1"}});
        let refused = waiting(&question("elicitation/create", &own), &events);
        assert_eq!(refused.map(drop), Err(METHOD_NOT_FOUND));
    }

    #[test]
    fn a_page_is_complete_once_its_server_says_so() {
        let (link, events) = CallLink::new();
        let visit = |url: &str| {
            let message = "Server `inn` asks: Go?";
            question(
                "elicitation/create",
                &json!({"mode": "url", "url": url, "message": message, "elicitationId": "v"}),
            )
        };
        let asked = waiting(&visit("https://inn.example/x"), &events).expect("a question");
        let page = json!({"url": "https://inn.example/x", "host": "inn.example", "is_complete": false});
        assert_eq!(shown(&asked)["question"]["page"], page);
        link.elicited(RawJson::from_value(&json!({"elicitationId": "other"})));
        assert_eq!(shown(&asked)["question"]["page"]["is_complete"], false);
        link.elicited(RawJson::from_value(&json!({"elicitationId": "v"})));
        assert_eq!(shown(&asked)["question"]["page"]["is_complete"], true);
        for url in ["javascript:alert(1)", "http://inn.example/", "https://inn.example@evil.example/"] {
            assert_eq!(waiting(&visit(url), &events).map(drop), Err(INVALID_PARAMS), "{url}");
        }
    }

    #[test]
    fn only_a_person_is_asked_to_sample() {
        let (_link, events) = CallLink::new();
        let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
        let request = question("sampling/createMessage", &json!({"messages": [message], "maxTokens": 9}));
        assert_eq!(waiting(&request, &events).map(drop), Err(METHOD_NOT_FOUND));
        events.let_person_sample();
        let view = shown(&waiting(&request, &events).expect("a question"));
        let view = &view["question"];
        assert_eq!((&view["mode"], &view["server"]), (&json!("sampling"), &json!("inn")));
        assert_eq!(
            (&view["sampling"]["max_tokens"], &view["sampling"]["can_draft"]),
            (&json!(9), &json!(true))
        );
    }
}
