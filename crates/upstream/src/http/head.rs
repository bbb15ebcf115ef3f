//! The head of an HTTP answer: what it says of itself, and how its body ends.

use ::http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use ::http::{HeaderValue, StatusCode};
use std::mem::MaybeUninit;
use toolbooth_wire::mirror;

/// The longest head that is read.
pub(super) const LONGEST_HEAD: usize = 64 << 10;
/// How many headers an answer may have.
const MOST_HEADERS: usize = 100;

/// What the head of an answer says, as far as anybody here asks.
#[derive(Debug)]
pub(super) struct AnswerHead {
    /// The status.
    pub(super) status: StatusCode,
    /// What the body is.
    pub(super) kind: Kind,
    /// How long the body is, where that is said.
    pub(super) length: Option<u64>,
    /// The session that the server opened or goes on with.
    pub(super) session: Option<HeaderValue>,
    /// What the server wants to see, in however many headers it said so.
    pub(super) challenge: Option<String>,
    /// Where it sends the client, if that is all it does.
    pub(super) location: Option<Box<[u8]>>,
    /// How the body ends.
    pub(super) framing: Framing,
    /// Whether the server keeps the connection open behind the body.
    pub(super) after: After,
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A stream of events.
    Events,
    /// Anything else.
    Other,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// With its last chunk.
    Chunked,
    /// With the connection.
    UntilClosed,
}

/// What becomes of the connection behind an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// It can be used again.
    Kept,
    /// It is closed.
    Closed,
}

/// Reads a head and how many bytes it takes; nothing, while some of it is to come.
pub(super) fn read(text: &[u8]) -> Result<Option<(AnswerHead, usize)>, &'static str> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, text, &mut headers);
    let taken = match parsed.map_err(|_| "it does not speak HTTP/1.1")? {
        httparse::Status::Complete(taken) => taken,
        httparse::Status::Partial if text.len() > LONGEST_HEAD => {
            return Err("the head of its answer is too long");
        }
        httparse::Status::Partial => return Ok(None),
    };
    let status =
        response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("its answer has no status")?;
    let mut head = AnswerHead {
        status,
        kind: Kind::Other,
        length: None,
        session: None,
        challenge: None,
        location: None,
        framing: Framing::UntilClosed,
        after: if response.version == Some(1) { After::Kept } else { After::Closed },
    };
    let mut coding = None;
    for header in response.headers.iter() {
        let is = |name: &::http::HeaderName| header.name.eq_ignore_ascii_case(name.as_str());
        if is(&CONTENT_TYPE) {
            let events = b"text/event-stream";
            if header.value.get(..events.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(events)) {
                head.kind = Kind::Events;
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
                head.after = After::Closed;
            }
        } else if is(&mirror::SESSION_ID) {
            head.session = HeaderValue::from_bytes(header.value).ok();
        } else if status.is_redirection() && is(&LOCATION) {
            head.location = Some(header.value.into());
        } else if is(&WWW_AUTHENTICATE)
            && let Some(said) = std::str::from_utf8(header.value).ok().filter(|said| said.is_ascii())
        {
            let challenge = head.challenge.get_or_insert_default();
            if !challenge.is_empty() {
                challenge.push_str(", ");
            }
            challenge.push_str(said);
        }
    }
    head.frame(coding);
    Ok(Some((head, taken)))
}

impl AnswerHead {
    /// Settles how the body ends; a coding counts for more than a length.
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
            self.after = After::Closed;
        }
    }
}

/// The members of a header that is a list.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Digits and nothing else: what one side reads as a sign, another may read as something different.
fn length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn framed(head: &str) -> Result<(Framing, After), &'static str> {
        let text = format!("HTTP/1.1 {head}\r\n\r\n");
        read(text.as_bytes()).map(|read| {
            let (head, taken) = read.unwrap();
            assert_eq!(taken, text.len());
            (head.framing, head.after)
        })
    }

    #[test]
    fn a_body_ends_as_its_head_says() {
        use {After::*, Framing::*};
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
    fn what_is_asked_for_is_found_whatever_its_case() {
        let text = "HTTP/1.1 401 No\r\nCONTENT-TYPE: Text/Event-Stream; x=y\r\nMcp-Session-Id: s\r\n\
            www-authenticate: Bearer a\r\nWWW-Authenticate: Basic\r\ncontent-length: 0\r\n\r\nrest";
        let (head, taken) = read(text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.status, head.kind), (StatusCode::UNAUTHORIZED, Kind::Events));
        assert_eq!(head.session.unwrap(), "s");
        assert_eq!(head.challenge.unwrap(), "Bearer a, Basic");
        assert_eq!(&text[taken..], "rest");
    }

    #[test]
    fn a_head_comes_in_pieces_but_not_without_end() {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        for end in 0..text.len() {
            assert!(matches!(read(&text.as_bytes()[..end]), Ok(None)), "{end}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(LONGEST_HEAD));
        assert!(read(endless.as_bytes()).is_err());
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(MOST_HEADERS + 1));
        assert!(read(many.as_bytes()).is_err());
        assert!(read(b"SSH-2.0-OpenSSH\r\n").is_err());
    }
}
