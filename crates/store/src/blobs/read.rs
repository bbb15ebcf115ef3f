//! Reads blobs as streams.

use super::BlobError;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use object_store::{GetResult, GetResultPayload};
use std::fmt;
use std::io::SeekFrom;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

/// The chunk size of reads from disk.
const PIECE: usize = 64 * 1024;

/// The content of a blob, or a part of it.
pub struct BlobStream(BoxStream<'static, Result<Bytes, BlobError>>);

impl fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlobStream")
    }
}

impl BlobStream {
    /// An empty stream.
    pub fn empty() -> Self {
        Self(stream::empty().boxed())
    }

    pub(super) fn of(found: GetResult) -> Result<Self, BlobError> {
        let range = found.range.clone();
        match found.payload {
            GetResultPayload::Stream(pieces) => {
                Ok(Self(pieces.map(|piece| piece.map_err(BlobError::from)).boxed()))
            }
            GetResultPayload::File(file, _) => Ok(Self::of_file(file, range)),
        }
    }

    pub(super) fn of_file(file: std::fs::File, range: Range<u64>) -> Self {
        let file = tokio::fs::File::from_std(file);
        let reading = BlobFileReader { file, from: Some(range.start), left: range.end - range.start };
        Self(stream::try_unfold(reading, BlobFileReader::next).boxed())
    }
}

impl Stream for BlobStream {
    type Item = Result<Bytes, BlobError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

struct BlobFileReader {
    file: tokio::fs::File,
    /// Where to start; `None` after the first chunk.
    from: Option<u64>,
    left: u64,
}

impl BlobFileReader {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, BlobError> {
        if self.left == 0 {
            return Ok(None);
        }
        if let Some(from) = self.from.take() {
            self.file.seek(SeekFrom::Start(from)).await.map_err(|error| BlobError::of_disk(&error))?;
        }
        let most = usize::try_from(self.left).unwrap_or(PIECE).min(PIECE);
        let mut piece = BytesMut::with_capacity(most);
        let read = (&mut self.file).take(most as u64).read_buf(&mut piece).await;
        match read.map_err(|error| BlobError::of_disk(&error))? {
            // The file is shorter than its recorded size, so this must not look like a regular end.
            0 => Err(BlobError::Missing),
            read => {
                self.left -= read as u64;
                Ok(Some((piece.freeze(), self)))
            }
        }
    }
}
