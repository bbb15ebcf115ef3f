//! Measures durable rows per second; `cargo test -p toolbooth-store speed -- --nocapture` prints them.

use crate::sample::{audited, intent, url};
use std::time::Instant;
use tokio::task::JoinSet;
use toolbooth_core::audit::AuditEntry;
use toolbooth_store::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_share_a_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&url(&folder.path().join("toolbooth.db"))).await.expect("opens");
    for (writers, each) in [(1, 100), (64, 100), (256, 80)] {
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..writers {
            let store = store.clone();
            tasks.spawn(async move {
                for at_ms in 0..each {
                    store.write_intent(intent(at_ms)).await.expect("written");
                }
            });
        }
        tasks.join_all().await;
        let rows = (writers * each) as f64;
        println!("{writers} writers: {:.0} durable rows/s", rows / start.elapsed().as_secs_f64());
    }
    store.close().await;
}

/// The CPU time of this process, all threads together.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<_> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    // Fields 14 and 15 (the name in brackets is field 2), in hundredths of a second.
    [11, 12].iter().map(|place| fields[*place].parse::<f64>().expect("ticks")).sum::<f64>() / 100.0
}

#[tokio::test]
#[ignore = "a measurement: cargo test -p toolbooth-store audit_rows_are_cheap -- --ignored --nocapture"]
async fn audit_rows_are_cheap() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&url(&folder.path().join("toolbooth.db"))).await.expect("opens");
    // The audit row of a typical call.
    let template = AuditEntry { by: None, persona: None, code: None, detail: None, ..audited(1) };
    for (commits, rows) in [(1_000, 50), (2_000, 1), (100, 500)] {
        let entries: Vec<Vec<_>> = (0..commits).map(|_| vec![template.clone(); rows]).collect();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        for entries in entries {
            store.audit_now(entries).await.expect("added");
        }
        let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let all = (commits * rows) as f64;
        println!("{rows} rows a commit: {:.0} rows/s, {:.1} us CPU a row", all / wall, cpu / all * 1e6);
    }
    let (start, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..100_000 {
        store.audit(template.clone()).await.expect("queued");
    }
    store.flush().await.expect("flushed");
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!("queued: {:.0} rows/s, {:.1} us CPU a row", 1e5 / wall, cpu * 10.0);
    let start = Instant::now();
    let report = store.verify_audit().await.expect("checked");
    assert_eq!(report.first_bad, None);
    println!("verified {} rows in {:?}", report.rows, start.elapsed());
    store.close().await;
}
