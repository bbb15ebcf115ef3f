//! A power cut: writes after the last sync may be torn, and no acknowledged write is lost.
//!
//! The cut is simulated on copies of the files. A copy taken right after an acknowledgement holds all synced bytes;
//! the further bytes of a later copy were not synced, and appear in part, as zeros, or garbled.

use crate::sample::{intent, url};
use std::collections::BTreeMap;
use std::path::Path;
use toolbooth_store::open;
use uuid::Uuid;

const ROUNDS: usize = 24;

type Files = BTreeMap<String, Vec<u8>>;

/// Reads all files of a folder and of its spool folder, by relative path.
fn copy_of(folder: &Path) -> Files {
    let mut files = Files::new();
    for within in ["", "toolbooth.db-spool/"] {
        for entry in std::fs::read_dir(folder.join(within)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name");
            // The database's shared memory is recreated after a cut, and a lock ends with its process.
            if name.ends_with("-shm") || name.ends_with(".lock") || !entry.path().is_file() {
                continue;
            }
            files.insert(format!("{within}{name}"), std::fs::read(entry.path()).expect("content"));
        }
    }
    files
}

/// The files after a cut: all synced bytes, and a part of the bytes appended later.
fn cut(synced: &Files, later: &Files, round: usize) -> Files {
    let mut found = synced.clone();
    for (name, content) in &mut found {
        let Some(appended) = later.get(name).and_then(|later| later.strip_prefix(content.as_slice())) else {
            continue;
        };
        let part = &appended[..appended.len() * (round % 7) / 7];
        match round % 3 {
            0 => content.extend_from_slice(part),
            1 => content.resize(content.len() + part.len(), 0),
            _ => content.extend(part.iter().map(|byte| byte ^ 0x5a)),
        }
    }
    found
}

// F23: power cut.
#[tokio::test]
async fn a_power_cut_loses_no_acknowledged_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&url(&folder.path().join("toolbooth.db"))).await.expect("the store opens");
    let mut acknowledged: Vec<Uuid> = Vec::new();
    for round in 0..ROUNDS {
        let written = intent(round as i64);
        acknowledged.push(written.call_id);
        store.write_intent(written).await.expect("acknowledged");
        let synced = copy_of(folder.path());
        for at_ms in 0..3 {
            let on_its_way = intent(at_ms);
            acknowledged.push(on_its_way.call_id);
            store.write_intent(on_its_way).await.expect("acknowledged");
        }
        let files = cut(&synced, &copy_of(folder.path()), round);

        let after = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(after.path().join("toolbooth.db-spool")).expect("a folder");
        for (name, content) in &files {
            std::fs::write(after.path().join(name), content).expect("written");
        }
        let reopened = open(&url(&after.path().join("toolbooth.db"))).await.expect("it opens after the cut");
        let open_calls = reopened.open_intents().await.expect("read");
        for id in &acknowledged[..acknowledged.len() - 3] {
            assert!(open_calls.iter().any(|intent| intent.call_id == *id), "round {round}: {id} was lost");
        }
        assert!(reopened.verify_audit().await.is_ok(), "round {round}: the audit is whole");
        reopened.close().await;
    }
    store.close().await;
}
