//! The runtime: one thread that serves everybody.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Runs one future, and what it spawns, to its end.
///
/// Boxed rather than generic: so the loop that turns for every event is compiled once, and not by each command.
pub fn run(work: Pin<Box<dyn Future<Output = ()> + '_>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}
