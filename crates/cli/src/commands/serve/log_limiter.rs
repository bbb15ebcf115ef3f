//! Leaves repeated warnings and errors out of the log. Lines are of the same kind if the same place in the code writes
//! them about the same server.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use toolbooth_engine::log_limit::{LogLimit, WINDOW};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The lines that were left out since the last report. It is global, as the log is.
static LIMIT: Mutex<Option<LogLimit<LogKind>>> = Mutex::new(None);

/// The kind of a log line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LogKind {
    place: Identifier,
    /// The file and line that write it, for the report.
    written_by: (&'static str, u32),
    /// The server, hook or provider that it is about.
    subject: Option<Box<str>>,
}

/// A layer that leaves out repeated lines.
#[derive(Debug)]
pub(super) struct LogLimiter;

impl<S: Subscriber> Layer<S> for LogLimiter {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let about = event.metadata();
        // Lower levels are chosen by a person who wants to see everything.
        if *about.level() > Level::WARN {
            return true;
        }
        let mut subject = LogSubject(None);
        event.record(&mut subject);
        let kind = LogKind {
            place: about.callsite(),
            written_by: (about.file().unwrap_or_default(), about.line().unwrap_or_default()),
            subject: subject.0,
        };
        with_limit(|limit| limit.admit(kind, Instant::now()))
    }
}

fn with_limit<T>(act: impl FnOnce(&mut LogLimit<LogKind>) -> T) -> T {
    let mut limit = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    act(limit.get_or_insert_default())
}

/// The field with the name of a server. Written in two parts, because it looks like a fault code.
const SERVER: &str = concat!("server.", "name");

/// Reads what a line is about.
struct LogSubject(Option<Box<str>>);

impl Visit for LogSubject {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if matches!(field.name(), SERVER | "hook" | "provider") {
            self.0 = Some(format!("{value:?}").into());
        }
    }
}

/// Reports the number of lines that were left out, once a minute.
pub(super) async fn report_left_out() {
    let mut every_minute = tokio::time::interval(WINDOW);
    loop {
        every_minute.tick().await;
        // Logged without the lock: the report is a log line, too.
        let left_out = with_limit(|limit| limit.report(Instant::now()));
        for (kind, count) in left_out {
            let subject = kind.subject.map(|subject| format!(" about {subject}")).unwrap_or_default();
            let (file, line) = kind.written_by;
            tracing::warn!("{count} more lines{subject} were left out of the log ({file}:{line})");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt;

    /// Collects the written lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn repeated_warnings_are_left_out_per_server() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish().with(LogLimiter);
        tracing::subscriber::with_default(log, || {
            for number in 0..50 {
                for server in ["limited-one", "limited-two"] {
                    tracing::warn!(server.name = %server, number, "it failed again");
                }
                tracing::info!("limited-three is fine");
            }
        });
        let text = String::from_utf8(lines.0.lock().expect("not poisoned").clone()).expect("text");
        let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
        assert_eq!((count("limited-one"), count("limited-two")), (20, 20), "{text}");
        assert_eq!(count("limited-three"), 50, "only warnings and errors are limited");
        let left_out = with_limit(|limit| limit.report(Instant::now()));
        let subjects: Vec<(&str, u64)> =
            left_out.iter().filter_map(|(kind, count)| Some((kind.subject.as_deref()?, *count))).collect();
        assert!(subjects.contains(&("limited-one", 30)), "{subjects:?}");
    }
}
