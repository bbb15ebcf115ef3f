//! What a door answers with: ready pieces or a stream of events. And what it is asked with.

use crate::hearing::poll_piece;
use crate::pace::is_too_slow;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

type BoxStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Why a request has no body that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ungathered {
    /// It is over the limit.
    TooLong,
    /// It came too slowly.
    TooSlow,
    /// It broke off.
    BrokenOff,
}

/// The coding of a request's body, if it has one: no door reads those.
pub fn content_coding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let coding = codings.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase());
    coding
        .into_iter()
        .find(|coding| !matches!(coding.as_str(), "" | "identity"))
        .map(|coding| coding.chars().take(64).collect())
}

/// The whole body of a request. Most come in one piece, which is taken as it is.
pub async fn gather<B>(mut body: B, limit: usize) -> Result<Bytes, Ungathered>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| poll_piece(&mut body, cx)).await {
        let Ok(data) = frame.map_err(why)?.into_data() else { continue };
        if first.len().max(all.len()) + data.len() > limit {
            return Err(Ungathered::TooLong);
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

fn why(error: impl std::error::Error + 'static) -> Ungathered {
    if is_too_slow(&error) { Ungathered::TooSlow } else { Ungathered::BrokenOff }
}

/// A response body.
pub enum Body {
    /// Pieces that are not copied together.
    Pieces(VecDeque<Bytes>),
    /// A stream of unknown length.
    Stream(BoxStream),
    /// A body made by the REST router.
    Rest(axum::body::Body),
}

impl Body {
    /// Nothing.
    pub fn empty() -> Self {
        Self::Pieces(VecDeque::new())
    }

    /// One piece.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self::Pieces(VecDeque::from([bytes.into()]))
    }

    /// An endless or long stream.
    pub fn stream(rest: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self::Stream(Box::pin(rest))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece)))),
            Self::Stream(rest) => {
                rest.as_mut().poll_next(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
            }
            Self::Rest(body) => Pin::new(body).poll_frame(cx).map_err(io::Error::other),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Stream(_) => false,
            Self::Rest(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
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
    async fn a_body_is_gathered_up_to_its_limit() {
        let cases: [(&[&'static str], Result<&'static str, Ungathered>); 6] = [
            (&[], Ok("")),
            (&["hello"], Ok("hello")),
            (&["he", "", "llo"], Ok("hello")),
            (&["", "hello"], Ok("hello")),
            (&["hello!"], Err(Ungathered::TooLong)),
            (&["he", "ll", "o!"], Err(Ungathered::TooLong)),
        ];
        for (pieces, expected) in cases {
            let frames: Vec<io::Result<Frame<Bytes>>> =
                pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))).collect();
            let body = StreamBody::new(futures_util::stream::iter(frames));
            assert_eq!(gather(body, 5).await, expected.map(Bytes::from), "{pieces:?}");
        }
        let broken =
            StreamBody::new(futures_util::stream::iter([Err::<Frame<Bytes>, _>(io::Error::other("gone"))]));
        assert_eq!(gather(broken, 5).await, Err(Ungathered::BrokenOff));
    }
}
