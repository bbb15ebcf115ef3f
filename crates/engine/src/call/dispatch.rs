//! Stage 8, dispatch: sends the call, under one deadline for all attempts, rounds and providers.

use super::client_channel::ClientChannel;
use super::deadline::Deadline;
use super::dispatch_failure::DispatchFailure;
use super::options::DispatchOptions;
use super::pipeline::CallPipeline;
use super::sampling::GatewaySampling;
use crate::answer::Answer;
use crate::dead_letters::AttemptTimes;
use crate::events::ProgressEvents;
use crate::terms::ResultInspection;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolbooth_core::call::{Route, Sealed};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::manifest::Parallel;
use toolbooth_upstream::CallLink;

impl CallPipeline {
    pub(crate) async fn dispatch(
        &self,
        call: &Sealed,
        route: Route<'_>,
        options: DispatchOptions,
        link: &CallLink,
    ) -> Result<Answer, Box<DispatchFailure>> {
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
                    .map_err(DispatchFailure::untried);
            }
            Route::Server(_) if call.tool().server.is_virtual() => {
                return Err(DispatchFailure::untried(no_provider(call)));
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
                Some(turn.map_err(DispatchFailure::untried)?)
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
                let failed = DispatchFailure::on_server(None, provider.server, &error, times);
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
}

fn no_provider(call: &Sealed) -> Problem {
    Problem {
        code: "call.no-provider",
        blame: Blame::Gateway,
        message: format!("`{}` has no provider", call.tool().exposed),
        hint: None,
    }
}
