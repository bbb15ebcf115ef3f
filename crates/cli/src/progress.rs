//! Progress messages on standard error: only on a terminal, and only after half a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::future::Future;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::Instant;

/// The delay before progress is shown.
const DELAY: Duration = Duration::from_millis(500);

/// The progress bar of a transfer.
pub struct TransferProgress {
    bar: ProgressBar,
    started: Instant,
}

impl TransferProgress {
    /// The progress of a transfer; `total` is its size in bytes, if known.
    pub fn new(what: impl Into<String>, total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match total {
            Some(_) => "{msg} {bar:20} {bytes}/{total_bytes} ({bytes_per_sec}, {eta})",
            None => "{msg} {bytes} ({bytes_per_sec})",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.into());
        Self { bar, started: Instant::now() }
    }

    /// Adds transferred bytes.
    pub fn add(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
        let is_long = self.bar.is_hidden() && self.started.elapsed() > DELAY;
        if is_long && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for TransferProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A spinner with a message.
#[derive(Debug)]
pub struct Spinner {
    spinner: ProgressBar,
}

impl Spinner {
    /// A spinner with this message.
    pub fn new(what: impl Into<String>) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            spinner.set_style(style);
        }
        spinner.set_message(what.into());
        Self { spinner }
    }

    /// Removes the spinner.
    pub fn end(&self) {
        if !self.spinner.is_finished() {
            self.spinner.finish_and_clear();
        }
    }

    /// Shows the spinner while the work runs.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(DELAY, &mut work).await {
            return done;
        }
        if !self.spinner.is_finished() && std::io::stderr().is_terminal() {
            self.spinner.set_draw_target(ProgressDrawTarget::stderr());
            self.spinner.enable_steady_tick(Duration::from_millis(100));
        }
        let done = work.await;
        self.end();
        done
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for some work, and shows the message if it takes long.
pub async fn while_waiting<T>(what: impl Into<String>, work: impl Future<Output = T>) -> T {
    Spinner::new(what).during(work).await
}
