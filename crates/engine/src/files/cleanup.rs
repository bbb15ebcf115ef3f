//! Cleanup after an earlier process: unfinished uploads, content without a row, open grants.

use super::CallerFiles;
use futures_util::TryStreamExt;
use std::sync::Arc;
use toolbooth_core::clock::milliseconds;
use toolbooth_store::BlobError;

/// The number of blobs that are compared at once.
const BATCH: usize = 500;
/// In shared storage, content younger than this is kept: another gateway may still write its row.
const MIN_AGE_MS: i64 = 3_600_000;

impl CallerFiles {
    /// Ends what an earlier process left open. Must run before the first upload.
    pub(crate) async fn take_over(self: &Arc<Self>) {
        let started_ms = self.clock.now_ms();
        if let Err(error) = self.store.end_grants(self.grants_end_ms(started_ms)).await {
            tracing::error!("earlier file URLs could not be revoked: {error}");
        }
        match self.blobs.sweep_unfinished().await {
            Ok(0) => {}
            Ok(count) => {
                tracing::warn!("{count} uploads were interrupted when the gateway ended; they were deleted")
            }
            Err(error) => tracing::error!("unfinished uploads could not be deleted: {error}"),
        }
        let files = self.clone();
        tokio::spawn(async move {
            match files.sweep_orphans(started_ms).await {
                Ok(0) => {}
                Ok(count) => tracing::warn!("{count} blobs without a file were deleted"),
                Err(error) => tracing::error!("blobs could not be listed: {error}"),
            }
        });
    }

    /// Until when file URLs of calls that have ended now are valid.
    pub(crate) fn grants_end_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_add(milliseconds(self.terms().grace))
    }

    /// Deletes content without a row, and returns how many blobs there were.
    pub(crate) async fn sweep_orphans(&self, started_ms: i64) -> Result<usize, BlobError> {
        let min_age_ms = if self.blobs.is_shared() { MIN_AGE_MS } else { 0 };
        let mut swept = 0;
        let mut batches = self.blobs.stored(BATCH)?;
        while let Some(batch) = batches.try_next().await? {
            // Content that was written since the start is not left over.
            let old = batch.iter().filter(|blob| blob.written_ms < started_ms - min_age_ms);
            let old: Vec<_> = old.map(|blob| blob.id).collect();
            let known = match self.store.known_files(&old).await {
                Ok(known) => known,
                Err(error) => {
                    tracing::error!("blobs could not be compared with their rows: {error}");
                    return Ok(swept);
                }
            };
            for id in old.into_iter().filter(|id| !known.contains(id)) {
                self.blobs.remove(id).await?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}
