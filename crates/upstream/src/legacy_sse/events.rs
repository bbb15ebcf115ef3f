//! Reads the server's event stream. An event over the size limit is skipped; the stream continues.

use crate::http::PooledConnection;
use crate::unreadable::answered_id;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use toolbooth_wire::sse::{SseDecoder, SseEvent};

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
    decoder: SseDecoder,
}

impl SseStream {
    pub(super) fn new(body: Incoming, connection: PooledConnection, limit: usize) -> Self {
        Self { body, _connection: connection, decoder: SseDecoder::new(limit) }
    }

    /// Reads the next item; `None` at the end of the stream, an error if it breaks.
    pub(super) async fn next(&mut self) -> Result<Option<SseItem>, String> {
        loop {
            if let Some(item) = next_item(&mut self.decoder) {
                return Ok(Some(item));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => {
                    tracing::debug!("an event stream broke: {error}");
                    return Err("its stream broke off".into());
                }
                Some(Ok(frame)) => self.decoder.push(frame.data_ref().map_or(&[], |data| data)),
            }
        }
    }
}

/// The next item in the received data; `None` if more is needed.
fn next_item(decoder: &mut SseDecoder) -> Option<SseItem> {
    match decoder.next_event() {
        Ok(event) => event.map(SseItem::Event),
        Err(too_long) => Some(SseItem::TooLong(answered_id(&too_long.head))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_over_the_limit_is_reported_with_its_own_id() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":17,"result":{"content":""#, Some(17)),
            (r#"{ "id" : 3 , "jsonrpc":"2.0","result":""#, Some(3)),
            (r#"{"jsonrpc":"2.0","result":{"content":[{"id":5,"text":""#, None),
            (r#"{"jsonrpc":"2.0","id":"x","result":{"a":""#, None),
        ];
        for (head, id) in cases {
            for end in ["\n", "\r\n", "\r"] {
                let long = format!("data: {head}{}", "x".repeat(90));
                let text = ["data: a", "", "event: message", &long, "", "data: b", "", ""].join(end);
                let mut decoder = SseDecoder::new(100);
                decoder.push(text.as_bytes());
                let found: Vec<_> = std::iter::from_fn(|| next_item(&mut decoder))
                    .map(|item| match item {
                        SseItem::Event(event) => Ok(String::from_utf8_lossy(&event.data).into_owned()),
                        SseItem::TooLong(id) => Err(id),
                    })
                    .collect();
                assert_eq!(found, [Ok("a".to_owned()), Err(id), Ok("b".to_owned())], "{head} {end:?}");
            }
        }
    }
}
