//! The engine: the stages of a call, and the state of a running gateway.
//!
//! Start reading at [`call`]. Each part of the state is a module with one public type, such as
//! [`approvals::Approvals`] or [`catalog::LiveCatalog`]; [`Engine`] starts the parts and holds them. Does not depend on
//! axum or clap.

#![forbid(unsafe_code)]

pub mod answer;
pub mod approvals;
pub mod audit;
pub mod call;
pub mod call_metrics;
pub mod call_tasks;
pub mod catalog;
pub mod clock;
pub mod console_logins;
pub mod console_sessions;
pub mod dead_letters;
mod decision_cache;
mod encoder;
pub mod engine;
pub mod events;
pub mod exposure;
pub mod files;
pub mod health;
pub mod hooks;
pub mod inquiry;
pub mod jobs;
mod keys;
pub mod log_limit;
pub mod own;
pub mod parked;
mod providers;
pub mod replica_mail;
mod replicas;
pub mod request_state;
mod rights_source;
pub mod routing;
pub mod search;
mod server_table;
pub mod servers;
mod shared_sessions;
mod shared_state;
pub mod skills;
pub mod terms;
pub mod trace;
mod vault;

pub use answer::{Answer, ResultFacts};
pub use approvals::{Approvals, DecisionFault, PlanScope, Plans, StepReport, Steps};
pub use audit::{Act, AuditLog, BearerTokens, MadeToken, NewToken, RefusedAttempt, audit_trust};
pub use call::{
    CallPipeline, CallRequest, ChatTurnRequest, PersonSampling, QuestionHandling, SamplingAnswer,
    SamplingDraft,
};
pub use call_tasks::CallTasks;
pub use catalog::{
    CatalogReadiness, ChangeNotice, Comparison, LiveCatalog, LoadedManifests, SubscribeError, Subscriptions,
};
pub use console_logins::{ConsoleLogins, LOGIN_LIFETIME, LoginFault, NewLogin, PendingLogin};
pub use console_sessions::{
    ConsoleSession, ConsoleSessions, RenewableIdToken, SessionCredential, SessionRenewal, SessionUse,
};
pub use dead_letters::{DeadLetters, ReplayAnyway, ReplayedCall};
pub use encoder::Encoder;
pub use engine::{Engine, EngineOptions};
pub use events::EventRing;
pub use exposure::{Exposure, ExposureReport};
pub use files::{CallerFiles, FileProblem, FileQuery, FileStorage, FileTerms, NewFile};
pub use health::{CallSample, HealthMonitor};
pub use inquiry::{Inquiries, Inquiry};
pub use jobs::{
    ExternalAccess, InterruptedStep, JobQuery, JobReadiness, JobSource, Jobs, KnownJob, KnownTask, RunPage,
    RunTitle, ScheduleSwitch, TaskFinder, TaskQuery, WorkList, WorkManifests,
};
pub use rights_source::{AbsentCaller, Rights, RightsSource};
pub use routing::{ProviderReport, RouterReport, Routing, instance_key};
pub use search::{SearchNote, SearchResults, ToolSearch};
pub use server_table::ManagedServer;
pub use servers::{DesiredServer, DesiredState, Servers};
pub use shared_sessions::{SharedSessions, StoredSession};
pub use skills::{PlanOutcome, PlanRun, RunLabel, SkillChange, SkillCheck, Skills, StepObserver, Unobserved};
pub use terms::{
    Assistant, AuditScope, ChatTerms, LetterTerms, ResultInspection, ResultTerms, RoutingTerms, Sampler,
    Tenancy, Terms,
};
pub use toolbooth_store::{
    AuditFilter, CallCount, CallCountQuery, CallCounts, HeldFilter, LetterFilter, MAX_AUDIT_PAGE,
    MAX_FILES_PAGE, MAX_HELD_PAGE, MAX_LETTERS_PAGE, ResultSizeQuery, ResultSizes, SignInRecord,
};
pub use vault::Vaults;
