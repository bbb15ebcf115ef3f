//! Newline framing with a length limit: splits a server's output into lines without copying them.

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Buffer space for a read from a quiet server.
const QUIET_READ_BYTES: usize = 8 * 1024;
/// Buffer space for a read from a busy server.
const BUSY_READ_BYTES: usize = 64 * 1024;
/// A line longer than this does not leave its buffer with the reader.
const LARGE_LINE_BYTES: usize = 256 * 1024;
/// Number of bytes kept of each end of an overlong line.
const EDGE_BYTES: usize = 256;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An item of a stream of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineFrame {
    /// A line without its line break and without a byte order mark; never empty.
    Line(Bytes),
    /// A line exceeds the limit. Reported immediately, while it may still be arriving.
    TooLong {
        /// The limit in bytes.
        limit: usize,
        /// The first 256 bytes of the line.
        prefix: Bytes,
    },
    /// The overlong line has ended; it was read and dropped.
    Skipped {
        /// Its total length in bytes.
        discarded: u64,
        /// Its last 256 bytes, where some servers put the id.
        suffix: Bytes,
    },
    /// The stream ended in the middle of this line.
    Partial(Bytes),
}

/// Splits a stream into lines of limited length. [`next`](LineReader::next) is cancel safe.
#[derive(Debug)]
pub struct LineReader<R> {
    source: R,
    limit: usize,
    buffer: BytesMut,
    /// How much of the buffer is known to contain no newline.
    searched: usize,
    read_bytes: usize,
    state: LineState,
}

#[derive(Debug)]
enum LineState {
    Reading,
    /// Inside an overlong line.
    Skipping {
        discarded: u64,
        suffix: Vec<u8>,
    },
    Ended,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes from `source`.
    pub fn new(source: R, limit: usize) -> Self {
        Self {
            source,
            limit,
            buffer: BytesMut::new(),
            searched: 0,
            read_bytes: QUIET_READ_BYTES,
            state: LineState::Reading,
        }
    }

    /// Reads the next frame; `None` at the end of the stream. Empty lines are skipped.
    pub async fn next(&mut self) -> io::Result<Option<LineFrame>> {
        loop {
            if let Some(frame) = self.cut() {
                return Ok(Some(frame));
            }
            if let LineState::Ended = self.state {
                return Ok(None);
            }
            self.make_room();
            let room = self.buffer.capacity() - self.buffer.len();
            let count = self.source.read_buf(&mut self.buffer).await?;
            self.read_bytes = if count == room { BUSY_READ_BYTES } else { QUIET_READ_BYTES };
            if count == 0 {
                return Ok(self.end());
            }
        }
    }

    /// Takes the next frame from the buffer; `None` if more must be read.
    fn cut(&mut self) -> Option<LineFrame> {
        while let LineState::Reading = self.state {
            let Some(length) = memchr(b'\n', &self.buffer[self.searched..]).map(|at| at + self.searched)
            else {
                self.searched = self.buffer.len();
                return (self.buffer.len() > self.limit).then(|| self.too_long());
            };
            if length > self.limit {
                return Some(self.too_long());
            }
            let line = trimmed(self.take(length + 1).freeze().slice(..length));
            if !line.is_empty() {
                return Some(LineFrame::Line(line));
            }
        }
        self.skip()
    }

    fn too_long(&mut self) -> LineFrame {
        // A copy, so that 256 bytes do not keep the whole buffer alive.
        let prefix = Bytes::copy_from_slice(&self.buffer[..EDGE_BYTES.min(self.limit + 1)]);
        self.searched = 0;
        self.state = LineState::Skipping { discarded: 0, suffix: Vec::new() };
        LineFrame::TooLong { limit: self.limit, prefix }
    }

    /// Drops the buffered part of an overlong line.
    fn skip(&mut self) -> Option<LineFrame> {
        let LineState::Skipping { discarded, suffix } = &mut self.state else { return None };
        let end = memchr(b'\n', &self.buffer);
        let part = &self.buffer[..end.unwrap_or(self.buffer.len())];
        *discarded += part.len() as u64;
        keep_last(suffix, part);
        match end {
            None => {
                match self.buffer.capacity() > LARGE_LINE_BYTES {
                    true => self.buffer = BytesMut::new(),
                    false => self.buffer.clear(),
                }
                None
            }
            Some(end) => {
                let frame = self.skipped();
                let _ = self.take(end + 1);
                self.state = LineState::Reading;
                frame
            }
        }
    }

    fn skipped(&mut self) -> Option<LineFrame> {
        let LineState::Skipping { discarded, suffix } = &mut self.state else { return None };
        Some(LineFrame::Skipped { discarded: *discarded, suffix: std::mem::take(suffix).into() })
    }

    fn end(&mut self) -> Option<LineFrame> {
        let last = match self.state {
            LineState::Reading => {
                let line = trimmed(self.buffer.split().freeze());
                (!line.is_empty()).then_some(LineFrame::Partial(line))
            }
            LineState::Skipping { .. } => self.skipped(),
            LineState::Ended => None,
        };
        self.state = LineState::Ended;
        last
    }

