//! Questions of a tool behind a manifest tool. They are that tool's own: a yes to the called tool does not answer them.
//!
//! Which provider serves a call is known only while it is routed. So the question travels back as a reason why the call
//! was not served, the person is asked as for any held call, and on a yes the call walks every stage again.

use super::Manner;
use crate::answer::Answer;
use crate::engine::Engine;
use crate::held::Asked;
use crate::run::Run;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{CallFault, Incoming, Sealed, Waiting, route};
use toolbooth_core::fault::Problem;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::Progress;

/// What the tool behind a manifest tool needs before it serves a call.
#[derive(Debug)]
pub(crate) enum InnerQuestion {
    /// A person is asked.
    Ask(Waiting),
    /// It becomes a step of the caller's plan.
    Queue(Waiting),
}

impl InnerQuestion {
    /// The fault if no person can be asked.
    pub(crate) fn problem(&self) -> Problem {
        let (Self::Ask(waiting) | Self::Queue(waiting)) = self;
        let name = waiting.draft().tool.exposed.to_string();
        Problem::of(&CallFault::Refused { name, reason: waiting.reason.clone() })
    }
}

/// What came of a call that providers serve.
pub(crate) enum Served {
    /// The answer.
    Answer(Answer),
    /// The call waits: what its caller is told.
    Waits(Answer),
    /// A person agreed to what a tool behind it asked: the same call, to walk every stage again.
    Again(Incoming),
}

impl Engine {
    /// Has a call served by its providers; what a tool behind it asks is asked.
    pub(crate) async fn dispatch_asking(
        self: &Arc<Self>,
        sealed: &Sealed,
        run: &mut Run,
        manner: Manner,
        patience: Option<Duration>,
        link: &CallLink,
    ) -> Result<Served, Problem> {
        let progress: Progress = manner.progress;
        let mut undelivered = match self.dispatch(sealed, route(sealed), manner, link).await {
            Ok(answer) => return Ok(Served::Answer(answer)),
            Err(undelivered) => undelivered,
        };
        let waiting = match undelivered.question.take().map(|question| *question) {
            None => return Err(run.failed(sealed, *undelivered)),
            Some(InnerQuestion::Queue(waiting)) => return self.queue(waiting).await.map(Served::Waits),
            Some(InnerQuestion::Ask(waiting)) => waiting,
        };
        let is_of_call = Arc::ptr_eq(&waiting.draft().tool, sealed.tool());
        match self.ask_person(waiting, progress, patience, link).await? {
            Asked::Held(held) => Ok(Served::Waits(Answer::held(&held))),
            // The mapped arguments raised it, but the yes is to the call itself.
            Asked::Run(approved) if is_of_call => run.licensed(*approved).map(Served::Again),
            Asked::Run(approved) => {
                let caller = run.licensed_behind(*approved)?;
                Ok(Served::Again(sealed.again(caller)))
            }
        }
    }
}
