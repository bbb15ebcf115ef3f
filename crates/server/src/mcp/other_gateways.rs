//! Requests that concern a call at another gateway on the same store: answers, cancellations, and parked calls.

use super::FrontEndState;
use super::client::McpClient;
use super::responses::failure;
use super::running_request::{FinalAnswer, RequestStep, RunningRequest, answered};
use super::session::LegacySession;
use crate::body::ResponseBody;
use http::{Response, StatusCode};
use std::sync::Arc;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::fault::Fault;
use toolbooth_core::json::RawJson;
use toolbooth_engine::parked::ParkedCall;
use toolbooth_engine::replica_mail::{MailedOutcome, NoReply, ReplicaMessage, ResumeRequest};
use toolbooth_engine::request_state::StateBinding;
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError};
use toolbooth_wire::{Id, Revision};
use uuid::Uuid;

/// The methods whose calls can be parked.
const METHODS: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "completion/complete"];

/// A parked call of another gateway that a client wants to continue.
pub(super) struct MovedCall {
    /// The handle of the parked call.
    pub(super) handle: String,
    /// The gateway that has it.
    pub(super) replica: String,
    /// The client's answers.
    pub(super) answers: Option<RawJson>,
}

fn mailed(outcome: Result<RawJson, RpcError>) -> MailedOutcome {
    match outcome {
        Ok(result) => MailedOutcome::Result(result),
        Err(RpcError { code, message, data }) => MailedOutcome::Error { code, message, data },
    }
}

fn received(outcome: MailedOutcome) -> Result<RawJson, RpcError> {
    match outcome {
        MailedOutcome::Result(result) => Ok(result),
        MailedOutcome::Error { code, message, data } => Err(RpcError { code, message, data }),
    }
}

impl FrontEndState {
    /// Delivers a legacy client's answer: to a call here, or through the store to the gateway that asked.
    pub(super) async fn deliver_answer(
        &self,
        session: &LegacySession,
        id: &Id,
        outcome: Result<RawJson, RpcError>,
    ) -> Result<(), NoReply> {
        let Some(outcome) = session.answered(id, outcome) else { return Ok(()) };
        let mail = self.engine.replica_mail();
        let asker = id.as_number().and_then(|question| Some((question, mail.asker_of(question)?)));
        // The question was answered or withdrawn, as far as this gateway knows.
        let Some((question, asker)) = asker else { return Ok(()) };
        let session = session.id.to_string();
        let message = ReplicaMessage::Answer { session, question, outcome: mailed(outcome) };
        match mail.send(&asker, &message).await? {
            0 => Err(NoReply::Ended),
            _ => Ok(()),
        }
    }

    /// Tells the other gateways that a legacy client has cancelled a request that does not run here.
    pub(super) async fn cancel_elsewhere(&self, session: &LegacySession, request: &Id) {
        if self.engine.is_shared() {
            let message =
                ReplicaMessage::Cancel { session: session.id.to_string(), request: request.raw().clone() };
            // The request may have ended, and then there is nothing to cancel.
            let _ = self.engine.replica_mail().send("", &message).await;
        }
    }

    /// Continues a parked call at its gateway, and returns its answer for the client.
    pub(super) async fn continue_elsewhere(
        &self,
        client: &McpClient,
        moved: MovedCall,
        method: &'static str,
        name: &str,
        arguments: Option<RawJson>,
    ) -> Result<Result<RawJson, RpcError>, NoReply> {
        let mail = self.engine.replica_mail();
        let request = ResumeRequest {
            reply_to: mail.own_id().to_owned(),
            ticket: Uuid::new_v4(),
            handle: moved.handle,
            user: client.caller.user.to_string(),
            revision: client.revision.as_str().to_owned(),
            info: client.facts.info.clone(),
            capabilities: client.facts.capabilities.clone(),
            method: method.to_owned(),
            name: name.to_owned(),
            arguments,
            answers: moved.answers,
        };
        mail.resume(&moved.replica, request).await.map(received)
    }

    /// Reads the messages of other gateways and acts on them.
    pub async fn take_mail(self: &Arc<Self>) {
        while let Some(messages) = self.engine.replica_mail().take().await {
            messages.into_iter().for_each(|message| self.take_message(message));
        }
    }

