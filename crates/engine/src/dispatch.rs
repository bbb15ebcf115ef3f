//! Stage 8, dispatch: one deadline over all attempts, rounds and providers.

use crate::answer::{Answer, ResultFacts, ResultKind, ResultLook};
use crate::dead_letters::Undelivered;
use crate::engine::Engine;
use crate::routing::{Manner, Overdue};
use crate::sampling::{Helped, Line};
use crate::terms::Inspecting;
use std::pin::{Pin, pin};
use std::time::Duration;
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
use toolbooth_upstream::connection::{Ask, Connection, Round};
use toolbooth_upstream::process::preview;
use toolbooth_upstream::{CallLink, PeerAnswer, UpstreamError};
use toolbooth_wire::codes::URL_ELICITATION_REQUIRED;
use toolbooth_wire::meta::{error_of_a_server, of_a_server, questions_of_a_server};
use toolbooth_wire::{Era, RpcError};

/// The most rounds of questions one call may take.
const MAX_ROUNDS: usize = 10;
/// The most addresses that a server may want opened first.
const MAX_ADDRESSES: usize = 16;
/// How often a deadline looks whether a question is still open.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Who answers the questions of a modern server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// The client, on a request of its own: questions are returned.
    Returned,
    /// The client, over the link, while this call goes on.
    Driven,
}

impl Engine {
    pub(crate) async fn dispatch(
        &self,
        call: &Sealed,
        route: Route<'_>,
        manner: Manner,
        link: &CallLink,
    ) -> Result<Answer, Box<Undelivered>> {
        if self.terms().results.inspecting == Inspecting::Yes {
            link.read_updates();
        }
        let provider = match route {
            Route::Providers(_) => return Box::pin(self.through_providers(call, manner, link)).await,
            Route::Server(_) if call.tool().server.is_own() => {
                return Box::pin(self.run_own(call)).await.map_err(Undelivered::untried);
            }
            Route::Server(_) if call.tool().server.is_virtual() => {
                return Err(Undelivered::untried(no_provider(call)));
            }
            Route::Server(provider) => provider,
        };
        let helped = self.helped(call, link);
        let line = helped.as_ref().map_or_else(|| Line::plain(call, link), Helped::line);
        let mut deadline = Deadline::of(call.tool(), self.options().max_call, link);
        let turn = match call.tool().terms.parallel {
            Parallel::Allowed | Parallel::Unsaid => None,
            Parallel::OneAtATime => {
                let turn = Box::pin(self.turn(call.tool(), &mut deadline)).await;
                Some(turn.map_err(Undelivered::untried)?)
            }
        };
        // Waiting for a turn is no part of the attempt.
        let began = if turn.is_some() { Instant::now() } else { deadline.started };
        // Pinned here: handed on by value, the whole attempt would be copied at every step.
        let attempt = pin!(self.attempt(call, provider.server, &manner, &line));
        match deadline.hold(attempt).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let failed = Undelivered::on_server(None, provider.server, &error, began.into_std());
                Box::pin(self.try_again((error, failed), call, &provider, &manner, &line, deadline)).await
            }
        }
    }

    /// Waits for the turn of a call whose tool takes one at a time. The wait counts.
    async fn turn(&self, tool: &Tool, deadline: &mut Deadline<'_>) -> Result<OwnedSemaphorePermit, Problem> {
        let room = self.terms().routing.queue;
        let turns = self.routing().turns(tool);
        let taking = pin!(turns.take(&tool.exposed, room));
        deadline.hold(taking).await
    }

    pub(crate) async fn attempt(
        &self,
        call: &Sealed,
        server: &ServerName,
        manner: &Manner,
        line: &Line<'_>,
    ) -> Result<Answer, UpstreamError> {
        let Manner { progress, rounds, reading, .. } = *manner;
        let mut round = manner.round.clone();
        let name = server;
        let server = self.server(name)?;
        let mut renewed = false;
        for _ in 0..MAX_ROUNDS {
            let connection = pin!(server.connection(call.caller(), line.client)).await?;
            connection.follow_log_level(call.client()).await;
            // Answers and states are of the modern era; a legacy server asks in the middle of a call.
            let mut ask = match connection.era {
                Era::Modern => Ask::for_call(call, &round, progress, reading),
                Era::Legacy => Ask::for_call(call, &Round::default(), progress, reading),
            };
            ask.client = line.client;
            if !server.entry.forward_headers.is_empty() {
                ask.carry(&server.entry, call.caller());
            }
            let span = self.tracing.attempt(call, name);
            ask.meta = span.as_ref().map_or(ask.meta, |span| span.meta());
            let answered = pin!(connection.ask(ask, line.link)).await;
            if let Some(span) = span {
                span.end(&answered);
            }
            let answer = match answered {
                // The server has forgotten us and has not looked at the request: once more, anew.
                Err(UpstreamError::SessionExpired { .. }) if !renewed => {
                    renewed = true;
                    Box::pin(server.restart()).await;
                    continue;
                }
                other => other?,
            };
            match self.read_answer(answer, &connection)? {
                Answer::InputRequired { requests, state, server }
                    if rounds == Rounds::Driven
                        || requests.as_ref().is_some_and(|asked| line.takes(asked)) =>
                {
                    let Some(requests) = requests else {
                        round = Round { input_responses: None, request_state: state };
                        continue;
                    };
                    match Box::pin(put_questions(&requests, line.link)).await {
                        Ok(responses) => {
                            round = Round { input_responses: Some(responses), request_state: state }
                        }
                        Err(_) if line.link.has_asked_too_much() => {
                            return Err(UpstreamError::AskedTooMuch { server });
                        }
                        Err(error) => {
                            tracing::debug!("a question of `{server}` was not answered: {}", error.message);
                            return Ok(Answer::Error(error));
                        }
                    }
                }
                Answer::Error(error)
                    if rounds == Rounds::Returned && error.code == URL_ELICITATION_REQUIRED =>
                {
                    return Ok(address_first(error, line.client, name));
                }
                answer => return only_declared(answer, line.client),
            }
        }
        Err(UpstreamError::BadAnswer {
            server: name.to_string(),
            what: format!("it asked for input more than {MAX_ROUNDS} times"),
        })
    }

    /// Reads an answer as deep as the era demands.
    pub(crate) fn read_answer(
        &self,
        answer: PeerAnswer,
        connection: &Connection,
    ) -> Result<Answer, UpstreamError> {
        let era = connection.era;
        let result = match answer {
            PeerAnswer::Long(long) => {
                let facts = ResultFacts::of_long(&long);
                return Ok(Answer::Long { long, era, facts });
            }
            PeerAnswer::Whole(Err(error)) => return Ok(Answer::Error(error_of_a_server(error))),
            PeerAnswer::Whole(Ok(result)) => result,
        };
        if !result.is_object() {
            let what = format!("a result that is no object: {}", preview(result.as_bytes(), 64));
            return Err(UpstreamError::BadAnswer { server: connection.server.clone(), what });
        }
        let look = ResultLook::of(&result);
        let (kind, facts) = (look.kind(), look.facts());
        // Of two equal keys the gateway would judge one, and the client might read the other.
        if let Some(key) = look.asks_twice.filter(|_| era == Era::Modern) {
            let what = format!("a result with `{key}` twice");
            return Err(UpstreamError::BadAnswer { server: connection.server.clone(), what });
        }
        // What only the gateway says of a call, a server does not say.
        let result = if look.may_be_forged { of_a_server(result.clone()) } else { result };
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
}

