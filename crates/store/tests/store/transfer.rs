//! Copies of a store: to another database, to a file and back.

use crate::contract::Shared;
use crate::postgres::Schema;
use crate::sample::{approval, approve, audited, discovery, entry, intent, letter, outcome, server, url};
use sqlx::{Connection, Executor, SqliteConnection};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use toolbooth_core::fault::Fault;
use toolbooth_store::{
    AuditFilter, ExposedName, HeldFilter, LetterFilter, NonceUse, OutcomeKind, StoreUrl, back_up, migrate,
    open, restore,
};

/// A store with some records of most kinds.
async fn filled(path: &Path) -> StoreUrl {
    let url = url(path);
    let store = open(&url).await.expect("opens");
    store.save_discovery(discovery("mail", "tools")).await.expect("saved");
    let claim = ExposedName { name: "find".into(), server: server("mail") };
    store.claim_names(vec![claim], 1).await.expect("claimed");
    for at_ms in 0..30 {
        let call = intent(at_ms);
        store.write_intent(call.clone()).await.expect("written");
        store.settle(outcome(&call, OutcomeKind::Done), Some(audited(at_ms))).await.expect("settled");
        let held = approval(at_ms);
        store.hold(held.clone()).await.expect("held");
        store.decide_held(held.id, approve("cy", at_ms + 1), entry("decision")).await.expect("decided");
        store.add_letter(letter(at_ms)).await.expect("added");
    }
    store.use_nonce(b"\0used\xff", 1_000_000).await.expect("used");
    store.raise_clock(77).await.expect("raised");
    store.get_or_create_secret("seal", &|| vec![7; 32]).await.expect("a key");
    store.get_or_create_secret("request-state-key", &|| vec![8; 32]).await.expect("a key");
    store.audit_now((0..600).map(audited).collect()).await.expect("added");
    store.close().await;
    url
}

/// All records that the two stores must have alike.
async fn compare(from: &StoreUrl, to: &StoreUrl) {
    let (from, to) = (open(from).await.expect("opens"), open(to).await.expect("opens"));
    assert_eq!(from.discoveries().await, to.discoveries().await);
    for store in [&from, &to] {
        let claim = ExposedName { name: "find".into(), server: server("news") };
        let lost = store.claim_names(vec![claim], 2).await.expect("read");
        assert_eq!(lost.len(), 1, "the name is copied with its server");
    }
    assert_eq!(from.recent_calls(100).await, to.recent_calls(100).await);
    assert_eq!(from.held_calls(HeldFilter::default()).await, to.held_calls(HeldFilter::default()).await);
    assert_eq!(from.letters(LetterFilter::default()).await, to.letters(LetterFilter::default()).await);
    let newest = AuditFilter { limit: Some(700), ..AuditFilter::default() };
    assert_eq!(from.audit_rows(newest.clone()).await, to.audit_rows(newest).await);
    assert_eq!(from.verify_audit().await, to.verify_audit().await);
    assert_eq!(to.use_nonce(b"\0used\xff", 1_000_000).await, Ok(NonceUse::Again));
    assert_eq!(to.latest_clock().await, Ok(77));
    assert_eq!(to.get_or_create_secret("seal", &|| panic!("it was copied")).await, Ok(vec![7; 32]));
    goes_on(&to).await;
    from.close().await;
    to.close().await;
}

/// New records follow the copied ones.
async fn goes_on(store: &Shared) {
    let rows = store.verify_audit().await.expect("checked").rows;
    let (call, held) = (intent(99), approval(99));
    store.write_intent(call.clone()).await.expect("written");
    store.hold(held.clone()).await.expect("held");
    store.audit_now(vec![audited(1)]).await.expect("added");
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.first_bad), (rows + 1, None));
    assert_eq!(store.recent_calls(1).await.expect("read")[0].intent, call);
    let newest = HeldFilter { limit: Some(1), ..HeldFilter::default() };
    assert_eq!(store.held_calls(newest).await.expect("read")[0].id, held.id);
}

