//! Sample records.

use std::path::Path;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::IdentifiedBy;
use toolbooth_core::dead_letter::{Attempt, DeadLetter, LetterState, ReplayMode};
use toolbooth_core::held::{
    Answerer, Decision, HeldCall, HeldKind, HeldOrigin, HeldOutcome, HeldState, HeldVerdict, Remember,
};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_store::{CallOutcome, DiscoveryRecord, Intent, OutcomeKind, StoreUrl};
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

pub fn outcome(intent: &Intent, kind: OutcomeKind) -> CallOutcome {
    CallOutcome { call_id: intent.call_id, at_ms: intent.at_ms + 5, kind, error_code: None, duration_ms: 5 }
}

pub fn url(path: &Path) -> StoreUrl {
    StoreUrl::Sqlite(path.to_owned())
}

pub fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).expect("test JSON")
}

pub fn approval(created_ms: i64) -> HeldCall {
    HeldCall {
        id: Uuid::now_v7(),
        kind: HeldKind::Approval,
        user: "ann@example.org".into(),
        persona: Some("dev".into()),
        session: None,
        level: Some("internal".into()),
        identified_by: Some(IdentifiedBy::Token("t1".into())),
        client: "a client".into(),
        origin: Some(HeldOrigin { call: Uuid::now_v7(), step: Some("plan/send".into()) }),
        server: server("mail"),
        tool: "send".into(),
        exposed: "mail_send".into(),
        digest: [1; 32],
        arguments: json(r#"{"to": "bo"}"#),
        arguments_sha256: [2; 32],
        question: "it sends mail".into(),
        answerer: Answerer::ApproverOnly,
        created_ms,
        expires_ms: Some(created_ms + 100),
        state: HeldState::Pending,
        decided_by: None,
        decided_ms: None,
        decision_note: None,
        edited: None,
        remember: None,
        claimed_ms: None,
        outcome: None,
        plan: None,
    }
}

pub fn approve(by: &str, at_ms: i64) -> Decision {
    let (arguments, remember) = (Some(json(r#"{"to":"di"}"#)), Some(Remember::Always));
    let verdict = HeldVerdict::Approve { arguments, remember };
    Decision { verdict, by: by.into(), at_ms, note: Some("go ahead".into()) }
}

pub fn reject(by: &str, at_ms: i64) -> Decision {
    Decision { verdict: HeldVerdict::Reject, by: by.into(), at_ms, note: None }
}

pub fn result(at_ms: i64) -> HeldOutcome {
    HeldOutcome { at_ms, kind: OutcomeKind::Done, code: None, result: Some(json(r#"{"content":[]}"#)) }
}

pub fn entry(kind: &str) -> AuditEntry {
    AuditEntry::new(7, kind, "ann@example.org", "done")
}

pub fn audited(at_ms: i64) -> AuditEntry {
    AuditEntry {
        call_id: Some(Uuid::now_v7()),
        by: Some("cy@example.org".into()),
        persona: Some("dev".into()),
        client: Some("Zoë's \"client\"; --".into()),
        server: Some("mail".into()),
        tool: Some("send".into()),
        code: Some("call.timeout".into()),
        duration_ms: Some(17),
        arguments_preview: Some(r#"{"to":"bo@example.org","subject":"hello"}"#.into()),
        arguments_sha256: Some([5; 32]),
        detail: Some(json(r#"{"attempts":2}"#)),
        ..AuditEntry::new(at_ms, "call", "ann@example.org", "done")
    }
}

pub fn letter(created_ms: i64) -> DeadLetter {
    DeadLetter {
        id: Uuid::now_v7(),
        call_id: Uuid::now_v7(),
        user: "ann@example.org".into(),
        persona: Some("dev".into()),
        session: Some("work".into()),
        level: None,
        identified_by: None,
        server: server("mail"),
        tool: "send".into(),
        exposed: "mail_send".into(),
        provider: "mcp:mail".into(),
        arguments_preview: r#"{"to":"bo"}"#.into(),
        arguments_sha256: [2; 32],
        sealed: Some("sealed".into()),
        error_code: "server.lost".into(),
        error_text: "server `mail` went away".into(),
        attempts: vec![Attempt {
            at_ms: created_ms,
            provider: "mcp:mail".into(),
            code: "server.lost".into(),
            duration_ms: 2,
        }],
        created_ms,
        next_retry_ms: None,
        state: LetterState::Pending,
        replaying: ReplayMode::ByHand,
        may_have_happened: false,
        replays: 0,
        ended_ms: None,
    }
}
