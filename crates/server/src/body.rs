//! Response bodies (chunks in memory or a stream), and reading request bodies into memory.

use crate::pace::is_too_slow;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

type BoxStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Errors of reading a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyReadError {
    /// The body is over the limit.
    TooLong,
    /// The client sent it too slowly.
    TooSlow,
    /// The connection ended before the body did.
    BrokenOff,
}

/// The content coding of a request body, if it has one. No front end decodes them.
pub fn content_coding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let coding = codings.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase());
    coding
        .into_iter()
        .find(|coding| !matches!(coding.as_str(), "" | "identity"))
        .map(|coding| coding.chars().take(64).collect())
}

/// Reads the whole body of a request. Most bodies are one chunk, which is returned without a copy.
pub async fn read_body<B>(mut body: B, limit: usize) -> Result<Bytes, BodyReadError>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(read_error)?.into_data() else { continue };
        if first.len().max(all.len()) + data.len() > limit {
            return Err(BodyReadError::TooLong);
        }
        if first.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn read_error(error: impl std::error::Error + 'static) -> BodyReadError {
    if is_too_slow(&error) { BodyReadError::TooSlow } else { BodyReadError::BrokenOff }
}

/// A response body.
pub enum ResponseBody {
    /// Chunks that are written one after the other, without copying them together.
    Chunks(VecDeque<Bytes>),
    /// A stream of unknown length.
    Stream(BoxStream),
    /// A body made by the REST router.
    Rest(axum::body::Body),
}

impl ResponseBody {
    /// An empty body.
    pub fn empty() -> Self {
        Self::Chunks(VecDeque::new())
    }

    /// A body of one chunk.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self::Chunks(VecDeque::from([bytes.into()]))
    }

    /// A body of unknown length.
    pub fn stream(rest: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self::Stream(Box::pin(rest))
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseBody")
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Chunks(chunks) => Poll::Ready(chunks.pop_front().map(|chunk| Ok(Frame::data(chunk)))),
            Self::Stream(rest) => {
                rest.as_mut().poll_next(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
            }
            Self::Rest(body) => Pin::new(body).poll_frame(cx).map_err(io::Error::other),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Chunks(chunks) => chunks.is_empty(),
            Self::Stream(_) => false,
            Self::Rest(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Chunks(chunks) => SizeHint::with_exact(chunks.iter().map(|chunk| chunk.len() as u64).sum()),
            Self::Stream(_) => SizeHint::default(),
            Self::Rest(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let cases: [(&[&'static str], Result<&'static str, BodyReadError>); 6] = [
            (&[], Ok("")),
            (&["hello"], Ok("hello")),
            (&["he", "", "llo"], Ok("hello")),
            (&["", "hello"], Ok("hello")),
            (&["hello!"], Err(BodyReadError::TooLong)),
            (&["he", "ll", "o!"], Err(BodyReadError::TooLong)),
        ];
        for (chunks, expected) in cases {
            let frames: Vec<io::Result<Frame<Bytes>>> =
                chunks.iter().map(|chunk| Ok(Frame::data(Bytes::from_static(chunk.as_bytes())))).collect();
            let body = StreamBody::new(futures_util::stream::iter(frames));
            assert_eq!(read_body(body, 5).await, expected.map(Bytes::from), "{chunks:?}");
        }
        let broken =
            StreamBody::new(futures_util::stream::iter([Err::<Frame<Bytes>, _>(io::Error::other("gone"))]));
        assert_eq!(read_body(broken, 5).await, Err(BodyReadError::BrokenOff));
    }
}
