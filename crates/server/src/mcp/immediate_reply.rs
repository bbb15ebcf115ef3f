//! Writes replies that need no call to a server, such as lists.

use super::methods::ImmediateReply;
use super::translate::LIST_END;
use bytes::Bytes;
use std::collections::VecDeque;
use toolbooth_wire::envelope::{result_head, write_result};
use toolbooth_wire::{Era, Id};

/// The chunks of an immediate reply in the format of the client's era.
pub(super) fn reply_chunks(id: &Id, reply: ImmediateReply, era: Era) -> VecDeque<Bytes> {
    match reply {
        ImmediateReply::Result(result) => VecDeque::from([write_result(id, &result)]),
        ImmediateReply::List(list) => {
            let mut chunks = VecDeque::with_capacity(list.pieces.len() + 2);
            chunks.push_back(result_head(id));
            chunks.extend(list.pieces.iter().cloned());
            chunks.push_back(match era {
                Era::Modern => Bytes::from_static(LIST_END.as_bytes()),
                Era::Legacy => Bytes::from_static(b"}"),
            });
            chunks.push_back(Bytes::from_static(b"}"));
            chunks
        }
    }
}
