//! Answers with a long result: the pieces of its text, in an envelope of the gateway's own.

use bytes::Bytes;
use std::collections::VecDeque;
use toolbooth_wire::Id;
use toolbooth_wire::envelope::result_head;

const END: &[u8] = b"}";

/// The whole answer, in pieces.
pub(super) fn answer(id: &Id, pieces: Vec<Bytes>) -> VecDeque<Bytes> {
    let mut all = VecDeque::from(pieces);
    all.push_front(result_head(id));
    all.push_back(Bytes::from_static(END));
    all
}

/// The whole answer as one text, for a stream of events or a line.
pub(super) fn joined(id: &Id, pieces: &[Bytes]) -> Bytes {
    let head = result_head(id);
    let length = pieces.iter().map(Bytes::len).sum::<usize>() + head.len() + END.len();
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(&head);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out.extend_from_slice(END);
    out.into()
}
