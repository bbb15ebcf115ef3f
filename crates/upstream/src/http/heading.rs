//! The head of a request, written straight into the bytes that are sent.

use ::http::header::CONTENT_LENGTH;
use ::http::{HeaderName, HeaderValue, Method};
use bytes::Bytes;
use std::sync::Arc;

/// Messages up to this size are copied behind their head, so that one piece is sent.
const COPIED_UP_TO: usize = 16 << 10;

/// Headers as they are put together. There are a handful: looking through them costs less than hashing.
#[derive(Debug)]
pub(super) struct Heading {
    /// What stands before the others, and was written for many requests.
    common: Option<Arc<Common>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Headers that many requests have in common, as they are sent.
pub(super) struct Common {
    headers: Vec<(HeaderName, HeaderValue)>,
    text: Vec<u8>,
}

impl std::fmt::Debug for Common {
    /// Without the text: values know which of them are secret, the text does not.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Common").field(&self.headers).finish()
    }
}

impl Common {
    fn has(&self, name: &HeaderName) -> bool {
        self.headers.iter().any(|(known, _)| known == name)
    }
}

impl Heading {
    /// No headers, with room for some.
    pub(super) fn with_capacity(headers: usize) -> Self {
        Self { common: None, headers: Vec::with_capacity(headers) }
    }

    /// Headers that were written before, to set others beside them.
    pub(super) fn of(common: Arc<Common>) -> Self {
        Self { common: Some(common), headers: Vec::new() }
    }

    /// Writes what stands here, for other requests to begin with.
    pub(super) fn common(mut self) -> Arc<Common> {
        self.take_apart();
        let mut text = Vec::new();
        for (name, value) in &self.headers {
            header(&mut text, name, value.as_bytes());
        }
        Arc::new(Common { headers: self.headers, text })
    }

    /// Sets a header; a later word for the same name wins.
    pub(super) fn set(&mut self, name: HeaderName, value: HeaderValue) {
        if self.common.as_ref().is_some_and(|common| common.has(&name)) {
            self.take_apart();
        }
        match self.headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.headers.push((name, value)),
        }
    }

    /// Takes a header back.
    pub(super) fn remove(&mut self, name: &HeaderName) {
        if self.common.as_ref().is_some_and(|common| common.has(name)) {
            self.take_apart();
        }
        self.headers.retain(|(known, _)| known != name);
    }

    /// Goes back from what was written to the headers it was written from.
    fn take_apart(&mut self) {
        if let Some(common) = self.common.take() {
            self.headers.splice(0..0, common.headers.iter().cloned());
        }
    }

    /// A request as it is sent.
    pub(super) fn request(&self, method: &Method, path: &str, body: Option<Bytes>) -> Outgoing {
        let copied = body.as_ref().map_or(0, Bytes::len);
        let copied = if copied <= COPIED_UP_TO { copied } else { 0 };
        let common = self.common.as_ref().map_or(&[][..], |common| &common.text);
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
        let size = path.len() + common.len() + headers.sum::<usize>() + copied + 64;
        let mut text = Vec::with_capacity(size);
        for part in [method.as_str(), " ", path, " HTTP/1.1\r\n"] {
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(common);
        for (name, value) in &self.headers {
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
    use ::http::header::{ACCEPT, AUTHORIZATION, HOST};

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

    #[test]
    fn what_is_common_is_written_once_and_can_still_be_changed() {
        let mut first = Heading::with_capacity(2);
        first.set(HOST, HeaderValue::from_static("a"));
        first.set(ACCEPT, HeaderValue::from_static("*/*"));
        let common = first.common();
        let text = |heading: &Heading| heading.request(&Method::GET, "/", None).start;

        let mut more = Heading::of(common.clone());
        more.set(AUTHORIZATION, HeaderValue::from_static("b"));
        assert_eq!(text(&more), "GET / HTTP/1.1\r\nhost: a\r\naccept: */*\r\nauthorization: b\r\n\r\n");
        more.set(ACCEPT, HeaderValue::from_static("text/html"));
        assert_eq!(text(&more), "GET / HTTP/1.1\r\nhost: a\r\naccept: text/html\r\nauthorization: b\r\n\r\n");

        let mut less = Heading::of(common.clone());
        less.remove(&AUTHORIZATION);
        less.remove(&HOST);
        assert_eq!(text(&less), "GET / HTTP/1.1\r\naccept: */*\r\n\r\n");
        assert_eq!(
            text(&Heading::of(common)),
            "GET / HTTP/1.1\r\nhost: a\r\naccept: */*\r\n\r\n",
            "untouched"
        );
    }

    #[test]
    fn a_secret_is_not_shown() {
        let mut heading = Heading::with_capacity(1);
        let mut key = HeaderValue::from_static("hunter2");
        key.set_sensitive(true);
        heading.set(AUTHORIZATION, key);
        let shown = format!("{:?}", heading.common());
        assert_eq!(shown, r#"Common([("authorization", Sensitive)])"#);
    }
}
