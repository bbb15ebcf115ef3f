//! The head of an HTTP response: status, headers in use, and body framing.

use crate::retry_after;
use ::http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER, TRANSFER_ENCODING,
    WWW_AUTHENTICATE,
};
use ::http::{HeaderValue, StatusCode};
use std::mem::MaybeUninit;
use std::time::Duration;
use toolbooth_wire::mirror;

/// Maximum size of a response head.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum number of response headers.
const MAX_HEADERS: usize = 100;

/// The parsed head of a response, limited to the headers in use.
#[derive(Debug)]
pub(super) struct ResponseHead {
    /// The status.
    pub(super) status: StatusCode,
    /// The type of the body.
    pub(super) kind: BodyKind,
    /// The content length, if given.
    pub(super) length: Option<u64>,
    /// The session id that the server opened or continues.
    pub(super) session: Option<HeaderValue>,
    /// The `WWW-Authenticate` headers, joined with commas.
    pub(super) challenge: Option<String>,
    /// How long to wait before the next request, for 429 and 503.
    pub(super) retry_after: Option<Duration>,
    /// The redirect target, for redirect statuses.
    pub(super) location: Option<Box<[u8]>>,
    /// How the body ends.
    pub(super) framing: Framing,
    /// Whether the connection stays open after the body.
    pub(super) reuse: ConnectionReuse,
}

/// The type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// An event stream.
    Events,
    /// Anything else.
    Other,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After this number of bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    UntilClosed,
}

/// What happens to the connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionReuse {
    /// It can be reused.
    Kept,
    /// It is closed.
    Closed,
}

/// Parses a head and returns its size; `None` if it is incomplete.
pub(super) fn read(text: &[u8]) -> Result<Option<(ResponseHead, usize)>, &'static str> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, text, &mut headers);
    let taken = match parsed.map_err(|_| "its answer is not HTTP/1.1")? {
        httparse::Status::Complete(taken) => taken,
        httparse::Status::Partial if text.len() > MAX_HEAD_BYTES => {
            return Err("the head of its answer is too long");
        }
        httparse::Status::Partial => return Ok(None),
    };
    let status =
        response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("its answer has no status")?;
    let mut head = ResponseHead {
        status,
        kind: BodyKind::Other,
        length: None,
        session: None,
        challenge: None,
        retry_after: None,
        location: None,
        framing: Framing::UntilClosed,
        reuse: if response.version == Some(1) { ConnectionReuse::Kept } else { ConnectionReuse::Closed },
    };
    let mut coding = None;
    let (mut wait, mut date) = (None, None);
    for header in response.headers.iter() {
        let is = |name: &::http::HeaderName| header.name.eq_ignore_ascii_case(name.as_str());
        if is(&CONTENT_TYPE) {
            let events = b"text/event-stream";
            if header.value.get(..events.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(events)) {
                head.kind = BodyKind::Events;
            }
        } else if is(&CONTENT_LENGTH) {
            let length = length(header.value).ok_or("its answer has no readable length")?;
            if head.length.is_some_and(|other| other != length) {
                return Err("its answer has two lengths");
            }
            head.length = Some(length);
        } else if is(&TRANSFER_ENCODING) {
            coding = Some(header.value);
        } else if is(&CONNECTION) {
            if tokens(header.value).any(|token| token.eq_ignore_ascii_case(b"close")) {
                head.reuse = ConnectionReuse::Closed;
            }
        } else if is(&mirror::SESSION_ID) {
            head.session = HeaderValue::from_bytes(header.value).ok();
        } else if is_overload(status) && is(&RETRY_AFTER) {
            wait = std::str::from_utf8(header.value).ok();
        } else if is_overload(status) && is(&DATE) {
            date = std::str::from_utf8(header.value).ok();
        } else if status.is_redirection() && is(&LOCATION) {
            head.location = Some(header.value.into());
        } else if is(&WWW_AUTHENTICATE)
            && let Some(text) = std::str::from_utf8(header.value).ok().filter(|text| text.is_ascii())
        {
            let challenge = head.challenge.get_or_insert_default();
            if !challenge.is_empty() {
                challenge.push_str(", ");
            }
            challenge.push_str(text);
        }
    }
    head.frame(coding);
    head.retry_after = wait.and_then(|wait| retry_after::read(wait, date));
    Ok(Some((head, taken)))
}

