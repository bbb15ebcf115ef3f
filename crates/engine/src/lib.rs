//! The living gateway: the pipeline of a call, and the state it needs.
//!
//! Start reading at [`call`]. Knows neither axum nor clap.

#![forbid(unsafe_code)]

mod accounts;
pub mod acts;
pub mod answer;
mod cached;
pub mod call;
pub mod changes;
pub mod clock;
mod contain;
pub mod dead_letters;
mod dispatch;
pub mod engine;
pub mod events;
pub mod exposure;
pub mod files;
pub mod health;
pub mod held;
pub mod inquiry;
mod keeper;
mod keys;
mod later;
mod manifests;
mod memory;
mod newcomers;
pub mod own;
pub mod parked;
mod pins;
pub mod plan;
pub mod planning;
mod quarantine;
mod question;
pub mod record;
pub mod refresh;
mod refusals;
mod rights;
mod roster;
pub mod routing;
mod run;
pub mod sampling;
pub mod search;
mod shape;
mod shelf;
pub mod shown;
mod spending;
pub mod state;
mod subscriptions;
pub mod terms;
pub mod tokens;
pub mod trace;
mod trespass;
mod trust;
mod unrecorded;
mod vault;
mod waiting_room;

pub use acts::Act;
pub use answer::{Answer, ResultFacts};
pub use call::CallRequest;
pub use changes::Change;
pub use dead_letters::{Insisting, LetterTerms, Replayed};
pub use dispatch::Rounds;
pub use engine::{Engine, Options};
pub use exposure::Explained;
pub use files::{FileProblem, FileQuery, FileRoom, FileTerms, Files, NewFile};
pub use health::{CallSample, Health};
pub use held::AnswerFault;
pub use inquiry::Inquiry;
pub use manifests::Manifests;
pub use newcomers::Gathered;
pub use pins::Comparison;
pub use plan::{ServerPlan, Standing};
pub use planning::{Scope, StepReport, Steps};
pub use refusals::Refusal;
pub use roster::{Absentee, Rights, Roster};
pub use routing::{Assistant, ProviderReport, RouterReport, RoutingTerms, instance_key};
pub use sampling::Sampler;
pub use search::{Encoder, Found, Note};
pub use subscriptions::SubscribeError;
pub use terms::{Audience, Audited, Inspecting, ResultTerms, Terms};
pub use tokens::{MadeToken, NewToken};
pub use toolbooth_store::{
    AuditFilter, HeldFilter, LetterFilter, MAX_AUDIT_PAGE, MAX_FILES_PAGE, MAX_HELD_PAGE, MAX_LETTERS_PAGE,
    SignIn,
};
pub use trust::audit_trust;
pub use vault::Vaults;
