//! The environment of black-box tests: the gateway as a process, clients of both eras, and scripted servers.
//!
//! It shares no code with the gateway, so that messages on the wire are checked independently.

pub mod binaries;
pub mod changes;
pub mod client;
mod connection_task;
pub mod events;
pub mod gateway;
pub mod home;
pub mod http;
pub mod oauth_server;
pub mod processes;
pub mod scripted_server;
pub mod server;
pub mod sink;
pub mod terminal;

pub use changes::ChangeFeed;
pub use client::{TestClient, Transcript};
pub use gateway::Gateway;
pub use home::Home;
pub use http::Http;
pub use oauth_server::OAuthServer;
pub use scripted_server::ScriptedServer;
pub use server::FixtureServer;
pub use sink::Sink;

use std::future::Future;
use std::time::{Duration, Instant};

/// The timeout of every step of a test.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Polls until there is a value; `None` after the timeout.
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

/// A text that is unique on this machine.
pub fn token(kind: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
