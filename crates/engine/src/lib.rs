//! The engine: the stages of a call, and the state of a running gateway.
//!
//! Start reading at [`call`]. Does not depend on axum or clap.

#![forbid(unsafe_code)]

pub mod acts;
mod allowance;
pub mod answer;
mod approval_form;
mod artifact_store;
pub mod call;
pub mod call_metrics;
mod call_record;
pub mod changes;
mod client_channel;
pub mod clock;
mod consents_and_audit;
mod contain;
pub mod dead_letters;
mod decision_cache;
mod denied_attempts;
pub mod desired_server;
mod discovery_cache;
mod dispatch;
pub mod engine;
pub mod events;
pub mod exposure;
pub mod exposure_stats;
pub mod files;
pub mod health;
pub mod held;
pub mod inquiry;
mod keeper;
mod keys;
mod manifests;
pub mod own;
pub mod parked;
mod pins;
pub mod planning;
mod quarantine;
pub mod refresh;
mod refusals;
pub mod request_state;
mod rights;
mod roster;
pub mod routing;
pub mod sampling;
pub mod search;
mod shape;
mod startup_wait;
mod subscriptions;
pub mod terms;
pub mod tokens;
pub mod trace;
mod trust;
mod unattended;
mod unrecorded;
mod vault;
mod waiting_room;

pub use acts::Act;
pub use answer::{Answer, ResultFacts};
pub use call::CallRequest;
pub use changes::ChangeNotice;
pub use dead_letters::{LetterTerms, ReplayAnyway, ReplayedCall};
pub use desired_server::{DesiredServer, DesiredState};
pub use dispatch::QuestionHandling;
pub use engine::{Engine, EngineOptions};
pub use exposure::ExposureReport;
pub use files::{CallerFiles, FileProblem, FileQuery, FileStorage, FileTerms, NewFile};
pub use health::{CallSample, HealthMonitor};
pub use held::DecisionFault;
pub use inquiry::Inquiry;
pub use manifests::LoadedManifests;
pub use pins::Comparison;
pub use planning::{PlanScope, StepReport, Steps};
pub use refusals::RefusedAttempt;
pub use roster::{AbsentCaller, Rights, Roster};
pub use routing::{Assistant, ProviderReport, RouterReport, RoutingTerms, instance_key};
pub use sampling::Sampler;
pub use search::{Encoder, SearchNote, SearchResults};
pub use startup_wait::CatalogReadiness;
pub use subscriptions::SubscribeError;
pub use terms::{AuditScope, ResultInspection, ResultTerms, Tenancy, Terms};
pub use tokens::{MadeToken, NewToken};
pub use toolbooth_store::{
    AuditFilter, HeldFilter, LetterFilter, MAX_AUDIT_PAGE, MAX_FILES_PAGE, MAX_HELD_PAGE, MAX_LETTERS_PAGE,
    SignInRecord,
};
pub use trust::audit_trust;
pub use vault::Vaults;
