//! A call's stages. Each takes the one before and gives the next, so the order cannot be changed:
//! `Incoming -> Resolved -> Permitted -> Draft -> (judged) -> Sealed`.
//!
//! Only [`seal`] makes a [`Sealed`], and an upstream accepts nothing else.

mod authorise;
mod draft;
mod fault;
pub mod inject;
mod licence;
mod lookalike;
pub mod policy;
mod reroute;
mod resolve;
mod route;
mod seal;
mod situation;
#[cfg(test)]
mod tests;
mod warning;

pub use authorise::{Permitted, authorise};
pub use draft::{Draft, Misfit, check_edit, draft};
pub use fault::CallFault;
pub use inject::{InjectionContext, Injector, Moment};
pub use licence::{Licence, fingerprint};
pub use policy::{Judged, Judgement, Policy, Verdict, Waiting, judge};
pub use reroute::{as_called, redraft};
pub use resolve::{Incoming, Resolved, resolve};
pub use route::{Provider, Route, route};
pub use seal::{Sealed, seal};
pub use situation::{Change, Consented, Planned, Situation};
pub use warning::{MAX_WARNINGS, Warning};
