//! kill -9 at any moment: acknowledged writes are there afterwards.
//!
//! The test starts its own binary again as the victim, with a test that only runs if an environment variable gives
//! the path of the database.

use crate::sample::{intent, url};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::task::JoinSet;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::fault::Fault;
use toolbooth_store::{AuditFilter, MAX_OPEN_INTENTS, OutcomeKind, open};
use uuid::Uuid;

pub const PLACE: &str = "TOOLBOOTH_STORE_CRASH_TEST";
const ROUNDS: usize = 20;
const NOTING_ROUNDS: usize = 12;
const MOST_ACKNOWLEDGED: usize = 400;

#[tokio::test]
#[ignore = "the victim of the test below, which starts it: cargo test -p toolbooth-store crash"]
async fn victim() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let store = open(&url(Path::new(&place))).await.expect("the store opens");
    let mut writers = JoinSet::new();
    for _ in 0..32 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            // Runs until the kill, or at most so many rounds.
            for at_ms in 0..100_000 {
                let intent = intent(at_ms);
                let call_id = intent.call_id;
                store.write_intent(intent).await.expect("written");
                println!("acknowledged {call_id}");
            }
        });
    }
    writers.join_all().await;
}

#[tokio::test]
#[ignore = "the victim of a test below, which starts it: cargo test -p toolbooth-store crash"]
async fn noting_victim() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let store = open(&url(Path::new(&place))).await.expect("the store opens");
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            // All open intents fit into one page.
            let most = if writer == 0 { 200 } else { 100_000 };
            for at_ms in 0..most {
                let intent = intent(at_ms);
                let id = intent.call_id;
                store.note_intent(intent).await.expect("noted");
                if writer == 0 {
                    println!("acknowledged {id}");
                    continue; // It never ends.
                }
                let entry = AuditEntry { call_id: Some(id), ..AuditEntry::new(at_ms, "call", "ann", "done") };
                store.note_end(id, Some(entry)).await.expect("noted");
                println!("ended {id}");
            }
        });
    }
    writers.join_all().await;
}

pub fn start_victim(name: &str, place: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PLACE, place).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("the victim starts")
}

/// Kills the victim after `acknowledged` calls, and returns all acknowledged calls.
fn kill_after(mut victim: Child, acknowledged: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    let output = BufReader::new(victim.stdout.take().expect("its output"));
    if acknowledged == 0 {
        victim.kill().expect("killed");
    }
    for line in output.lines() {
        let line = line.expect("text");
        let Some((_, id)) = line.split_once("acknowledged ") else { continue };
        // The kill may truncate the last line; then its acknowledgement was not read.
        ids.extend(id.parse::<Uuid>());
        if ids.len() == acknowledged {
            victim.kill().expect("killed");
        }
    }
    victim.wait().expect("exited");
    ids
}

pub fn random_below(bound: usize) -> usize {
    Uuid::new_v4().as_u128() as usize % bound
}

#[tokio::test]
async fn kill_9_loses_no_acknowledged_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("toolbooth.db");
    let mut acknowledged = HashSet::new();
    for round in 0..ROUNDS {
        let count = if round == 0 { 0 } else { random_below(MOST_ACKNOWLEDGED) };
        acknowledged.extend(kill_after(start_victim("crash::victim", &place), count));

        let store = open(&url(&place)).await.expect("the store opens again");
        let open_calls: HashSet<_> =
            store.open_intents().await.expect("read").into_iter().map(|intent| intent.call_id).collect();
        let lost: Vec<_> = acknowledged.difference(&open_calls).collect();
        assert!(lost.is_empty(), "round {round}: {} of {} lost", lost.len(), acknowledged.len());
        store.close().await;
    }
    let store = open(&url(&place)).await.expect("the store opens again");
    let closed = store.close_interrupted(1).await.expect("closed");
    assert!(closed >= acknowledged.len() as u64);
    let calls = store.recent_calls(1_000).await.expect("read");
    assert!(calls.iter().all(|row| row.outcome.as_ref().is_some_and(|end| end.kind == OutcomeKind::Unknown)));
    store.close().await;
    println!("{} calls acknowledged in {ROUNDS} rounds, {closed} found", acknowledged.len());
}