    fn take_message(self: &Arc<Self>, message: ReplicaMessage) {
        match message {
            ReplicaMessage::Answer { session, question, outcome } => {
                if let Some(session) = self.sessions.known(&session) {
                    let _ = session.answered(&Id::number(question), received(outcome));
                }
            }
            ReplicaMessage::Cancel { session, request } => {
                if let (Some(session), Some(id)) = (self.sessions.known(&session), Id::from_raw(&request)) {
                    session.cancel(&id);
                }
            }
            ReplicaMessage::Resume(request) => {
                let front_end = self.clone();
                tokio::spawn(async move { front_end.resume_for(*request).await });
            }
            ReplicaMessage::Resumed { ticket, outcome } => {
                self.engine.replica_mail().resumed(ticket, outcome);
            }
            ReplicaMessage::Events { events, missed } => {
                self.engine.events().emit_elsewhere(&events, missed);
            }
        }
    }

    /// Continues a call that is parked here for a client that answered at another gateway.
    async fn resume_for(self: Arc<Self>, request: ResumeRequest) {
        let (reply_to, ticket) = (request.reply_to.clone(), request.ticket);
        let outcome = mailed(self.continue_here(request).await);
        let message = ReplicaMessage::Resumed { ticket, outcome };
        if self.engine.replica_mail().send(&reply_to, &message).await.is_err() {
            let (code, text) = (INTERNAL_ERROR, "the result could not be passed to the client's gateway");
            let outcome = mailed(Err(RpcError::new(code, text)));
            let _ = self
                .engine
                .replica_mail()
                .send(&reply_to, &ReplicaMessage::Resumed { ticket, outcome })
                .await;
        }
    }

    async fn continue_here(self: &Arc<Self>, request: ResumeRequest) -> Result<RawJson, RpcError> {
        let invalid =
            || RpcError::new(INVALID_PARAMS, "Invalid params: the call is no longer waiting for answers");
        let method = METHODS.into_iter().find(|method| *method == request.method).ok_or_else(invalid)?;
        let revision = Revision::from_name(&request.revision).ok_or_else(invalid)?;
        let parked = self.engine.parking().take_of(&request.user, &request.handle).ok_or_else(invalid)?;
        // Only the name of this caller is used: the call has its own.
        let caller = Arc::new(Caller::guest(request.user.as_str(), []));
        let binding = StateBinding::new(&caller, method, &request.name, request.arguments.as_ref());
        let facts =
            ClientFacts { info: request.info, capabilities: request.capabilities, ..ClientFacts::default() };
        let client = McpClient { caller, facts: Arc::new(facts), revision, session: None };
        let ParkedCall { ongoing, questions, task: _ } = answered(parked, request.answers.as_ref());
        let running = RunningRequest::new(self.clone(), client, Id::number(0), method, ongoing);
        let mut running = running.bound(Some(binding)).asking(questions);
        loop {
            match running.next().await {
                // Progress cannot be passed on: the client's gateway has no stream for it.
                RequestStep::Message(_) => {}
                RequestStep::Done(FinalAnswer::Result(result)) => return Ok(result),
                RequestStep::Done(FinalAnswer::Error(error)) => return Err(error),
                RequestStep::Done(FinalAnswer::Nothing) => return Err(invalid()),
                RequestStep::Done(FinalAnswer::Long(chunks)) => {
                    let text = RawJson::parse(chunks.concat());
                    return text.map_err(|_| RpcError::new(INTERNAL_ERROR, "the result is not valid JSON"));
                }
            }
        }
    }
}

/// The response to an answer that could not be delivered.
pub(super) fn undelivered(why: NoReply) -> Response<ResponseBody> {
    let status = match why {
        NoReply::Ended => StatusCode::BAD_REQUEST,
        NoReply::Store => StatusCode::SERVICE_UNAVAILABLE,
    };
    let data = serde_json::json!({"toolbooth": {"code": why.code(), "hint": why.hint()}});
    let error = RpcError::new(INVALID_REQUEST, why.to_string()).with_data(RawJson::from_value(&data));
    failure(status, None, &error)
}
