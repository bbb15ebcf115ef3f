//! Records of what has happened, written while the database cannot be reached: each is in the database once it answers again.

use crate::contract::Shared;
use crate::postgres::Schema;
use crate::sample::{audited, intent, outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolbooth_core::audit::AuditEntry;
use toolbooth_store::{AuditFilter, Intent, OutcomeKind, open};
use uuid::Uuid;

/// Connections are passed on.
const UP: u8 = 0;
/// All connections are closed.
const DOWN: u8 = 1;
/// The next commit is passed on, but not its answer; from then on all connections are closed.
const DEAF: u8 = 2;

/// A proxy in front of the database.
struct Link {
    state: Arc<AtomicU8>,
    address: String,
}

impl Link {
    async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(AtomicU8::new(UP));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, server.clone(), shared.clone()));
            }
        });
        Self { state, address }
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
    }
}

async fn pass_on(mut client: TcpStream, server: String, state: Arc<AtomicU8>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let (mut sent, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    while state.load(Ordering::SeqCst) != DOWN {
        let tick = tokio::time::sleep(Duration::from_millis(10));
        tokio::select! {
            read = client.read(&mut sent) => match read {
                Ok(length @ 1..) => {
                    server.write_all(&sent[..length]).await.expect("passed on");
                    let commits = sent[..length].windows(6).any(|word| word == b"COMMIT");
                    if commits && state.load(Ordering::SeqCst) == DEAF {
                        let _ = server.read(&mut answered).await;
                        state.store(DOWN, Ordering::SeqCst);
                    }
                }
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(length @ 1..) => if client.write_all(&answered[..length]).await.is_err() { return },
                _ => return,
            },
            () = tick => {}
        }
    }
}

/// The outcomes of the audit rows of a call.
async fn rows_of(store: &Shared, call: Uuid) -> Vec<String> {
    let filter = AuditFilter { call_id: Some(call), ..AuditFilter::default() };
    let rows = store.audit_rows(filter).await.expect("read");
    rows.into_iter().map(|row| row.entry.outcome.to_string()).collect()
}

/// A store behind a link, with three open calls: two with an intent, and a read without one.
async fn with_open_calls(schema: &Schema) -> (Shared, Link, [Intent; 3]) {
    let link = Link::to(schema.address().to_owned()).await;
    let store = open(&schema.url_at(&link.address)).await.expect("opens");
    let calls = [intent(1), intent(2), intent(3)];
    store.write_intent(calls[0].clone()).await.expect("written");
    store.note_intent(calls[1].clone()).await.expect("written");
    (store, link, calls)
}

/// Ends the three calls in one group. The end of each of them is refused.
async fn end_all(store: &Shared, calls: &[Intent; 3]) {
    let row =
        |at: usize| AuditEntry { call_id: Some(calls[at].call_id), outcome: "done".into(), ..audited(9) };
    let settled = store.settle(outcome(&calls[0], OutcomeKind::Done), Some(row(0)));
    let noted = store.note_end(calls[1].call_id, Some(row(1)));
    let audited = store.audit(row(2));
    let (settled, noted, audited) = tokio::join!(settled, noted, audited);
    assert!(settled.is_err() && noted.is_err() && audited.is_err(), "{settled:?} {noted:?} {audited:?}");
}

async fn wait_for_rows(store: &Shared, calls: &[Intent; 3]) {
    let begun = Instant::now();
    for call in calls {
        while rows_of(store, call.call_id).await.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the row of {} is missing", call.tool);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn assert_each_is_recorded_once(store: &Shared, calls: &[Intent; 3]) {
    for call in calls {
        assert_eq!(rows_of(store, call.call_id).await, ["done"]);
    }
    assert_eq!(store.open_intents().await.expect("read"), []);
    assert_eq!(store.verify_audit().await.expect("checked").first_bad, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_of_calls_are_recorded_after_an_outage() {
    let Some(schema) = Schema::create().await else { return };
    let (store, link, calls) = with_open_calls(&schema).await;
    link.set(DOWN);
    end_all(&store, &calls).await;
    // What was refused and has not happened is not written later.
    let refused = AuditEntry { call_id: Some(Uuid::now_v7()), ..audited(9) };
    store.audit_now(vec![refused.clone()]).await.expect_err("refused");
    link.set(UP);
    wait_for_rows(&store, &calls).await;
    assert_each_is_recorded_once(&store, &calls).await;
    assert!(rows_of(&store, refused.call_id.expect("an id")).await.is_empty());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_of_calls_whose_commit_was_not_answered_are_recorded_once() {
    let Some(schema) = Schema::create().await else { return };
    let (store, link, calls) = with_open_calls(&schema).await;
    link.set(DEAF);
    end_all(&store, &calls).await;
    link.set(UP);
    wait_for_rows(&store, &calls).await;
    // Long enough for a second row.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_each_is_recorded_once(&store, &calls).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_closed_records_the_ends_of_calls_first() {
    let Some(schema) = Schema::create().await else { return };
    let (store, link, calls) = with_open_calls(&schema).await;
    link.set(DOWN);
    end_all(&store, &calls).await;
    link.set(UP);
    store.close().await;
    let store = open(&schema.url()).await.expect("opens");
    assert_each_is_recorded_once(&store, &calls).await;
    store.close().await;
}
