//! The single-threaded Tokio runtime that commands run on.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Runs a future to completion, then waits up to one second for the blocking tasks that it spawned.
///
/// The future is boxed rather than generic so that the event loop is compiled once, not once per command.
pub fn run(work: Pin<Box<dyn Future<Output = ()> + '_>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}