/// A modern server's questions, as they may be put: each names the server, and none asks for a secret in a form.
fn input_required(result: &RawJson, server: &str) -> Result<Answer, UpstreamError> {
    let bad = |what: String| UpstreamError::BadAnswer { server: server.to_owned(), what };
    let [requests, state] =
        result.pick(["inputRequests", "requestState"]).map(|part| part.map(|part| result.share(part)));
    let requests = match requests {
        Some(requests) => {
            let checked = questions_of_a_server(&requests, server);
            Some(checked.map_err(|fault| bad(format!("a question that is not passed on: {fault}")))?)
        }
        None => None,
    };
    let asks =
        requests.as_ref().is_some_and(|requests| requests.members().is_ok_and(|asked| !asked.is_empty()));
    if !asks && state.is_none() {
        return Err(bad("`input_required` with neither questions nor a state".to_owned()));
    }
    Ok(Answer::InputRequired { requests: requests.filter(|_| asks), state, server: server.to_owned() })
}

/// Refuses questions that the client did not say it can answer: by the protocol a server asks only what was declared.
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

/// The one deadline of a call, over all attempts, rounds and providers. Progress puts it off, up to the hard
/// maximum; while a person is being asked, the server's clock stands still.
#[derive(Clone, Copy)]
pub(crate) struct Deadline<'a> {
    server: &'a str,
    /// How long the server is given, from the start and after each sign of progress.
    allowed: Duration,
    link: &'a CallLink,
    started: Instant,
    /// How long the client had been asked before the call began.
    asked_before: Duration,
    // Both by the server's clock.
    end: Instant,
    hard_end: Instant,
    progress_seen: u32,
}

impl<'a> Deadline<'a> {
    pub(crate) fn of(tool: &'a Tool, max_call: Duration, link: &'a CallLink) -> Self {
        Self::on_server(tool.server.name.as_str(), tool.terms.timeout, max_call, link)
    }

    /// The deadline of a request other than a tool call.
    pub(crate) fn on_server(
        server: &'a str,
        allowed: Duration,
        max_call: Duration,
        link: &'a CallLink,
    ) -> Self {
        let started = Instant::now();
        Self {
            server,
            allowed,
            link,
            started,
            asked_before: link.time_with_client(),
            end: started + allowed,
            hard_end: started + max_call.max(allowed),
            progress_seen: link.progress_seen(),
        }
    }

    /// How long the server's clock has stood still.
    fn stood_still(&self) -> Duration {
        self.link.time_with_client().saturating_sub(self.asked_before)
    }

