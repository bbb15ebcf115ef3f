//! The deadlines and retry rules of a whole engine, on paused time: the runtime moves its clock to the next timer as
//! soon as no task can run, so that a test of an hour takes milliseconds and all times are exact.
//!
//! The servers are tasks of the test that speak MCP over queues. Nothing here may use a socket, a process or a file:
//! the paused clock does not wait for them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod catalog;
mod dead_letters;
mod deadlines;
mod holds;
mod jobs;
mod limits;
mod peer;
mod providers;
mod results;
mod retries;
mod world;
