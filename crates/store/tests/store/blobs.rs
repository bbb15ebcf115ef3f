//! Blobs on disk and in memory: the contract of every blob storage, and tests of the folder.

use crate::blob_promises::*;
use std::path::Path;
use toolbooth_store::{BlobError, BlobUrl, Blobs};
use uuid::Uuid;

macro_rules! blob_contract {
    ($($promise:ident)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(&super::Blobs::in_memory()).await;
            })*
        }
        mod disk {
            $(#[tokio::test]
            async fn $promise() {
                let folder = tempfile::tempdir().expect("a folder");
                super::$promise(&super::Blobs::in_folder(folder.path().join("blobs"))).await;
            })*
        }
    };
}

blob_contract! {
    written_blobs_are_read_back_whole_and_in_ranges
    a_blob_exists_only_after_it_is_finished
    a_removed_blob_is_gone
    blobs_are_listed
}

fn files_below(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let count = |entry: std::fs::DirEntry| match entry.path() {
        path if path.is_dir() => files_below(&path),
        _ => 1,
    };
    entries.flatten().map(count).sum()
}

#[tokio::test]
async fn the_folder_is_created_on_the_first_write_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("data/blobs");
    let blobs = Blobs::in_folder(folder.clone());
    assert_eq!(listed(&blobs).await, Vec::<Uuid>::new());
    assert_eq!(blobs.sweep_unfinished().await, Ok(0));
    assert!(!folder.exists());
    write(&blobs, Uuid::now_v7(), &content(3), 3).await;
    assert_eq!(folder.metadata().expect("exists").permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn unfinished_files_of_a_killed_process_are_swept() {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = Blobs::in_folder(folder.path());
    let kept = Uuid::now_v7();
    write(&blobs, kept, &content(600_000), 100_000).await;
    let mut writer = blobs.writer(Uuid::now_v7()).await.expect("a writer");
    writer.write(content(600_000)).await.expect("written");
    // A killed process does not run destructors.
    std::mem::forget(writer);
    assert_eq!(files_below(folder.path()), 2);
    assert_eq!(blobs.sweep_unfinished().await, Ok(1));
    assert_eq!(files_below(folder.path()), 1);
    assert_eq!(listed(&blobs).await, [kept]);
}

#[test]
fn the_url_selects_the_blob_storage() {
    let disk = |path: &str| Ok(BlobUrl::Disk(path.into()));
    let bucket = |name: &str, prefix: &str| Ok(BlobUrl::Bucket { name: name.into(), prefix: prefix.into() });
    let cases = [
        ("memory:", Ok(BlobUrl::Memory)),
        ("file:data/blobs", disk("data/blobs")),
        ("file:///var/lib/blobs", disk("/var/lib/blobs")),
        ("file:", Err(BlobError::BadUrl)),
        ("file:x?y", Err(BlobError::BadUrl)),
        ("/var/lib/blobs", Err(BlobError::BadUrl)),
        ("s3://files", bucket("files", "")),
        ("s3://files/tool/booth/", bucket("files", "tool/booth")),
        ("s3://", Err(BlobError::BadUrl)),
        ("s3://a b/c", Err(BlobError::BadUrl)),
        ("s3://key:secret@files/x", Err(BlobError::BadUrl)),
        ("gs://x", Err(BlobError::BadUrl)),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<BlobUrl>(), expected, "{text}");
    }
}

// audit: a link planted in the blob folder is followed.
#[tokio::test]
async fn links_in_the_folder_are_not_followed() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("blobs");
    let blobs = Blobs::in_folder(folder.clone());
    let outside = home.path().join("outside");
    std::fs::write(&outside, "a secret of another user").expect("written");
    let id = Uuid::now_v7();
    write(&blobs, id, &content(30), 30).await;
    let name = id.simple().to_string();
    let place = folder.join(&name[30..]).join(id.to_string());
    assert!(place.is_file(), "the test knows where blobs lie");

    // A link in place of the blob.
    std::fs::remove_file(&place).expect("removed");
    symlink(&outside, &place).expect("a link");
    assert_eq!(blobs.read(id, 0..25).await.err(), Some(BlobError::Denied));
    blobs.remove(id).await.expect("removes the link, not its target");
    assert!(outside.is_file());

    // A link in place of the blob's folder.
    std::fs::remove_dir(place.parent().expect("a folder")).expect("removed");
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    std::fs::write(elsewhere.join(id.to_string()), "not a blob").expect("written");
    symlink(&elsewhere, place.parent().expect("a folder")).expect("a link");
    assert_eq!(blobs.read(id, 0..5).await.err(), Some(BlobError::Denied));
    assert_eq!(blobs.writer(id).await.err(), Some(BlobError::Denied), "nothing is written elsewhere");
}

// audit: blobs 0666 under umask 0.
#[tokio::test]
async fn blobs_are_readable_by_their_owner_only_under_any_umask() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a folder");
    let blobs = Blobs::in_folder(home.path().join("blobs"));
    for size in [3, 600_000] {
        let id = Uuid::now_v7();
        let name = id.simple().to_string();
        let inner = home.path().join("blobs").join(&name[30..]);
        // As a process with umask 0 would create it.
        std::fs::create_dir_all(&inner).expect("a folder");
        std::fs::set_permissions(&inner, PermissionsExt::from_mode(0o777)).expect("open to all");
        write(&blobs, id, &content(size), 100_000).await;
        let mode = |path: &Path| path.metadata().expect("exists").permissions().mode() & 0o777;
        assert_eq!((mode(&inner), mode(&inner.join(id.to_string()))), (0o700, 0o600));
    }
}
