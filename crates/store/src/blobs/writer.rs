//! Writes a blob in chunks and returns its size and hash.

use super::{BlobError, DiskBlob, on_disk_thread};
use bytes::Bytes;
use object_store::path::Path as BlobPath;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// The number of parts that are uploaded while the next one fills.
const UPLOADING_PARTS: usize = 1;

/// Writes a blob. If it is dropped before `finish`, no blob is created.
pub struct BlobWriter {
    store: Arc<dyn ObjectStore>,
    path: BlobPath,
    piece_bytes: usize,
    /// Chunks before the first full part; a small blob is written with one request.
    first: Vec<Bytes>,
    rest: Option<WriteMultipart>,
    size_bytes: u64,
    hash: Sha256,
    /// The location of the blob, if it is on disk.
    disk_blob: Option<DiskBlob>,
}

/// The size and hash of a finished blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBlob {
    /// Its size.
    pub size_bytes: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
}

impl fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobWriter").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl BlobWriter {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        path: BlobPath,
        piece_bytes: usize,
        disk_blob: Option<DiskBlob>,
    ) -> Self {
        let hash = Sha256::new();
        Self { store, path, piece_bytes, first: Vec::new(), rest: None, size_bytes: 0, hash, disk_blob }
    }

    /// The number of bytes written so far.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Appends a chunk; waits while earlier ones are being uploaded.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), BlobError> {
        self.hash.update(&piece);
        self.size_bytes += piece.len() as u64;
        if let Some(rest) = &mut self.rest {
            rest.wait_for_capacity(UPLOADING_PARTS).await?;
            rest.put(piece);
            return Ok(());
        }
        self.first.push(piece);
        if self.size_bytes >= self.piece_bytes as u64 {
            let upload = self.store.put_multipart(&self.path).await?;
            let mut rest = WriteMultipart::new_with_chunk_size(upload, self.piece_bytes);
            for piece in self.first.drain(..) {
                rest.put(piece);
            }
            self.rest = Some(rest);
        }
        Ok(())
    }

    /// Moves the blob into place. When this returns, the blob exists and survives a power cut.
    pub async fn finish(mut self) -> Result<WrittenBlob, BlobError> {
        match self.rest.take() {
            Some(rest) => {
                rest.finish().await?;
            }
            None => {
                let payload: PutPayload = std::mem::take(&mut self.first).into_iter().collect();
                self.store.put(&self.path, payload).await?;
            }
        }
        if let Some(disk_blob) = self.disk_blob.take() {
            on_disk_thread(move || disk_blob.seal()).await?;
        }
        let sha256 = std::mem::take(&mut self.hash).finalize().into();
        Ok(WrittenBlob { size_bytes: self.size_bytes, sha256 })
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // Parts of an unfinished upload cost money in the bucket until the upload is aborted.
        if let (Some(rest), Ok(runtime)) = (self.rest.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = rest.abort().await {
                    tracing::warn!(%error, "an unfinished upload could not be aborted");
                }
            });
        }
    }
}
