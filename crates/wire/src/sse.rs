//! Reads and writes server-sent events.

use bytes::{Buf, Bytes, BytesMut};
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

/// An event exceeds the limit. The decoder skips the rest of it and continues with the next event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub struct EventTooLong {
    /// The limit.
    pub limit: usize,
    /// The beginning of its data.
    pub head: Bytes,
}

/// Maximum number of bytes of the head of an event that is too long.
const HEAD_BYTES: usize = 512;
/// The length of the name of a data field, with its colon and space.
const DATA_FIELD_BYTES: usize = 6;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads events from a stream in chunks of any size. The events do not depend on how the stream is cut into chunks.
///
/// It follows the HTML specification, with one exception: an event with a type and without data is returned as well.
#[derive(Debug)]
pub struct SseDecoder {
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
    /// Whether the current event is too long and is skipped, and whether the start of its current line was dropped.
    is_skipping: bool,
    is_line_cut: bool,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl SseDecoder {
    /// Creates a decoder that refuses events over `limit` bytes: the data so far and the current line together.
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
            is_skipping: false,
            is_line_cut: false,
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
        if self.at_start && !self.skip_byte_order_mark() {
            return Ok(None);
        }
        loop {
            if self.after_cr && !self.buffer.is_empty() {
                self.after_cr = false;
                if self.buffer.first() == Some(&b'\n') {
                    self.buffer.advance(1);
                }
            }
            let Some(end) = memchr2(b'\n', b'\r', &self.buffer[self.searched..]).map(|at| at + self.searched)
            else {
                return self.wait_for_line_end();
            };
            self.searched = 0;
            let mut line = self.buffer.split_to(end + 1);
            self.after_cr = line[end] == b'\r';
            line.truncate(end);
            let is_cut = std::mem::take(&mut self.is_line_cut);
            if self.is_skipping {
                self.is_skipping = is_cut || !line.is_empty();
                continue;
            }
            if self.data.len() + line.len() > self.limit {
                return Err(self.too_long(&line));
            }
            if !line.is_empty() {
                self.field(line);
            } else if let Some(event) = self.dispatch() {
                return Ok(Some(event));
            }
        }
    }

    /// Skips a byte order mark at the start of the stream; returns whether its presence is known.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.advance(BYTE_ORDER_MARK.len());
        } else if BYTE_ORDER_MARK.starts_with(&self.buffer) {
            return false;
        }
        self.at_start = false;
        true
    }

    /// The outcome if the current line has no end yet.
    fn wait_for_line_end(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        if self.is_skipping {
            self.is_line_cut |= !self.buffer.is_empty();
            self.buffer.clear();
        }
        self.searched = self.buffer.len();
        if self.buffer.len() + self.data.len() <= self.limit {
            return Ok(None);
        }
        let line = self.buffer.split();
        self.searched = 0;
        self.is_line_cut = true;
        Err(self.too_long(&line))
    }

    /// Skips the current event, whose last line, or the beginning of it, is `line`.
    fn too_long(&mut self, line: &[u8]) -> EventTooLong {
        // As long as the shortest event that is refused, so that it does not depend on the chunks.
        let length = HEAD_BYTES.min(self.limit.saturating_sub(DATA_FIELD_BYTES));
        let mut head = self.data.split();
        if let (b"data", value) = split_field(line) {
            if self.has_data {
                head.extend_from_slice(b"\n");
            }
            head.extend_from_slice(&value[..value.len().min(length)]);
        }
        head.truncate(length);
        self.event = SseEvent::default();
        self.has_data = false;
        self.is_skipping = true;
        EventTooLong { limit: self.limit, head: head.freeze() }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let mut event = std::mem::take(&mut self.event);
        let has_data = std::mem::take(&mut self.has_data);
        event.data = self.data.split().freeze();
        // An event without data and type is not dispatched, but its id is consumed.
        (has_data || event.kind.is_some()).then_some(event)
    }

    fn field(&mut self, line: BytesMut) {
        let (name, value) = split_field(&line);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => {
                if self.has_data {
                    self.data.extend_from_slice(b"\n");
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.event.kind = Some(text()).filter(|kind| !kind.is_empty()),
            // An id with a NUL is ignored, as the specification says.
            b"id" if memchr(0, value).is_none() => {
                self.event.id = Some(text());
                self.last_id.clone_from(&self.event.id);
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                self.retry = text().parse().ok().map(Duration::from_millis).or(self.retry);
            }
            // A comment has an empty name; other names are unknown.
            _ => {}
        }
    }
}

/// Splits a line into the name and the value of a field.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b':', line) {
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, &[]),
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
mod tests;
