//! Tidying up after an earlier life of the gateway: unfinished uploads, content without a row, open grants.

use super::Files;
use super::grant::milliseconds;
use crate::clock::now_ms;
use futures_util::TryStreamExt;
use std::sync::Arc;
use toolbooth_store::BlobError;

/// How many blobs are looked at together.
const PORTION: usize = 500;
/// In a place that others write to as well, content is given this long to get its row.
const PATIENCE_MS: i64 = 3_600_000;

impl Files {
    /// Ends what an earlier life left open. Call it before anything is uploaded.
    pub(crate) async fn take_over(self: &Arc<Self>) {
        let started_ms = now_ms();
        if let Err(error) =
            self.store.end_grants(started_ms.saturating_add(milliseconds(self.terms.grace))).await
        {
            tracing::error!("addresses of files of before could not be ended: {error}");
        }
        match self.blobs.sweep_unfinished().await {
            Ok(0) => {}
            Ok(count) => tracing::warn!("{count} uploads were cut off when the gateway ended; they are gone"),
            Err(error) => tracing::error!("uploads of before could not be tidied up: {error}"),
        }
        let files = self.clone();
        tokio::spawn(async move {
            match files.sweep_orphans(started_ms).await {
                Ok(0) => {}
                Ok(count) => tracing::warn!("{count} blobs without a file were taken away"),
                Err(error) => tracing::error!("blobs could not be looked through: {error}"),
            }
        });
    }

    /// Takes away content that no row names; how much there was.
    pub(crate) async fn sweep_orphans(&self, started_ms: i64) -> Result<usize, BlobError> {
        let patience_ms = if self.blobs.is_shared() { PATIENCE_MS } else { 0 };
        let mut swept = 0;
        let mut portions = self.blobs.stored(PORTION)?;
        while let Some(portion) = portions.try_next().await? {
            // What comes in meanwhile is not left from before.
            let old = portion.iter().filter(|blob| blob.written_ms < started_ms - patience_ms);
            let old: Vec<_> = old.map(|blob| blob.id).collect();
            let known = match self.store.known_files(&old).await {
                Ok(known) => known,
                Err(error) => {
                    tracing::error!("blobs could not be looked through: {error}");
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
