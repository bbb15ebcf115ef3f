//! Long results: passed on as they come, unread, in the dress of the client's era.

use super::translate::Dress;
use crate::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use std::io;
use toolbooth_upstream::ResultStream;
use toolbooth_wire::Id;
use toolbooth_wire::codes::RpcError;
use toolbooth_wire::envelope::{result_head, write_error};
use toolbooth_wire::undress::Undress;

/// A long result inside a stream of events must be whole.
pub(super) async fn gathered(id: &Id, stream: ResultStream, dress: Dress) -> Bytes {
    let mut out = BytesMut::from(&result_head(id)[..]);
    let mut pieces = pieces(stream, dress);
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => out.extend_from_slice(&piece),
            Err(error) => {
                let error = RpcError::new(toolbooth_wire::codes::UPSTREAM_FAILED, error.to_string());
                return write_error(Some(id), &error);
            }
        }
    }
    out.freeze()
}

/// A long result as the whole answer: its bytes go by unread.
pub(super) fn body(id: &Id, stream: ResultStream, dress: Dress) -> Body {
    let first = result_head(id);
    let length = match dress {
        Dress::AsIs => stream.length,
        Dress::Front(front) => stream.length.map(|length| length + front.len() as u64 - 1),
        Dress::Without => None,
    };
    let left = length.map(|length| length + first.len() as u64);
    Body::Stream { first: Some(first), rest: pieces(stream, dress), left }
}

type Pieces = std::pin::Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The pieces of a long result, dressed for its client.
fn pieces(stream: ResultStream, dress: Dress) -> Pieces {
    let body = stream.body.map(|chunk| chunk.map_err(io::Error::other));
    match dress {
        Dress::AsIs => Box::pin(body),
        Dress::Front(front) => {
            let mut skip = 1;
            let rest = undressed(body, Undress::for_modern()).map(move |piece| {
                piece.map(|piece| {
                    let skipped = skip.min(piece.len());
                    skip -= skipped;
                    piece.slice(skipped..)
                })
            });
            Box::pin(
                futures_util::stream::once(std::future::ready(Ok(Bytes::from_static(front)))).chain(rest),
            )
        }
        Dress::Without => Box::pin(undressed(body, Undress::for_legacy())),
    }
}

fn undressed(
    body: impl Stream<Item = io::Result<Bytes>> + Send,
    mut undress: Undress,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    body.flat_map(move |chunk| {
        let mut out = Vec::with_capacity(2);
        match chunk {
            Ok(chunk) => {
                let mut pieces = Vec::with_capacity(2);
                undress.push(&chunk, &mut pieces);
                out.extend(pieces.into_iter().map(Ok));
            }
            Err(error) => out.push(Err(error)),
        }
        futures_util::stream::iter(out)
    })
}
