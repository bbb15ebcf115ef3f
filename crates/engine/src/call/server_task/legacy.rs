//! Tools that a server of revision 2025-11-25 runs only as tasks: the gateway asks for a task with the call, and waits for
//! its result. The server asks its questions meanwhile, as during a call.

use super::{MAX_FAILURES, ServerTask, ServerTaskState};
use crate::answer::Answer;
use crate::call::server_answer::read_answer;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::sleep;
use toolbooth_core::call::Sealed;
use toolbooth_core::json::RawJson;
use toolbooth_upstream::connection::Connection;
use toolbooth_upstream::{PeerAnswer, UpstreamError};

/// Whether a server refuses a call that does not ask for a task.
pub(in crate::call) fn must_run_as_task(call: &Sealed, connection: &Connection) -> bool {
    let is_required = || {
        let support = call.tool().definition.at(&["execution", "taskSupport"]);
        support.is_some_and(|support| support.as_str() == "\"required\"")
    };
    connection.has_legacy_tasks && is_required()
}

impl ServerTask<'_> {
    /// Waits for the result of the task.
    pub(in crate::call) async fn follow_legacy(mut self, created: &RawJson) -> Result<Answer, UpstreamError> {
        let pause = ServerTaskState::of(created).pause;
        let mut failures = 0;
        loop {
            let outcome = tokio::select! {
                biased;
                outcome = self.send("tasks/result", Vec::new()) => outcome,
                never = self.watch(pause) => match never {},
            };
            match outcome {
                Ok(outcome) => {
                    self.handle.is_running = false;
                    return match read_answer(PeerAnswer::Whole(outcome), self.connection)? {
                        // The client would ask the gateway for a task that only the server knows.
                        Answer::Result { result, .. } if result.has("task") && !result.has("content") => {
                            let what = "a task as the result of a task".to_owned();
                            Err(UpstreamError::BadAnswer { server: self.connection.server.clone(), what })
                        }
                        answer => Ok(answer),
                    };
                }
                Err(_) if failures < MAX_FAILURES => failures += 1,
                Err(error) => return Err(self.lost(&error)),
            }
            sleep(pause).await;
        }
    }

    /// Asks for the state of the task again and again. The deadline of the call is extended while the server answers, and
    /// its words are passed on.
    async fn watch(&self, pause: Duration) -> Infallible {
        let (mut polls, mut reported) = (0_u64, None);
        loop {
            sleep(pause).await;
            let Ok(Ok(task)) = self.send("tasks/get", Vec::new()).await else { continue };
            polls += 1;
            self.channel.link.note_activity();
            let message = ServerTaskState::of(&task).message;
            if let Some(message) = message.filter(|now| reported.as_ref() != Some(now)) {
                self.report(polls, &message);
                reported = Some(message);
            }
        }
    }
}