    /// Reserves buffer space for the next read.
    fn make_room(&mut self) {
        // A growing line is read in steps that grow with it, to limit copies and reads.
        let length = self.buffer.len();
        let step = self.read_bytes.max(length.min((self.limit + 1).saturating_sub(length)));
        if self.buffer.capacity() - length < QUIET_READ_BYTES {
            self.buffer.reserve(step);
        }
    }

    /// Takes the first bytes from the buffer.
    fn take(&mut self, length: usize) -> BytesMut {
        let taken = self.buffer.split_to(length);
        self.searched = 0;
        if length > LARGE_LINE_BYTES {
            // The line takes its memory with it, instead of leaving it with this reader.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        taken
    }
}

/// Removes the carriage return and the byte order mark.
fn trimmed(mut line: Bytes) -> Bytes {
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    if line.starts_with(BYTE_ORDER_MARK) {
        let _ = line.split_to(BYTE_ORDER_MARK.len());
    }
    line
}

fn keep_last(kept: &mut Vec<u8>, part: &[u8]) {
    let fresh = &part[part.len().saturating_sub(EDGE_BYTES)..];
    let surplus = (kept.len() + fresh.len()).saturating_sub(EDGE_BYTES);
    kept.drain(..surplus);
    kept.extend_from_slice(fresh);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::ReadBuf;

    /// Yields its bytes in the given pieces.
    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(mut piece) = self.0.pop_front() {
                let rest = piece.split_off(piece.len().min(out.remaining()));
                out.put_slice(&piece);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    fn frames(bytes: &[u8], sizes: &[usize], limit: usize) -> Vec<LineFrame> {
        let mut pieces = VecDeque::new();
        let mut rest = bytes;
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*sizes.next().unwrap_or(&rest.len())));
            pieces.push_back(piece.to_vec());
            rest = after;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut reader = LineReader::new(Pieces(pieces), limit);
            let mut frames = Vec::new();
            while let Some(frame) = reader.next().await.unwrap() {
                frames.push(frame);
            }
            assert_eq!(reader.next().await.unwrap(), None, "the end stays the end");
            frames
        })
    }

    fn line(text: &'static str) -> LineFrame {
        LineFrame::Line(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn line_ends_and_marks_are_removed() {
        let cases: [(&[u8], Vec<LineFrame>); 6] = [
            (b"a\nb\r\n\n\r\nc\n", vec![line("a"), line("b"), line("c")]),
            (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", vec![line("a"), line("b")]),
            (b"a\rb\n", vec![line("a\rb")]),
            (b"a\nhalf", vec![line("a"), LineFrame::Partial("half".into())]),
            (b"", vec![]),
            (b"\n\n", vec![]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(frames(bytes, &[], 100), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_reported_and_skipped() {
        let too_long = LineFrame::TooLong { limit: 4, prefix: "abcde".into() };
        let skipped = LineFrame::Skipped { discarded: 7, suffix: "abcdefg".into() };
        assert_eq!(
            frames(b"abcd\nabcdefg\nok\n", &[3], 4),
            [line("abcd"), too_long.clone(), skipped.clone(), line("ok")]
        );
        assert_eq!(frames(b"abcdefg", &[], 4), [too_long, skipped]);
    }

    #[tokio::test]
    async fn an_endless_line_is_reported_immediately_and_not_kept() {
        let length = 256 << 20;
        let mut reader = LineReader::new(tokio::io::repeat(b'x').take(length), 1 << 20);
        assert!(matches!(reader.next().await.unwrap(), Some(LineFrame::TooLong { .. })));
        assert!(reader.source.limit() > length - (3 << 20), "reported before much more was read");
        let Some(LineFrame::Skipped { discarded, .. }) = reader.next().await.unwrap() else {
            panic!("skipped")
        };
        assert_eq!(discarded, length);
        assert!(reader.buffer.capacity() <= LARGE_LINE_BYTES);
    }

    #[test]
    fn large_lines_release_their_memory() {
        let mut bytes = vec![b'x'; 3 << 20];
        bytes.extend_from_slice(b"\nsmall\n");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut reader = LineReader::new(&bytes[..], 4 << 20);
            let Some(LineFrame::Line(large)) = reader.next().await.unwrap() else { panic!("a line") };
            assert_eq!(large.len(), 3 << 20);
            drop(large);
            assert_eq!(reader.next().await.unwrap(), Some(line("small")));
            assert!(reader.buffer.capacity() <= BUSY_READ_BYTES);
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_chunking_gives_the_same_frames(
            words in prop::collection::vec(
                prop_oneof![
                    Just(b"\n".to_vec()),
                    Just(b"\r\n".to_vec()),
                    Just(BYTE_ORDER_MARK.to_vec()),
                    prop::collection::vec(any::<u8>(), 0..8),
                    (1usize..600).prop_map(|length| vec![b'x'; length]),
                ],
                0..24,
            ),
            sizes in prop::collection::vec(1usize..300, 1..8),
            limit in prop_oneof![Just(0usize), 1usize..10, 100usize..700],
        ) {
            let bytes = words.concat();
            prop_assert_eq!(frames(&bytes, &[], limit), frames(&bytes, &sizes, limit));
            prop_assert_eq!(frames(&bytes, &[1], limit), frames(&bytes, &sizes, limit));
        }
    }
}
