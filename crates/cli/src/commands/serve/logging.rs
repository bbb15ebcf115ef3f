//! The gateway's log on standard error: short lines on a terminal, otherwise JSON.

use super::log_limiter::LogLimiter;
use crate::render::Paint;
use std::io::{IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use toolbooth_core::lint::revealed;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Installs the log subscriber.
pub(super) fn start() {
    let level = std::env::var("TOOLBOOTH_LOG").ok().and_then(|level| level.parse().ok());
    let builder = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(tracing::Level::WARN))
        .with_ansi(Paint::stderr() == Paint::Always)
        .with_target(false);
    if std::io::stderr().is_terminal() {
        let lines = builder.compact().with_timer(TimeOfDay).with_writer(|| OneLine(std::io::stderr()));
        lines.finish().with(LogLimiter).init();
    } else {
        builder.json().with_writer(std::io::stderr).finish().with(LogLimiter).init();
    }
}

/// Formats the time of day in UTC.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    #[allow(clippy::disallowed_methods, reason = "a log line shows the system clock")]
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
        write!(writer, "{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// Writes each record on one line, so that text from clients and servers cannot forge a record. JSON does not need
/// this.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// The subscriber writes one whole record per call.
    fn write(&mut self, record: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        // Escape characters are the subscriber's colours: it escapes those in the text.
        let parts: Vec<String> =
            line.split('\u{1b}').map(|part| revealed(part).replace('\n', "\\n")).collect();
        self.0.write_all(format!("{}{end}", parts.join("\u{1b}")).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T42: a client's name with a line break made two records of one.
    #[test]
    fn a_record_is_one_line() {
        let cases = [
            ("INFO all is well\n", "INFO all is well\n"),
            ("INFO a\nINFO forged\n", "INFO a\\nINFO forged\n"),
            ("INFO a\rINFO forged\u{202e}\n", "INFO a\\rINFO forged\\u{202e}\n"),
            ("\u{1b}[32mINFO\u{1b}[0m a\n\n", "\u{1b}[32mINFO\u{1b}[0m a\\n\n"),
        ];
        for (record, expected) in cases {
            let mut out = OneLine(Vec::new());
            out.write_all(record.as_bytes()).expect("writing to memory does not fail");
            assert_eq!(String::from_utf8_lossy(&out.0), expected);
        }
    }
}
