//! Reads server-sent events of the gateway.
//!
//! It does not use the decoder of the wire crate: if both sides of a test shared it, they would agree on its faults. The
//! gateway writes only LF as the line end, so this one needs no other.

use super::connection_task::ConnectionTask;
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use std::time::Duration;

/// Reads a stream of events; dropping it closes the connection.
#[derive(Debug)]
pub struct EventReader {
    body: Incoming,
    buffer: BytesMut,
    /// The length of the part of the buffer without the end of a block.
    searched: usize,
    _connection: ConnectionTask,
}

impl EventReader {
    /// Reads the events of a body.
    pub fn new(body: Incoming, connection: ConnectionTask) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, _connection: connection }
    }

    /// The data of the next event with data; `None` at the end of the stream.
    pub async fn next_text(&mut self) -> Option<String> {
        loop {
            while let Some(block) = self.block() {
                let lines = block.lines().filter_map(|line| line.strip_prefix("data:"));
                let data: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
                let data = data.join("\n");
                if !data.is_empty() {
                    return Some(data);
                }
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// The next message; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        let text = self.next_text().await?;
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in the event {text:?}")))
    }

    /// The next message, if it arrives in time.
    pub async fn next_within(&mut self, timeout: Duration) -> Option<Value> {
        tokio::time::timeout(timeout, self.next()).await.ok().flatten()
    }

    /// Removes one block of lines from the buffer, up to an empty line.
    fn block(&mut self) -> Option<String> {
        let end = self.buffer[self.searched..].windows(2).position(|pair| pair == b"\n\n");
        let Some(end) = end else {
            self.searched = self.buffer.len().saturating_sub(1);
            return None;
        };
        let block = self.buffer.split_to(self.searched + end + 2);
        self.searched = 0;
        Some(String::from_utf8(block.to_vec()).expect("events are UTF-8"))
    }
}
