//! The server's stream, event by event. An event over the limit is passed over, not the end of the stream.

use crate::http::PooledConnection;
use crate::unreadable::answered_id;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use memchr::memchr2;
use toolbooth_wire::sse::{Decoder, Event};

/// How much of an event is kept to find the id in, should it grow too long.
const HEAD_BYTES: usize = 512;

/// What came on the stream.
#[derive(Debug)]
pub(super) enum Item {
    /// An event.
    Event(Event),
    /// An event over the limit, and the id of the answer it held if that could be told.
    TooLong(Option<u64>),
}

/// Events as they come.
pub(super) struct Events {
    body: Incoming,
    /// The stream's own connection; it is never given back.
    _connection: PooledConnection,
    cutter: Cutter,
}

impl Events {
    pub(super) fn new(body: Incoming, connection: PooledConnection, limit: usize) -> Self {
        Self { body, _connection: connection, cutter: Cutter::new(limit) }
    }

    /// The next event; `None` at the end of the stream, a reason when it broke.
    pub(super) async fn next(&mut self) -> Result<Option<Item>, String> {
        loop {
            if let Some(item) = self.cutter.next_item() {
                return Ok(Some(item));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => {
                    tracing::debug!("an event stream broke: {error}");
                    return Err("its stream broke off".into());
                }
                Some(Ok(frame)) => self.cutter.rest = frame.into_data().unwrap_or_default(),
            }
        }
    }
}

/// Hands the stream to the decoder in pieces that end where events end, so that one bad event can be left out.
struct Cutter {
    rest: Bytes,
    decoder: Decoder,
    limit: usize,
    lines: Lines,
    /// The first bytes of the event that is being read.
    head: Vec<u8>,
    /// Where the piece before ended.
    at: At,
}

#[derive(PartialEq, Eq)]
enum At {
    /// Between two events.
    Seam,
    /// Inside an event that is read.
    Event,
    /// Inside an event that is passed over.
    Refused,
}

impl Cutter {
    fn new(limit: usize) -> Self {
        let lines = Lines { empty: true, after_cr: false };
        Self {
            rest: Bytes::new(),
            decoder: Decoder::new(limit),
            limit,
            lines,
            head: Vec::new(),
            at: At::Seam,
        }
    }

    /// The next item of what has come; `None` when more is needed.
    fn next_item(&mut self) -> Option<Item> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => return Some(Item::Event(event)),
                Ok(None) if self.rest.is_empty() => return None,
                Ok(None) => self.take_piece(),
                Err(_) => {
                    self.decoder = Decoder::new(self.limit);
                    if self.at == At::Event {
                        self.at = At::Refused;
                    }
                    return Some(Item::TooLong(answered_id(&self.head)));
                }
            }
        }
    }

    fn take_piece(&mut self) {
        if self.at == At::Seam {
            self.head.clear();
        }
        let seam = self.lines.seam_in(&self.rest);
        let piece = self.rest.split_to(seam.unwrap_or(self.rest.len()));
        if self.at != At::Refused {
            let kept = piece.len().min(HEAD_BYTES - self.head.len());
            self.head.extend_from_slice(&piece[..kept]);
            self.decoder.push(&piece);
            self.at = At::Event;
        }
        if seam.is_some() {
            self.at = At::Seam;
        }
    }
}

/// Finds the blank lines that end events, whichever way lines end.
struct Lines {
    empty: bool,
    after_cr: bool,
}

impl Lines {
    /// Where the next event ends in what came, if it does.
    fn seam_in(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(found) = memchr2(b'\n', b'\r', &text[at..]).map(|found| found + at) {
            self.empty &= found == at;
            // The second half of a line end is no line.
            let halved = text[found] == b'\n' && self.after_cr && found == at;
            self.after_cr = text[found] == b'\r';
            at = found + 1;
            if halved {
                continue;
            }
            if std::mem::replace(&mut self.empty, true) {
                return Some(at);
            }
        }
        if at < text.len() {
            self.empty = false;
            self.after_cr = false;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn items(limit: usize, chunks: &[&[u8]]) -> Vec<Result<String, Option<u64>>> {
        let mut cutter = Cutter::new(limit);
        let mut found = Vec::new();
        for chunk in chunks {
            cutter.rest = Bytes::copy_from_slice(chunk);
            while let Some(item) = cutter.next_item() {
                found.push(match item {
                    Item::Event(event) => Ok(String::from_utf8_lossy(&event.data).into_owned()),
                    Item::TooLong(id) => Err(id),
                });
            }
        }
        found
    }

    /// A short event, a long one that answers request 7, and another short one.
    fn three_events(end: &str) -> String {
        let long = format!(r#"data: {{"jsonrpc":"2.0","id":7,"result":{{"text":"{}"}}}}"#, "x".repeat(90));
        ["data: a", "", "event: message", &long, "", "data: b", "", ""].join(end)
    }

    #[test]
    fn an_event_over_the_limit_is_left_out_and_told_of() {
        for end in ["\n", "\r\n", "\r"] {
            let text = three_events(end);
            let expected = [Ok("a".to_owned()), Err(Some(7)), Ok("b".to_owned())];
            assert_eq!(items(100, &[text.as_bytes()]), expected, "{end:?}");
        }
    }

    #[test]
    fn the_id_is_that_of_the_answer_and_no_other() {
        let cases: [(&str, Option<u64>); 5] = [
            (r#"data: {"jsonrpc":"2.0","id":17,"result":{"content"#, Some(17)),
            (r#"data: { "id" : 3 , "jsonrpc":"2.0""#, Some(3)),
            (r#"data: {"jsonrpc":"2.0","result":{"content":[{"id":5,"#, None),
            (r#"data: {"jsonrpc":"2.0","id":"x","result":{"#, None),
            (r#"data: {"jsonrpc":"2.0","id":12"#, None), // It may go on.
        ];
        for (head, id) in cases {
            assert_eq!(answered_id(head.as_bytes()), id, "{head}");
        }
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(cuts in prop::collection::vec(1_usize..60, 0..60), end in "\n|\r\n|\r") {
            let text = three_events(&end);
            let mut rest = text.as_bytes();
            let mut chunks = Vec::new();
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            prop_assert_eq!(items(100, &chunks), vec![Ok("a".to_owned()), Err(Some(7)), Ok("b".to_owned())]);
        }
    }
}
