//! Writing a blob: pieces in, and at the end its length and hash.

use super::{BlobError, Spot, on_disk_thread};
use bytes::Bytes;
use object_store::path::Path as BlobPath;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// How many pieces are under way to the store besides the one that gathers.
const UNDER_WAY: usize = 1;

/// A blob that is being written. Dropped before it is finished, it leaves nothing.
pub struct BlobWriter {
    store: Arc<dyn ObjectStore>,
    path: BlobPath,
    piece_bytes: usize,
    /// What came before the first whole piece; small blobs are written in one go.
    first: Vec<Bytes>,
    rest: Option<WriteMultipart>,
    size_bytes: u64,
    hash: Sha256,
    /// Where it will lie, on a disk.
    spot: Option<Spot>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// How much.
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
        spot: Option<Spot>,
    ) -> Self {
        let hash = Sha256::new();
        Self { store, path, piece_bytes, first: Vec::new(), rest: None, size_bytes: 0, hash, spot }
    }

    /// How much was written so far.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Adds a piece; waits while earlier ones are on their way.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), BlobError> {
        self.hash.update(&piece);
        self.size_bytes += piece.len() as u64;
        if let Some(rest) = &mut self.rest {
            rest.wait_for_capacity(UNDER_WAY).await?;
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

    /// Puts the blob in its place. When this returns it is there, and stays there through a power cut.
    pub async fn finish(mut self) -> Result<Written, BlobError> {
        match self.rest.take() {
            Some(rest) => {
                rest.finish().await?;
            }
            None => {
                let payload: PutPayload = std::mem::take(&mut self.first).into_iter().collect();
                self.store.put(&self.path, payload).await?;
            }
        }
        if let Some(spot) = self.spot.take() {
            on_disk_thread(move || spot.seal()).await?;
        }
        let sha256 = std::mem::take(&mut self.hash).finalize().into();
        Ok(Written { size_bytes: self.size_bytes, sha256 })
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // Parts that lie in a bucket cost money until somebody says that they are not wanted.
        if let (Some(rest), Ok(runtime)) = (self.rest.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = rest.abort().await {
                    tracing::warn!(%error, "an unfinished file could not be taken away");
                }
            });
        }
    }
}
