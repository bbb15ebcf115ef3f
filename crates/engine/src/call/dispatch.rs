//! Stage 8, dispatch: sends the call, under one deadline for all attempts, rounds and providers.

use super::client_channel::ClientChannel;
use super::deadline::Deadline;
use super::options::{DispatchOptions, QuestionHandling};
use super::pipeline::CallPipeline;
use super::sampling::GatewaySampling;
use super::undelivered::Undelivered;
use crate::answer::{Answer, ResultFacts, ResultKind, ResultScan};
use crate::dead_letters::AttemptTimes;
use crate::events::ProgressEvents;
use crate::terms::ResultInspection;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolbooth_core::call::{Route, Sealed};
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::catalog::Tool;
use toolbooth_core::elicitation::screened;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, edit_object, with_members};
use toolbooth_core::manifest::Parallel;
use toolbooth_core::names::ServerName;
use toolbooth_upstream::connection::{Connection, Round, UpstreamRequest};
use toolbooth_upstream::process::preview;
use toolbooth_upstream::{CallLink, PeerAnswer, UpstreamError};
use toolbooth_wire::codes::URL_ELICITATION_REQUIRED;
use toolbooth_wire::meta::{screen_questions, strip_gateway_error_data, strip_gateway_meta};
use toolbooth_wire::{Era, RpcError};

/// The maximum number of rounds of questions in one call.
const MAX_ROUNDS: usize = 10;
/// The maximum number of URLs that a server may require to be opened first.
const MAX_URLS: usize = 16;

