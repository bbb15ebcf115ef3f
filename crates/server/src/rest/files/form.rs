//! Uploads as forms (`multipart/form-data`), parsed without buffering more than one chunk.
//!
//! The parser buffers everything that its source has ready, and as many bytes as it needs to find the end of a part's
//! headers. Both are limited here: one chunk per poll, and a limited number of bytes outside contents.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Maximum number of bytes outside contents before the next part begins.
const MAX_BETWEEN: u64 = 64 * 1024;
/// Maximum size of a text field.
const MAX_TEXT: usize = 8 * 1024;
/// Maximum number of parts in a form.
const MAX_PARTS: usize = 16;

/// A stream of chunks.
pub type ByteChunks = BoxStream<'static, io::Result<Bytes>>;

/// Errors of reading a form.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// It is not a valid form, or the connection ended.
    #[error("the form cannot be read: {0}")]
    Unreadable(#[from] multer::Error),
    /// A part of it is too large.
    #[error("the form has {0}")]
    TooMuch(&'static str),
}

/// A form that is being read.
pub struct UploadForm {
    parts: multer::Multipart<'static>,
    budget: Arc<AtomicU64>,
    seen: usize,
}

/// A part of a form.
pub enum FormEntry {
    /// A field and its text.
    Text(String, String),
    /// A file with its name, type and content.
    File(Box<multer::Field<'static>>),
}

impl UploadForm {
    /// Parses a stream as a form of this content type.
    pub fn new(kind: &str, chunks: ByteChunks) -> Result<Self, FormError> {
        let boundary = multer::parse_boundary(kind)?;
        let budget = Arc::new(AtomicU64::new(0));
        let source = LimitedStream { chunks, budget: budget.clone(), pause: false };
        Ok(Self { parts: multer::Multipart::new(source, boundary), budget, seen: 0 })
    }

    /// The next part. The previous part must have been read to its end.
    pub async fn next(&mut self) -> Result<Option<FormEntry>, FormError> {
        self.budget.store(MAX_BETWEEN, Ordering::Relaxed);
        let Some(mut field) = self.parts.next_field().await? else { return Ok(None) };
        self.seen += 1;
        if self.seen > MAX_PARTS {
            return Err(FormError::TooMuch("too many parts"));
        }
        self.budget.store(u64::MAX, Ordering::Relaxed);
        if field.file_name().is_some() {
            return Ok(Some(FormEntry::File(Box::new(field))));
        }
        let name = field.name().unwrap_or_default().to_owned();
        let mut text = Vec::new();
        while let Some(chunk) = field.chunk().await? {
            text.extend_from_slice(&chunk);
            if text.len() > MAX_TEXT {
                return Err(FormError::TooMuch("a text field that is too long"));
            }
        }
        Ok(Some(FormEntry::Text(name, String::from_utf8_lossy(&text).into_owned())))
    }
}

/// A stream that yields one chunk per poll, within a budget of bytes.
struct LimitedStream {
    chunks: ByteChunks,
    budget: Arc<AtomicU64>,
    /// Whether the last poll yielded a chunk, so that this one must not.
    pause: bool,
}

impl Stream for LimitedStream {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.pause) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.chunks.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            self.pause = true;
            let left = self.budget.load(Ordering::Relaxed);
            if left == 0 {
                return Poll::Ready(Some(Err(io::Error::other("too many bytes between two parts"))));
            }
            if left != u64::MAX {
                // The last chunk may reach into a content, so the budget may be exceeded once.
                self.budget.store(left.saturating_sub(chunk.len() as u64), Ordering::Relaxed);
            }
        }
        polled
    }
}
