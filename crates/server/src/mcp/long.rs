//! Answers with a long result, whose chunks are forwarded in an envelope of the gateway.

use bytes::Bytes;
use std::collections::VecDeque;
use toolbooth_wire::Id;
use toolbooth_wire::envelope::result_head;

const END: &[u8] = b"}";

/// The chunks of the whole answer.
pub(super) fn answer(id: &Id, chunks: Vec<Bytes>) -> VecDeque<Bytes> {
    let mut all = VecDeque::from(chunks);
    all.push_front(result_head(id));
    all.push_back(Bytes::from_static(END));
    all
}

/// The whole answer in one buffer, for an event stream or a line.
pub(super) fn joined(id: &Id, chunks: &[Bytes]) -> Bytes {
    let head = result_head(id);
    let length = chunks.iter().map(Bytes::len).sum::<usize>() + head.len() + END.len();
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(&head);
    chunks.iter().for_each(|chunk| out.extend_from_slice(chunk));
    out.extend_from_slice(END);
    out.into()
}
