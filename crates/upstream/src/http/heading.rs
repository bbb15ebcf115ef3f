//! The head of a request, written straight into the bytes that are sent.

use ::http::header::CONTENT_LENGTH;
use ::http::{HeaderName, HeaderValue, Method};
use bytes::Bytes;

/// Messages up to this size are copied behind their head, so that one piece is sent.
const COPIED_UP_TO: usize = 16 << 10;

/// Headers as they are put together. There are a handful: looking through them costs less than hashing.
#[derive(Debug)]
pub(super) struct Heading(Vec<(HeaderName, HeaderValue)>);

impl Heading {
    /// No headers, with room for some.
    pub(super) fn with_capacity(headers: usize) -> Self {
        Self(Vec::with_capacity(headers))
    }

    /// Sets a header; a later word for the same name wins.
    pub(super) fn set(&mut self, name: HeaderName, value: HeaderValue) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes a header back.
    pub(super) fn remove(&mut self, name: &HeaderName) {
        self.0.retain(|(known, _)| known != name);
    }

    /// A request as it is sent.
    pub(super) fn request(&self, method: &Method, path: &str, body: Option<Bytes>) -> Outgoing {
        let copied = body.as_ref().map_or(0, Bytes::len);
        let copied = if copied <= COPIED_UP_TO { copied } else { 0 };
        let headers = self.0.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
        let mut text = Vec::with_capacity(path.len() + headers.sum::<usize>() + copied + 64);
        for part in [method.as_str(), " ", path, " HTTP/1.1\r\n"] {
            text.extend_from_slice(part.as_bytes());
        }
        for (name, value) in &self.0 {
            header(&mut text, name, value.as_bytes());
        }
        if let Some(body) = &body {
            header(&mut text, &CONTENT_LENGTH, itoa::Buffer::new().format(body.len()).as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        let rest = match body {
            Some(body) if body.len() > COPIED_UP_TO => body,
            Some(body) => {
                text.extend_from_slice(&body);
                Bytes::new()
            }
            None => Bytes::new(),
        };
        Outgoing { start: text.into(), rest }
    }
}

fn header(text: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

/// A request as it is sent: it can be sent again as long as nobody has seen it.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    /// The head, and a short message behind it.
    pub(super) start: Bytes,
    /// A long message.
    pub(super) rest: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::header::{ACCEPT, HOST};

    #[test]
    fn a_later_word_wins_and_a_long_message_is_not_copied() {
        let mut heading = Heading::with_capacity(4);
        heading.set(HOST, HeaderValue::from_static("a"));
        heading.set(ACCEPT, HeaderValue::from_static("text/html"));
        heading.set(ACCEPT, HeaderValue::from_static("application/json"));
        let short = heading.request(&Method::POST, "/mcp?x=1", Some(Bytes::from_static(b"{}")));
        let head = "POST /mcp?x=1 HTTP/1.1\r\nhost: a\r\naccept: application/json\r\n";
        assert_eq!(short.start, format!("{head}content-length: 2\r\n\r\n{{}}"));
        assert!(short.rest.is_empty());

        let long =
            heading.request(&Method::POST, "/mcp?x=1", Some(Bytes::from(vec![b' '; COPIED_UP_TO + 1])));
        assert_eq!(long.start, format!("{head}content-length: {}\r\n\r\n", COPIED_UP_TO + 1));
        assert_eq!(long.rest.len(), COPIED_UP_TO + 1);

        let none = heading.request(&Method::GET, "/", None);
        assert_eq!(none.start, "GET / HTTP/1.1\r\nhost: a\r\naccept: application/json\r\n\r\n");
    }
}
