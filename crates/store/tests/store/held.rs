//! Held calls and plans: contract tests for every backend.

use crate::contract::{HOUR_MS, Shared, code};
use crate::sample::{approval, approve, entry, json, reject, result, server};
use std::collections::HashSet;
use tokio::task::JoinSet;
use toolbooth_core::held::{HeldCall, HeldKind, HeldState, Remember};
use toolbooth_core::plan::{Plan, PlanState, PlanStep};
use toolbooth_store::{HeldFilter, HeldUpdate, MAX_OPEN_HELD_OF_USER, OutcomeKind, SameCall, StoreError};
use uuid::Uuid;

fn won(update: Result<HeldUpdate, StoreError>) -> HeldCall {
    match update.expect("an answer") {
        HeldUpdate::Won(call) => call,
        other => panic!("not won: {other:?}"),
    }
}

fn lost(update: Result<HeldUpdate, StoreError>) -> HeldCall {
    match update.expect("an answer") {
        HeldUpdate::Lost(call) => call,
        other => panic!("not lost: {other:?}"),
    }
}

pub async fn a_held_call_is_decided_claimed_and_finished(store: Shared) {
    let call = approval(1);
    store.hold(call.clone()).await.expect("held");
    store.hold(call.clone()).await.expect("a repetition");
    let other = HeldCall { tool: "delete".into(), ..call.clone() };
    assert_eq!(code(store.hold(other).await), "store.conflict");
    assert_eq!(store.held(call.id).await, Ok(Some(call.clone())));
    assert_eq!(store.held(Uuid::nil()).await, Ok(None));

    assert_eq!(lost(store.claim_held(call.id, 4).await).state, HeldState::Pending);
    let decided = won(store.decide_held(call.id, approve("cy", 5), entry("decision")).await);
    assert_eq!((decided.state, decided.remember), (HeldState::Approved, Some(Remember::Always)));
    assert_eq!(decided.edited, Some(json(r#"{"to":"di"}"#)));
    assert_eq!(store.held(call.id).await, Ok(Some(decided.clone())));
    let late = lost(store.decide_held(call.id, reject("di", 6), entry("decision")).await);
    assert_eq!(late.decided_by.as_deref(), Some("cy"));
    assert_eq!(lost(store.finish_held(call.id, result(7), entry("call")).await), decided);

    let claimed = won(store.claim_held(call.id, 7).await);
    assert_eq!(claimed.claimed_ms, Some(7));
    assert_eq!(lost(store.claim_held(call.id, 8).await), claimed);
    let finished = won(store.finish_held(call.id, result(9), entry("call")).await);
    assert_eq!((finished.state, &finished.outcome), (HeldState::Done, &Some(result(9))));
    assert_eq!(store.held(call.id).await, Ok(Some(finished.clone())));
    assert_eq!(lost(store.finish_held(call.id, result(10), entry("call")).await), finished);
    for missing in [
        store.decide_held(Uuid::nil(), reject("cy", 1), entry("decision")).await,
        store.claim_held(Uuid::nil(), 1).await,
        store.finish_held(Uuid::nil(), result(1), entry("call")).await,
    ] {
        assert_eq!(missing, Ok(HeldUpdate::Missing));
    }
}

pub async fn one_of_four_parallel_answers_wins_a_thousand_times(store: Shared) {
    for round in 0..1_000 {
        let call = approval(round);
        store.hold(call.clone()).await.expect("held");
        let mut answers = JoinSet::new();
        for number in 0..4 {
            let (store, id, by) = (store.clone(), call.id, format!("user {number}"));
            let answer = if number % 2 == 0 { approve(&by, round) } else { reject(&by, round) };
            answers.spawn(async move {
                store.decide_held(id, answer, entry("decision")).await.expect("an answer")
            });
        }
        let (mut winners, mut seen) = (0, HashSet::new());
        for answer in answers.join_all().await {
            let (HeldUpdate::Won(call) | HeldUpdate::Lost(call)) = &answer else { panic!("missing") };
            winners += usize::from(matches!(answer, HeldUpdate::Won(_)));
            seen.insert((call.state, call.decided_by.clone()));
        }
        // All attempts return the winning decision.
        assert_eq!((winners, seen.len()), (1, 1), "round {round}");
    }
}

pub async fn one_of_eight_parallel_claims_wins(store: Shared) {
    for round in 0..50 {
        let call = approval(round);
        store.hold(call.clone()).await.expect("held");
        won(store.decide_held(call.id, approve("cy", round), entry("decision")).await);
        let mut claims = JoinSet::new();
        for _ in 0..8 {
            let (store, id) = (store.clone(), call.id);
            claims.spawn(async move { store.claim_held(id, 1).await.expect("an answer") });
        }
        let claims = claims.join_all().await;
        assert_eq!(claims.iter().filter(|claim| matches!(claim, HeldUpdate::Won(_))).count(), 1);
    }
}

pub async fn late_decisions_lose_and_overdue_calls_expire(store: Shared) {
    let (soon, later) = (approval(0), HeldCall { expires_ms: Some(500), ..approval(0) });
    let endless = HeldCall { expires_ms: None, ..approval(0) };
    for call in [&soon, &later, &endless] {
        store.hold(call.clone()).await.expect("held");
    }
    let expires_ms = soon.expires_ms.expect("a time");
    let late = lost(store.decide_held(soon.id, approve("cy", expires_ms), entry("decision")).await);
    assert_eq!(late.state, HeldState::Expired);
    let expired = store.expire_held(expires_ms).await.expect("swept");
    assert_eq!(expired, [late]);
    assert_eq!(store.expire_held(expires_ms).await.expect("swept"), []);
    assert_eq!(store.held(soon.id).await.expect("read").expect("it is there").state, HeldState::Expired);
    assert_eq!(store.held(later.id).await, Ok(Some(later)));
    assert_eq!(store.held(endless.id).await, Ok(Some(endless)));
}

pub async fn interrupted_held_calls_fail_as_unknown(store: Shared) {
    let calls = [approval(0), approval(0), approval(0)];
    for call in &calls {
        store.hold(call.clone()).await.expect("held");
        won(store.decide_held(call.id, approve("cy", 1), entry("decision")).await);
    }
    won(store.claim_held(calls[0].id, 2).await);
    won(store.claim_held(calls[1].id, 2).await);
    won(store.finish_held(calls[1].id, result(3), entry("call")).await);
    let cut_off = store.interrupted_held(9).await.expect("closed");
    assert_eq!(cut_off.iter().map(|call| call.id).collect::<Vec<_>>(), [calls[0].id]);
    let outcome = cut_off[0].outcome.clone().expect("an outcome");
    assert_eq!((cut_off[0].state, outcome.kind, outcome.at_ms), (HeldState::Failed, OutcomeKind::Unknown, 9));
    assert_eq!(store.interrupted_held(10).await.expect("closed"), []);
    // A call that was not claimed can still run once.
    won(store.claim_held(calls[2].id, 11).await);
}

pub async fn held_calls_are_filtered_and_paged(store: Shared) {
    let mut all = Vec::new();
    for number in 0..6 {
        let mut call = approval(number);
        call.user = if number % 2 == 0 { "ann" } else { "bo" }.into();
        call.arguments_sha256 = [number as u8 / 3; 32];
        store.hold(call.clone()).await.expect("held");
        all.push(call);
    }
    let decided = won(store.decide_held(all[0].id, reject("cy", 1), entry("decision")).await);
    let same = |sha: u8, tool: &str| {
        Some(SameCall { server: server("mail"), tool: tool.into(), arguments_sha256: [sha; 32] })
    };
    let user = |name: &str| Some(name.to_owned());
    let none = HeldFilter::default;
    let cases: [(HeldFilter, &[usize]); 11] = [
        (none(), &[5, 4, 3, 2, 1, 0]),
        (HeldFilter { limit: Some(2), ..none() }, &[5, 4]),
        (HeldFilter { limit: Some(2), before: Some(all[4].id), ..none() }, &[3, 2]),
        (HeldFilter { before: Some(Uuid::nil()), ..none() }, &[]),
        (HeldFilter { user: user("ann"), ..none() }, &[4, 2, 0]),
        (HeldFilter { user: user("ann"), states: vec![HeldState::Pending], ..none() }, &[4, 2]),
        (HeldFilter { states: vec![HeldState::Rejected, HeldState::Done], ..none() }, &[0]),
        (HeldFilter { call: same(1, "send"), ..none() }, &[5, 4, 3]),
        (HeldFilter { call: same(1, "read"), ..none() }, &[]),
        (HeldFilter { of_call: all[3].origin.as_ref().map(|origin| origin.call), ..none() }, &[3]),
        (HeldFilter { kind: Some(HeldKind::Plan), ..none() }, &[]),
    ];
    all[0] = decided;
    for (filter, expected) in cases {
        let found = store.held_calls(filter.clone()).await.expect("listed");
        let expected: Vec<_> = expected.iter().map(|number| all[*number].clone()).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub async fn pages_of_held_calls_are_limited(store: Shared) {
    let long = json(&format!(r#"{{"text":"{}"}}"#, "x".repeat(900_000)));
    for number in 0..20 {
        let call = HeldCall { arguments: long.clone(), ..approval(number) };
        store.hold(call).await.expect("held");
    }
    let first = store.held_calls(HeldFilter::default()).await.expect("listed");
    assert!((10..20).contains(&first.len()), "{}", first.len());
    let before = first.last().map(|call| call.id);
    let rest = store.held_calls(HeldFilter { before, ..HeldFilter::default() }).await.expect("listed");
    assert_eq!(first.len() + rest.len(), 20);
    let long = HeldCall { arguments: json(&format!("\"{}\"", "x".repeat(1 << 20))), ..approval(1) };
    assert_eq!(code(store.hold(long).await), "store.unfit");
    let decided = HeldCall { state: HeldState::Approved, ..approval(1) };
    assert_eq!(code(store.hold(decided).await), "store.unfit");
    let placed = HeldCall { plan: Some(PlanStep { plan: Uuid::nil(), step: 1 }), ..approval(1) };
    assert_eq!(code(store.hold(placed).await), "store.unfit");
}

pub async fn one_user_cannot_reach_the_total_limit_of_held_calls(store: Shared) {
    let mut holds = JoinSet::new();
    for number in 0..MAX_OPEN_HELD_OF_USER as i64 {
        let store = store.clone();
        holds.spawn(async move { store.hold(approval(number)).await });
    }
    assert!(holds.join_all().await.into_iter().all(|held| held.is_ok()));
    assert_eq!(code(store.hold(approval(1)).await), "store.full");
    store.hold(HeldCall { user: "bo".into(), ..approval(1) }).await.expect("another user is not limited");
}

pub async fn purge_deletes_ended_held_calls(store: Shared) {
    let (ended, open, young) = (approval(0), approval(0), approval(2));
    for call in [&ended, &open, &young] {
        store.hold(call.clone()).await.expect("held");
    }
    for call in [&ended, &young] {
        won(store.decide_held(call.id, reject("cy", 3), entry("decision")).await);
    }
    store.purge(HOUR_MS + 1).await.expect("purged");
    let kept = store.held_calls(HeldFilter::default()).await.expect("listed");
    assert_eq!(kept.iter().map(|call| call.id).collect::<Vec<_>>(), [young.id, open.id]);
}

fn plan(persona: Option<&str>, session: Option<&str>) -> Plan {
    Plan {
        id: Uuid::now_v7(),
        user: "ann".into(),
        persona: persona.map(Into::into),
        session: session.map(Into::into),
        state: PlanState::Open,
        created_ms: 1,
        closed_ms: None,
    }
}

pub async fn the_narrowest_open_plan_covers_a_call(store: Shared) {
    let (wide, dev, session) = (plan(None, None), plan(Some("dev"), None), plan(None, Some("s1")));
    for plan in [&session, &dev, &wide] {
        assert_eq!(store.open_plan(plan.clone()).await.as_ref(), Ok(plan));
    }
    // Opening a second plan with the same scope returns the first.
    assert_eq!(store.open_plan(plan(Some("dev"), None)).await.as_ref(), Ok(&dev));
    let cases = [
        ("ann", None, None, Some(&wide)),
        ("ann", Some("dev"), None, Some(&dev)),
        ("ann", Some("dev"), Some("s1"), Some(&session)),
        ("ann", Some("ops"), Some("s2"), Some(&wide)),
        ("bo", None, None, None),
    ];
    for (user, persona, session, expected) in cases {
        let found = store.plan_of(user, persona, session).await.expect("read");
        assert_eq!(found.as_ref(), expected, "{user} {persona:?} {session:?}");
    }
    let closed = store.close_plan(wide.id, 5).await.expect("closed").expect("exists");
    assert_eq!((closed.state, closed.closed_ms), (PlanState::Closed, Some(5)));
    assert_eq!(store.close_plan(wide.id, 6).await, Ok(Some(closed.clone())));
    assert_eq!(store.close_plan(Uuid::nil(), 6).await, Ok(None));
    assert_eq!(store.plan_of("ann", None, None).await, Ok(None));
    assert_eq!(store.plans(Some("ann")).await.expect("listed"), [closed, dev, session]);
    assert_eq!(store.plans(Some("bo")).await.expect("listed"), []);
    assert_eq!(store.plans(None).await.expect("listed").len(), 3);
}

pub async fn steps_are_numbered_without_gaps(store: Shared) {
    let plan = plan(None, None);
    store.open_plan(plan.clone()).await.expect("opened");
    let mut steps = JoinSet::new();
    for number in 0..64 {
        let (store, plan) = (store.clone(), plan.id);
        let call = HeldCall { kind: HeldKind::Plan, expires_ms: None, ..approval(number) };
        steps.spawn(async move {
            let step = store.queue_step(plan, call.clone()).await.expect("queued");
            assert_eq!(store.queue_step(plan, call.clone()).await, Ok(step), "a repetition");
            (step, call.id)
        });
    }
    let steps = steps.join_all().await;
    let numbers: HashSet<_> = steps.iter().map(|(step, _)| *step).collect();
    assert_eq!(numbers, (1..=64).collect());
    for (step, id) in steps {
        let place = store.held(id).await.expect("read").expect("it is there").plan.expect("a place");
        assert_eq!((place.plan, place.step), (plan.id, step));
    }
    let filter = HeldFilter { plan: Some(plan.id), ..HeldFilter::default() };
    let listed = store.held_calls(filter).await.expect("listed");
    let order: Vec<_> = listed.iter().map(|call| call.plan.expect("a plan").step).collect();
    assert_eq!(order, (1..=64).rev().collect::<Vec<_>>());
    store.close_plan(plan.id, 1).await.expect("closed");
    assert_eq!(code(store.queue_step(plan.id, approval(1)).await), "store.no-plan");
    assert_eq!(code(store.queue_step(Uuid::nil(), approval(1)).await), "store.no-plan");
}
