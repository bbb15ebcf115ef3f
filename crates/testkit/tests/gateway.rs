//! The gateway as its users meet it: the real binary, clients of both eras, servers of every temper.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "gateway/admission.rs"]
mod admission;
#[path = "gateway/agreements.rs"]
mod agreements;
#[path = "gateway/approvals.rs"]
mod approvals;
#[path = "gateway/approvers.rs"]
mod approvers;
#[path = "gateway/arguments.rs"]
mod arguments;
#[path = "gateway/callers.rs"]
mod callers;
#[path = "gateway/cold.rs"]
mod cold;
#[path = "gateway/door.rs"]
mod door;
#[path = "gateway/ending.rs"]
mod ending;
#[path = "gateway/eras.rs"]
mod eras;
#[path = "gateway/features.rs"]
mod features;
#[path = "gateway/files.rs"]
mod files;
#[path = "gateway/hostile.rs"]
mod hostile;
#[path = "gateway/known.rs"]
mod known;
#[path = "gateway/ledger.rs"]
mod ledger;
#[path = "gateway/lossless.rs"]
mod lossless;
#[path = "gateway/plans.rs"]
mod plans;
#[path = "gateway/reload.rs"]
mod reload;
#[path = "gateway/remote.rs"]
mod remote;
#[path = "gateway/samples.rs"]
mod samples;
#[path = "gateway/sampling.rs"]
mod sampling;
#[path = "gateway/scene.rs"]
mod scene;
#[path = "gateway/stdio.rs"]
mod stdio;
#[path = "gateway/surface.rs"]
mod surface;
#[path = "gateway/waiting.rs"]
mod waiting;
