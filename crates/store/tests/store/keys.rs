//! Keys: in a file of their own, and never replaced by new ones.

use crate::sample::url;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use toolbooth_core::fault::Fault;
use toolbooth_store::open;

const KEY: [u8; 32] = *b"an old key, 32 bytes, kept badly";

async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.expect("a plain connection")
}

/// A database that was used with one key.
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

// audit: the sealing key lies in the same file as what it seals.
#[tokio::test]
async fn a_key_is_not_in_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, keys) = used(folder.path()).await;
    assert_eq!(anywhere_in(folder.path(), &KEY), Vec::<PathBuf>::new());
    assert_eq!(keys.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let store = open(&url(&path)).await.expect("opened again");
    let again = store.get_or_create_secret("seal", &|| panic!("it is there")).await;
    assert_eq!(again, Ok(KEY.to_vec()));
    store.close().await;
}

#[tokio::test]
async fn keys_that_an_earlier_version_kept_in_the_database_move_out_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbooth.db");
    open(&url(&path)).await.expect("opened").close().await;
    let mut plain = raw(&path).await;
    let insert = "INSERT INTO secrets (name, value) VALUES ('seal', $1)";
    sqlx::query(insert).bind(KEY.to_vec()).execute(&mut plain).await.expect("put there");
    plain.close().await.expect("closed");
    assert_eq!(anywhere_in(folder.path(), &KEY), std::slice::from_ref(&path));

    let store = open(&url(&path)).await.expect("opened");
    let found = store.get_or_create_secret("seal", &|| panic!("it is there")).await;
    assert_eq!(found, Ok(KEY.to_vec()));
    assert_eq!(anywhere_in(folder.path(), &KEY), Vec::<PathBuf>::new(), "also while the store is open");
    store.close().await;
    assert_eq!(anywhere_in(folder.path(), &KEY), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn no_new_key_is_made_where_an_old_one_was_in_use() {
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
        assert_eq!(std::fs::read(&keys).ok(), before, "{name}: nothing was written over it");
    }
}
