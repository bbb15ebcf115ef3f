//! A tool call, from the caller's request to the answer. Start reading the gateway here.
//!
//! Every call passes ten stages in this order:
//!
//! | stage | what it does | code (`core` and `server` are crates; `engine/src` is left out) |
//! |---|---|---|
//! | 1 identify | finds out who calls | `server/src/identify`, before the call gets here |
//! | 2 resolve | finds the tool among those that the caller may see | `core/src/call/resolve.rs` |
//! | 3 authorise | checks that the caller may use the tool; also for tools behind a manifest tool, which are not found by name | `core/src/call/authorise.rs` |
//! | 4 draft | checks the arguments against the tool's schema | `core/src/call/draft.rs` |
//! | 5 judge | applies the operator's policies: run, ask a person, queue in a plan, refuse, or hide the tool; asks the operator's hooks | `core/src/call/policy`, `approvals`, `call/hooking.rs` |
//! | 6 seal | adds what only the gateway supplies: identity, `_mcp_data`, file URLs, idempotency keys; charges the caller's allowance; stores the intent | `core/src/call/seal.rs`, `call/seal.rs`, `call/allowance.rs`, `call/record.rs` |
//! | 7 route | chooses the tool's server or its list of providers | `core/src/call/route.rs`, `routing` |
//! | 8 dispatch | sends the call, with one deadline over all retries | `call/dispatch.rs`, `call/attempt.rs`, `call/serving` |
//! | 9 shape | stores files of the result, applies the token budget, and asks the operator's hooks | `call/shape.rs`, `call/hooking.rs` |
//! | 10 record | writes the audit row, metrics, health and dead letter | `call/record.rs`, `call/record/close.rs` |
//!
//! The record of a call says when each stage began. There, the time that a person takes to decide is a stage of its own,
//! `ask`, and identify is left out, because it ends before the record begins.
//!
//! Stages 2 to 6 consume the value of the stage before them, and dispatch accepts only a `Sealed`. So the compiler
//! enforces the order: a call that was not judged cannot be sealed, and an unsealed call cannot be sent. If a person
//! has to approve a call, the approved call starts again at stage 2 and carries the approval. If a tool of a server serves a
//! manifest tool, stages 3 to 6 run again for that tool inside stage 8 (`call/serving/serve.rs`). A person is asked about that
//! tool separately, unless the manifest tool only overrides it: then stage 5 has asked already.
//!
//! The stages use the parts of the engine (catalog, approvals, files and so on), which `CallPipeline` holds.
//!
//! Stage futures are pinned with `pin!` because they are large: an `await` on an unpinned future copies it twice, and
//! these copies were a third of the gateway's time per call.

mod allowance;
mod attempt;
mod chat;
mod client_channel;
mod contain;
mod deadline;
mod dispatch;
mod dispatch_failure;
mod hooking;
mod options;
mod pipeline;
mod recent_results;
mod record;
mod sampling;
mod sampling_draft;
mod seal;
mod server_answer;
mod server_task;
mod serving;
mod shape;
mod steps;
mod summary;
mod unattended;
mod unrecorded;

pub use chat::ChatTurnRequest;
pub(crate) use deadline::Deadline;
pub use options::QuestionHandling;
pub use pipeline::CallPipeline;
pub(crate) use pipeline::PipelineParts;
pub use recent_results::RecentResults;
pub use sampling_draft::{PersonSampling, SamplingAnswer, SamplingDraft};
pub(crate) use server_answer::{ask_to_open_urls, only_declared, put_questions, read_answer};

use crate::answer::Answer;
use crate::approvals::ApprovalOutcome;
use crate::catalog::CatalogReadiness;
use allowance::AllowanceUse;
use contain::contain_panics;
use dispatch_failure::DispatchFailure;
use options::DispatchOptions;
use record::CallRecord;
use serving::ProviderOutcome;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{
    CallFault, CallStage, IncomingCall, Judgement, Route, authorise, draft, judge, resolve, route,
};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;
use toolbooth_core::exposure::meta;
use toolbooth_core::fault::Problem;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;
use uuid::Uuid;

