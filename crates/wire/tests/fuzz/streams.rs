//! Event streams: chunks make no difference, and a decoder of whole texts finds the same events.

use crate::mutate::{chunks, corpus, fuzz};
use bytes::Bytes;
use std::path::Path;
use std::time::Duration;
use toolbooth_wire::sse::{SseDecoder, SseEvent};

const FRAGMENTS: [&[u8]; 28] = [
    b"data: ",
    b"data:",
    b"data",
    b"data\n",
    b"data: {\"id\":1}\n\n",
    b"event: x\n",
    b"event:\n",
    b"id: 7\n",
    b"id\n",
    b"id: a\0\n",
    b"retry: 10\n",
    b"retry: x\n",
    b": comment\n",
    b":",
    b" ",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\r",
    b"\r\n",
    b"\r\n\r\n",
    b"\xef\xbb\xbf",
    b"\xef\xbb",
    b"\xff",
    b"\0",
    "é".as_bytes(),
    b"DATA: a\n",
    b"a text of some length that goes over a small limit",
];

/// Everything that a decoder returns: events, the heads of events that were too long, the last id and the retry time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Decoded {
    items: Vec<Result<SseEvent, Bytes>>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = SseDecoder::new(limit);
    let mut items = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => items.push(Ok(event)),
                Ok(None) => break,
                Err(too_long) => items.push(Err(too_long.head)),
            }
        }
    }
    Decoded { items, last_id: decoder.last_id().map(str::to_owned), retry: decoder.retry() }
}

/// Decodes a whole text, line by line, as the HTML specification describes it; events with a type need no data.
fn decode_simply(text: &[u8]) -> Decoded {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut decoded = Decoded::default();
    let mut event = SseEvent::default();
    let mut data: Option<Vec<u8>> = None;
    for line in lines(text) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = String::from_utf8_lossy(value).into_owned();
        match name {
            b"" if line.is_empty() => {
                let mut ended = std::mem::take(&mut event);
                let data = data.take();
                if data.is_some() || ended.kind.is_some() {
                    ended.data = data.unwrap_or_default().into();
                    decoded.items.push(Ok(ended));
                }
            }
            b"data" => match &mut data {
                Some(data) => data.extend([b"\n", value].concat()),
                None => data = Some(value.to_vec()),
            },
            b"event" => event.kind = Some(text).filter(|kind| !kind.is_empty()),
            b"id" if !value.contains(&0) => {
                event.id = Some(text.clone());
                decoded.last_id = Some(text);
            }
            b"retry" if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                if let Ok(millis) = text.parse() {
                    decoded.retry = Some(Duration::from_millis(millis));
                }
            }
            _ => {}
        }
    }
    decoded
}

/// The complete lines of a text, which end with LF, CRLF or CR.
fn lines(mut text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        lines.push(&text[..end]);
        let length = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
        text = &text[end + length..];
    }
    lines
}

fn streams() -> Vec<(String, Vec<u8>)> {
    corpus(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/sse"))
}

#[test]
fn the_corpus_is_decoded_the_same_for_every_split() {
    for (name, text) in streams() {
        assert_eq!(decode(1 << 20, [&text[..]]), decode_simply(&text), "{name}");
        for limit in [8, 64, 1 << 20] {
            let whole = decode(limit, [&text[..]]);
            assert_eq!(decode(limit, text.chunks(1)), whole, "{name} byte by byte, limit {limit}");
            for at in 0..=text.len() {
                let (first, second) = text.split_at(at);
                assert_eq!(decode(limit, [first, second]), whole, "{name} split at {at}, limit {limit}");
            }
        }
    }
}

#[test]
fn mutated_streams_are_decoded_the_same_for_every_split() {
    let corpus: Vec<Vec<u8>> = streams().into_iter().map(|(_, text)| text).collect();
    fuzz(&corpus, &FRAGMENTS, |text, random| {
        assert_eq!(decode(1 << 20, [text]), decode_simply(text), "the simple decoder");
        for limit in [1 + random.below(100), 1 << 20] {
            let whole = decode(limit, [text]);
            assert_eq!(decode(limit, chunks(text, random)), whole, "limit {limit}");
            assert_eq!(decode(limit, text.chunks(1)), whole, "byte by byte, limit {limit}");
        }
    });
}
