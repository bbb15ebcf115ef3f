//! Calls without a waiting client: approved calls whose client is gone, and replays of dead letters.

use super::contain::contain_panics;
use super::options::QuestionHandling;
use super::pipeline::CallPipeline;
use super::record::CallRecord;
use super::{Answer, CallRequest};
use crate::approvals::{ApprovedCall, ApprovedCallRunner};
use crate::dead_letters::{ReplayOutcome, ReplayRequest, ReplayRunner};
use futures_util::future::BoxFuture;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::IncomingCall;
use toolbooth_core::fault::Problem;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;

impl ApprovedCallRunner for CallPipeline {
    fn run_approved(self: Arc<Self>, approved: ApprovedCall) -> BoxFuture<'static, Result<Answer, Problem>> {
        Box::pin(async move {
            let (mut record, incoming) = CallRecord::of_approved(&self, approved)?;
            let answer = self.run_stages_unattended(incoming, &mut record).await;
            record.close(answer).await
        })
    }
}

impl ReplayRunner for CallPipeline {
    fn replay(self: Arc<Self>, request: ReplayRequest) -> BoxFuture<'static, ReplayOutcome> {
        let ReplayRequest { mut incoming, letter, first_call, by } = request;
        Box::pin(async move {
            let mut record = CallRecord::open(&self, None, &mut incoming);
            record.note_replay(letter, first_call, by.as_deref());
            let answer = self.run_stages_unattended(incoming, &mut record).await;
            // The letter exists already: no second one is written for this call.
            let failed = record.take_failed_call();
            ReplayOutcome { answer: record.close(answer).await, failed }
        })
    }
}

impl CallPipeline {
    async fn run_stages_unattended(
        &self,
        incoming: IncomingCall,
        record: &mut CallRecord,
    ) -> Result<Answer, Problem> {
        let request = CallRequest {
            incoming,
            readiness: None,
            round: Round::default(),
            progress: ProgressMode::Unwanted,
            questions: QuestionHandling::DuringCall,
            reading: ResultReading::Whole,
            // Questions are held as for any call; no client waits here.
            approval_wait: Some(Duration::ZERO),
            timeout: None,
            id: None,
        };
        let link = CallLink::silent();
        contain_panics(pin!(self.run_stages(request, record, &link))).await
    }
}
