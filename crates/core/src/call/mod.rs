//! The stages of a call. Each stage takes the previous one's output, so the order cannot be changed:
//! `IncomingCall -> ResolvedCall -> PermittedCall -> Draft -> (judged) -> Sealed`.
//!
//! Only [`seal`] creates a [`Sealed`], and upstream accepts nothing else.

mod approval;
mod authorise;
mod draft;
mod fault;
pub mod inject;
mod lookalike;
pub mod policy;
mod reroute;
mod resolve;
mod route;
mod seal;
mod situation;
mod stage_times;
#[cfg(test)]
mod tests;
mod verdict;

pub use crate::warning::{MAX_WARNINGS, Warning};
pub use approval::{Approval, fingerprint};
pub use authorise::{PermittedCall, authorise};
pub use draft::{ArgumentMismatch, Draft, check_edit, draft};
pub use fault::CallFault;
pub use inject::{InjectionContext, Injector, SealContext};
pub use policy::{HeldDraft, Judged, Judgement, Policy, Verdict, judge};
pub use reroute::{as_called, draft_for_provider};
pub use resolve::{IncomingCall, ResolvedCall, resolve};
pub use route::{Provider, Route, route};
pub use seal::{Sealed, seal};
pub use situation::{Consented, DefinitionChange, ServesPlanStep, Situation};
pub use stage_times::{CallStage, MAX_STAGE_TIMES, StageTime, StageTimes, read_stage_times};
