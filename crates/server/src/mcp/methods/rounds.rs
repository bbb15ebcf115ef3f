//! Continues earlier requests: a modern client answers the questions of a call in a new request, with the request state.

use super::{ImmediateReply, MethodOutcome, invalid};
use crate::mcp::FrontEndState;
use crate::mcp::client::McpClient;
use crate::mcp::other_gateways::MovedCall;
use crate::mcp::running_request::{RunningRequest, answered};
use std::sync::Arc;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_engine::parked::{OngoingCall, ParkedCall};
use toolbooth_engine::request_state::{OpenStateError, StateBinding, StateTarget};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::Round;
use toolbooth_wire::{Era, Request, RpcError};

/// The members of `params` that the gateway reads.
#[derive(Default)]
pub(super) struct Params {
    pub name: Option<RawJson>,
    pub uri: Option<RawJson>,
    pub arguments: Option<RawJson>,
    pub input_responses: Option<RawJson>,
    pub request_state: Option<RawJson>,
    pub task: Option<RawJson>,
}

impl Params {
    pub fn of(raw: &RawJson) -> Self {
        let picked = raw.pick(["name", "uri", "arguments", "inputResponses", "requestState", "task"]);
        let [name, uri, arguments, input_responses, request_state, task] =
            picked.map(|part| part.map(|part| raw.share(part)));
        Self { name, uri, arguments, input_responses, request_state, task }
    }
}

/// How a request starts.
pub(super) enum RequestStart {
    /// With a round of its own.
    New(Round),
    /// It continues an earlier request.
    Continued(MethodOutcome),
}

/// A request that may continue an earlier one.
pub(super) struct ContinuableRequest<'a> {
    pub front_end: &'a Arc<FrontEndState>,
    pub client: &'a McpClient,
    pub request: &'a Request,
    pub method: &'static str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub target: String,
    pub arguments: Option<RawJson>,
    pub progress_token: Option<RawJson>,
    /// Set by [`Self::bind`].
    pub binding: Option<StateBinding>,
}

impl ContinuableRequest<'_> {
    /// Binds the request states. Only modern clients send a state back, so only they need this.
    pub fn bind(mut self) -> Self {
        let bind =
            || StateBinding::new(&self.client.caller, self.method, &self.target, self.arguments.as_ref());
        self.binding = (self.client.era() == Era::Modern).then(bind);
        self
    }

    /// Determines whether the request continues an earlier one, and continues that.
    pub async fn start(&mut self, params: Params) -> Result<RequestStart, RpcError> {
        match take_round(self.front_end, self.client, params, self.binding.as_ref()).await? {
            RoundStart::New(round) => Ok(RequestStart::New(round)),
            RoundStart::Resumed(parked) => Ok(RequestStart::Continued(self.resume(parked))),
            RoundStart::Moved(moved) => {
                let arguments = self.arguments.clone();
                let continuing = self.front_end.continue_elsewhere(
                    self.client,
                    moved,
                    self.method,
                    &self.target,
                    arguments,
                );
                match Box::pin(continuing).await {
                    Ok(answer) => answer.map(|result| {
                        RequestStart::Continued(MethodOutcome::Ready(ImmediateReply::Result(result)))
                    }),
                    Err(why) => Ok(RequestStart::Continued(self.fail(Problem::of(&why)))),
                }
            }
        }
    }

    /// Answers with a problem, as a call that has already failed.
    pub fn fail(&mut self, problem: Problem) -> MethodOutcome {
        self.resume(failed(problem))
    }

    fn resume(&mut self, parked: ParkedCall) -> MethodOutcome {
        let ParkedCall { ongoing, questions, task } = parked;
        let running = self.run(ongoing).asking(questions);
        MethodOutcome::Ongoing(running.offering_task(task))
    }

    /// The running request of a call. Takes the binding and the progress token.
    pub fn run(&mut self, ongoing: OngoingCall) -> Box<RunningRequest> {
        let (front_end, client) = (self.front_end.clone(), self.client.clone());
        let running = RunningRequest::new(front_end, client, self.request.id.clone(), self.method, ongoing);
        running.bound(self.binding.take()).reporting(self.progress_token.take())
    }
}

/// Whether a request starts a round or resumes a parked call, here or at another gateway.
enum RoundStart {
    New(Round),
    Resumed(ParkedCall),
    Moved(MovedCall),
}

/// Determines whether this request continues an earlier one.
async fn take_round(
    front_end: &FrontEndState,
    client: &McpClient,
    params: Params,
    binding: Option<&StateBinding>,
) -> Result<RoundStart, RpcError> {
    let responses = params.input_responses;
    if responses.as_ref().is_some_and(|responses| !responses.is_object()) {
        return Err(invalid("`inputResponses` must be an object"));
    }
    let (Some(state), Some(binding)) = (params.request_state, binding) else {
        return Ok(RoundStart::New(Round { input_responses: responses, request_state: None }));
    };
    let refused = || invalid("`requestState` is not valid for this request, has expired or was used before");
    let state = state.string().ok_or_else(refused)?.into_owned();
    // Boxed, because hardly any request has a state and opening one needs a large future.
    let opened = Box::pin(front_end.engine.states().open(&state, binding)).await;
    let opened = opened.map_err(|why| {
        if why == OpenStateError::Foreign {
            let attempt = "a request state of another caller or request";
            front_end.engine.audit().record_denied(&client.caller, "request.foreign-state", attempt);
        }
        refused()
    });
    match opened? {
        StateTarget::Upstream { state } => {
            let request_state = state.and_then(|state| RawJson::parse(state).ok());
            Ok(RoundStart::New(Round { input_responses: responses, request_state }))
        }
        StateTarget::Parked(handle) => {
            let parked = front_end.engine.parking().take(&handle).ok_or_else(refused)?;
            Ok(RoundStart::Resumed(answered(parked, responses.as_ref())))
        }
        StateTarget::ParkedAt { handle, replica } => {
            if replica != front_end.engine.replica_mail().own_id() {
                return Ok(RoundStart::Moved(MovedCall { handle, replica, answers: responses }));
            }
            let parked = front_end.engine.parking().take(&handle).ok_or_else(refused)?;
            Ok(RoundStart::Resumed(answered(parked, responses.as_ref())))
        }
        StateTarget::Approval { handle, held, key } => {
            if let Some(parked) = front_end.engine.parking().take(&handle) {
                return Ok(RoundStart::Resumed(answered(parked, responses.as_ref())));
            }
            // Another gateway on the same store has asked, or this one before a restart. The decision is stored, and the
            // call is made again.
            if let Some(answer) = responses.as_ref().and_then(|responses| responses.member(&key)) {
                let deciding = front_end.engine.approvals().answer_elsewhere(&client.caller, held, answer);
                if let Err(problem) = Box::pin(deciding).await {
                    return Ok(RoundStart::Resumed(failed(problem)));
                }
            }
            Ok(RoundStart::New(Round::default()))
        }
    }
}

/// A call that has already failed.
fn failed(problem: Problem) -> ParkedCall {
    let ongoing = OngoingCall { work: Box::pin(async move { Err(problem) }), events: CallLink::new().1 };
    ParkedCall { ongoing, questions: Vec::new(), task: None }
}
