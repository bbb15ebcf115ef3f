//! Providers of a tool while the gateway runs: which may be tried, in which order, and when one that failed
//! gets its next chance. Pure decisions; the clock and the dice are handed in.

mod breaker;
mod choice;
mod mapping;

pub use breaker::{Breaker, BreakerState, LONGEST_PAUSE_MS, Pass};
pub use choice::{NoProvider, Skip, by_priority};
pub use mapping::{MAX_MAPPED, MappingTooLarge, text_of};