/// H7: rows of acknowledged calls that waited for the next commit were lost.
#[tokio::test]
async fn kill_9_loses_no_spooled_audit_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("toolbooth.db");
    let (mut ended, mut begun) = (HashSet::new(), HashSet::new());
    for round in 0..NOTING_ROUNDS {
        let mut victim = start_victim("crash::noting_victim", &place);
        let output = BufReader::new(victim.stdout.take().expect("its output"));
        let enough = 1 + random_below(2_000);
        let mut count = 0;
        for line in output.lines() {
            let line = line.expect("text");
            let mut words = line.split(' ');
            let (Some(kind), Some(Ok(id))) = (words.next(), words.next().map(str::parse::<Uuid>)) else {
                continue;
            };
            match kind {
                "ended" => ended.insert(id),
                "acknowledged" => begun.insert(id),
                _ => continue,
            };
            count += 1;
            if count == enough {
                victim.kill().expect("killed");
            }
        }
        victim.wait().expect("exited");

        let store = open(&url(&place)).await.expect("the store opens again");
        let mut rows = HashSet::new();
        let mut before_seq = None;
        loop {
            let filter = AuditFilter { before_seq, ..AuditFilter::default() };
            let page = store.audit_rows(filter).await.expect("read");
            let Some(last) = page.last() else { break };
            before_seq = Some(last.seq);
            for row in page {
                let id = row.entry.call_id.expect("a call");
                assert!(rows.insert(id), "round {round}: {id} has two rows");
            }
        }
        assert!(ended.is_subset(&rows), "round {round}: {} rows are lost", ended.difference(&rows).count());
        let open_calls: HashSet<_> =
            store.open_intents().await.expect("read").into_iter().map(|intent| intent.call_id).collect();
        assert!(begun.is_subset(&open_calls), "round {round}: a call that was cut off is forgotten");
        assert!(open_calls.is_disjoint(&ended), "round {round}: a call that ended is open");
        assert_eq!(store.verify_audit().await.expect("checked").first_bad, None);
        store.close().await;
    }
    println!("{} rows in {NOTING_ROUNDS} rounds", ended.len());
}

/// Copies the files of a running store, which is the state that a kill leaves.
fn as_killed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    copy_files(folder, copy.path());
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("a file");
        let copy = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&copy).expect("a folder");
            copy_files(&entry.path(), &copy);
        } else {
            std::fs::copy(entry.path(), &copy).expect("copied");
        }
    }
}

// audit: one damaged record of the spool discards everything after it without a report.
#[tokio::test]
async fn a_damaged_spool_record_is_audited_and_other_records_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&url(&folder.path().join("toolbooth.db"))).await.expect("the store opens");
    let intents = [intent(1), intent(2), intent(3)];
    for intent in &intents {
        store.note_intent(intent.clone()).await.expect("noted");
    }
    let killed = as_killed(folder.path());
    store.close().await;
    let spool = killed.path().join("toolbooth.db-spool/0");
    let mut bytes = std::fs::read(&spool).expect("the spool");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&spool, bytes).expect("damaged");

    let place = killed.path().join("toolbooth.db");
    for _ in 0..2 {
        let store = open(&url(&place)).await.expect("the store opens again");
        let found = store.open_intents().await.expect("read");
        assert_eq!(found, [intents[0].clone(), intents[2].clone()]);
        let rows = store.audit_rows(AuditFilter::default()).await.expect("read");
        let codes: Vec<_> = rows.iter().map(|row| row.entry.code.as_deref()).collect();
        assert_eq!(codes, [Some("store.spool-damaged")], "reported once");
        assert_eq!(store.verify_audit().await.expect("checked").first_bad, None);
        store.close().await;
    }
}

// audit: interrupted calls beyond the first page of open intents were closed without audit rows.
#[tokio::test]
async fn every_interrupted_call_has_an_audit_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&url(&folder.path().join("toolbooth.db"))).await.expect("the store opens");
    let count = u64::from(MAX_OPEN_INTENTS) + 5;
    for at_ms in 0..i64::from(MAX_OPEN_INTENTS) + 5 {
        store.note_intent(intent(at_ms)).await.expect("noted");
    }
    let killed = as_killed(folder.path());
    store.close().await;

    let store = open(&url(&killed.path().join("toolbooth.db"))).await.expect("the store opens again");
    assert_eq!(store.close_interrupted(99).await, Ok(count));
    assert_eq!(store.open_intents().await, Ok(Vec::new()));
    assert_eq!(store.verify_audit().await.expect("checked").rows, count);
    store.close().await;
}

#[tokio::test]
async fn the_error_names_the_process_that_holds_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("toolbooth.db");
    let mut victim = start_victim("crash::victim", &place);
    let mut output = BufReader::new(victim.stdout.take().expect("its output"));
    let mut line = String::new();
    while !line.contains("acknowledged") {
        line.clear();
        assert!(output.read_line(&mut line).expect("text") > 0, "the victim ended early");
    }
    let refusal = open(&url(&place)).await.err();
    victim.kill().expect("killed");
    victim.wait().expect("exited");
    let refusal = refusal.expect("a refusal");
    assert_eq!(refusal.code(), "store.in-use");
    assert!(refusal.to_string().contains(&format!("(process {})", victim.id())), "{refusal}");
    open(&url(&place)).await.expect("the lock is released").close().await;
}
