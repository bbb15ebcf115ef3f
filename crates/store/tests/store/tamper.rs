//! Changes to the audit that bypass the gateway are detected, and the row is named.

use crate::sample::{audited, entry, url};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, SqliteConnection};
use std::path::{Path, PathBuf};
use toolbooth_core::audit::{AuditReport, Flaw};
use toolbooth_core::fault::Fault;
use toolbooth_store::{AuditFilter, open};

async fn with_rows(folder: &Path) -> PathBuf {
    let path = folder.join("toolbooth.db");
    let store = open(&url(&path)).await.expect("opens");
    store.audit_now((1..=10).map(audited).collect()).await.expect("added");
    store.close().await;
    path
}

async fn hand(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.expect("a plain connection")
}

async fn tampered(tampering: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = with_rows(folder.path()).await;
    let mut hand = hand(&path).await;
    hand.execute(AssertSqlSafe(tampering.to_owned())).await.expect(tampering);
    hand.close().await.expect("closed");
    (folder, path)
}

async fn verify(path: &Path) -> AuditReport {
    let store = open(&url(path)).await.expect("opens");
    let report = store.verify_audit().await.expect("checked");
    store.close().await;
    report
}

#[tokio::test]
async fn tampering_is_detected_and_the_row_is_named() {
    let set = |column: &str, value: &str| format!("UPDATE audit SET {column} = {value} WHERE seq = 5");
    let cases = [
        (set("at_ms", "at_ms + 1"), 5, Flaw::Altered),
        (set("kind", "'Call'"), 5, Flaw::Altered),
        (set("call_id", "zeroblob(16)"), 5, Flaw::Altered),
        (set("call_id", "NULL"), 5, Flaw::Altered),
        (set("call_id", "zeroblob(15)"), 5, Flaw::Unreadable),
        (set("user_name", "user_name || ' '"), 5, Flaw::Altered),
        (set("user_name", "CAST(x'ff' AS TEXT)"), 5, Flaw::Unreadable),
        (set("decided_by", "'di'"), 5, Flaw::Altered),
        (set("persona", "NULL"), 5, Flaw::Altered),
        (set("client", "''"), 5, Flaw::Altered),
        (set("server", "'web'"), 5, Flaw::Altered),
        (set("tool", "'read'"), 5, Flaw::Altered),
        (set("outcome", "'failed'"), 5, Flaw::Altered),
        (set("code", "NULL"), 5, Flaw::Altered),
        (set("duration_ms", "duration_ms - 1"), 5, Flaw::Altered),
        (set("duration_ms", "-1"), 5, Flaw::Unreadable),
        (set("arguments_sha256", "zeroblob(32)"), 5, Flaw::Altered),
        (set("position", "position + 1"), 5, Flaw::Altered),
        (set("hash", "zeroblob(32)"), 5, Flaw::Altered),
        (set("arguments_preview", "substr(arguments_preview, 2)"), 5, Flaw::Altered),
        (set("detail", "'{}'"), 5, Flaw::Altered),
        (set("detail", "detail || ' '"), 5, Flaw::Unreadable),
        (set("seq", "50"), 5, Flaw::Missing),
        (set("seq", "-5"), 5, Flaw::Missing),
        ("DELETE FROM audit WHERE seq = 5".into(), 5, Flaw::Missing),
        ("DELETE FROM audit WHERE seq = 1".into(), 1, Flaw::Missing),
        (
            "UPDATE audit SET seq = 100 WHERE seq = 5; UPDATE audit SET seq = 5 WHERE seq = 6; \
            UPDATE audit SET seq = 6 WHERE seq = 100"
                .into(),
            5,
            Flaw::Altered,
        ),
        ("DELETE FROM audit WHERE seq > 7".into(), 8, Flaw::CutOff),
        ("DELETE FROM audit".into(), 1, Flaw::CutOff),
        ("UPDATE audit_ends SET seq = 9 WHERE name = 'head'".into(), 10, Flaw::Added),
        ("UPDATE audit_ends SET hash = zeroblob(32) WHERE name = 'head'".into(), 10, Flaw::OtherHead),
        ("UPDATE audit_ends SET hash = x'01' WHERE name = 'head'".into(), 0, Flaw::NoEnds),
        ("UPDATE audit_ends SET seq = 3 WHERE name = 'base'".into(), 1, Flaw::Added),
        ("UPDATE audit_ends SET hash = randomblob(32) WHERE name = 'base'".into(), 1, Flaw::Altered),
        ("DELETE FROM audit_ends WHERE name = 'head'".into(), 0, Flaw::NoEnds),
    ];
    for (tampering, seq, why) in cases {
        let (_folder, path) = tampered(&tampering).await;
        let bad = verify(&path).await.first_bad.unwrap_or_else(|| panic!("not found: {tampering}"));
        assert_eq!((bad.seq, bad.why), (seq, why), "{tampering}");
    }
}

#[tokio::test]
async fn new_rows_do_not_hide_tampering() {
    let cases = [
        ("DELETE FROM audit WHERE seq > 7", 8, Flaw::Missing),
        ("UPDATE audit SET tool = 'x' WHERE seq = 10", 10, Flaw::Altered),
        ("UPDATE audit_ends SET hash = zeroblob(32) WHERE name = 'head'", 11, Flaw::Altered),
    ];
    for (tampering, seq, why) in cases {
        let (_folder, path) = tampered(tampering).await;
        let store = open(&url(&path)).await.expect("opens");
        store.audit_now(vec![audited(11)]).await.expect("added");
        store.close().await;
        let bad = verify(&path).await.first_bad.expect("found");
        assert_eq!((bad.seq, bad.why), (seq, why), "{tampering}");
    }
}

#[tokio::test]
async fn an_untouched_audit_continues_after_reopening() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = with_rows(folder.path()).await;
    let store = open(&url(&path)).await.expect("opens");
    store.audit(audited(11)).await.expect("queued");
    store.close().await;
    let report = verify(&path).await;
    assert_eq!((report.rows, report.first_bad), (11, None));
}

#[tokio::test]
async fn a_damaged_audit_only_fails_writes_that_need_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = with_rows(folder.path()).await;
    let store = open(&url(&path)).await.expect("opens");
    let mut hand = hand(&path).await;
    hand.execute("ALTER TABLE audit RENAME TO elsewhere").await.expect("renamed");
    store.audit(audited(11)).await.expect("queued");
    assert_eq!(store.flush().await.expect_err("not on disk").code(), "store.failed");
    assert_eq!(store.audit_now(vec![audited(12)]).await.expect_err("refused").code(), "store.failed");
    let call = crate::sample::approval(1);
    store.hold(call.clone()).await.expect("does not need the audit");
    let decided = store.decide_held(call.id, crate::sample::reject("cy", 1), entry("decision")).await;
    assert_eq!(decided.expect_err("refused").code(), "store.failed");
    assert_eq!(store.held(call.id).await, Ok(Some(call)));
    // Queued entries are written once the audit is writable again.
    hand.execute("ALTER TABLE elsewhere RENAME TO audit").await.expect("renamed");
    hand.close().await.expect("closed");
    store.flush().await.expect("written");
    let rows = store.audit_rows(AuditFilter::default()).await.expect("read");
    assert_eq!((rows.len(), rows[0].entry.at_ms), (11, 11));
    assert_eq!(store.verify_audit().await.expect("checked").first_bad, None);
    store.close().await;
}