#[tokio::test]
async fn a_backup_of_a_running_store_is_restored_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = filled(&folder.path().join("a.db")).await;
    let running = open(&from).await.expect("opens");
    let file = folder.path().join("backup");
    let written = back_up(&from, &file).await.expect("written");
    running.close().await;
    assert_eq!(written.keys, 2);
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let to = url(&folder.path().join("b.db"));
    let restored = restore(&file, &to).await.expect("restored");
    assert_eq!((restored.rows(), restored.audit_rows), (written.rows(), Some(660)));
    compare(&from, &to).await;
    // States that were used after the backup must not be usable again.
    let store = open(&to).await.expect("opens");
    let key = store.get_or_create_secret("request-state-key", &|| vec![9; 32]).await;
    assert_eq!(key, Ok(vec![9; 32]));
    store.close().await;
}

#[tokio::test]
async fn a_copy_continues_and_never_fills_a_used_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = filled(&folder.path().join("a.db")).await;
    let to = url(&folder.path().join("b.db"));
    let first = migrate(&from, &to).await.expect("copied");
    // As after an interruption: the copy looks at every table again and adds what is missing.
    assert_eq!(migrate(&from, &to).await, Ok(first));
    let other = filled(&folder.path().join("c.db")).await;
    let refused = migrate(&other, &to).await.expect_err("not empty");
    assert_eq!(refused.code(), "store.not-empty");
    compare(&from, &to).await;
}

#[tokio::test]
async fn a_backup_that_was_cut_or_changed_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = filled(&folder.path().join("a.db")).await;
    let file = folder.path().join("backup");
    back_up(&from, &file).await.expect("written");
    let text = std::fs::read_to_string(&file).expect("a backup");
    let to = url(&folder.path().join("b.db"));
    let cases = [
        text[..text.len() / 2].to_owned(),
        text.replace("ann@example.org", "bob@example.org"),
        text.lines()
            .filter(|line| !line.contains("\"dead_letters\""))
            .fold(String::new(), |all, line| all + line + "\n"),
        String::new(),
        "{}\n".to_owned(),
    ];
    for damaged in cases {
        std::fs::write(&file, &damaged).expect("written");
        let refused = restore(&file, &to).await.expect_err("damaged");
        assert_eq!(refused.code(), "store.backup-damaged", "{refused}");
    }
    assert_eq!(
        restore(&folder.path().join("none"), &to).await.map_err(|error| error.code()),
        Err("store.backup-file")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_moves_to_postgresql_and_back() {
    let Some(schema) = Schema::create().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let from = filled(&folder.path().join("a.db")).await;
    let there = migrate(&from, &schema.url()).await.expect("copied");
    assert_eq!((there.keys, there.audit_rows), (2, Some(660)));
    assert_eq!(migrate(&from, &schema.url()).await, Ok(there));
    let file = folder.path().join("backup");
    back_up(&schema.url(), &file).await.expect("written");
    let back = url(&folder.path().join("b.db"));
    restore(&file, &back).await.expect("restored");
    compare(&from, &back).await;
    compare(&from, &schema.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_that_begins_at_a_high_number_moves_to_postgresql() {
    let Some(schema) = Schema::create().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let from = url(&path);
    open(&from).await.expect("opens").close().await;
    // As if half a billion rows had been purged.
    let mut hand = SqliteConnection::connect(&path.display().to_string()).await.expect("opens");
    hand.execute("UPDATE audit_ends SET seq = 500000000").await.expect("set");
    hand.close().await.expect("closed");
    let store = open(&from).await.expect("opens");
    store.audit_now((0..600).map(audited).collect()).await.expect("added");
    store.close().await;
    let copied = migrate(&from, &schema.url()).await.expect("copied");
    assert_eq!(copied.audit_rows, Some(600));
    let to = open(&schema.url()).await.expect("opens");
    to.audit_now(vec![audited(1)]).await.expect("added");
    let report = to.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.purged_to, report.first_bad), (601, 500_000_000, None));
    to.close().await;
}
