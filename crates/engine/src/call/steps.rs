//! The calls of steps: each step of a plan is a call like any other.

use super::contain::contain_panics;
use super::options::QuestionHandling;
use super::pipeline::CallPipeline;
use super::record::CallRecord;
use super::{Answer, CallRequest, unwrap_meta_call};
use crate::skills::{StepCall, StepCaller};
use futures_util::future::BoxFuture;
use std::pin::pin;
use std::sync::Arc;
use toolbooth_core::fault::Problem;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;

impl StepCaller for CallPipeline {
    fn call_step<'a>(
        self: Arc<Self>,
        call: StepCall,
        link: &'a CallLink,
    ) -> BoxFuture<'a, Result<Answer, Problem>> {
        let StepCall { incoming, id, step, approval_wait, timeout, label } = call;
        let mut request = CallRequest {
            incoming,
            readiness: None,
            round: Round::default(),
            progress: ProgressMode::Unwanted,
            // A question in the result of one step could not be answered: a new request would be a new run.
            questions: QuestionHandling::DuringCall,
            reading: ResultReading::Whole,
            approval_wait,
            timeout,
            id: Some(id),
        };
        Box::pin(async move {
            unwrap_meta_call(&mut request.incoming);
            let mut record = CallRecord::open(&self, request.id, &mut request.incoming);
            record.note_run(&label, &step);
            let answer = contain_panics(pin!(self.run_stages(request, &mut record, link))).await;
            pin!(record.close(answer)).await
        })
    }
}
