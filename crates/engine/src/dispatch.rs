//! Stage 8, dispatch: one deadline over all attempts, rounds and providers.

use crate::answer::{Answer, ResultKind, ResultLook};
use crate::engine::Engine;
use crate::sampling::{Helped, Line};
use crate::terms::Inspecting;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::call::{Provider, Sealed};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_upstream::connection::{Ask, Connection, Progress, Round};
use toolbooth_upstream::error::Sent;
use toolbooth_upstream::peer::Reading;
use toolbooth_upstream::{CallLink, PeerAnswer, UpstreamError};
use toolbooth_wire::meta::{of_a_server, questions_of_a_server};
use toolbooth_wire::{Era, RpcError};

/// The most rounds of questions one call may take.
const MAX_ROUNDS: usize = 10;
/// How long a person may take to answer a question.
const MAX_QUESTION: Duration = Duration::from_secs(600);

/// Who answers the questions of a modern server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// The client, on a request of its own: questions are returned.
    Returned,
    /// The client, over the link, while this call goes on.
    Driven,
}

impl Engine {
    #[allow(clippy::too_many_arguments, reason = "the stages' values, each of a type of its own")]
    pub(crate) async fn dispatch(
        &self,
        call: &Sealed,
        providers: &[Provider<'_>],
        round: Round,
        progress: Progress,
        rounds: Rounds,
        reading: Reading,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        if call.tool().server.is_own() {
            return Box::pin(self.run_own(call)).await;
        }
        if self.terms().results.inspecting == Inspecting::Yes {
            link.read_updates();
        }
        let helped = self.helped(call, link);
        let line = helped.as_ref().map_or_else(|| Line::plain(call, link), Helped::line);
        let mut last = None;
        for provider in providers {
            // Pinned here: handed on by value, the whole attempt would be copied at every step.
            let attempt = pin!(self.attempt(call, provider, round.clone(), progress, rounds, reading, &line));
            match self.within_deadline(call.tool(), link, attempt).await {
                Ok(answer) => return Ok(answer),
                // Another provider may serve only what no provider has seen.
                Err(error) if error.sent() == Sent::No => last = Some(error),
                Err(error) => return Err(Problem::of(&error)),
            }
        }
        Err(last.map_or_else(|| no_provider(call), |error| Problem::of(&error)))
    }

    #[allow(clippy::too_many_arguments, reason = "the stages' values, each of a type of its own")]
    async fn attempt(
        &self,
        call: &Sealed,
        provider: &Provider<'_>,
        mut round: Round,
        progress: Progress,
        rounds: Rounds,
        reading: Reading,
        line: &Line<'_>,
    ) -> Result<Answer, UpstreamError> {
        let server = self.server(provider.server)?;
        let mut renewed = false;
        for _ in 0..MAX_ROUNDS {
            let connection = server.connection(call.caller(), line.client).await?;
            connection.follow_log_level(call.client()).await;
            let mut ask = Ask::for_call(call, &round, progress, reading);
            ask.client = line.client;
            let answer = match connection.ask(ask, line.link).await {
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
                        Err(error) => {
                            tracing::debug!("a question of `{server}` was not answered: {}", error.message);
                            return Ok(Answer::Error(error));
                        }
                    }
                }
                answer => return Ok(answer),
            }
        }
        Err(UpstreamError::BadAnswer {
            server: provider.server.to_string(),
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
            PeerAnswer::Stream(stream) => return Ok(Answer::Stream { stream, era }),
            PeerAnswer::Whole(Err(error)) => return Ok(Answer::Error(error)),
            PeerAnswer::Whole(Ok(result)) => result,
        };
        let look = ResultLook::of(&result);
        let (kind, facts) = (look.kind(), look.facts());
        // What only the gateway says of a call, a server does not say.
        let result = if look.may_be_forged { of_a_server(result.clone()) } else { result };
        match kind {
            _ if era == Era::Legacy => Ok(Answer::Result { result, era, facts, warnings: Vec::new() }),
            ResultKind::Finished => Ok(Answer::Result { result, era, facts, warnings: Vec::new() }),
            ResultKind::InputRequired => Ok(Answer::InputRequired {
                requests: result.member("inputRequests").as_ref().map(questions_of_a_server),
                state: result.member("requestState"),
                server: connection.server.clone(),
            }),
            ResultKind::Unknown(other) => Err(UpstreamError::BadAnswer {
                server: connection.server.clone(),
                what: format!("a result of the unknown type {other:?}"),
            }),
        }
    }

    /// Runs an attempt under the tool's deadline. Progress puts it off, up to the hard maximum; while
    /// a person is being asked, the server's clock stands still.
    async fn within_deadline<T>(
        &self,
        tool: &Tool,
        link: &CallLink,
        mut attempt: Pin<&mut impl Future<Output = Result<T, UpstreamError>>>,
    ) -> Result<T, UpstreamError> {
        let allowed = tool.terms.timeout;
        let started = Instant::now();
        let hard_end = started + self.options().max_call.max(allowed);
        let mut end = started + allowed;
        let mut progress_seen = link.progress_seen();
        loop {
            match tokio::time::timeout_at(end, attempt.as_mut()).await {
                Ok(outcome) => return outcome,
                Err(_) if link.waits_for_client() && started.elapsed() < MAX_QUESTION => {
                    end = Instant::now() + Duration::from_secs(1);
                }
                Err(_) if link.progress_seen() != progress_seen && end < hard_end => {
                    progress_seen = link.progress_seen();
                    end = (Instant::now() + allowed).min(hard_end);
                }
                Err(_) => {
                    return Err(UpstreamError::Timeout {
                        server: tool.server.name.to_string(),
                        after: started.elapsed(),
                    });
                }
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

fn no_provider(call: &Sealed) -> Problem {
    Problem {
        code: "call.no-provider",
        blame: Blame::Gateway,
        message: format!("`{}` has no provider", call.tool().exposed),
        hint: None,
    }
}
