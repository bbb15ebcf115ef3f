//! A call, from who asks to what came back. This is the product on one screen.
//!
//! The stages refine one value and each takes the one before, so their order is a property of the
//! types: nothing reaches a server unsealed, and nothing is sealed unjudged. A call that a person
//! approved is the same call again, walking every stage with a licence.
//!
//! `pin!` makes a stage's future where it stays. Awaited as it comes, it is copied twice on its way there, and the
//! copies of all stages were a third of what a call costs.

use crate::answer::Answer;
use crate::contain::contained;
use crate::dead_letters::Undelivered;
use crate::dispatch::Rounds;
use crate::engine::Engine;
use crate::held::Asked;
use crate::routing::Served;
use crate::run::Run;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{Incoming, Judgement, authorise, draft, judge, resolve, route};
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
    /// Whether a long result may stay in pieces.
    pub reading: Reading,
    /// How long the door waits for a person; as the terms say where it does not.
    pub patience: Option<Duration>,
}

impl Engine {
    /// Makes a call. Dropping the future cancels it, down to the server, and that is recorded too.
    pub async fn call(
        self: &Arc<Self>,
        mut request: CallRequest,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        self.unwrap_inner(&mut request.incoming);
        let mut run = Run::open(self, &mut request.incoming);
        let answer = contained(pin!(self.walk(request, &mut run, link))).await;
        pin!(run.close(answer)).await
    }

    /// The stages. Whatever ends a call ends it here, so that it is recorded in one place.
    pub(crate) async fn walk(
        self: &Arc<Self>,
        request: CallRequest,
        run: &mut Run,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        let CallRequest { mut incoming, mut round, progress, rounds, reading, patience } = request;
        let (sealed, answer, _spending) = loop {
            let gathered = pin!(self.gathered_for_tool(&incoming.name, &incoming.caller)).await;
            let caller = incoming.caller.clone();
            let resolved = resolve(incoming, &self.catalog()).map_err(|fault| {
                self.note_hidden(&caller, &fault);
                gathered.explain(fault.into())
            })?;
            let permitted = authorise(resolved)?;
            let situation = self.memory().situation(&permitted, run.licence());
            let draft = draft(permitted, situation).map_err(|misfit| self.explain_misfit(*misfit))?;
            run.drafted(&draft);
            // The terms of this moment: while a person was asked, others may have come into force.
            let judged = match judge(draft, &self.terms().policies)? {
                Judgement::Run(judged) => judged,
                Judgement::Queue(waiting) => return Box::pin(self.queue(waiting)).await,
                Judgement::Ask(waiting) => {
                    match Box::pin(self.ask_person(waiting, progress, patience, link)).await? {
                        Asked::Held(held) => return Ok(Answer::held(&held)),
                        Asked::Run(approved) => incoming = run.licensed(*approved)?,
                    }
                    continue;
                }
            };
            run.grant_files(judged.draft()).await;
            let sealed = self.seal(judged, run.ids(), run.grant())?;
            let spending = self.spend(&sealed)?;

            // What is to be kept or written into must be read.
            let is_read = run.is_licensed() || run.grant().is_some() || !sealed.warnings().is_empty();
            let reading = if is_read { Reading::Whole } else { reading };
            let rounds = if run.is_licensed() { Rounds::Driven } else { rounds };
            pin!(run.sealed(&sealed)).await?;
            let manner = run.manner(std::mem::take(&mut round), progress, rounds, reading);
            if sealed.tool().terms.providers.is_empty() {
                let answer = pin!(self.dispatch(&sealed, route(&sealed), manner, link)).await;
                let answer = answer.map_err(|undelivered| run.failed(&sealed, *undelivered))?;
                break (sealed, answer, spending);
            }
            match Box::pin(self.dispatch_asking(&sealed, run, manner, patience, link)).await? {
                Served::Answer(answer) => break (sealed, answer, spending),
                Served::Waits(answer) => return Ok(answer),
                Served::Again(call) => incoming = call,
            }
        };
        let answer = pin!(self.shape(&sealed, run.id(), answer, link)).await;
        let answer =
            answer.map_err(|problem| run.failed(&sealed, *Undelivered::after_answer(&sealed, problem)))?;
        Ok(answer.warning(sealed.warnings()).warning(run.warnings()))
    }
}
