//! A small world for tests: the real gateway as a process, clients of both eras, and servers that do as told.
//!
//! Nothing here shares code with the gateway, so that what goes over the wire has an independent witness.

pub mod binaries;
pub mod changes;
pub mod client;
pub mod events;
pub mod exchange;
pub mod eyes;
pub mod gatehouse;
pub mod gateway;
pub mod home;
pub mod http;
pub mod server;
pub mod sink;
pub mod terminal;
pub mod upstream;

pub use changes::Changes;
pub use client::Client;
pub use exchange::Told;
pub use gatehouse::Gatehouse;
pub use gateway::Gateway;
pub use home::Home;
pub use http::Http;
pub use server::FixtureServer;
pub use sink::Sink;
pub use upstream::Upstream;

use std::future::Future;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until there is something; `None` when the time is over.
pub async fn poll<T, F>(within: Duration, mut ask: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Option<T>>,
{
    let start = Instant::now();
    loop {
        if let Some(found) = ask().await {
            return Some(found);
        }
        if start.elapsed() > within {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

/// A text that nothing else on this machine carries.
pub fn token(kind: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
