//! Reads the server's event stream. An event over the size limit is skipped; the stream continues.

use crate::http::PooledConnection;
use crate::unreadable::answered_id;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use memchr::memchr2;
use toolbooth_wire::sse::{Decoder, SseEvent};

/// How many bytes of an event are kept to find the id in, in case it exceeds the limit.
const HEAD_BYTES: usize = 512;

/// An item of the stream.
#[derive(Debug)]
pub(super) enum SseItem {
    /// An event.
    Event(SseEvent),
    /// An event over the limit, and the id of the answer in it if it could be found.
    TooLong(Option<u64>),
}

/// The event stream of a server.
pub(super) struct SseStream {
    body: Incoming,
    /// The stream's own connection; it is never returned to the pool.
    _connection: PooledConnection,
    cutter: Cutter,
}

impl SseStream {
    pub(super) fn new(body: Incoming, connection: PooledConnection, limit: usize) -> Self {
        Self { body, _connection: connection, cutter: Cutter::new(limit) }
    }

    /// Reads the next item; `None` at the end of the stream, an error if it breaks.
    pub(super) async fn next(&mut self) -> Result<Option<SseItem>, String> {
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

/// Passes the stream to the decoder in pieces that end where events end, so that one overlong event can be
/// skipped.
struct Cutter {
    rest: Bytes,
    decoder: Decoder,
    limit: usize,
    lines: BlankLineFinder,
    /// The first bytes of the current event.
    head: Vec<u8>,
    /// Where the previous piece ended.
    at: CutPosition,
}

#[derive(PartialEq, Eq)]
enum CutPosition {
    /// Between two events.
    Boundary,
    /// Inside an event that is read.
    Event,
    /// Inside an event that is skipped.
    Skipping,
}

impl Cutter {
    fn new(limit: usize) -> Self {
        let lines = BlankLineFinder { empty: true, after_cr: false };
        Self {
            rest: Bytes::new(),
            decoder: Decoder::new(limit),
            limit,
            lines,
            head: Vec::new(),
            at: CutPosition::Boundary,
        }
    }

    /// The next item in the received data; `None` if more is needed.
    fn next_item(&mut self) -> Option<SseItem> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => return Some(SseItem::Event(event)),
                Ok(None) if self.rest.is_empty() => return None,
                Ok(None) => self.take_piece(),
                Err(_) => {
                    self.decoder = Decoder::new(self.limit);
                    if self.at == CutPosition::Event {
                        self.at = CutPosition::Skipping;
                    }
                    return Some(SseItem::TooLong(answered_id(&self.head)));
                }
            }
        }
    }

    fn take_piece(&mut self) {
        if self.at == CutPosition::Boundary {
            self.head.clear();
        }
        let event_end = self.lines.end_of_event(&self.rest);
        let piece = self.rest.split_to(event_end.unwrap_or(self.rest.len()));
        if self.at != CutPosition::Skipping {
            let kept = piece.len().min(HEAD_BYTES - self.head.len());
            self.head.extend_from_slice(&piece[..kept]);
            self.decoder.push(&piece);
            self.at = CutPosition::Event;
        }
        if event_end.is_some() {
            self.at = CutPosition::Boundary;
        }
    }
}

/// Finds the blank lines that end events, for all line endings.
struct BlankLineFinder {
    empty: bool,
    after_cr: bool,
}

impl BlankLineFinder {
    /// The position after the next event in `text`, if it ends there.
    fn end_of_event(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(found) = memchr2(b'\n', b'\r', &text[at..]).map(|found| found + at) {
            self.empty &= found == at;
            // The second half of a CRLF does not end another line.
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
                    SseItem::Event(event) => Ok(String::from_utf8_lossy(&event.data).into_owned()),
                    SseItem::TooLong(id) => Err(id),
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
    fn an_event_over_the_limit_is_skipped_and_reported() {
        for end in ["\n", "\r\n", "\r"] {
            let text = three_events(end);
            let expected = [Ok("a".to_owned()), Err(Some(7)), Ok("b".to_owned())];
            assert_eq!(items(100, &[text.as_bytes()]), expected, "{end:?}");
        }
    }

    #[test]
    fn only_the_answers_own_id_is_found() {
        let cases: [(&str, Option<u64>); 5] = [
            (r#"data: {"jsonrpc":"2.0","id":17,"result":{"content"#, Some(17)),
            (r#"data: { "id" : 3 , "jsonrpc":"2.0""#, Some(3)),
            (r#"data: {"jsonrpc":"2.0","result":{"content":[{"id":5,"#, None),
            (r#"data: {"jsonrpc":"2.0","id":"x","result":{"#, None),
            (r#"data: {"jsonrpc":"2.0","id":12"#, None), // Digits may follow.
        ];
        for (head, id) in cases {
            assert_eq!(answered_id(head.as_bytes()), id, "{head}");
        }
    }

    proptest! {
        #[test]
        fn chunk_boundaries_make_no_difference(cuts in prop::collection::vec(1_usize..60, 0..60), end in "\n|\r\n|\r") {
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
