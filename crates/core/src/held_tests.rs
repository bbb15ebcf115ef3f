//! Every state, with every transition.

use super::*;

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).expect("test JSON")
}

fn pending() -> HeldCall {
    HeldCall {
        id: Uuid::nil(),
        kind: HeldKind::Approval,
        user: "ann".into(),
        persona: None,
        session: None,
        level: None,
        identified_by: None,
        client: "test".into(),
        origin: None,
        server: "mail".parse().expect("a name"),
        tool: "send".into(),
        exposed: "mail_send".into(),
        digest: [1; 32],
        arguments: json(r#"{"to":"bo","n":1}"#),
        arguments_sha256: [2; 32],
        question: "it sends mail".into(),
        answerer: Answerer::CallerOrApprover,
        created_ms: 0,
        expires_ms: Some(100),
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

fn approve(arguments: Option<&str>) -> Decision {
    let verdict = HeldVerdict::Approve { arguments: arguments.map(json), remember: Some(Remember::Session) };
    Decision { verdict, by: "cy".into(), at_ms: 50, note: Some("fine".into()) }
}

fn reject() -> Decision {
    Decision { verdict: HeldVerdict::Reject, by: "cy".into(), at_ms: 50, note: None }
}

fn end(kind: OutcomeKind) -> HeldOutcome {
    HeldOutcome { at_ms: 70, kind, code: None, result: None }
}

#[test]
fn every_state_allows_only_its_own_transitions() {
    let approved = pending().decide(&approve(None)).expect("approved");
    let claimed = approved.claim(60).expect("claimed");
    let states = [
        ("pending", pending()),
        ("rejected", pending().decide(&reject()).expect("rejected")),
        ("expired", pending().expire(100).expect("expired")),
        ("approved", approved),
        ("claimed", claimed.clone()),
        ("done", claimed.finish(end(OutcomeKind::Done)).expect("done")),
        ("failed", claimed.finish(end(OutcomeKind::ToolError)).expect("failed")),
        ("interrupted", claimed.interrupt(70).expect("interrupted")),
    ];
    // The results of deciding in time, deciding late, expiring, claiming and finishing.
    let ran = ["call.already-decided", "call.already-decided", "call.already-decided"];
    let table = [
        ("pending", ["approved", "call.answer-too-late", "expired", "call.not-approved", "call.not-running"]),
        ("rejected", [ran[0], ran[1], ran[2], "call.not-approved", "call.not-running"]),
        (
            "expired",
            [
                "call.answer-too-late",
                "call.answer-too-late",
                "call.answer-too-late",
                "call.not-approved",
                "call.not-running",
            ],
        ),
        ("approved", [ran[0], ran[1], ran[2], "approved", "call.not-running"]),
        ("claimed", [ran[0], ran[1], ran[2], "call.already-run", "done"]),
        ("done", [ran[0], ran[1], ran[2], "call.already-run", "call.not-running"]),
        ("failed", [ran[0], ran[1], ran[2], "call.already-run", "call.not-running"]),
        ("interrupted", [ran[0], ran[1], ran[2], "call.already-run", "call.not-running"]),
    ];
    let word = |result: Result<HeldCall, HeldFault>| match result {
        Ok(call) => call.state.as_str(),
        Err(fault) => fault.code(),
    };
    for ((name, call), (expected_name, expected)) in states.into_iter().zip(table) {
        assert_eq!(name, expected_name);
        let late = Decision { at_ms: 100, ..reject() };
        let found = [
            word(call.decide(&approve(None))),
            word(call.decide(&late)),
            word(call.expire(100)),
            word(call.claim(60)),
            word(call.finish(end(OutcomeKind::Done))),
        ];
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_second_answer_reports_who_decided() {
    let decided = pending().decide(&reject()).expect("rejected");
    let fault = decided.decide(&approve(None)).expect_err("too late");
    assert_eq!(fault.to_string(), format!("held call {} was already rejected by cy", Uuid::nil()));
}

#[test]
fn a_withdrawn_call_never_runs_unless_it_has_started() {
    let withdraw = Decision { verdict: HeldVerdict::Withdraw, by: "ann".into(), ..reject() };
    let approved = pending().decide(&approve(None)).expect("approved");
    for open in [pending(), approved.clone()] {
        let withdrawn = open.decide(&withdraw).expect("withdrawn");
        assert_eq!((withdrawn.state, withdrawn.decided_by.as_deref()), (HeldState::Rejected, Some("ann")));
        let late = withdrawn.decide(&approve(None)).expect_err("too late");
        assert_eq!(late.code(), "call.already-decided");
        assert!(late.to_string().contains("was withdrawn by ann: "), "{late}");
        assert_eq!(withdrawn.claim(60).expect_err("over").code(), "call.not-approved");
    }
    let running = approved.claim(60).expect("claimed");
    assert_eq!(running.decide(&withdraw).expect_err("it runs").code(), "call.already-decided");
}

#[test]
fn only_a_changed_value_is_an_edit() {
    let cases = [
        (None, None),
        (Some(r#"{"to":"bo","n":1}"#), None),
        (Some(r#"{ "n" : 1, "\u0074o": "b\u006f" }"#), None),
        (Some(r#"{"to":"bo","n":1.0}"#), Some(r#"{"to":"bo","n":1.0}"#)), // another spelling
        (Some(r#"{"to":"bo"}"#), Some(r#"{"to":"bo"}"#)),
        (Some(r#"{"to":"cy","n":1}"#), Some(r#"{"to":"cy","n":1}"#)),
        (Some(r#"{"to":"bo","n":[1]}"#), Some(r#"{"to":"bo","n":[1]}"#)),
    ];
    for (given, expected) in cases {
        let decided = pending().decide(&approve(given)).expect("approved");
        assert_eq!(decided.edited.as_ref().map(RawJson::as_str), expected, "{given:?}");
        assert_eq!(decided.final_arguments().as_str(), expected.unwrap_or(r#"{"to":"bo","n":1}"#));
        assert_eq!(decided.remember, Some(Remember::Session));
    }
}

#[test]
fn a_call_without_expiry_never_expires() {
    let step = HeldCall { expires_ms: None, ..pending() };
    assert_eq!(step.expire(i64::MAX).expect_err("never").code(), "call.not-expired");
    assert!(step.decide(&Decision { at_ms: i64::MAX, ..reject() }).is_ok());
}

#[test]
fn words_are_parsed_back() {
    for state in HeldState::ALL {
        assert_eq!(state.as_str().parse(), Ok(state));
    }
    assert_eq!("maybe".parse::<HeldState>().expect_err("no word").to_string(), "not a state of a held call");
}
