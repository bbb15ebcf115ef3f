//! Reads and writes server-sent events.

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2};
use std::time::Duration;

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// Its type; absent means `message`.
    pub kind: Option<String>,
    /// Its data, lines joined by newlines.
    pub data: Bytes,
    /// Its id.
    pub id: Option<String>,
}

/// An event exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub struct EventTooLong {
    /// The limit.
    pub limit: usize,
}

/// Reads events from a stream in chunks of any size.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// The length of the part of `buffer` that has no line end.
    searched: usize,
    event: SseEvent,
    has_data: bool,
    data: BytesMut,
    limit: usize,
    /// The last line ended with CR; an LF right after it belongs to it.
    after_cr: bool,
    at_start: bool,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl Decoder {
    /// Creates a decoder that refuses events over `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            event: SseEvent::default(),
            has_data: false,
            data: BytesMut::new(),
            limit,
            after_cr: false,
            at_start: true,
            last_id: None,
            retry: None,
        }
    }

    /// The last event id, with which a broken stream can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The reconnection delay that the server asked for.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Adds a chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next complete event, if there is one.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        loop {
            if self.after_cr && self.buffer.first() == Some(&b'\n') {
                let _ = self.buffer.split_to(1);
                self.searched = 0;
            }
            if !self.buffer.is_empty() {
                self.after_cr = false;
            }
            let Some(end) = memchr2(b'\n', b'\r', &self.buffer[self.searched..]).map(|at| at + self.searched)
            else {
                self.searched = self.buffer.len();
                if self.buffer.len() + self.data.len() > self.limit {
                    return Err(EventTooLong { limit: self.limit });
                }
                return Ok(None);
            };
            self.searched = 0;
            let mut line = self.buffer.split_to(end + 1);
            self.after_cr = line[end] == b'\r';
            line.truncate(end);
            if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
                let _ = line.split_to(3);
            }
            if self.data.len() + line.len() > self.limit {
                return Err(EventTooLong { limit: self.limit });
            }
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
            } else {
                self.field(line);
            }
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let mut event = std::mem::take(&mut self.event);
        let has_data = std::mem::take(&mut self.has_data);
        event.data = self.data.split().freeze();
        // An event without data and type is not dispatched, but its id is consumed.
        (has_data || event.kind.is_some()).then_some(event)
    }

    fn field(&mut self, line: BytesMut) {
        let (name, value) = match memchr(b':', &line) {
            Some(0) => return, // a comment
            Some(at) => {
                let from = if line.get(at + 1) == Some(&b' ') { at + 2 } else { at + 1 };
                (at, from)
            }
            None => (line.len(), line.len()),
        };
        let line = line.freeze();
        let text = || String::from_utf8_lossy(&line[value..]).into_owned();
        match &line[..name] {
            b"data" => {
                if self.has_data {
                    self.data.extend_from_slice(b"\n");
                }
                self.has_data = true;
                self.data.extend_from_slice(&line[value..]);
            }
            b"event" => self.event.kind = Some(text()),
            b"id" => {
                self.event.id = Some(text());
                self.last_id = self.event.id.clone();
            }
            b"retry" => self.retry = text().parse().ok().map(Duration::from_millis),
            _ => {}
        }
    }
}

/// Writes one message as an event. Text with line ends, which the gateway's own JSON never has, is split over several
/// data lines.
pub fn write_event(data: &[u8], id: Option<&str>) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 32);
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"\n");
    }
    out.extend_from_slice(b"event: message\n");
    if memchr2(b'\n', b'\r', data).is_none() {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(data);
        out.extend_from_slice(b"\n");
    } else {
        for line in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line);
            out.extend_from_slice(b"\n");
        }
    }
    out.extend_from_slice(b"\n");
    out.freeze()
}

/// A comment that keeps an idle stream open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> Vec<SseEvent> {
        let mut decoder = Decoder::new(1 << 20);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(event) = decoder.next_event().expect("short") {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn events_are_read_with_every_line_end() {
        for end in ["\n", "\r\n", "\r"] {
            let text =
                [": hi", "event: endpoint", "data: /x", "", "id: 7", "data:a", "data: b", "", "data", "", ""]
                    .join(end);
            let events = decode(&[text.as_bytes()]);
            assert_eq!(events.len(), 3, "{end:?}");
            assert_eq!(events[0].kind.as_deref(), Some("endpoint"));
            assert_eq!(events[1], SseEvent { kind: None, data: Bytes::from("a\nb"), id: Some("7".into()) });
            assert_eq!(events[2].data, "");
        }
    }

    #[test]
    fn long_events_are_refused_before_they_end() {
        let mut decoder = Decoder::new(100);
        decoder.push(&[b'x'; 101]);
        assert_eq!(decoder.next_event(), Err(EventTooLong { limit: 100 }));
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(cuts in prop::collection::vec(1_usize..9, 0..60)) {
            let text = "\u{feff}event: x\r\ndata: {\"a\":1}\r\n\r\n: c\n\nid: 4\rdata: two\rdata: lines\r\rdata: z\n\n";
            let whole = decode(&[text.as_bytes()]);
            let mut rest = text.as_bytes();
            let mut chunks = Vec::new();
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            prop_assert_eq!(decode(&chunks), whole);
        }

        #[test]
        fn written_events_are_read_back(data in "[ -~]{0,40}(\n[ -~]{0,10})?") {
            let written = write_event(data.as_bytes(), Some("9"));
            let events = decode(&[&written]);
            prop_assert_eq!(events.len(), 1);
            prop_assert_eq!(&events[0].data[..], data.as_bytes());
        }
    }
}