impl CallPipeline {
    pub(crate) async fn dispatch(
        &self,
        call: &Sealed,
        route: Route<'_>,
        options: DispatchOptions,
        link: &CallLink,
    ) -> Result<Answer, Box<Undelivered>> {
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
                    .map_err(Undelivered::untried);
            }
            Route::Server(_) if call.tool().server.is_virtual() => {
                return Err(Undelivered::untried(no_provider(call)));
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
                Some(turn.map_err(Undelivered::untried)?)
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
                let failed = Undelivered::on_server(None, provider.server, &error, times);
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
                    if questions == QuestionHandling::DuringCall
                        || requests.as_ref().is_some_and(|asked| channel.gateway_answers(asked)) =>
                {
                    let Some(requests) = requests else {
                        round = Round { input_responses: None, request_state: state };
                        continue;
                    };
                    match Box::pin(put_questions(&requests, channel.link)).await {
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
                    if questions == QuestionHandling::Returned && error.code == URL_ELICITATION_REQUIRED =>
                {
                    return Ok(ask_to_open_urls(error, channel.client, name));
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

/// Reads a server's answer as far as its era requires.
pub(crate) fn read_answer(answer: PeerAnswer, connection: &Connection) -> Result<Answer, UpstreamError> {
    let era = connection.era;
    let result = match answer {
        PeerAnswer::Long(long) => {
            let facts = ResultFacts::of_long(&long);
            return Ok(Answer::Long { long, era, facts });
        }
        PeerAnswer::Whole(Err(error)) => return Ok(Answer::Error(strip_gateway_error_data(error))),
        PeerAnswer::Whole(Ok(result)) => result,
    };
    if !result.is_object() {
        let what = format!("a result that is not an object: {}", preview(result.as_bytes(), 64));
        return Err(UpstreamError::BadAnswer { server: connection.server.clone(), what });
    }
    let scan = ResultScan::of(&result);
    let (kind, facts) = (scan.kind(), scan.facts());
    // With a repeated key, the gateway might check one value and the client read the other.
    if let Some(key) = scan.repeated_key.filter(|_| era == Era::Modern) {
        let what = format!("a result with `{key}` twice");
        return Err(UpstreamError::BadAnswer { server: connection.server.clone(), what });
    }
    // Only the gateway may set its own `_meta` keys: they are removed from a server's result.
    let result = if scan.may_be_forged { strip_gateway_meta(result.clone()) } else { result };
    match kind {
        _ if era == Era::Legacy => Ok(Answer::Result { result, era, facts, warnings: Vec::new() }),
        ResultKind::Finished => Ok(Answer::Result { result, era, facts, warnings: Vec::new() }),
        ResultKind::InputRequired => input_required(&result, &connection.server),
        ResultKind::Unknown(other) => Err(UpstreamError::BadAnswer {
            server: connection.server.clone(),
            what: format!("a result of the unknown type {other:?}"),
        }),
    }
}

/// Reads the questions of a modern server, and screens them: forms name the server and must not ask for secrets.
fn input_required(result: &RawJson, server: &str) -> Result<Answer, UpstreamError> {
    let bad = |what: String| UpstreamError::BadAnswer { server: server.to_owned(), what };
    let [requests, state] =
        result.pick(["inputRequests", "requestState"]).map(|part| part.map(|part| result.share(part)));
    let requests = match requests {
        Some(requests) => {
            let checked = screen_questions(&requests, server);
            Some(checked.map_err(|fault| bad(format!("a question that was refused: {fault}")))?)
        }
        None => None,
    };
    let asks =
        requests.as_ref().is_some_and(|requests| requests.members().is_ok_and(|asked| !asked.is_empty()));
    if !asks && state.is_none() {
        return Err(bad("`input_required` without questions and without a state".to_owned()));
    }
    Ok(Answer::InputRequired { requests: requests.filter(|_| asks), state, server: server.to_owned() })
}

/// Rejects questions that the client did not declare it can answer: the protocol forbids servers to ask them.
pub(crate) fn only_declared(answer: Answer, client: &ClientFacts) -> Result<Answer, UpstreamError> {
    let Answer::InputRequired { requests: Some(requests), server, .. } = &answer else { return Ok(answer) };
    for request in requests.members().unwrap_or_default() {
        let method = request.value.member("method");
        let method = method.as_ref().and_then(RawJson::string).unwrap_or_default();
        if !client.can_answer(&method, request.value.member("params").as_ref()) {
            let method = preview(method.as_bytes(), 100);
            let what = format!("a question that the client did not declare it can answer (`{method}`)");
            return Err(UpstreamError::BadAnswer { server: server.clone(), what });
        }
    }
    Ok(answer)
}

/// Asks the client all questions of a modern server at once, and collects the answers by key.
pub(crate) async fn put_questions(requests: &RawJson, link: &CallLink) -> Result<RawJson, RpcError> {
    let members = requests
        .members()
        .map_err(|_| RpcError::new(toolbooth_wire::codes::INTERNAL_ERROR, "unreadable questions"))?;
    let answers = members.iter().map(|member| async move {
        let method = member.value.member("method");
        let method = method.as_ref().and_then(RawJson::string).unwrap_or_default();
        link.ask(&method, member.value.member("params")).await
    });
    let answers = futures_util::future::try_join_all(answers).await?;
    let mut writer = ObjectWriter::default();
    for (member, answer) in members.iter().zip(answers) {
        writer.raw(&member.key, &answer);
    }
    Ok(writer.finish())
}

/// Converts a legacy server's demand to open URLs first into questions for a modern client, which then repeats the
/// call. A client that cannot open URLs gets the error.
pub(crate) fn ask_to_open_urls(error: RpcError, client: &ClientFacts, server: &ServerName) -> Answer {
    let requests = if client.can_open_urls() { url_questions(&error, server.as_str()) } else { None };
    match requests {
        Some(requests) => {
            Answer::InputRequired { requests: Some(requests), state: None, server: server.to_string() }
        }
        None => Answer::Error(error),
    }
}

/// The URLs in an error, as questions. The modern era has no ids for them.
fn url_questions(error: &RpcError, server: &str) -> Option<RawJson> {
    let listed = error.data.as_ref()?.member("elicitations")?.elements().ok()?;
    if listed.is_empty() || listed.len() > MAX_URLS {
        return None;
    }
    let mut requests = ObjectWriter::default();
    for (index, one) in listed.into_iter().enumerate() {
        one.member("url").as_ref().and_then(RawJson::string)?;
        let params = edit_object(&strip_gateway_meta(one), |key, _| match key {
            "elicitationId" | "mode" => Edit::Drop,
            _ => Edit::Keep,
        });
        let mode = RawJson::trusted(&b"\"url\""[..]);
        let params = with_members(&params.ok()?, &[("mode", mode)]).ok()?;
        let params = screened(server, params).ok()?;
        let mut request = ObjectWriter::default();
        request.text("method", "elicitation/create").raw("params", &params);
        requests.raw(&format!("url-{}", index + 1), &request.finish());
    }
    Some(requests.finish())
}

fn no_provider(call: &Sealed) -> Problem {
    Problem {
        code: "call.no-provider",
        blame: Blame::Gateway,
        message: format!("`{}` has no provider", call.tool().exposed),
        hint: None,
    }
}
