//! One attempt of a call at one server. A server may ask questions first; then the call is sent again with the answers,
//! in a further round.

use super::client_channel::ClientChannel;
use super::options::{DispatchOptions, QuestionHandling};
use super::pipeline::CallPipeline;
use super::server_answer::{ask_to_open_urls, only_declared, put_questions, read_answer};
use super::server_task::{ServerTask, must_run_as_task};
use crate::answer::Answer;
use std::pin::pin;
use std::sync::Arc;
use toolbooth_core::call::Sealed;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_upstream::UpstreamError;
use toolbooth_upstream::connection::{Round, UpstreamRequest};
use toolbooth_upstream::lease::ConnectionLease;
use toolbooth_wire::codes::URL_ELICITATION_REQUIRED;
use toolbooth_wire::{Era, RpcError};

/// The maximum number of rounds of questions in one call.
const MAX_ROUNDS: usize = 10;

/// One attempt of a call at one server.
struct ServerAttempt<'a> {
    call: &'a Sealed,
    entry: &'a Arc<ServerEntry>,
    options: &'a DispatchOptions,
    channel: &'a ClientChannel<'a>,
}

/// What follows from the answer to one round.
enum AfterRound {
    /// The attempt has ended with this answer.
    End(Answer),
    /// The call is sent again, with answers to the server's questions.
    Repeat(Round),
}

impl CallPipeline {
    /// Sends the call to a server once, and answers the server's questions in further rounds.
    pub(crate) async fn attempt(
        &self,
        call: &Sealed,
        name: &ServerName,
        options: &DispatchOptions,
        channel: &ClientChannel<'_>,
    ) -> Result<Answer, UpstreamError> {
        let server = self.servers.running(name)?;
        let attempt = ServerAttempt { call, entry: &server.entry, options, channel };
        let mut round = options.round.clone();
        let mut renewed = false;
        for _ in 0..MAX_ROUNDS {
            let connection = pin!(server.connection(call.caller(), channel.client)).await?;
            connection.follow_log_level(call.client()).await;
            let mut request = attempt.request(&round, &connection);
            let span = self.tracing.attempt(call, name);
            request.meta = span.as_ref().map_or(request.meta, |span| span.meta());
            let answered = pin!(connection.send(request, channel.link)).await;
            if let Some(span) = span {
                span.end(&answered);
            }
            let answer = match answered {
                // The server has dropped our session and has not read the request: reconnect and send it again.
                Err(UpstreamError::SessionExpired { .. }) if !renewed => {
                    renewed = true;
                    Box::pin(server.restart()).await;
                    continue;
                }
                other => read_answer(other?, &connection)?,
            };
            match pin!(attempt.after_round(answer, connection)).await? {
                AfterRound::End(answer) => return Ok(answer),
                AfterRound::Repeat(next) => round = next,
            }
        }
        Err(UpstreamError::BadAnswer {
            server: name.to_string(),
            what: format!("it asked for input more than {MAX_ROUNDS} times"),
        })
    }
}

