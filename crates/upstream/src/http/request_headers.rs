//! Request heads, serialised directly into the bytes that are sent.

use ::http::header::CONTENT_LENGTH;
use ::http::{HeaderName, HeaderValue, Method};
use bytes::Bytes;
use std::sync::Arc;

/// Messages up to this size are copied after their head, so that one buffer is sent.
const MAX_COPIED_BYTES: usize = 16 << 10;

/// The headers of a request. There are only a few, so a linear search is faster than hashing.
#[derive(Debug)]
pub(super) struct RequestHeaders {
    /// Headers that precede the others, serialised once for many requests.
    common: Option<Arc<CommonHeaders>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Headers shared by many requests, in serialised form.
pub(super) struct CommonHeaders {
    headers: Vec<(HeaderName, HeaderValue)>,
    text: Vec<u8>,
}

impl std::fmt::Debug for CommonHeaders {
    /// Omits the serialised text, because it does not know which values are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CommonHeaders").field(&self.headers).finish()
    }
}

impl CommonHeaders {
    fn has(&self, name: &HeaderName) -> bool {
        self.headers.iter().any(|(known, _)| known == name)
    }
}

impl RequestHeaders {
    /// Creates an empty set with room for `headers`.
    pub(super) fn with_capacity(headers: usize) -> Self {
        Self { common: None, headers: Vec::with_capacity(headers) }
    }

    /// Starts from shared headers.
    pub(super) fn of(common: Arc<CommonHeaders>) -> Self {
        Self { common: Some(common), headers: Vec::new() }
    }

    /// Serialises the current headers so that other requests can start from them.
    pub(super) fn common(mut self) -> Arc<CommonHeaders> {
        self.take_apart();
        let mut text = Vec::new();
        for (name, value) in &self.headers {
            header(&mut text, name, value.as_bytes());
        }
        Arc::new(CommonHeaders { headers: self.headers, text })
    }

    /// Sets a header and replaces an earlier value.
    pub(super) fn set(&mut self, name: HeaderName, value: HeaderValue) {
        if self.common.as_ref().is_some_and(|common| common.has(&name)) {
            self.take_apart();
        }
        match self.headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.headers.push((name, value)),
        }
    }

    /// Removes a header.
    pub(super) fn remove(&mut self, name: &HeaderName) {
        if self.common.as_ref().is_some_and(|common| common.has(name)) {
            self.take_apart();
        }
        self.headers.retain(|(known, _)| known != name);
    }

    /// Converts the shared headers back to individual ones.
    fn take_apart(&mut self) {
        if let Some(common) = self.common.take() {
            self.headers.splice(0..0, common.headers.iter().cloned());
        }
    }

    /// Serialises a request.
    pub(super) fn request(&self, method: &Method, path: &str, body: Option<Bytes>) -> RawRequest {
        let copied = body.as_ref().map_or(0, Bytes::len);
        let copied = if copied <= MAX_COPIED_BYTES { copied } else { 0 };
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
            Some(body) if body.len() > MAX_COPIED_BYTES => body,
            Some(body) => {
                text.extend_from_slice(&body);
                Bytes::new()
            }
            None => Bytes::new(),
        };
        RawRequest { start: text.into(), rest }
    }
}

fn header(text: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

/// A serialised request. It can be sent again as long as no part of it was sent.
#[derive(Debug, Clone)]
pub(super) struct RawRequest {
    /// The head, followed by the message if it is short.
    pub(super) start: Bytes,
    /// A long message.
    pub(super) rest: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::header::{ACCEPT, AUTHORIZATION, HOST};

    #[test]
    fn a_later_value_wins_and_a_long_message_is_not_copied() {
        let mut heading = RequestHeaders::with_capacity(4);
        heading.set(HOST, HeaderValue::from_static("a"));
        heading.set(ACCEPT, HeaderValue::from_static("text/html"));
        heading.set(ACCEPT, HeaderValue::from_static("application/json"));
        let short = heading.request(&Method::POST, "/mcp?x=1", Some(Bytes::from_static(b"{}")));
        let head = "POST /mcp?x=1 HTTP/1.1\r\nhost: a\r\naccept: application/json\r\n";
        assert_eq!(short.start, format!("{head}content-length: 2\r\n\r\n{{}}"));
        assert!(short.rest.is_empty());

        let long =
            heading.request(&Method::POST, "/mcp?x=1", Some(Bytes::from(vec![b' '; MAX_COPIED_BYTES + 1])));
        assert_eq!(long.start, format!("{head}content-length: {}\r\n\r\n", MAX_COPIED_BYTES + 1));
        assert_eq!(long.rest.len(), MAX_COPIED_BYTES + 1);

        let none = heading.request(&Method::GET, "/", None);
        assert_eq!(none.start, "GET / HTTP/1.1\r\nhost: a\r\naccept: application/json\r\n\r\n");
    }

    #[test]
    fn common_headers_can_be_overridden_and_removed() {
        let mut first = RequestHeaders::with_capacity(2);
        first.set(HOST, HeaderValue::from_static("a"));
        first.set(ACCEPT, HeaderValue::from_static("*/*"));
        let common = first.common();
        let text = |heading: &RequestHeaders| heading.request(&Method::GET, "/", None).start;

        let mut more = RequestHeaders::of(common.clone());
        more.set(AUTHORIZATION, HeaderValue::from_static("b"));
        assert_eq!(text(&more), "GET / HTTP/1.1\r\nhost: a\r\naccept: */*\r\nauthorization: b\r\n\r\n");
        more.set(ACCEPT, HeaderValue::from_static("text/html"));
        assert_eq!(text(&more), "GET / HTTP/1.1\r\nhost: a\r\naccept: text/html\r\nauthorization: b\r\n\r\n");

        let mut less = RequestHeaders::of(common.clone());
        less.remove(&AUTHORIZATION);
        less.remove(&HOST);
        assert_eq!(text(&less), "GET / HTTP/1.1\r\naccept: */*\r\n\r\n");
        assert_eq!(
            text(&RequestHeaders::of(common)),
            "GET / HTTP/1.1\r\nhost: a\r\naccept: */*\r\n\r\n",
            "the shared headers are unchanged"
        );
    }

    #[test]
    fn debug_output_hides_sensitive_values() {
        let mut heading = RequestHeaders::with_capacity(1);
        let mut key = HeaderValue::from_static("hunter2");
        key.set_sensitive(true);
        heading.set(AUTHORIZATION, key);
        let shown = format!("{:?}", heading.common());
        assert_eq!(shown, r#"CommonHeaders([("authorization", Sensitive)])"#);
    }
}
