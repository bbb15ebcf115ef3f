//! Shared records and leases: contract tests for every backend.

use crate::contract::{HOUR_MS, Shared, code};
use toolbooth_store::{MAX_SHARED_BYTES, SharedKind, SharedRecord};

fn session(name: &str) -> SharedRecord {
    SharedRecord {
        kind: SharedKind::Session,
        name: name.into(),
        user: "ann".into(),
        body: r#"{"revision":"2025-11-25"}"#.into(),
        changed_ms: 0,
        expires_ms: HOUR_MS,
    }
}

pub async fn shared_records_are_replaced_and_their_changes_listed(store: Shared) {
    let (one, two) = (session("one"), SharedRecord { kind: SharedKind::Vault, ..session("one") });
    store.save_shared(one.clone()).await.expect("saved");
    store.save_shared(SharedRecord { changed_ms: 5, ..two.clone() }).await.expect("saved");
    assert_eq!(store.shared_record(SharedKind::Session, "one").await, Ok(Some(one.clone())));
    assert_eq!(store.shared_record(SharedKind::Session, "two").await, Ok(None));
    assert_eq!(store.changed_records(SharedKind::Session, 0).await, Ok(vec![]), "it is new");
    let removed = SharedRecord { body: String::new(), changed_ms: 7, ..one };
    store.save_shared(removed.clone()).await.expect("saved");
    let later = SharedRecord { changed_ms: 9, ..session("later") };
    store.save_shared(later.clone()).await.expect("saved");
    assert_eq!(
        store.changed_records(SharedKind::Session, 6).await,
        Ok(vec![later.clone(), removed]),
        "newest first"
    );
    assert_eq!(store.changed_records(SharedKind::Session, 8).await, Ok(vec![later]));
    let long = SharedRecord { body: "x".repeat(MAX_SHARED_BYTES + 1), ..session("long") };
    assert_eq!(code(store.save_shared(long).await), "store.unfit");
    assert_eq!(code(store.save_shared(session("")).await), "store.unfit");
}

pub async fn purge_deletes_expired_shared_records(store: Shared) {
    for name in ["kept", "gone", "removed"] {
        store.save_shared(session(name)).await.expect("saved");
    }
    store.save_shared(SharedRecord { body: String::new(), ..session("removed") }).await.expect("saved");
    let names = ["kept", "removed", "unknown"].map(String::from).to_vec();
    store.extend_shared(SharedKind::Session, names, 2 * HOUR_MS).await.expect("extended");
    store.purge(HOUR_MS).await.expect("purged");
    let expires = async |name: &str| {
        let found = store.shared_record(SharedKind::Session, name).await.expect("read");
        found.map(|record| record.expires_ms)
    };
    assert_eq!(expires("kept").await, Some(2 * HOUR_MS));
    assert_eq!(expires("gone").await, None);
    assert_eq!(expires("removed").await, None, "a removed record is not extended");
}

pub async fn a_lease_has_one_holder_until_it_ends(store: Shared) {
    assert_eq!(store.take_lease("mail", "a", 10, 20).await, Ok(true));
    assert_eq!(store.take_lease("mail", "b", 15, 30).await, Ok(false));
    assert_eq!(store.take_lease("other", "b", 15, 30).await, Ok(true));
    assert_eq!(store.take_lease("mail", "a", 15, 40).await, Ok(true), "renewed");
    assert_eq!(store.take_lease("mail", "b", 25, 50).await, Ok(false), "it was renewed");
    store.end_lease("mail", "b").await.expect("another's lease is left alone");
    assert_eq!(store.take_lease("mail", "b", 25, 50).await, Ok(false));
    store.end_lease("mail", "a").await.expect("ended");
    assert_eq!(store.take_lease("mail", "b", 25, 50).await, Ok(true));
    assert_eq!(store.take_lease("mail", "a", 50, 60).await, Ok(true), "it has expired");
}
