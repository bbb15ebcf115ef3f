//! Runtime decisions about a tool's providers: which may be tried, in which order, and when a failed one is retried.
//! All functions are pure; time and randomness are passed in.

mod breaker;
mod choice;
mod mapping;

pub use breaker::{Breaker, BreakerPass, BreakerState, LONGEST_PAUSE_MS};
pub use choice::{NoProvider, Skip, by_priority};
pub use mapping::{MAX_MAPPED, MappingTooLarge, text_of};
