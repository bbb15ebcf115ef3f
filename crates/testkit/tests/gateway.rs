//! Black-box tests: the gateway binary, clients of both eras, and well-behaved and hostile servers.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

#[path = "gateway/access_control.rs"]
mod access_control;
#[path = "gateway/approval_scope.rs"]
mod approval_scope;
#[path = "gateway/approvals.rs"]
mod approvals;
#[path = "gateway/approvers.rs"]
mod approvers;
#[path = "gateway/arguments.rs"]
mod arguments;
#[path = "gateway/background.rs"]
mod background;
#[path = "gateway/callers.rs"]
mod callers;
#[path = "gateway/catalogues.rs"]
mod catalogues;
#[path = "gateway/chaos.rs"]
mod chaos;
#[path = "gateway/chat.rs"]
mod chat;
#[path = "gateway/client_folders.rs"]
mod client_folders;
#[path = "gateway/concurrent_decisions.rs"]
mod concurrent_decisions;
#[path = "gateway/concurrent_users.rs"]
mod concurrent_users;
#[path = "gateway/config_changes.rs"]
mod config_changes;
#[path = "gateway/connections.rs"]
mod connections;
#[path = "gateway/console_chat.rs"]
mod console_chat;
#[path = "gateway/console_logins.rs"]
mod console_logins;
#[path = "gateway/console_sessions.rs"]
mod console_sessions;
#[path = "gateway/dead_letters.rs"]
mod dead_letters;
#[path = "gateway/disconnects.rs"]
mod disconnects;
#[path = "gateway/doctor.rs"]
mod doctor;
#[path = "gateway/era_isolation.rs"]
mod era_isolation;
#[path = "gateway/eras.rs"]
mod eras;
#[path = "gateway/events.rs"]
mod events;
#[path = "gateway/exposure.rs"]
mod exposure;
#[path = "gateway/external_auth.rs"]
mod external_auth;
#[path = "gateway/failover.rs"]
mod failover;
#[path = "gateway/features.rs"]
mod features;
#[path = "gateway/files.rs"]
mod files;
#[path = "gateway/first_start.rs"]
mod first_start;
#[path = "gateway/forgeries.rs"]
mod forgeries;
#[path = "gateway/forwarding.rs"]
mod forwarding;
#[path = "gateway/framing.rs"]
mod framing;
#[path = "gateway/health.rs"]
mod health;
#[path = "gateway/held_cancel.rs"]
mod held_cancel;
#[path = "gateway/hooks.rs"]
mod hooks;
#[path = "gateway/hostile.rs"]
mod hostile;
#[path = "gateway/invalid_requests.rs"]
mod invalid_requests;
#[path = "gateway/issuer.rs"]
mod issuer;
#[path = "gateway/jobs.rs"]
mod jobs;
#[path = "gateway/kills.rs"]
mod kills;
#[path = "gateway/ledger.rs"]
mod ledger;
#[path = "gateway/legacy_tasks.rs"]
mod legacy_tasks;
#[path = "gateway/limits.rs"]
mod limits;
#[path = "gateway/long_results.rs"]
mod long_results;
#[path = "gateway/lossless.rs"]
mod lossless;
#[path = "gateway/manifests.rs"]
mod manifests;
#[path = "gateway/mcp_tasks.rs"]
mod mcp_tasks;
#[path = "gateway/missed_changes.rs"]
mod missed_changes;
#[path = "gateway/names.rs"]
mod names;
#[path = "gateway/negotiation.rs"]
mod negotiation;
#[path = "gateway/oidc_provider.rs"]
mod oidc_provider;
#[path = "gateway/openapi.rs"]
mod openapi;
#[path = "gateway/operations.rs"]
mod operations;
#[path = "gateway/overload.rs"]
mod overload;
#[path = "gateway/ownership.rs"]
mod ownership;
#[path = "gateway/plans.rs"]
mod plans;
#[path = "gateway/prompts.rs"]
mod prompts;
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
#[path = "gateway/replica_examples.rs"]
mod replica_examples;
#[path = "gateway/resource_tokens.rs"]
mod resource_tokens;
#[path = "gateway/rest_calls.rs"]
mod rest_calls;
#[path = "gateway/rest_questions.rs"]
mod rest_questions;
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
#[path = "gateway/server_entries.rs"]
mod server_entries;
#[path = "gateway/servers_add.rs"]
mod servers_add;
#[path = "gateway/shadowing.rs"]
mod shadowing;
#[path = "gateway/shared_names.rs"]
mod shared_names;
#[path = "gateway/shared_sessions.rs"]
mod shared_sessions;
#[path = "gateway/shared_store.rs"]
mod shared_store;
#[path = "gateway/shutdown.rs"]
mod shutdown;
#[path = "gateway/sign_in.rs"]
mod sign_in;
#[path = "gateway/signing_keys.rs"]
mod signing_keys;
#[path = "gateway/skills.rs"]
mod skills;
#[path = "gateway/slow_clients.rs"]
mod slow_clients;
#[path = "gateway/spoofing.rs"]
mod spoofing;
#[path = "gateway/spoofing_setup.rs"]
mod spoofing_setup;
#[path = "gateway/stable_lists.rs"]
mod stable_lists;
#[path = "gateway/stats.rs"]
mod stats;
#[path = "gateway/stdio.rs"]
mod stdio;
#[path = "gateway/strictness.rs"]
mod strictness;
#[path = "gateway/targets.rs"]
mod targets;
#[path = "gateway/team.rs"]
mod team;
#[path = "gateway/telemetry.rs"]
mod telemetry;
#[path = "gateway/token_users.rs"]
mod token_users;
#[path = "gateway/trust_over_rest.rs"]
mod trust_over_rest;
#[path = "gateway/untrusted_servers.rs"]
mod untrusted_servers;
#[path = "gateway/up.rs"]
mod up;
#[path = "gateway/user_keys.rs"]
mod user_keys;
#[path = "gateway/user_quotas.rs"]
mod user_quotas;
