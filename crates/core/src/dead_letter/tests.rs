//! Table tests of the dead-letter rules.

use super::*;
use crate::catalog::Tool;
use crate::fault::{Blame, Fault, Problem};
use crate::manifest::ToolTerms;
use crate::server::{ServerEntry, SideEffects, Transport};
use serde_json::json;
use std::sync::Arc;

fn letter(state: LetterState, replaying: ReplayMode) -> DeadLetter {
    DeadLetter {
        id: Uuid::nil(),
        call_id: Uuid::nil(),
        user: "ann".into(),
        persona: None,
        session: None,
        level: None,
        identified_by: None,
        server: "mail".parse().expect("a name"),
        tool: "send".into(),
        exposed: "mail_send".into(),
        provider: "mcp:mail".into(),
        arguments_preview: "{}".into(),
        arguments_sha256: [0; 32],
        sealed: Some("sealed".into()),
        error_code: "server.lost".into(),
        error_text: "it went away".into(),
        attempts: Vec::new(),
        created_ms: 1,
        next_retry_ms: Some(60_001),
        state,
        replaying,
        may_have_happened: false,
        replays: 0,
        ended_ms: None,
    }
}

fn attempt(code: &str) -> Attempt {
    Attempt { at_ms: 5, provider: "mcp:mail".into(), code: code.into(), duration_ms: 2 }
}

fn failed(may_have_happened: bool) -> LetterStep {
    LetterStep::Settle(Settlement::Failed {
        attempt: attempt("call.timeout"),
        text: "no answer".into(),
        next_retry_ms: None,
        may_have_happened,
    })
}

#[test]
fn only_these_transitions_are_allowed() {
    use LetterState::{Dropped, Pending, Resolved, Retrying};
    let resolved = LetterStep::Settle(Settlement::Resolved(attempt("done")));
    let interrupt = LetterStep::Interrupt { next_retry_ms: 70 };
    let cases = [
        (Pending, LetterStep::Claim, Ok(Retrying)),
        (Pending, LetterStep::Drop, Ok(Dropped)),
        (Pending, resolved.clone(), Err("dead-letter.not-retrying")),
        (Pending, interrupt.clone(), Err("dead-letter.not-retrying")),
        (Retrying, LetterStep::Claim, Err("dead-letter.retrying")),
        (Retrying, LetterStep::Drop, Err("dead-letter.retrying")),
        (Retrying, resolved.clone(), Ok(Resolved)),
        (Retrying, failed(false), Ok(Pending)),
        (Retrying, interrupt.clone(), Ok(Pending)),
        (Resolved, LetterStep::Claim, Err("dead-letter.over")),
        (Resolved, LetterStep::Drop, Err("dead-letter.over")),
        (Resolved, resolved, Err("dead-letter.over")),
        (Dropped, LetterStep::Claim, Err("dead-letter.over")),
        (Dropped, failed(true), Err("dead-letter.over")),
        (Dropped, interrupt, Err("dead-letter.over")),
    ];
    for (state, step, expected) in cases {
        let came = letter(state, ReplayMode::ByHand).step(&step, 9);
        let came = came.map(|letter| letter.state).map_err(|fault| fault.code());
        assert_eq!(came, expected, "{state} {step:?}");
    }
}

#[test]
fn an_interrupted_replay_is_in_doubt_unless_it_is_harmless() {
    let step = LetterStep::Interrupt { next_retry_ms: 70 };
    let cases = [(ReplayMode::ByHand, (true, None)), (ReplayMode::Automatic, (false, Some(70)))];
    for (replaying, expected) in cases {
        let claimed = letter(LetterState::Pending, replaying).step(&LetterStep::Claim, 2).expect("claimed");
        assert_eq!((claimed.replays, claimed.next_retry_ms), (1, None));
        let found = claimed.step(&step, 9).expect("found again");
        assert_eq!((found.may_have_happened, found.next_retry_ms), expected, "{replaying}");
        assert!(found.sealed.is_some(), "it can be replayed");
    }
}