impl ResponseHead {
    /// Determines how the body ends; a transfer coding takes precedence over a length.
    fn frame(&mut self, coding: Option<&[u8]>) {
        if matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || self.status.is_informational()
        {
            self.framing = Framing::Length(0);
        } else if let Some(coding) = coding {
            self.length = None;
            if tokens(coding).last().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked")) {
                self.framing = Framing::Chunked;
            }
        } else if let Some(length) = self.length {
            self.framing = Framing::Length(length);
        }
        if self.framing == Framing::UntilClosed {
            self.reuse = ConnectionReuse::Closed;
        }
    }
}

/// Whether a status means that the server has too many requests and has not processed this one.
pub(super) fn is_overload(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// The members of a comma-separated header.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Accepts digits only: other parsers may interpret signs or spaces differently.
fn length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn framed(head: &str) -> Result<(Framing, ConnectionReuse), &'static str> {
        let text = format!("HTTP/1.1 {head}\r\n\r\n");
        read(text.as_bytes()).map(|read| {
            let (head, taken) = read.unwrap();
            assert_eq!(taken, text.len());
            (head.framing, head.reuse)
        })
    }

    #[test]
    fn the_head_determines_the_body_framing() {
        use {ConnectionReuse::*, Framing::*};
        let cases = [
            ("200 OK\r\ncontent-length: 5", Ok((Length(5), Kept))),
            ("200 OK\r\nContent-Length: 5\r\ncontent-length: 5", Ok((Length(5), Kept))),
            ("200 OK\r\ncontent-length: 5\r\ncontent-length: 6", Err("its answer has two lengths")),
            ("200 OK\r\ncontent-length: +5", Err("its answer has no readable length")),
            ("200 OK\r\ncontent-length: 99999999999999999999", Err("its answer has no readable length")),
            ("200 OK\r\ncontent-length: 5\r\nconnection: Close", Ok((Length(5), Closed))),
            ("200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5", Ok((Chunked, Kept))),
            ("200 OK\r\ntransfer-encoding: gzip, Chunked", Ok((Chunked, Kept))),
            ("200 OK\r\ntransfer-encoding: gzip", Ok((UntilClosed, Closed))),
            ("200 OK", Ok((UntilClosed, Closed))),
            ("204 No Content", Ok((Length(0), Kept))),
            ("304 Not Modified\r\ncontent-length: 9", Ok((Length(0), Kept))),
        ];
        for (head, expected) in cases {
            assert_eq!(framed(head), expected, "{head}");
        }
    }

    #[test]
    fn header_names_are_case_insensitive() {
        let text = "HTTP/1.1 401 No\r\nCONTENT-TYPE: Text/Event-Stream; x=y\r\nMcp-Session-Id: s\r\n\
            www-authenticate: Bearer a\r\nWWW-Authenticate: Basic\r\ncontent-length: 0\r\n\r\nrest";
        let (head, taken) = read(text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.status, head.kind), (StatusCode::UNAUTHORIZED, BodyKind::Events));
        assert_eq!(head.session.unwrap(), "s");
        assert_eq!(head.challenge.unwrap(), "Bearer a, Basic");
        assert_eq!(&text[taken..], "rest");
    }

    #[test]
    fn a_head_may_arrive_in_pieces_but_has_a_size_limit() {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        for end in 0..text.len() {
            assert!(matches!(read(&text.as_bytes()[..end]), Ok(None)), "{end}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MAX_HEAD_BYTES));
        assert!(read(endless.as_bytes()).is_err());
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(MAX_HEADERS + 1));
        assert!(read(many.as_bytes()).is_err());
        assert!(read(b"SSH-2.0-OpenSSH\r\n").is_err());
    }

    // Once, `Retry-After` was ignored.
    #[test]
    fn a_requested_wait_is_read_for_overload_only() {
        let cases = [
            ("429 Too Many Requests", "1", Some(1)),
            ("503 Service Unavailable", " 7 ", Some(7)),
            ("429 Too Many Requests", "99999999", Some(3600)),
            ("429 Too Many Requests", "Wed, 18 Nov 2026 00:00:05 GMT", Some(5)),
            ("429 Too Many Requests", "-1", None),
            ("200 OK", "1", None),
        ];
        for (status, value, expected) in cases {
            let date = "date: Wed, 18 Nov 2026 00:00:00 GMT";
            let text =
                format!("HTTP/1.1 {status}\r\nretry-after: {value}\r\n{date}\r\ncontent-length: 0\r\n\r\n");
            let (head, _) = read(text.as_bytes()).expect("a head").expect("a whole head");
            assert_eq!(head.retry_after, expected.map(Duration::from_secs), "{status} {value}");
        }
    }
}
