//! The gateway as its users meet it: the real binary, clients of both eras, servers of every temper.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "gateway/admission.rs"]
mod admission;
#[path = "gateway/agreements.rs"]
mod agreements;
#[path = "gateway/approval_scope.rs"]
mod approval_scope;
#[path = "gateway/approvals.rs"]
mod approvals;
#[path = "gateway/approvers.rs"]
mod approvers;
#[path = "gateway/arguments.rs"]
mod arguments;
#[path = "gateway/callers.rs"]
mod callers;
#[path = "gateway/catalogues.rs"]
mod catalogues;
#[path = "gateway/chaos.rs"]
mod chaos;
#[path = "gateway/chat.rs"]
mod chat;
#[path = "gateway/cold.rs"]
mod cold;
#[path = "gateway/config_changes.rs"]
mod config_changes;
#[path = "gateway/connections.rs"]
mod connections;
#[path = "gateway/crossing.rs"]
mod crossing;
#[path = "gateway/crowd.rs"]
mod crowd;
#[path = "gateway/dead_letters.rs"]
mod dead_letters;
#[path = "gateway/decisions.rs"]
mod decisions;
#[path = "gateway/door.rs"]
mod door;
#[path = "gateway/ending.rs"]
mod ending;
#[path = "gateway/eras.rs"]
mod eras;
#[path = "gateway/events.rs"]
mod events;
#[path = "gateway/exposure.rs"]
mod exposure;
#[path = "gateway/failover.rs"]
mod failover;
#[path = "gateway/features.rs"]
mod features;
#[path = "gateway/files.rs"]
mod files;
#[path = "gateway/forgeries.rs"]
mod forgeries;
#[path = "gateway/forwarding.rs"]
mod forwarding;
#[path = "gateway/framing.rs"]
mod framing;
#[path = "gateway/hang_ups.rs"]
mod hang_ups;
#[path = "gateway/health.rs"]
mod health;
#[path = "gateway/hostile.rs"]
mod hostile;
#[path = "gateway/impostor.rs"]
mod impostor;
#[path = "gateway/issuer.rs"]
mod issuer;
#[path = "gateway/kills.rs"]
mod kills;
#[path = "gateway/known.rs"]
mod known;
#[path = "gateway/ledger.rs"]
mod ledger;
#[path = "gateway/limits.rs"]
mod limits;
#[path = "gateway/long_results.rs"]
mod long_results;
#[path = "gateway/lossless.rs"]
mod lossless;
#[path = "gateway/manifests.rs"]
mod manifests;
#[path = "gateway/missed.rs"]
mod missed;
#[path = "gateway/names.rs"]
mod names;
#[path = "gateway/openapi.rs"]
mod openapi;
#[path = "gateway/outward.rs"]
mod outward;
#[path = "gateway/overload.rs"]
mod overload;
#[path = "gateway/ownership.rs"]
mod ownership;
#[path = "gateway/plans.rs"]
mod plans;
#[path = "gateway/quality.rs"]
mod quality;
#[path = "gateway/record.rs"]
mod record;
#[path = "gateway/registry.rs"]
mod registry;
#[path = "gateway/reload.rs"]
mod reload;
#[path = "gateway/remote.rs"]
mod remote;
#[path = "gateway/rest_tools.rs"]
mod rest_tools;
#[path = "gateway/results.rs"]
mod results;
#[path = "gateway/rights.rs"]
mod rights;
#[path = "gateway/routes.rs"]
mod routes;
#[path = "gateway/samples.rs"]
mod samples;
#[path = "gateway/sampling.rs"]
mod sampling;
#[path = "gateway/scene.rs"]
mod scene;
#[path = "gateway/search.rs"]
mod search;
#[path = "gateway/security_page.rs"]
mod security_page;
#[path = "gateway/shadowing.rs"]
mod shadowing;
#[path = "gateway/sign_in.rs"]
mod sign_in;
#[path = "gateway/signing_keys.rs"]
mod signing_keys;
#[path = "gateway/spoofing.rs"]
mod spoofing;
#[path = "gateway/stats.rs"]
mod stats;
#[path = "gateway/stdio.rs"]
mod stdio;
#[path = "gateway/strangers.rs"]
mod strangers;
#[path = "gateway/strictness.rs"]
mod strictness;
#[path = "gateway/surface.rs"]
mod surface;
#[path = "gateway/targets.rs"]
mod targets;
#[path = "gateway/user_quotas.rs"]
mod user_quotas;
#[path = "gateway/visitors.rs"]
mod visitors;
#[path = "gateway/waiting.rs"]
mod waiting;
