//! How many durable rows a second; `cargo test -p toolbooth-store speed -- --nocapture` prints it.

use crate::sample::{intent, url};
use std::time::Instant;
use tokio::task::JoinSet;
use toolbooth_store::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_committed_together() {
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
