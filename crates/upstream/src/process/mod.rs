//! Servers that are local processes: started with a clean environment, watched, and ended with their whole
//! tree.
//!
//! On Linux each server runs under a *reaper*, which is this executable started as `toolbooth reaper`:
//! gateway → reaper → server. The reaper is the subreaper of the whole tree, so even a daemon that left its
//! group and session remains its descendant. It holds the read end of a pipe whose only write end is in the
//! gateway: an order or the end of file there, and therefore any death of the gateway, ends the tree.
//!
//! On other systems a server leads a process group and is ended by signals to that group.

mod checked_launch;
mod environment;
mod exit;
mod fault;
mod launch;
mod lines;
mod preview;
mod resolve;
mod running;
mod stderr;

#[cfg(not(target_os = "linux"))]
mod group;
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "the reaper is a separate process without a runtime")]
mod reaper;
#[cfg(target_os = "linux")]
mod supervised;

#[cfg(not(target_os = "linux"))]
use group as platform;
#[cfg(target_os = "linux")]
use supervised as platform;

pub use checked_launch::Reaper;
pub use environment::clean_environment;
pub use exit::ProcessExit;
pub use fault::LaunchError;
pub use launch::Launch;
pub use lines::{LineFrame, LineReader};
pub use preview::preview;
pub use running::{ServerProcess, StopPlan};
pub use stderr::StderrTail;

#[cfg(not(target_os = "linux"))]
pub use group::reaper_main;
#[cfg(target_os = "linux")]
pub use reaper::reaper_main;
