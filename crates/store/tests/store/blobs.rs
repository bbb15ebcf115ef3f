//! Blobs: what every place for them promises.

use bytes::Bytes;
use futures_util::TryStreamExt;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::Path;
use toolbooth_store::{BlobError, BlobPlace, Blobs, Written};
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
    what_was_written_is_read_back_whole_and_in_parts
    a_blob_is_there_when_it_is_finished_and_not_before
    a_removed_blob_is_gone
    blobs_are_listed
}

/// Bytes that differ from place to place.
fn content(length: usize) -> Bytes {
    (0..length).map(|place| (place * 31 % 251) as u8).collect()
}

async fn write(blobs: &Blobs, id: Uuid, content: &Bytes, piece: usize) -> Written {
    let mut writer = blobs.writer(id).await.expect("a writer");
    for start in (0..content.len()).step_by(piece) {
        writer.write(content.slice(start..content.len().min(start + piece))).await.expect("written");
    }
    writer.finish().await.expect("finished")
}

async fn read(blobs: &Blobs, id: Uuid, range: Range<u64>) -> Result<Vec<u8>, BlobError> {
    let pieces: Vec<Bytes> = blobs.read(id, range).await?.try_collect().await?;
    Ok(pieces.concat())
}

async fn listed(blobs: &Blobs) -> Vec<Uuid> {
    let portions: Vec<_> = blobs.stored(2).expect("listed").try_collect().await.expect("listed");
    assert!(portions.iter().all(|portion| portion.len() <= 2));
    let mut found: Vec<Uuid> = portions.iter().flatten().map(|stored| stored.id).collect();
    found.sort_unstable();
    found
}

async fn what_was_written_is_read_back_whole_and_in_parts(blobs: &Blobs) {
    // Around the sizes at which pieces are cut, in a bucket too.
    for (length, piece) in [(0, 1), (1, 1), (300_000, 1_000), (262_144, 262_144), (17_000_000, 700_001)] {
        let (id, content) = (Uuid::now_v7(), content(length));
        let written = write(blobs, id, &content, piece).await;
        let sha256: [u8; 32] = Sha256::digest(&content).into();
        assert_eq!(written, Written { size_bytes: length as u64, sha256 }, "{length}");
        assert_eq!(read(blobs, id, 0..length as u64).await, Ok(content.to_vec()), "{length}");
        let end = length as u64;
        for part in
            [0..end.min(5), end / 2..end / 2 + end.min(70_000) / 2, end.saturating_sub(3)..end, end..end]
        {
            let expected = content[part.start as usize..part.end as usize].to_vec();
            assert_eq!(read(blobs, id, part.clone()).await, Ok(expected), "{length} {part:?}");
        }
    }
}

async fn a_blob_is_there_when_it_is_finished_and_not_before(blobs: &Blobs) {
    let (small, large) = (Uuid::now_v7(), Uuid::now_v7());
    for (id, length) in [(small, 10), (large, 9_000_000)] {
        let mut writer = blobs.writer(id).await.expect("a writer");
        writer.write(content(length)).await.expect("written");
        assert_eq!(writer.size_bytes(), length as u64);
        assert_eq!(read(blobs, id, 0..1).await, Err(BlobError::Missing));
        drop(writer);
        assert_eq!(read(blobs, id, 0..1).await, Err(BlobError::Missing));
    }
    assert_eq!(listed(blobs).await, Vec::<Uuid>::new());
}

async fn a_removed_blob_is_gone(blobs: &Blobs) {
    let id = Uuid::now_v7();
    write(blobs, id, &content(10), 10).await;
    blobs.remove(id).await.expect("removed");
    blobs.remove(id).await.expect("nothing to remove");
    assert_eq!(read(blobs, id, 0..1).await, Err(BlobError::Missing));
}

async fn blobs_are_listed(blobs: &Blobs) {
    assert_eq!(listed(blobs).await, Vec::<Uuid>::new());
    let mut ids: Vec<Uuid> = (0..5).map(|_| Uuid::now_v7()).collect();
    for id in &ids {
        write(blobs, *id, &content(3), 3).await;
    }
    ids.sort_unstable();
    assert_eq!(listed(blobs).await, ids);
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
async fn a_folder_is_made_for_its_owner_when_it_is_needed() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("data/blobs");
    let blobs = Blobs::in_folder(folder.clone());
    assert_eq!(listed(&blobs).await, Vec::<Uuid>::new());
    assert_eq!(blobs.sweep_unfinished().await, Ok(0));
    assert!(!folder.exists());
    write(&blobs, Uuid::now_v7(), &content(3), 3).await;
    assert_eq!(folder.metadata().expect("it is there").permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn what_a_kill_left_unfinished_is_swept() {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = Blobs::in_folder(folder.path());
    let kept = Uuid::now_v7();
    write(&blobs, kept, &content(600_000), 100_000).await;
    let mut writer = blobs.writer(Uuid::now_v7()).await.expect("a writer");
    writer.write(content(600_000)).await.expect("written");
    // Killed, nobody tidies up.
    std::mem::forget(writer);
    assert_eq!(files_below(folder.path()), 2);
    assert_eq!(blobs.sweep_unfinished().await, Ok(1));
    assert_eq!(files_below(folder.path()), 1);
    assert_eq!(listed(&blobs).await, [kept]);
}

#[test]
fn places_are_named_by_addresses() {
    let disk = |path: &str| Ok(BlobPlace::Disk(path.into()));
    let bucket =
        |name: &str, prefix: &str| Ok(BlobPlace::Bucket { name: name.into(), prefix: prefix.into() });
    let cases = [
        ("memory:", Ok(BlobPlace::Memory)),
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
        assert_eq!(text.parse::<BlobPlace>(), expected, "{text}");
    }
}
