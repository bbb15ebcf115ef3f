//! The last lines of a server's standard error: always drained, limited in size, and safe to show.

use super::preview::preview;
use memchr::memchr;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;
use toolbooth_core::secret::KnownSecrets;

/// Number of lines kept.
const LINES: usize = 200;
/// Number of bytes kept per line.
const LINE_BYTES: usize = 4096;
/// Read size for a busy server: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;
/// Read size for a quiet server.
const QUIET_READ_BYTES: usize = 4 * 1024;
/// Number of characters of a line that are logged.
const LOGGED_CHARS: usize = 400;
/// How many characters are shown of a standard output line that is not a message, and its prefix.
const STRAY_CHARS: usize = 100;
const ON_STDOUT: &str = "(standard output, not a message) ";
/// Rate limit of logging: burst size and refill interval.
const LOGGED_BURST: u32 = 20;
const LOGGED_EVERY: Duration = Duration::from_millis(200);

/// The last lines of a server's standard error, across restarts. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct StderrTail {
    ring: Arc<Mutex<LineRing>>,
    /// Secrets that are masked in kept and logged lines.
    secrets: KnownSecrets,
}

impl StderrTail {
    /// Creates an empty tail.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty tail that masks these secrets.
    pub fn without(secrets: KnownSecrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// A preview of a server's text that is safe to show.
    pub fn shown(&self, text: &[u8], max_chars: usize) -> String {
        // A secret may begin inside the preview and end after it.
        let looked_at = text.len().min(max_chars * 4 + self.secrets.longest_bytes());
        preview(&self.secrets.mask_bytes(&text[..looked_at]), max_chars)
    }

    /// Keeps a line of the gateway's own.
    pub(crate) fn note(&self, line: &str) {
        self.ring().push(line.as_bytes());
    }

    /// The kept lines, oldest first, escaped and truncated.
    pub fn lines(&self) -> Vec<String> {
        // Escaping is deferred until the lines are read, so that a flood costs as little as possible.
        let kept: Vec<Vec<u8>> = self.ring().lines.iter().cloned().collect();
        kept.iter().map(|line| preview(line, LINE_BYTES)).collect()
    }

    /// Keeps a preview of a standard output line that is not a message.
    pub fn note_stray(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let shown = format!("{ON_STDOUT}{}", self.shown(line, STRAY_CHARS));
        let mut ring = self.ring();
        ring.strays += 1;
        ring.push(shown.as_bytes());
    }

    /// Number of standard output lines that were not messages.
    pub fn strays(&self) -> u64 {
        self.ring().strays
    }

    /// Total number of lines.
    pub fn total(&self) -> u64 {
        self.ring().total
    }

    /// Starts a task that drains `stderr` to its end and logs some of it under the server's name.
    pub fn follow<R>(&self, server: impl Into<String>, stderr: R) -> tokio::task::JoinHandle<()>
    where
        R: AsyncRead + Unpin + Send + 'static,
    {
        let (tail, server) = (self.clone(), server.into());
        tokio::spawn(async move { tail.drain(&server, stderr).await })
    }

    /// Drains `stderr` to its end. Waits for nothing but the server.
    pub async fn drain<R: AsyncRead + Unpin>(&self, server: &str, mut stderr: R) {
        let mut chunk = vec![0; QUIET_READ_BYTES];
        let mut line = PartialLine { kept: Vec::new(), room: LINE_BYTES + 1 + self.secrets.longest_bytes() };
        let mut log = Log::new();
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            self.take(&chunk[..count], &mut line, &mut |text| log.line(server, text));
            // Most servers are silent for hours and some flood, so the buffer size adapts.
            if count == chunk.len() {
                chunk.resize(READ_BYTES, 0);
            } else if count < QUIET_READ_BYTES {
                chunk.truncate(QUIET_READ_BYTES);
                chunk.shrink_to_fit();
            }
        }
        if !line.kept.is_empty() {
            let kept = self.kept(&line.kept);
            self.ring().push(&kept);
            log.line(server, &kept);
        }
        log.close(server);
    }

    fn take(&self, chunk: &[u8], line: &mut PartialLine, log: &mut dyn FnMut(&[u8])) {
        let mut ring = self.ring();
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            line.push(&rest[..end]);
            let whole = self.kept(line.kept.strip_suffix(b"\r").unwrap_or(&line.kept));
            ring.push(&whole);
            log(&whole);
            line.kept.clear();
            rest = &rest[end + 1..];
        }
        line.push(rest);
    }

    /// Masks and truncates a line. One byte more than is shown is kept, so that the truncation is visible.
    fn kept<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        match self.secrets.mask_bytes(line) {
            Cow::Borrowed(line) => Cow::Borrowed(&line[..line.len().min(LINE_BYTES + 1)]),
            Cow::Owned(mut line) => {
                line.truncate(LINE_BYTES + 1);
                Cow::Owned(line)
            }
        }
    }

    fn ring(&self) -> MutexGuard<'_, LineRing> {
        // Lines are bytes, so a panic cannot have left an inconsistent state.
        self.ring.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[derive(Debug, Default)]
