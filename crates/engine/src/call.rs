//! A call, from who asks to what came back. This is the product on one screen.
//!
//! The stages refine one value and each takes the one before, so their order is a property of the
//! types: nothing reaches a server unsealed, and nothing is sealed unjudged.

use crate::answer::Answer;
use crate::dispatch::Rounds;
use crate::engine::Engine;
use toolbooth_core::call::{Incoming, authorise, draft, judge, resolve, route};
use toolbooth_core::fault::Problem;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::peer::Reading;

/// A call as a door hands it in, with what the door can take in return.
#[derive(Debug)]
pub struct CallRequest {
    /// Who calls what, with which arguments. Stage 1, identify, was the door's.
    pub incoming: Incoming,
    /// Answers and state, when this is a later round of an earlier call.
    pub round: Round,
    /// Whether the client wants progress.
    pub progress: Progress,
    /// Who answers a server's questions: the client on another request, or the link during this one.
    pub rounds: Rounds,
    /// Whether a long result may be passed on unread.
    pub reading: Reading,
}

impl Engine {
    /// Makes a call. Dropping the future cancels it, down to the server, and that is recorded too.
    pub async fn call(&self, request: CallRequest, link: &CallLink) -> Result<Answer, Problem> {
        let CallRequest { incoming, round, progress, rounds, reading } = request;
        let mut record = self.open_record(&incoming);

        let gathered = self.gathered_for_tool(&incoming.name, &incoming.caller).await;
        let resolved = resolve(incoming, &self.catalog()).map_err(|fault| gathered.explain(fault.into()))?;
        let permitted = authorise(resolved)?;
        let draft = draft(permitted)?;
        let judged = judge(draft, self.policies())?;
        let sealed = self.seal(judged)?;
        let providers = route(&sealed);

        // Warnings are written into a result, so it must be read.
        let reading = if sealed.warnings().is_empty() { reading } else { Reading::Whole };
        let answer = self.dispatch(&sealed, &providers, round, progress, rounds, reading, link).await;
        let answer = answer.map(|answer| answer.warning(sealed.warnings()));
        record.close(&answer);
        answer
    }
}