#[test]
fn doubt_persists_and_attempts_are_limited() {
    let mut letter = letter(LetterState::Pending, ReplayMode::ByHand);
    for round in 0..40 {
        letter = letter.step(&LetterStep::Claim, 1).expect("claimed");
        letter = letter.step(&failed(round == 0), 2).expect("failed");
        assert!(letter.may_have_happened);
    }
    assert_eq!((letter.attempts.len(), letter.replays), (MAX_ATTEMPTS, 40));
    let dropped = letter.step(&LetterStep::Drop, 77).expect("dropped");
    assert_eq!((dropped.ended_ms, dropped.sealed), (Some(77), None));
}

#[test]
fn sealed_arguments_are_bound_to_their_caller_and_tool() {
    let first = letter(LetterState::Pending, ReplayMode::ByHand);
    let others = [
        DeadLetter { user: "bob".into(), ..first.clone() },
        DeadLetter { tool: "delete".into(), ..first.clone() },
        DeadLetter { persona: Some("dev".into()), ..first.clone() },
        DeadLetter { server: "mai".parse().expect("a name"), tool: "lsend".into(), ..first.clone() },
        DeadLetter { id: Uuid::from_u128(1), ..first.clone() },
    ];
    for other in others {
        assert_ne!(first.binding(), other.binding(), "{other:?}");
    }
}

#[test]
fn errors_of_the_caller_create_no_letter() {
    let cases = [(Blame::Upstream, true), (Blame::Gateway, true), (Blame::Caller, false)];
    for (blame, expected) in cases {
        let problem = Problem { code: "x.y", blame, message: String::new(), hint: None };
        assert_eq!(deserves_letter(&problem), expected, "{blame:?}");
    }
}

#[test]
fn replay_delays_grow_and_replays_end() {
    let cases = [
        (0, 3, 0.0, Some(60_000)),
        (0, 3, 1.0, Some(66_000)),
        (1, 3, 0.0, Some(300_000)),
        (2, 3, 0.0, Some(900_000)),
        (3, 3, 0.0, None),
        (0, 0, 0.0, None),
        (4, 9, 0.0, Some(3_600_000)),
        (8, 9, 0.0, Some(3_600_000)),
    ];
    for (replays, most, chance, expected) in cases {
        let next = next_retry_ms(&SCHEDULE_SECONDS, replays, most, 0, chance);
        assert_eq!(next, expected, "{replays} of {most}");
    }
    assert_eq!(next_retry_ms(&[], 0, 3, 0, 0.0), None, "an empty schedule");
}

#[test]
fn the_gateway_replays_only_harmless_calls() {
    type Change = fn(&mut ServerEntry);
    let cases: [(&str, Change, ReplayMode); 8] = [
        // A name alone is not trusted.
        ("list_mails", |_| {}, ReplayMode::ByHand),
        (
            "list_mails",
            |entry| entry.defaults.side_effects = SideEffects::ReadExternalService,
            ReplayMode::Automatic,
        ),
        ("send_mail", |_| {}, ReplayMode::ByHand),
        ("frobnicate", |_| {}, ReplayMode::ByHand),
        ("frobnicate", |entry| entry.defaults.side_effects = SideEffects::None, ReplayMode::Automatic),
        ("send_mail", |entry| entry.defaults.idempotency_key = true, ReplayMode::Automatic),
        (
            "send_mail",
            |entry| {
                entry.defaults.idempotency_key = true;
                entry.tools.overrides.insert("send_mail".into(), json!({ "idempotency_key": false }));
            },
            ReplayMode::ByHand,
        ),
        (
            "send_mail",
            |entry| {
                let own = json!({ "idempotency_key": { "required": true } });
                entry.tools.overrides.insert("send_mail".into(), own);
            },
            ReplayMode::Automatic,
        ),
    ];
    for (name, change, expected) in cases {
        let transport = Transport::Bundled("mail".into());
        let mut entry = ServerEntry::with_defaults("mail".parse().expect("a name"), transport);
        change(&mut entry);
        let overlay = entry.tools.overrides.get(name).map(ToolTerms::read_override).unwrap_or_default();
        let mut tool = Tool::bare(Arc::new(entry), name, name);
        tool.terms = Arc::new((*tool.terms).clone().with_overlay(&overlay));
        assert_eq!(replaying_of(&tool), expected, "{name}");
    }
}
