//! A sign of life for people who wait: on standard error, after half a second, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::future::Future;
use std::io::IsTerminal;
use std::time::Duration;

/// What is over sooner needs no sign of life.
const PATIENCE: Duration = Duration::from_millis(500);

/// Waits for some work, and says what it waits for if that takes long.
pub async fn while_waiting<T>(what: impl Into<String>, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
        return done;
    }
    let spinner = std::io::stderr().is_terminal().then(|| {
        let spinner = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            spinner.set_style(style);
        }
        spinner.set_message(what.into());
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    });
    let done = work.await;
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    done
}
