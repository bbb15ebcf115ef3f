//! Runs an S3-compatible server (`moto`) for the tests of buckets.

use crate::python::{Venv, VenvKind};
use anyhow::{Context, Result, bail};
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The environment variable with the server's URL.
pub const VARIABLE: &str = "TOOLBOOTH_TEST_S3";
/// The timeout for the start of the server.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server, runs `work` with its URL, and stops the server.
pub fn serving<T>(root: &Path, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let venv = Venv::install(root, VenvKind::ObjectStorage)?;
    // Another process may take the port in between; then the server fails to start, which is reported.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut server = Command::new(venv.program("moto_server"))
        .args(["--host", "127.0.0.1", "--port"])
        .arg(address.port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("moto_server did not start")?;
    let started = Instant::now();
    let up = loop {
        if TcpStream::connect(address).is_ok() {
            break Ok(());
        }
        if let Some(status) = server.try_wait()? {
            bail!("moto_server ended at once ({status})");
        }
        if started.elapsed() > START_TIMEOUT {
            break Err(anyhow::anyhow!("moto_server does not listen on {address}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let outcome = up.and_then(|()| work(&format!("http://{address}")));
    server.kill()?;
    server.wait()?;
    outcome
}
