//! Tests of the decoder: line ends, limits, and chunks of any size.

use super::*;
use proptest::prelude::*;

/// An item of a stream: an event, or the head of one that was too long.
type DecodedItem = Result<SseEvent, Bytes>;

fn decode<'a>(
    limit: usize,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<DecodedItem>, Option<String>, Option<Duration>) {
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
    (items, decoder.last_id().map(str::to_owned), decoder.retry())
}

fn events(text: &str) -> Vec<SseEvent> {
    let (items, ..) = decode(1 << 20, [text.as_bytes()]);
    items.into_iter().map(|item| item.expect("short")).collect()
}

fn event(kind: Option<&str>, data: &str, id: Option<&str>) -> SseEvent {
    SseEvent {
        kind: kind.map(Into::into),
        data: Bytes::copy_from_slice(data.as_bytes()),
        id: id.map(Into::into),
    }
}

#[test]
fn events_are_read_with_every_line_end() {
    for end in ["\n", "\r\n", "\r"] {
        let text =
            [": hi", "event: endpoint", "data: /x", "", "id: 7", "data:a", "data: b", "", "data", "", ""]
                .join(end);
        let expected =
            [event(Some("endpoint"), "/x", None), event(None, "a\nb", Some("7")), event(None, "", None)];
        assert_eq!(events(&text), expected, "{end:?}");
    }
}

#[test]
fn fields_are_read_as_the_specification_says() {
    let cases = [
        ("data:  two\n\n", vec![event(None, " two", None)]), // Only one space is removed.
        ("data\ndata\n\n", vec![event(None, "\n", None)]),
        ("Data: a\nx: b\n data: c\n\n", vec![]), // Names are exact.
        ("data: a", vec![]),                     // An incomplete event is dropped.
        ("event: x\nevent:\ndata: a\n\n", vec![event(None, "a", None)]),
        ("id: 1\n\ndata: a\n\n", vec![event(None, "a", None)]),
        ("id: 1\0\ndata: a\n\n", vec![event(None, "a", None)]),
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec![event(None, "a", None)]), // A mark counts only at the start.
        (":data: a\ndata:b:c\n\n", vec![event(None, "b:c", None)]),
    ];
    for (text, expected) in cases {
        assert_eq!(events(text), expected, "{text:?}");
    }
}

/// Differs from the specification: the `endpoint` event of the legacy transport may come without data.
#[test]
fn an_event_with_a_type_and_without_data_is_returned() {
    assert_eq!(events("event: endpoint\n\n"), [event(Some("endpoint"), "", None)]);
}

#[test]
fn the_retry_time_and_the_last_id_are_kept() {
    let text = "retry: 250\nid: a\n\nretry: +9\nretry: 1.5\nretry:\ndata: x\n\nid: b\0\n\n";
    let (_, last_id, retry) = decode(100, [text.as_bytes()]);
    assert_eq!((last_id.as_deref(), retry), (Some("a"), Some(Duration::from_millis(250))));
}

#[test]
fn an_event_over_the_limit_is_skipped_and_reported_before_it_ends() {
    let mut decoder = SseDecoder::new(100);
    decoder.push(&[b'x'; 101]);
    assert_eq!(decoder.next_event(), Err(EventTooLong { limit: 100, head: Bytes::new() }));
    decoder.push(&[b'x'; 1000]);
    assert_eq!(decoder.next_event(), Ok(None));
    decoder.push(b"\ndata: skipped\n\ndata: read\n\n");
    assert_eq!(decoder.next_event(), Ok(Some(event(None, "read", None))));
    for end in ["\n", "\r\n", "\r"] {
        let long = format!("data: {}", "y".repeat(90));
        let text = ["data: a", "", "id: 1", &long, &long, "event: e", "", "data: b", "", ""].join(end);
        let (items, ..) = decode(100, [text.as_bytes()]);
        let head = Bytes::from(format!("{}\nyyy", "y".repeat(90)));
        assert_eq!(items, [Ok(event(None, "a", None)), Err(head), Ok(event(None, "b", None))], "{end:?}");
    }
}

/// Streams that are nearly right: fields, line ends and other bytes in any order.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"data: ",
        b"data:",
        b"data",
        b"event: x",
        b"id: 7",
        b"retry: 10",
        b": comment",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\r\n\r\n",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\xff",
        b"\0",
        b" ",
        b":",
        "é".as_bytes(),
        b"{\"id\":1}",
        b"a text of some length that goes over a small limit",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn chunks_make_no_difference(text in stream(), cuts in prop::collection::vec(1_usize..9, 0..60), limit in 1_usize..90) {
        let whole = decode(limit, [&text[..]]);
        let mut rest = &text[..];
        let mut chunks = Vec::new();
        for cut in cuts {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks.push(rest);
        prop_assert_eq!(decode(limit, chunks), whole.clone());
        prop_assert_eq!(decode(limit, text.chunks(1)), whole);
    }

    #[test]
    fn written_events_are_read_back(data in "[ -~]{0,40}(\n[ -~]{0,10})?") {
        let written = write_event(data.as_bytes(), Some("9"));
        let (items, ..) = decode(1 << 20, [&written[..]]);
        prop_assert_eq!(items, vec![Ok(event(Some("message"), &data, Some("9")))]);
    }
}
