//! The calls of steps: each step of a plan is a call like any other.

use super::options::QuestionHandling;
use super::pipeline::CallPipeline;
use super::{Answer, CallRequest};
use crate::skills::{StepCall, StepCaller};
use futures_util::future::BoxFuture;
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
        let StepCall { incoming, id, approval_wait, timeout } = call;
        let request = CallRequest {
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
        Box::pin(async move { self.call(request, link).await })
    }
}
