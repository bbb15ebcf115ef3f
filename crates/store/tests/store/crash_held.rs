//! kill -9 while held calls are decided, claimed and finished: acknowledged steps persist, no call
//! runs twice, and the audit verifies.

use crate::crash::{PLACE, random_below, start_victim};
use crate::sample::{approval, approve, audited, entry, reject, result, url};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use tokio::task::JoinSet;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::held::{HeldCall, HeldState};
use toolbooth_store::{AuditFilter, HeldFilter, HeldUpdate, Store, open};
use uuid::Uuid;

const ROUNDS: usize = 12;
const MOST_LINES: usize = 400;

#[tokio::test]
#[ignore = "the victim of the test below, which starts it: cargo test -p toolbooth-store crash_held"]
async fn victim() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let store = open(&url(Path::new(&place))).await.expect("the store opens");
    store.interrupted_held(1).await.expect("closed");
    let filter = HeldFilter { states: vec![HeldState::Approved], ..HeldFilter::default() };
    let mut tasks = JoinSet::new();
    for call in store.held_calls(filter).await.expect("listed") {
        // Approved before the last kill: several tasks try to run it.
        for _ in 0..3 {
            tasks.spawn(run(Arc::clone(&store), call.id));
        }
    }
    for worker in 0..16_i64 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            // Runs until the kill, or at most so many rounds.
            for number in 0..10_000 {
                let call = approval(number);
                store.hold(call.clone()).await.expect("held");
                println!("+ held {}", call.id);
                store.audit(audited(number)).await.expect("queued");
                let decision = if worker % 4 == 0 { reject("di", number) } else { approve("cy", number) };
                let note = AuditEntry { call_id: Some(call.id), ..entry("decision") };
                let decided = store.decide_held(call.id, decision, note).await.expect("decided");
                let HeldUpdate::Won(decided) = decided else { panic!("this is the only decision") };
                println!("+ {} {}", decided.state, call.id);
                if decided.state == HeldState::Approved {
                    run(Arc::clone(&store), call.id).await;
                }
            }
        });
    }
    tasks.join_all().await;
}

async fn run(store: Arc<dyn Store>, id: Uuid) {
    if let HeldUpdate::Won(_) = store.claim_held(id, 5).await.expect("an answer") {
        println!("+ claimed {id}");
        let note = AuditEntry { call_id: Some(id), ..entry("call") };
        store.finish_held(id, result(6), note).await.expect("finished");
        println!("+ finished {id}");
    }
}

/// Kills the victim after `lines` acknowledgements, and returns all of them.
fn kill_after(mut victim: Child, lines: usize) -> Vec<(String, Uuid)> {
    let mut acknowledged = Vec::new();
    let output = BufReader::new(victim.stdout.take().expect("its output"));
    for line in output.lines() {
        let line = line.expect("text");
        let Some((_, said)) = line.split_once("+ ") else { continue };
        let Some((what, id)) = said.split_once(' ') else { continue };
        // The kill may truncate the last line; then its acknowledgement was not read.
        let Ok(id) = id.parse() else { continue };
        acknowledged.push((what.to_owned(), id));
        if acknowledged.len() == lines {
            victim.kill().expect("killed");
        }
    }
    victim.wait().expect("exited");
    acknowledged
}

async fn all_audited(store: &Arc<dyn Store>, kind: &str) -> HashSet<Uuid> {
    let (mut found, mut before_seq) = (HashSet::new(), None);
    loop {
        let filter = AuditFilter { kind: Some(kind.into()), before_seq, ..AuditFilter::default() };
        let rows = store.audit_rows(filter).await.expect("read");
        let Some(last) = rows.last() else { return found };
        before_seq = Some(last.seq);
        found.extend(rows.into_iter().filter_map(|row| row.entry.call_id));
    }
}

fn holds(what: &str, call: &HeldCall) -> bool {
    let by = call.decided_by.as_deref();
    match what {
        "held" => true,
        "approved" => by == Some("cy") && call.remember.is_some() && call.edited.is_some(),
        "rejected" => by == Some("di") && call.state == HeldState::Rejected,
        "claimed" => call.claimed_ms == Some(5),
        "finished" => call.state == HeldState::Done && call.outcome == Some(result(6)),
        other => panic!("unknown acknowledgement {other}"),
    }
}

#[tokio::test]
async fn kill_9_loses_no_decision_and_runs_no_call_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("toolbooth.db");
    let (mut acknowledged, mut claims) = (Vec::new(), HashMap::new());
    for round in 0..ROUNDS {
        let victim = start_victim("crash_held::victim", &place);
        acknowledged.extend(kill_after(victim, 1 + random_below(MOST_LINES)));
        claims.clear();
        for (_, id) in acknowledged.iter().filter(|(what, _)| what == "claimed") {
            *claims.entry(*id).or_insert(0) += 1;
        }
        assert!(claims.values().all(|count| *count == 1), "round {round}: run twice");

        let store = open(&url(&place)).await.expect("the store opens again");
        let report = store.verify_audit().await.expect("checked");
        assert_eq!(report.first_bad, None, "round {round}");
        let (decisions, calls) = (all_audited(&store, "decision").await, all_audited(&store, "call").await);
        for (what, id) in &acknowledged {
            let call = store.held(*id).await.expect("read").expect("it is there");
            assert!(holds(what, &call), "round {round}: {what} was lost: {call:?}");
            let audited = match what.as_str() {
                "approved" | "rejected" => decisions.contains(id),
                "finished" => calls.contains(id),
                _ => true,
            };
            assert!(audited, "round {round}: {what} is not in the audit");
            if call.claimed_ms.is_some() {
                assert!(matches!(store.claim_held(*id, 9).await, Ok(HeldUpdate::Lost(_))), "claimed again");
            }
        }
        store.close().await;
    }
    println!("{} acknowledgements in {ROUNDS} rounds, {} calls run once", acknowledged.len(), claims.len());
}
