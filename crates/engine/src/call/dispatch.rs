//! Stage 8, dispatch: sends the call, under one deadline for all attempts, rounds and providers.

use super::client_channel::ClientChannel;
use super::deadline::Deadline;
use super::dispatch_failure::DispatchFailure;
use super::options::{DispatchOptions, QuestionHandling};
use super::pipeline::CallPipeline;
use super::sampling::GatewaySampling;
use super::server_answer::{ask_to_open_urls, only_declared, put_questions, read_answer};
use super::server_task::{ServerTask, must_run_as_task};
use crate::answer::Answer;
use crate::dead_letters::AttemptTimes;
use crate::events::ProgressEvents;
use crate::terms::ResultInspection;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolbooth_core::call::{Route, Sealed};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::Parallel;
use toolbooth_core::names::ServerName;
use toolbooth_upstream::connection::{Round, UpstreamRequest};
use toolbooth_upstream::{CallLink, UpstreamError};
use toolbooth_wire::codes::URL_ELICITATION_REQUIRED;
use toolbooth_wire::{Era, RpcError};

/// The maximum number of rounds of questions in one call.
const MAX_ROUNDS: usize = 10;

impl CallPipeline {
    pub(crate) async fn dispatch(
        &self,
        call: &Sealed,
        route: Route<'_>,
        options: DispatchOptions,
        link: &CallLink,
    ) -> Result<Answer, Box<DispatchFailure>> {
        if self.terms.load().results.inspection == ResultInspection::Yes {
            link.read_updates();
        }
        if options.progress.is_requested() && self.events.is_on() {
            link.observe(|| Arc::new(ProgressEvents::of(self.events.clone(), call, options.ids.call)));
        }
        let provider = match route {
            Route::Providers(_) => return Box::pin(self.serve_by_providers(call, options, link)).await,
            Route::Server(_) if call.tool().server.is_own() => {
                return Box::pin(self.own_tools.run(call, options.ids.call))
                    .await
                    .map_err(DispatchFailure::untried);
            }
            Route::Server(_) if call.tool().server.is_virtual() => {
                return Err(DispatchFailure::untried(no_provider(call)));
            }
            Route::Server(provider) => provider,
        };
        let sampling = self.gateway_sampling(call, link);
        let client = || ClientChannel::to_client(call, link);
        let channel = sampling.as_ref().map_or_else(client, GatewaySampling::channel);
        let mut deadline = Deadline::of(call.tool(), options.timeout, self.max_call, link);
        let turn = match call.tool().terms.parallel {
            Parallel::Allowed | Parallel::Unspecified => None,
            Parallel::OneAtATime => {
                let turn = Box::pin(self.wait_for_turn(call.tool(), &mut deadline)).await;
                Some(turn.map_err(DispatchFailure::untried)?)
            }
        };
        // Waiting in the queue is not part of the attempt.
        let began = if turn.is_some() { Instant::now() } else { deadline.started };
        // Pinned here, because passing the future by value would copy it at every step.
        let attempt = pin!(self.attempt(call, provider.server, &options, &channel));
        match deadline.hold(attempt).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let times = AttemptTimes::until_now(&self.clock, began.elapsed());
                let failed = DispatchFailure::on_server(None, provider.server, &error, times);
                Box::pin(self.retry_server((error, failed), call, &provider, &options, &channel, deadline))
                    .await
            }
        }
    }

    /// Waits in the queue of a tool that takes one call at a time. The wait counts toward the deadline.
    async fn wait_for_turn(
        &self,
        tool: &Tool,
        deadline: &mut Deadline<'_>,
    ) -> Result<OwnedSemaphorePermit, Problem> {
        let max_waiting = self.terms.load().routing.queue;
        let queue = self.routing.providers().queue_of(tool);
        let taking = pin!(queue.wait(&tool.exposed, max_waiting));
        deadline.hold(taking).await
    }

    /// Sends the call to a server once, and answers the server's questions in further rounds.
    pub(crate) async fn attempt(
        &self,
        call: &Sealed,
        server: &ServerName,
        options: &DispatchOptions,
        channel: &ClientChannel<'_>,
    ) -> Result<Answer, UpstreamError> {
        let DispatchOptions { progress, questions, reading, .. } = *options;
        let mut round = options.round.clone();
        let name = server;
        let server = self.servers.running(name)?;
        let mut renewed = false;
        for _ in 0..MAX_ROUNDS {
            let connection = pin!(server.connection(call.caller(), channel.client)).await?;
            connection.follow_log_level(call.client()).await;
            // Input responses and request states exist in the modern era only; a legacy server asks during the call.
            let mut ask = match connection.era {
                Era::Modern => UpstreamRequest::for_call(call, &round, progress, reading),
                Era::Legacy => UpstreamRequest::for_call(call, &Round::default(), progress, reading),
            };
            ask.client = channel.client;
            let is_task = must_run_as_task(call, &connection);
            if is_task {
                ask.params.push(("task", RawJson::empty_object()));
            }
            if !server.entry.forward_headers.is_empty() {
                ask.forward_headers(&server.entry, call.caller());
            }
            let span = self.tracing.attempt(call, name);
            ask.meta = span.as_ref().map_or(ask.meta, |span| span.meta());
            let answered = pin!(connection.send(ask, channel.link)).await;
            if let Some(span) = span {
                span.end(&answered);
            }
            let answer = match answered {
                // The server has dropped our session and has not read the request: reconnect and send it once more.
                Err(UpstreamError::SessionExpired { .. }) if !renewed => {
                    renewed = true;
                    Box::pin(server.restart()).await;
                    continue;
                }
                other => other?,
            };
            match read_answer(answer, &connection)? {
                Answer::InputRequired { requests, state, server }
                    if questions != QuestionHandling::Returned
                        || channel.link.is_followed_as_task()
                        || requests.as_ref().is_some_and(|asked| channel.gateway_answers(asked)) =>
                {
                    let Some(requests) = requests else {
                        round = Round { input_responses: None, request_state: state };
                        continue;
                    };
                    match Box::pin(put_questions(&requests, &server, channel.link)).await {
                        Ok(responses) => {
                            round = Round { input_responses: Some(responses), request_state: state }
                        }
                        Err(_) if channel.link.has_asked_too_much() => {
                            return Err(UpstreamError::AskedTooMuch { server });
                        }
                        Err(error) => {
                            tracing::debug!("a question of `{server}` was not answered: {}", error.message);
                            return Ok(Answer::Error(error));
                        }
                    }
                }
                Answer::Error(error)
                    if questions == QuestionHandling::Returned
                        && error.code == URL_ELICITATION_REQUIRED
                        && !channel.link.is_followed_as_task() =>
                {
                    return Ok(ask_to_open_urls(error, channel.client, name));
                }
                Answer::Error(error)
                    if questions == QuestionHandling::ByPerson && error.code == URL_ELICITATION_REQUIRED =>
                {
                    // Other calls may use the connection while the person decides.
                    drop(connection);
                    match Box::pin(visit_urls(&error, channel, name)).await {
                        // The server did not begin the call.
                        UrlVisits::Accepted => round = Round::default(),
                        UrlVisits::Refused => return Ok(Answer::Error(error)),
                    }
                }
                Answer::Result { result, facts, .. } if facts.is_task && connection.era == Era::Modern => {
                    let task = ServerTask::started(&result, call, &server.entry, channel, &connection)?;
                    return Box::pin(task.follow(&result)).await;
                }
                Answer::Result { result, .. } if is_task && result.has("task") => {
                    let created = result.member("task").unwrap_or_else(RawJson::empty_object);
                    let task = ServerTask::started(&created, call, &server.entry, channel, &connection)?;
                    return Box::pin(task.follow_legacy(&created)).await;
                }
                answer => return only_declared(answer, channel.client),
            }
        }
        Err(UpstreamError::BadAnswer {
            server: name.to_string(),
            what: format!("it asked for input more than {MAX_ROUNDS} times"),
        })
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

fn no_provider(call: &Sealed) -> Problem {
    Problem {
        code: "call.no-provider",
        blame: Blame::Gateway,
        message: format!("`{}` has no provider", call.tool().exposed),
        hint: None,
    }
}
