//! Servers that are processes of this machine: started clean, watched, and ended with everything they started.
//!
//! On Linux each server stands under a *reaper*, this same executable run again as `toolbooth reaper`:
//! gateway → reaper → server. The reaper is the subreaper of the whole tree, so even a daemon that left its
//! group and session stays its descendant. It holds the read end of a pipe whose only write end is in the gateway:
//! an order or the end of file there, and so the death of the gateway in any manner, ends the tree.
//!
//! Elsewhere a server is the leader of a process group, and ending means signals to that group.

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
mod reaper;
#[cfg(target_os = "linux")]
mod supervised;

#[cfg(not(target_os = "linux"))]
use group as platform;
#[cfg(target_os = "linux")]
use supervised as platform;

pub use environment::clean_environment;
pub use exit::Exit;
pub use fault::LaunchError;
pub use launch::{Launch, Reaper};
pub use lines::{Frame, LineReader};
pub use preview::preview;
pub use running::{Process, StopPlan};
pub use stderr::StderrTail;

#[cfg(not(target_os = "linux"))]
pub use group::reaper_main;
#[cfg(target_os = "linux")]
pub use reaper::reaper_main;
