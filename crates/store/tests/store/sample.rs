//! Records to write.

use std::path::Path;
use toolbooth_core::names::ServerName;
use toolbooth_store::{DiscoveryRecord, Intent, Outcome, OutcomeKind, StoreUrl};
use uuid::Uuid;

pub fn server(name: &str) -> ServerName {
    name.parse().expect("a server name")
}

pub fn discovery(name: &str, payload: &'static str) -> DiscoveryRecord {
    DiscoveryRecord {
        server: server(name),
        entry_hash: "abc".into(),
        era: "2026-07-28".into(),
        saved_at_ms: 17,
        payload: payload.into(),
    }
}

pub fn intent(at_ms: i64) -> Intent {
    Intent {
        call_id: Uuid::now_v7(),
        at_ms,
        user: "ann@example.org".into(),
        server: server("mail"),
        tool: "send".into(),
        arguments_sha256: [7; 32],
        side_effect: "write".into(),
    }
}

pub fn outcome(intent: &Intent, kind: OutcomeKind) -> Outcome {
    Outcome { call_id: intent.call_id, at_ms: intent.at_ms + 5, kind, error_code: None, duration_ms: 5 }
}

pub fn url(path: &Path) -> StoreUrl {
    StoreUrl::Sqlite(path.to_owned())
}