impl<'a> ServerAttempt<'a> {
    /// The request of one round.
    fn request(&self, round: &Round, connection: &ConnectionLease) -> UpstreamRequest<'a> {
        let Self { call, entry, options, channel } = *self;
        let DispatchOptions { progress, reading, .. } = *options;
        // Input responses and request states exist in the modern era only; a legacy server asks during the call.
        let mut request = match connection.era {
            Era::Modern => UpstreamRequest::for_call(call, round, progress, reading),
            Era::Legacy => UpstreamRequest::for_call(call, &Round::default(), progress, reading),
        };
        request.client = channel.client;
        if must_run_as_task(call, connection) {
            request.params.push(("task", RawJson::empty_object()));
        }
        if !entry.forward_headers.is_empty() {
            request.forward_headers(entry, call.caller());
        }
        request
    }

    async fn after_round(
        &self,
        answer: Answer,
        connection: ConnectionLease,
    ) -> Result<AfterRound, UpstreamError> {
        let Self { call, entry, channel, .. } = *self;
        match answer {
            Answer::InputRequired { requests, state, server } if self.answers_here(requests.as_ref()) => {
                Box::pin(self.answer_questions(requests, state, server)).await
            }
            Answer::Error(error) if error.code == URL_ELICITATION_REQUIRED => {
                Ok(Box::pin(self.open_urls(error, connection)).await)
            }
            Answer::Result { result, facts, .. } if facts.is_task && connection.era == Era::Modern => {
                let task = ServerTask::started(&result, call, entry, channel, &connection)?;
                Box::pin(task.follow(&result)).await.map(AfterRound::End)
            }
            Answer::Result { result, .. } if must_run_as_task(call, &connection) && result.has("task") => {
                let created = result.member("task").unwrap_or_else(RawJson::empty_object);
                let task = ServerTask::started(&created, call, entry, channel, &connection)?;
                Box::pin(task.follow_legacy(&created)).await.map(AfterRound::End)
            }
            answer => only_declared(answer, channel.client).map(AfterRound::End),
        }
    }

    /// Whether the questions of a modern server are answered during this call, rather than in a new request of the
    /// client.
    fn answers_here(&self, requests: Option<&RawJson>) -> bool {
        self.options.questions != QuestionHandling::Returned
            || self.channel.link.is_followed_as_task()
            || requests.is_some_and(|asked| self.channel.gateway_answers(asked))
    }

    async fn answer_questions(
        &self,
        requests: Option<RawJson>,
        state: Option<RawJson>,
        server: String,
    ) -> Result<AfterRound, UpstreamError> {
        let Some(requests) = requests else {
            return Ok(AfterRound::Repeat(Round { input_responses: None, request_state: state }));
        };
        let link = self.channel.link;
        match put_questions(&requests, &server, link).await {
            Ok(responses) => {
                Ok(AfterRound::Repeat(Round { input_responses: Some(responses), request_state: state }))
            }
            Err(_) if link.has_asked_too_much() => Err(UpstreamError::AskedTooMuch { server }),
            Err(error) => {
                tracing::debug!("a question of `{server}` was not answered: {}", error.message);
                Ok(AfterRound::End(Answer::Error(error)))
            }
        }
    }

    /// A legacy server ended the call, because a person has to open pages first.
    async fn open_urls(&self, error: RpcError, connection: ConnectionLease) -> AfterRound {
        let Self { entry, options, channel, .. } = *self;
        match options.questions {
            QuestionHandling::Returned if !channel.link.is_followed_as_task() => {
                AfterRound::End(ask_to_open_urls(error, channel.client, &entry.name))
            }
            QuestionHandling::ByPerson => {
                // Other calls may use the connection while the person decides.
                drop(connection);
                match visit_urls(&error, channel, &entry.name).await {
                    // The server did not begin the call.
                    UrlVisits::Accepted => AfterRound::Repeat(Round::default()),
                    UrlVisits::Refused => AfterRound::End(Answer::Error(error)),
                }
            }
            QuestionHandling::Returned | QuestionHandling::DuringCall => {
                AfterRound::End(Answer::Error(error))
            }
        }
    }
}

/// The outcome of the visits that a legacy server demands.
enum UrlVisits {
    /// The person opened all pages.
    Accepted,
    /// At least one was not opened.
    Refused,
}

/// Asks the person to open the URLs in the error of a legacy server.
async fn visit_urls(error: &RpcError, channel: &ClientChannel<'_>, server: &ServerName) -> UrlVisits {
    let Answer::InputRequired { requests: Some(requests), .. } =
        ask_to_open_urls(error.clone(), channel.client, server)
    else {
        return UrlVisits::Refused;
    };
    let Ok(answers) = put_questions(&requests, server.as_str(), channel.link).await else {
        return UrlVisits::Refused;
    };
    let is_accepted = |answer: &RawJson| {
        answer.member("action").is_some_and(|action| action.string().as_deref() == Some("accept"))
    };
    let answers = answers.members().unwrap_or_default();
    match answers.iter().all(|member| is_accepted(&member.value)) {
        true => UrlVisits::Accepted,
        false => UrlVisits::Refused,
    }
}
