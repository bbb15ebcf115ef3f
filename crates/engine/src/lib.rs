//! The living gateway: the pipeline of a call, and the state it needs.
//!
//! Start reading at [`call`]. Knows neither axum nor clap.

pub mod answer;
mod cached;
pub mod call;
pub mod changes;
mod dispatch;
pub mod engine;
pub mod inquiry;
mod keeper;
mod newcomers;
pub mod parked;
pub mod plan;
pub mod record;
pub mod state;
mod subscriptions;
pub mod tokens;

pub use answer::{Answer, ResultFacts};
pub use call::CallRequest;
pub use changes::Change;
pub use dispatch::Rounds;
pub use engine::{Engine, Options};
pub use inquiry::Inquiry;
pub use newcomers::Gathered;
pub use plan::{ServerPlan, Standing};
pub use subscriptions::SubscribeError;
pub use tokens::{MadeToken, NewToken};
