//! Keys: stored in a separate file, and never replaced by new ones.

use crate::sample::url;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, SqliteConnection};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use toolbooth_core::fault::Fault;
use toolbooth_store::open;

const KEY: [u8; 32] = *b"an old key, 32 bytes, kept badly";

async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.expect("a plain connection")
}

/// Creates a database with one key.
async fn used(folder: &Path) -> (PathBuf, PathBuf) {
    let path = folder.join("toolbooth.db");
    let store = open(&url(&path)).await.expect("opened");
    store.get_or_create_secret("seal", &|| KEY.to_vec()).await.expect("a key");
    store.close().await;
    (path.clone(), folder.join("toolbooth.db.keys"))
}

fn holds(path: &Path, bytes: &[u8]) -> bool {
    let content = std::fs::read(path).unwrap_or_default();
    content.windows(bytes.len()).any(|window| window == bytes)
}

fn anywhere_in(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    files.filter(|path| holds(path, bytes)).collect()
}

// audit: the sealing key is stored in the same file as the sealed data.
#[tokio::test]
async fn a_key_is_not_in_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, keys) = used(folder.path()).await;
    assert_eq!(anywhere_in(folder.path(), &KEY), Vec::<PathBuf>::new());
    assert_eq!(keys.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let store = open(&url(&path)).await.expect("opened again");
    let again = store.get_or_create_secret("seal", &|| panic!("the secret exists")).await;
    assert_eq!(again, Ok(KEY.to_vec()));
    store.close().await;
}

#[tokio::test]
async fn keys_of_earlier_versions_move_from_the_database_to_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbooth.db");
    open(&url(&path)).await.expect("opened").close().await;
    let mut plain = raw(&path).await;
    let insert = "INSERT INTO secrets (name, value) VALUES ('seal', $1)";
    sqlx::query(insert).bind(KEY.to_vec()).execute(&mut plain).await.expect("put there");
    plain.close().await.expect("closed");
    assert_eq!(anywhere_in(folder.path(), &KEY), std::slice::from_ref(&path));

    let store = open(&url(&path)).await.expect("opened");
    let found = store.get_or_create_secret("seal", &|| panic!("the secret exists")).await;
    assert_eq!(found, Ok(KEY.to_vec()));
    assert_eq!(anywhere_in(folder.path(), &KEY), Vec::<PathBuf>::new(), "also while the store is open");
    store.close().await;
    assert_eq!(anywhere_in(folder.path(), &KEY), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_key_in_use_is_never_replaced_by_a_new_one() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage, &str); 5] = [
        ("gone", |keys| std::fs::remove_file(keys).expect("removed"), "store.keys-missing"),
        (
            "of another database",
            |keys| std::fs::write(keys, "toolbooth keys 1\n").expect("written"),
            "store.keys-missing",
        ),
        (
            "another key",
            |keys| {
                let text = std::fs::read_to_string(keys).expect("text");
                std::fs::write(keys, text.replace("616e206f6c64", "616e206e6577")).expect("written");
            },
            "store.keys-other",
        ),
        (
            "damaged",
            |keys| std::fs::write(keys, "toolbooth keys 1\n73 6").expect("written"),
            "store.keys-damaged",
        ),
        (
            "a link",
            |keys| {
                let aside = keys.with_extension("aside");
                std::fs::rename(keys, &aside).expect("moved");
                std::os::unix::fs::symlink(&aside, keys).expect("a link");
            },
            "store.open",
        ),
    ];
    for (name, damage, code) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, keys) = used(folder.path()).await;
        damage(&keys);
        let before = std::fs::read(&keys).ok();
        let refused = open(&url(&path)).await.err().expect("refused");
        assert_eq!(refused.code(), code, "{name}: {refused}");
        assert_eq!(std::fs::read(&keys).ok(), before, "{name}: the file is not changed");
    }
}

/// The number of fingerprints in the database.
async fn fingerprints(path: &Path) -> i64 {
    let mut plain = raw(path).await;
    let query = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM secrets");
    let count = query.fetch_one(&mut plain).await.expect("a count");
    plain.close().await.expect("closed");
    count
}

async fn run(path: &Path, statement: &'static str) {
    let mut plain = raw(path).await;
    plain.execute(statement).await.expect("done");
    plain.close().await.expect("closed");
}

// audit: a crash between a key and its fingerprint leaves a key whose loss is not detected.
#[tokio::test]
async fn a_missing_fingerprint_is_committed_before_the_key_is_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, keys) = used(folder.path()).await;
    // As after a crash between writing the key and its fingerprint.
    run(&path, "DELETE FROM secrets").await;
    let store = open(&url(&path)).await.expect("opened");
    assert_eq!(store.get_or_create_secret("seal", &|| panic!("the secret exists")).await, Ok(KEY.to_vec()));
    store.close().await;
    assert_eq!(fingerprints(&path).await, 1);
    std::fs::remove_file(&keys).expect("removed");
    assert_eq!(open(&url(&path)).await.err().expect("refused").code(), "store.keys-missing");
}

#[tokio::test]
async fn a_key_is_not_returned_before_its_fingerprint_is_committed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbooth.db");
    let store = open(&url(&path)).await.expect("opened");
    run(&path, "ALTER TABLE secrets RENAME TO elsewhere").await;
    for _ in 0..2 {
        let refused = store.get_or_create_secret("seal", &|| KEY.to_vec()).await.expect_err("refused");
        assert_eq!(refused.code(), "store.failed");
    }
    run(&path, "ALTER TABLE elsewhere RENAME TO secrets").await;
    // The key that was created first is used.
    assert_eq!(store.get_or_create_secret("seal", &|| panic!("the secret exists")).await, Ok(KEY.to_vec()));
    store.close().await;
    assert_eq!(fingerprints(&path).await, 1);
}

#[tokio::test]
async fn a_temporary_key_file_is_ignored_and_removed() {
    for content in ["", "toolbooth keys 1\n7365", "toolbooth keys 1\n7365616c 00ff\n"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("toolbooth.db");
        let draft = folder.path().join("toolbooth.db.keys.new");
        std::fs::write(&draft, content).expect("written");
        let store = open(&url(&path)).await.expect("opened");
        assert!(!draft.exists(), "{content:?}");
        assert_eq!(store.get_or_create_secret("seal", &|| KEY.to_vec()).await, Ok(KEY.to_vec()));
        store.close().await;

        // The same with keys in use.
        std::fs::write(&draft, content).expect("written");
        let store = open(&url(&path)).await.expect("opened again");
        assert!(!draft.exists(), "{content:?}");
        assert_eq!(
            store.get_or_create_secret("seal", &|| panic!("the secret exists")).await,
            Ok(KEY.to_vec())
        );
        store.close().await;
    }
}

#[tokio::test]
async fn an_interrupted_move_of_keys_is_completed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = used(folder.path()).await;
    let mut plain = raw(&path).await;
    let update = sqlx::query("UPDATE secrets SET value = $1").bind(KEY.to_vec());
    update.execute(&mut plain).await.expect("put back");
    plain.close().await.expect("closed");
    let store = open(&url(&path)).await.expect("opened");
    assert_eq!(store.get_or_create_secret("seal", &|| panic!("the secret exists")).await, Ok(KEY.to_vec()));
    store.close().await;
    assert_eq!(anywhere_in(folder.path(), &KEY), Vec::<PathBuf>::new());
    assert_eq!(fingerprints(&path).await, 1);
}
