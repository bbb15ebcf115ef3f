//! Uploads as forms (`multipart/form-data`), read without ever holding more than a piece.
//!
//! The parser gathers whatever its source has ready, and as many bytes as it takes to find the end of a
//! part's headers. Both are rationed here: one piece a turn, and a bounded number of bytes outside contents.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// How many bytes may come outside of contents before the next part begins.
const MAX_BETWEEN: u64 = 64 * 1024;
/// The longest text field.
const MAX_TEXT: usize = 8 * 1024;
/// The most parts of a form.
const MAX_PARTS: usize = 16;

/// What comes in, piece by piece.
pub type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Why a form cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormFault {
    /// It is no form, or broke off.
    #[error("the form cannot be read: {0}")]
    Unreadable(#[from] multer::Error),
    /// Something in it is longer than it may be.
    #[error("the form has {0}")]
    TooMuch(&'static str),
}

/// A form as it comes in.
pub struct Form {
    parts: multer::Multipart<'static>,
    ration: Arc<AtomicU64>,
    seen: usize,
}

/// A part of a form.
pub enum Entry {
    /// A field and its text.
    Text(String, String),
    /// A file: its name, its kind, and its content to come.
    File(Box<multer::Field<'static>>),
}

impl Form {
    /// Reads what comes as a form of this type.
    pub fn new(kind: &str, pieces: Pieces) -> Result<Self, FormFault> {
        let boundary = multer::parse_boundary(kind)?;
        let ration = Arc::new(AtomicU64::new(0));
        let source = Rationed { pieces, ration: ration.clone(), rest: false };
        Ok(Self { parts: multer::Multipart::new(source, boundary), ration, seen: 0 })
    }

    /// The next part; the one before must have been read to its end.
    pub async fn next(&mut self) -> Result<Option<Entry>, FormFault> {
        self.ration.store(MAX_BETWEEN, Ordering::Relaxed);
        let Some(mut field) = self.parts.next_field().await? else { return Ok(None) };
        self.seen += 1;
        if self.seen > MAX_PARTS {
            return Err(FormFault::TooMuch("too many parts"));
        }
        self.ration.store(u64::MAX, Ordering::Relaxed);
        if field.file_name().is_some() {
            return Ok(Some(Entry::File(Box::new(field))));
        }
        let name = field.name().unwrap_or_default().to_owned();
        let mut text = Vec::new();
        while let Some(piece) = field.chunk().await? {
            text.extend_from_slice(&piece);
            if text.len() > MAX_TEXT {
                return Err(FormFault::TooMuch("a text field that is too long"));
            }
        }
        Ok(Some(Entry::Text(name, String::from_utf8_lossy(&text).into_owned())))
    }
}

/// A body that gives one piece a turn, and no more than the ration allows.
struct Rationed {
    pieces: Pieces,
    ration: Arc<AtomicU64>,
    /// Whether the last turn gave something, so that this one must not.
    rest: bool,
}

impl Stream for Rationed {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.rest) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.pieces.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(piece))) = &polled {
            self.rest = true;
            let left = self.ration.load(Ordering::Relaxed);
            if left == 0 {
                return Poll::Ready(Some(Err(io::Error::other("too much between two parts"))));
            }
            if left != u64::MAX {
                // The last piece may reach into a content, so the ration is overdrawn once.
                self.ration.store(left.saturating_sub(piece.len() as u64), Ordering::Relaxed);
            }
        }
        polled
    }
}
