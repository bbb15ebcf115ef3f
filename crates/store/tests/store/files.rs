//! The SQLite store: its files, their permissions, and the errors for files that it cannot use.

use crate::sample::{discovery, intent, outcome, url};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, SqliteConnection};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use toolbooth_core::fault::Problem;
use toolbooth_store::{NonceUse, OutcomeKind, Store, open};

async fn opened(path: &Path) -> Arc<dyn Store> {
    let url = url(path);
    // In a spawned task, so that the future of `open` must be `Send`.
    let task = tokio::spawn(async move { open(&url).await });
    task.await.expect("no panic").expect("the store opens")
}

async fn refused(path: &Path) -> Problem {
    match open(&url(path)).await {
        Ok(_) => panic!("the store opened"),
        Err(error) => Problem::of(&error),
    }
}

/// A database that was used and closed.
async fn used(folder: &Path) -> PathBuf {
    let path = folder.join("toolbooth.db");
    let store = opened(&path).await;
    store.save_discovery(discovery("mail", "catalog")).await.expect("saved");
    store.close().await;
    path
}

async fn raw(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    options.connect().await.expect("a plain connection")
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it exists").permissions().mode() & 0o777
}

#[tokio::test]
async fn acknowledged_writes_are_there_after_reopening() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbooth.db");
    let (first, second) = (intent(1), intent(2));
    let store = opened(&path).await;
    store.save_discovery(discovery("mail", "catalog")).await.expect("saved");
    store.write_intent(first.clone()).await.expect("written");
    store.write_intent(second.clone()).await.expect("written");
    store.write_outcome(outcome(&first, OutcomeKind::ToolError)).await.expect("written");
    let secret = store.get_or_create_secret("seal", &|| vec![9; 32]).await.expect("a secret");
    store.use_nonce(b"n", 1_000).await.expect("used");
    store.close().await;

    let store = opened(&path).await;
    assert_eq!(store.discoveries().await.expect("read"), [discovery("mail", "catalog")]);
    assert_eq!(store.open_intents().await.expect("read"), [second]);
    let calls = store.recent_calls(10).await.expect("read");
    assert_eq!(calls[1].outcome, Some(outcome(&first, OutcomeKind::ToolError)));
    assert_eq!(store.get_or_create_secret("seal", &|| vec![1]).await, Ok(secret));
    assert_eq!(store.use_nonce(b"n", 1_000).await, Ok(NonceUse::Again));
    store.close().await;
}

#[tokio::test]
async fn only_the_owner_can_open_the_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data/toolbooth/toolbooth.db");
    let store = opened(&path).await;
    store.write_intent(intent(1)).await.expect("written");
    store.get_or_create_secret("seal", &|| vec![9; 32]).await.expect("a secret");
    let mut found = 0;
    for made in ["data", "data/toolbooth", "data/toolbooth/toolbooth.db-spool"] {
        let made = folder.path().join(made);
        assert_eq!(mode(&made), 0o700, "{}", made.display());
        for entry in std::fs::read_dir(&made).expect("a folder").flatten() {
            if !entry.path().is_dir() {
                assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
                found += 1;
            }
        }
    }
    assert_eq!(found, 7, "database, log, index, lock, keys and two files of the spool");
    store.close().await;
}

#[tokio::test]
async fn opening_twice_fails_and_names_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = used(folder.path()).await;
    let store = opened(&path).await;
    let (alias, link) = (folder.path().join("alias"), folder.path().join("link.db"));
    std::os::unix::fs::symlink(folder.path(), &alias).expect("a link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for spelling in [path.clone(), alias.join("./toolbooth.db"), link] {
        let problem = refused(&spelling).await;
        let pid = std::process::id();
        assert_eq!(problem.code, "store.in-use", "{}", spelling.display());
        assert!(
            problem.message.ends_with(&format!("is in use by another gateway (process {pid})")),
            "{problem}"
        );
        let hint = format!("stop process {pid}, or give this gateway a data directory of its own");
        assert_eq!(problem.hint, Some(hint));
    }
    store.close().await;
    opened(&path).await.close().await;
}

#[tokio::test]
async fn a_dropped_store_releases_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = used(folder.path()).await;
    drop(opened(&path).await);
    // The writer task ends once its last handle is dropped.
    for _ in 0..100_000 {
        match open(&url(&path)).await {
            Ok(store) => return store.close().await,
            Err(_) => tokio::task::yield_now().await,
        }
    }
    panic!("the database is still locked");
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    let text = "not a database, but the only copy of something\n".repeat(100);
    std::fs::write(&path, &text).expect("written");
    let problem = refused(&path).await;
    assert_eq!(problem.code, "store.corrupt");
    assert!(problem.hint.expect("a hint").starts_with("restore a backup, or move "));
    assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
}

#[tokio::test]
async fn a_damaged_database_is_reported_and_never_emptied() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = used(folder.path()).await;
    let whole = std::fs::read(&path).expect("read");
    let mut scribbled = whole.clone();
    scribbled[100..].fill(0xa5);
    let cases = [("cut in half", whole[..whole.len() / 2].to_vec()), ("scribbled over", scribbled)];
    for (damage, bytes) in cases {
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(refused(&path).await.code, "store.corrupt", "{damage}");
        assert_eq!(std::fs::read(&path).expect("read"), bytes, "{damage}");
    }
}