/// A tool call as a front end passes it to the engine.
#[derive(Debug)]
pub struct CallRequest {
    /// The identified caller, the tool's name and the arguments.
    pub incoming: IncomingCall,
    /// The result of `LiveCatalog::wait_for_tool` for this name and caller, if the front end has already waited.
    pub readiness: Option<CatalogReadiness>,
    /// The client's answers and the request state, if this request continues an earlier one.
    pub round: Round,
    /// Whether the client wants progress notifications.
    pub progress: ProgressMode,
    /// How the client answers questions of the server: in a new request, or during this one.
    pub questions: QuestionHandling,
    /// Whether a long result may be passed on in pieces, without being read whole.
    pub reading: ResultReading,
    /// How long to wait for a person's approval; `None` for the configured `approval.wait_seconds`.
    pub approval_wait: Option<Duration>,
    /// The caller's deadline, which comes before the tool's own; bounded by `limits.max_call_seconds`.
    pub timeout: Option<Duration>,
    /// The id of the call, if the front end names it before the call ends; `None` for a new one.
    pub id: Option<Uuid>,
}

impl CallPipeline {
    /// Makes a tool call. Dropping the future cancels the call at the server; the cancellation is recorded, too.
    pub async fn call(
        self: &Arc<Self>,
        mut request: CallRequest,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        let _in_flight = self.metrics.begin();
        // A call of `mcp_tool_call` becomes the call inside it, so that all rules for the inner tool apply.
        if unwrap_meta_call(&mut request.incoming) {
            request.readiness = None;
        }
        let mut record = CallRecord::open(self, request.id, &mut request.incoming);
        let answer = contain_panics(pin!(self.run_stages(request, &mut record, link))).await;
        pin!(record.close(answer)).await
    }

