//! A sign of life for people who wait: on standard error, after half a second, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::future::Future;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What is over sooner needs no sign of life.
const PATIENCE: Duration = Duration::from_millis(500);

/// How far a transfer is: shown when it takes long, on a terminal only.
pub struct Meter {
    bar: ProgressBar,
    started: Instant,
}

impl Meter {
    /// A transfer of so many bytes, where that is known.
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

    /// So many bytes more have passed.
    pub fn passed(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
        let is_long = self.bar.is_hidden() && self.started.elapsed() > PATIENCE;
        if is_long && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A sign of life that ends as soon as there is something else to see.
#[derive(Debug)]
pub struct Sign {
    spinner: ProgressBar,
}

impl Sign {
    /// One that says what is waited for.
    pub fn new(what: impl Into<String>) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            spinner.set_style(style);
        }
        spinner.set_message(what.into());
        Self { spinner }
    }

    /// There is something to see.
    pub fn end(&self) {
        if !self.spinner.is_finished() {
            self.spinner.finish_and_clear();
        }
    }

    /// Waits for some work.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
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

impl Drop for Sign {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for some work, and says what it waits for if that takes long.
pub async fn while_waiting<T>(what: impl Into<String>, work: impl Future<Output = T>) -> T {
    Sign::new(what).during(work).await
}
