//! A server that speaks S3, for as long as the tests of buckets need one.

use crate::python::{Generation, Venv};
use anyhow::{Context, Result, bail};
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Names the server to the tests.
pub const VARIABLE: &str = "TOOLBOOTH_TEST_S3";
/// How long the server may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does something while a server runs; it is handed the server's address.
pub fn serving<T>(root: &Path, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let venv = Venv::install(root, Generation::ObjectStorage)?;
    // Somebody else may take the port in between; then the server does not come up, and that is told.
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
        if started.elapsed() > PATIENCE {
            break Err(anyhow::anyhow!("moto_server does not listen on {address}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let outcome = up.and_then(|()| work(&format!("http://{address}")));
    server.kill()?;
    server.wait()?;
    outcome
}