struct LineRing {
    lines: VecDeque<Vec<u8>>,
    total: u64,
    strays: u64,
}

impl LineRing {
    fn push(&mut self, line: &[u8]) {
        self.total += 1;
        // The oldest line's memory is reused, unless it is much larger than needed.
        let mut slot = match self.lines.len() < LINES {
            true => Vec::new(),
            false => self.lines.pop_front().unwrap_or_default(),
        };
        slot.clear();
        slot.shrink_to(line.len().max(256));
        slot.extend_from_slice(line);
        self.lines.push_back(slot);
    }
}

/// A line that is still being received.
struct PartialLine {
    kept: Vec<u8>,
    /// How many bytes are examined: a secret may begin in the kept part and end after it.
    room: usize,
}

impl PartialLine {
    fn push(&mut self, part: &[u8]) {
        let room = self.room.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }
}

/// Logs lines within a rate limit and reports how many were suppressed.
struct Log {
    allowance: u32,
    refilled: Instant,
    suppressed: u64,
}

impl Log {
    fn new() -> Self {
        Self { allowance: LOGGED_BURST, refilled: Instant::now(), suppressed: 0 }
    }

    fn line(&mut self, server: &str, line: &[u8]) {
        if self.allowance == 0 {
            self.refill();
        }
        if self.allowance == 0 {
            self.suppressed += 1;
            return;
        }
        self.allowance -= 1;
        self.close(server);
        let text = preview(line, LOGGED_CHARS);
        tracing::debug!(server.name = server, "server `{server}` stderr: {text}");
    }

    fn refill(&mut self) {
        let earned = self.refilled.elapsed().as_nanos() / LOGGED_EVERY.as_nanos();
        if earned > 0 {
            self.allowance = u32::try_from(earned).unwrap_or(LOGGED_BURST).min(LOGGED_BURST);
            self.refilled = Instant::now();
        }
    }

    fn close(&mut self, server: &str) {
        let suppressed = std::mem::take(&mut self.suppressed);
        if suppressed > 0 {
            tracing::debug!(
                server.name = server,
                "server `{server}` wrote {suppressed} more lines, too fast to log"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_kept() {
        let tail = StderrTail::new();
        let text: String = (0..250).map(|number| format!("line {number}\r\n")).collect();
        tail.drain("mail", text.as_bytes()).await;
        tail.drain("mail", &b"again\nhalf"[..]).await;
        let lines = tail.lines();
        assert_eq!((lines.len(), tail.total()), (200, 252));
        assert_eq!((lines[0].as_str(), lines[197].as_str()), ("line 52", "line 249"));
        assert_eq!(lines[198..], ["again", "half"]);
    }

    #[tokio::test]
    async fn lines_are_cut_and_escaped() {
        let tail = StderrTail::new();
        let long = "x".repeat(1_000_000);
        let text = format!("{long}\n\x1b[31mred\x1b[0m\n{}\n", "\0".repeat(5000));
        tail.drain("mail", text.as_bytes()).await;
        let lines = tail.lines();
        assert_eq!((lines[0].chars().count(), lines[0].ends_with("x…")), (4096, true));
        assert_eq!(lines[1], r"\x1b[31mred\x1b[0m");
        assert!(lines[2].len() <= 4100 && lines[2].ends_with(r"\x00…"));
    }

    #[tokio::test]
    async fn a_secret_is_neither_kept_nor_cut_in_half() {
        let tail = StderrTail::without(KnownSecrets::new(["correct-horse-battery"]));
        let text = format!("key correct-horse-battery\n{}correct-horse-battery\n", "x".repeat(4090));
        tail.drain("mail", text.as_bytes()).await;
        tail.note_stray(format!("{}correct-horse-battery", "y".repeat(95)).as_bytes());
        let lines = tail.lines();
        assert_eq!(lines[0], "key [redacted]");
        assert!(lines.iter().all(|line| !line.contains("cor")), "{lines:?}");
    }

    #[test]
    fn stray_lines_are_truncated_and_counted() {
        let tail = StderrTail::new();
        tail.note_stray(b"  \r");
        tail.note_stray(b"Listening on \x1b[1m8080");
        tail.note_stray(&[b'x'; 5000]);
        let lines = tail.lines();
        assert_eq!((tail.strays(), tail.total(), lines.len()), (2, 2, 2));
        assert_eq!(lines[0], r"(standard output, not a message) Listening on \x1b[1m8080");
        assert!(lines[1].chars().count() < 140 && lines[1].ends_with('…'));
    }

    #[test]
    fn logging_is_rate_limited() {
        let mut log = Log::new();
        for _ in 0..100_000 {
            log.line("mail", b"flood");
        }
        assert!(log.suppressed > 99_000, "{}", log.suppressed);
    }
}