    /// Runs stages 2 to 9. `call` runs stage 10, `CallRecord::close`, however they end.
    async fn run_stages(
        &self,
        request: CallRequest,
        record: &mut CallRecord,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        let CallRequest {
            mut incoming,
            mut readiness,
            mut round,
            progress,
            questions,
            reading,
            approval_wait,
            timeout,
            id: _,
        } = request;

        // Kept until the end of this function: dropping it adds the running time to what the caller has used.
        let mut allowance_use: Option<Box<AllowanceUse>> = None;
        // Usually one pass; each approval that the call needs adds another.
        let (sealed, answer) = loop {
            record.enter(CallStage::Resolve);
            let ready = match readiness.take() {
                Some(ready) => ready,
                None => pin!(self.catalog.wait_for_tool(&incoming.name, &incoming.caller)).await,
            };
            // Stages 2 to 6 of one pass use this snapshot of the catalog.
            let catalog = self.catalog.load();

            // Stages 2 to 4: resolve, authorise, draft.
            let caller = incoming.caller.clone();
            let resolved = resolve(incoming, &catalog)
                .map_err(|fault| self.explain_unresolved(fault, &catalog, &caller, ready))?;
            record.enter(CallStage::Authorise);
            let permitted = authorise(resolved)?;
            record.enter(CallStage::Draft);
            let situation = self.decisions.situation(&permitted, record.approval(), &self.clock);
            let draft = draft(permitted, situation)
                .map_err(|mismatch| self.exposure.explain_mismatch(&catalog, *mismatch))?;
            record.note_draft(&draft);

            // Stage 5: judge. The policies are read in every pass: a reload may have replaced them while a person was
            // asked.
            record.enter(CallStage::Judge);
            let judgement = judge(draft, &self.terms.load().policies)?;
            let judgement = pin!(self.apply_pre_hooks(judgement, record)).await?;
            let judged = match judgement {
                Judgement::Run(judged) => judged,
                Judgement::Queue(waiting) => {
                    drop(catalog);
                    return Box::pin(self.plans.queue_step(waiting)).await;
                }
                Judgement::Ask(waiting) => {
                    drop(catalog);
                    record.enter(CallStage::Ask);
                    let origin = record.origin();
                    let asking = self.approvals.ask_person(waiting, origin, progress, approval_wait, link);
                    match Box::pin(asking).await? {
                        ApprovalOutcome::Held(held) => return Ok(Answer::held(&held)),
                        ApprovalOutcome::Run(approved) => incoming = record.take_approval(*approved)?,
                    }
                    continue;
                }
            };

            // Stage 6: seal.
            record.enter(CallStage::Seal);
            record.grant_files(judged.draft()).await;
            let sealed = self.sealer.seal(judged, &catalog, record.ids(), record.file_grant())?;
            drop(catalog);
            self.allowances.charge(&sealed, &mut allowance_use)?;

            // The result must be read whole if a person approved the call (it is stored with the held call), if the
            // call names files (tokens of their URLs are removed from it), if warnings are added to it, or if a hook sees
            // it.
            let must_read = record.is_approved()
                || record.file_grant().is_some()
                || !sealed.warnings().is_empty()
                || self.has_post_hooks(sealed.tool());
            let reading = if must_read { ResultReading::Whole } else { reading };
            // An approval is valid for one call. Answers in a new request would be a new call, without the approval.
            let questions = if record.is_approved() { questions.during_call() } else { questions };
            pin!(record.note_intent(&sealed)).await?;

            // Stages 7 and 8: route and dispatch.
            record.enter(CallStage::Route);
            // Only a call to a server has further rounds; providers get their answers while the call runs.
            let round = std::mem::take(&mut round);
            let options = DispatchOptions {
                timeout,
                approval_wait,
                ..record.dispatch_options(round, progress, questions, reading)
            };
            let route = route(&sealed);
            record.enter(CallStage::Dispatch);
            match route {
                server @ Route::Server(_) => {
                    let answer = pin!(self.dispatch(&sealed, server, options, link)).await;
                    let answer = answer.map_err(|failure| record.note_failure(&sealed, *failure))?;
                    break (sealed, answer);
                }
                Route::Providers(_) => {
                    let dispatch = self.dispatch_to_providers(&sealed, record, options, approval_wait, link);
                    match Box::pin(dispatch).await? {
                        ProviderOutcome::Answered(answer) => break (sealed, answer),
                        ProviderOutcome::Held(answer) => return Ok(answer),
                        ProviderOutcome::Approved(again) => {
                            incoming = again;
                            continue;
                        }
                    }
                }
            }
        };

        // Stage 9: shape.
        record.enter(CallStage::Shape);
        let answer = pin!(self.shape(&sealed, record.id(), answer, link)).await;
        let answer = match answer {
            Ok(answer) if self.has_post_hooks(sealed.tool()) => {
                Box::pin(self.ask_post_hooks(&sealed, record.id(), answer)).await
            }
            other => other,
        };
        let answer = answer.map_err(|problem| {
            record.note_failure(&sealed, *DispatchFailure::after_answer(&sealed, problem, &self.clock))
        })?;
        Ok(answer.with_warnings(sealed.warnings()).with_warnings(record.warnings()))
    }

    /// Why a tool was not found: for example, the caller has not stored a key for its server yet.
    fn explain_unresolved(
        &self,
        fault: CallFault,
        catalog: &Catalog,
        caller: &Caller,
        ready: CatalogReadiness,
    ) -> Problem {
        self.audit.record_hidden_tool(catalog, caller, &fault);
        if let CallFault::UnknownTool { name } = &fault
            && let Some(missing) = self.servers.missing_key(name, caller)
        {
            return Problem::of(&missing);
        }
        ready.mention_starting_servers(fault.into())
    }
}

/// Replaces a call of `mcp_tool_call` by the call inside it, and returns whether it did.
fn unwrap_meta_call(incoming: &mut IncomingCall) -> bool {
    if incoming.name == meta::CALL
        && let Some((name, arguments)) = meta::inner_call(incoming.arguments.as_ref())
    {
        incoming.name = name;
        incoming.arguments = arguments;
        return true;
    }
    false
}
