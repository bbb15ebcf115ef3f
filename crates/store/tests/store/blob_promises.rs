//! Contract tests for every blob storage. The tests of the S3 backend run them too.

use bytes::Bytes;
use futures_util::TryStreamExt;
use sha2::{Digest, Sha256};
use std::ops::Range;
use toolbooth_store::{BlobError, Blobs, WrittenBlob};
use uuid::Uuid;

/// Test content whose bytes vary by position.
pub fn content(length: usize) -> Bytes {
    (0..length).map(|place| (place * 31 % 251) as u8).collect()
}

pub async fn write(blobs: &Blobs, id: Uuid, content: &Bytes, piece: usize) -> WrittenBlob {
    let mut writer = blobs.writer(id).await.expect("a writer");
    for start in (0..content.len()).step_by(piece) {
        writer.write(content.slice(start..content.len().min(start + piece))).await.expect("written");
    }
    writer.finish().await.expect("finished")
}

pub async fn read(blobs: &Blobs, id: Uuid, range: Range<u64>) -> Result<Vec<u8>, BlobError> {
    let pieces: Vec<Bytes> = blobs.read(id, range).await?.try_collect().await?;
    Ok(pieces.concat())
}

pub async fn listed(blobs: &Blobs) -> Vec<Uuid> {
    let portions: Vec<_> = blobs.stored(2).expect("listed").try_collect().await.expect("listed");
    assert!(portions.iter().all(|portion| portion.len() <= 2));
    let mut found: Vec<Uuid> = portions.iter().flatten().map(|stored| stored.id).collect();
    found.sort_unstable();
    found
}

pub async fn written_blobs_are_read_back_whole_and_in_ranges(blobs: &Blobs) {
    // Sizes around the chunk boundaries of disk and bucket.
    for (length, piece) in [(0, 1), (1, 1), (300_000, 1_000), (262_144, 262_144), (17_000_000, 700_001)] {
        let (id, content) = (Uuid::now_v7(), content(length));
        let written = write(blobs, id, &content, piece).await;
        let sha256: [u8; 32] = Sha256::digest(&content).into();
        assert_eq!(written, WrittenBlob { size_bytes: length as u64, sha256 }, "{length}");
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

pub async fn a_blob_exists_only_after_it_is_finished(blobs: &Blobs) {
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

pub async fn a_removed_blob_is_gone(blobs: &Blobs) {
    let id = Uuid::now_v7();
    write(blobs, id, &content(10), 10).await;
    blobs.remove(id).await.expect("removed");
    blobs.remove(id).await.expect("nothing to remove");
    assert_eq!(read(blobs, id, 0..1).await, Err(BlobError::Missing));
}

pub async fn blobs_are_listed(blobs: &Blobs) {
    assert_eq!(listed(blobs).await, Vec::<Uuid>::new());
    let mut ids: Vec<Uuid> = (0..5).map(|_| Uuid::now_v7()).collect();
    for id in &ids {
        write(blobs, *id, &content(3), 3).await;
    }
    ids.sort_unstable();
    assert_eq!(listed(blobs).await, ids);
}