#[tokio::test]
async fn damage_found_later_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = used(folder.path()).await;
    let store = opened(&path).await;
    store.close().await;
    let mut bytes = std::fs::read(&path).expect("read");
    let catalog = bytes.windows(7).position(|part| part == b"catalog").expect("the payload");
    let page = catalog / 4096 * 4096;
    bytes[page..page + 4096].fill(0xa5);
    std::fs::write(&path, &bytes).expect("written");
    let store = opened(&path).await;
    let error = store.discoveries().await.expect_err("a fault");
    assert_eq!(Problem::of(&error).code, "store.corrupt");
    let error = store.save_discovery(discovery("mail", "new")).await.expect_err("a fault");
    assert_eq!(Problem::of(&error).code, "store.corrupt");
    // Tables that are not damaged still work.
    store.write_intent(intent(1)).await.expect("written");
    store.close().await;
}

#[tokio::test]
async fn another_programs_database_is_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bookmarks.db");
    let mut other = raw(&path).await;
    other.execute("CREATE TABLE bookmarks (address TEXT)").await.expect("made");
    other.close().await.expect("closed");
    let before = std::fs::read(&path).expect("read");
    let problem = refused(&path).await;
    assert_eq!(problem.code, "store.foreign");
    assert_eq!(std::fs::read(&path).expect("read"), before);
}

#[tokio::test]
async fn schemas_of_other_versions_are_refused() {
    let cases = [
        (
            "INSERT INTO _sqlx_migrations VALUES (99, 'later', '2030-01-01', true, x'00', 1)",
            "store.newer-schema",
        ),
        ("UPDATE _sqlx_migrations SET checksum = x'00'", "store.other-schema"),
        ("UPDATE _sqlx_migrations SET success = false", "store.other-schema"),
    ];
    for (tampering, code) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = used(folder.path()).await;
        let mut hand = raw(&path).await;
        hand.execute(tampering).await.expect("tampered");
        hand.close().await.expect("closed");
        let problem = refused(&path).await;
        assert_eq!(problem.code, code, "{tampering}");
        assert!(problem.hint.is_some());
    }
}

#[tokio::test]
async fn an_interrupted_migration_is_completed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbooth.db");
    std::fs::write(&path, b"").expect("written");
    opened(&path).await.close().await;
    let cases = [
        "DROP TABLE work; DROP TABLE exposed_names; DROP TABLE console_sessions; DROP TABLE shared_records; DROP TABLE sign_ins; DROP TABLE marks; DROP TABLE releases; DROP TABLE dead_letters; DROP TABLE health; DROP TABLE files; DROP TABLE file_grants; DROP TABLE audit; DROP TABLE audit_ends; DROP TABLE held; DROP TABLE plans; DROP TABLE consents; DROP TABLE pins; DROP TABLE tokens; DROP TABLE nonces; DROP TABLE secrets; DROP TABLE calls; DROP TABLE discoveries; DROP TABLE discovery_pieces; \
        DELETE FROM _sqlx_migrations",
    ];
    for undone in cases {
        let mut hand = raw(&path).await;
        hand.execute(undone).await.expect("undone");
        hand.close().await.expect("closed");
        let store = opened(&path).await;
        store.write_intent(intent(1)).await.expect("written");
        store.close().await;
    }
}

#[tokio::test]
async fn paths_without_a_file_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("written");
    for path in [folder.path().to_owned(), file.join("below/toolbooth.db"), PathBuf::from("/")] {
        let problem = refused(&path).await;
        assert_eq!(problem.code, "store.open", "{}: {problem}", path.display());
    }
}

#[tokio::test]
async fn a_failed_group_leaves_the_store_usable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = used(folder.path()).await;
    let store = opened(&path).await;
    let mut hand = raw(&path).await;
    hand.execute("DROP TABLE nonces").await.expect("dropped");
    let error = store.use_nonce(b"n", 1).await.expect_err("a fault");
    assert_eq!(Problem::of(&error).code, "store.failed");
    store.write_intent(intent(1)).await.expect("written");
    assert_eq!(store.recent_calls(10).await.expect("read").len(), 1);
    hand.close().await.expect("closed");
    store.close().await;
}

#[tokio::test]
async fn other_rows_are_read_if_one_is_unreadable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = used(folder.path()).await;
    let mut hand = raw(&path).await;
    hand.execute("INSERT INTO discoveries VALUES ('no name', '', '', 0, x'00')").await.expect("inserted");
    hand.close().await.expect("closed");
    let store = opened(&path).await;
    assert_eq!(store.discoveries().await.expect("read"), [discovery("mail", "catalog")]);
    store.close().await;
}

#[tokio::test]
async fn opening_is_quick() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = Instant::now();
    let path = folder.path().join("toolbooth.db");
    opened(&path).await.close().await;
    println!("made and closed in {:?}", start.elapsed());
    let mut best = u128::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        let store = opened(&path).await;
        best = best.min(start.elapsed().as_micros());
        store.close().await;
    }
    println!("opened in {best} us");
    // Ten times the expected duration, since the machine may be busy.
    assert!(best < 100_000, "{best} us");
}
