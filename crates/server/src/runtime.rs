//! The runtime: one thread that serves everybody.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Runs one future, and what it spawns, to its end.
///
/// Boxed rather than generic: so the loop that turns for every event is compiled here, for speed, and once.
/// A generic one would be compiled by each of its callers, in a crate that is kept small.
pub fn run(work: Pin<Box<dyn Future<Output = ()> + '_>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}