    /// How much time is left.
    pub(crate) fn left(&self) -> Duration {
        (self.end + self.stood_still()).saturating_duration_since(Instant::now())
    }

    /// Whether there is time left after a pause.
    pub(crate) fn leaves(&self, pause: Duration) -> bool {
        self.left() > pause
    }

    /// Waits for something as long as the deadline lets it.
    pub(crate) async fn hold<T, E: Overdue>(
        &mut self,
        attempt: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, E> {
        self.hold_for(None, attempt).await
    }

    /// The same, for a share of the time at most. Who shows a sign of life may use all of it.
    pub(crate) async fn hold_for<T, E: Overdue>(
        &mut self,
        share: Option<Duration>,
        mut attempt: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, E> {
        let began = share.map(|_| Instant::now());
        let mut end = self.end;
        if let (Some(share), Some(began)) = (share, began) {
            end = end.min(began + share - self.stood_still());
        }
        let mut wake = end + self.stood_still();
        loop {
            if let Ok(outcome) = tokio::time::timeout_at(wake, attempt.as_mut()).await {
                return outcome;
            }
            let now = Instant::now();
            wake = end + self.stood_still();
            if wake <= now && self.link.progress_seen() != self.progress_seen && end < self.hard_end {
                self.progress_seen = self.link.progress_seen();
                end = (now - self.stood_still() + self.allowed).min(self.hard_end);
                self.end = self.end.max(end);
                wake = end + self.stood_still();
            }
            if wake <= now {
                return Err(E::overdue(self.server, began.unwrap_or(self.started).elapsed()));
            }
            // With little time left, the open question would be looked at again at once, and again.
            if self.link.waits_for_client() {
                wake = wake.max(now + LOOK_AGAIN);
            }
        }
    }
}

/// Asks the client every question of a modern server, at once, and gathers the answers by key.
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

/// A legacy server serves a call only after its user has opened some address: a question to a modern client, which
/// makes the call again when it is done. One that cannot open any is told of the error.
pub(crate) fn address_first(error: RpcError, client: &ClientFacts, server: &ServerName) -> Answer {
    let requests = if client.can_open_urls() { addresses(&error, server.as_str()) } else { None };
    match requests {
        Some(requests) => {
            Answer::InputRequired { requests: Some(requests), state: None, server: server.to_string() }
        }
        None => Answer::Error(error),
    }
}

/// The addresses that an error names, as questions. The modern era knows no ids for them.
fn addresses(error: &RpcError, server: &str) -> Option<RawJson> {
    let listed = error.data.as_ref()?.member("elicitations")?.elements().ok()?;
    if listed.is_empty() || listed.len() > MAX_ADDRESSES {
        return None;
    }
    let mut requests = ObjectWriter::default();
    for (index, one) in listed.into_iter().enumerate() {
        one.member("url").as_ref().and_then(RawJson::string)?;
        let params = edit_object(&of_a_server(one), |key, _| match key {
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn for_ever() -> Result<(), UpstreamError> {
        std::future::pending().await
    }

    fn deadline<'a>(allowed: u64, link: &'a CallLink) -> Deadline<'a> {
        Deadline::on_server("s", Duration::from_secs(allowed), Duration::from_secs(3600), link)
    }

    // Audit: after a long question the server had about a second left.
    #[tokio::test(start_paused = true)]
    async fn a_question_takes_nothing_of_the_servers_time() {
        let (link, _events) = CallLink::new();
        let start = Instant::now();
        let mut deadline = deadline(30, &link);
        let attempt = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let asked = link.question("elicitation/create", None);
            tokio::time::sleep(Duration::from_secs(300)).await;
            drop(asked);
            for_ever().await
        };
        let error = deadline.hold(pin!(attempt)).await.expect_err("overdue");
        assert!(matches!(error, UpstreamError::Timeout { .. }), "{error}");
        let took = start.elapsed().as_secs_f64();
        assert!((329.0..332.0).contains(&took), "5 s + 300 s asked + the 25 s that were left, not {took}");
    }

    // Audit: `MAX_QUESTION` counted from the call's start.
    #[tokio::test(start_paused = true)]
    async fn a_late_question_may_take_as_long_as_an_early_one() {
        let (link, _events) = CallLink::new();
        let mut deadline = deadline(900, &link);
        let attempt = async {
            tokio::time::sleep(Duration::from_secs(890)).await;
            let asked = link.question("elicitation/create", None);
            tokio::time::sleep(Duration::from_secs(500)).await;
            drop(asked);
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok::<_, UpstreamError>(())
        };
        deadline.hold(pin!(attempt)).await.expect("in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_answers_ends() {
        let (link, _events) = CallLink::new();
        let start = Instant::now();
        let mut deadline = deadline(30, &link);
        let _asked = link.question("elicitation/create", None);
        deadline.hold(pin!(for_ever())).await.expect_err("overdue");
        let took = start.elapsed().as_secs();
        assert!((629..640).contains(&took), "ten minutes and the server's own 30 s, not {took}");
    }
}
