//! Runs the commands and gateways of the checks.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The time limit from the installation of the package to the first result.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// The text that the first tool returns.
const TEXT: &str = "it works";

/// Runs a command that must succeed.
pub(super) fn succeed(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Calls a bundled tool over REST, with a token if the gateway requires one.
pub(super) fn call_echo(address: &str, token: Option<&str>) -> Result<()> {
    let body = format!(r#"{{"arguments":{{"text":"{TEXT}"}}}}"#);
    let answer = post(address, "/tools/demo_echo/call", &body, token)?;
    let answer: Value = serde_json::from_str(&answer).context("the answer is not JSON")?;
    ensure!(answer["result"]["content"][0]["text"] == TEXT, "the first call returned {answer}");
    Ok(())
}

/// The gateway of an installed package; it ends with this value.
pub(super) struct RunningPackage(Child);

impl RunningPackage {
    /// Starts a gateway, and waits until it is ready; returns its address, too.
    pub(super) fn start(command: &mut Command) -> Result<(Self, String)> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut gateway = Self(child.with_context(|| format!("{command:?} did not start"))?);
        let address = gateway.address()?;
        Ok((gateway, address))
    }

    /// The address that the gateway prints when it is ready.
    fn address(&mut self) -> Result<String> {
        let stdout = self.0.stdout.take().context("no standard output")?;
        for line in BufReader::new(stdout).lines() {
            if let Some((_, rest)) = line?.split_once("is listening on http://") {
                return Ok(rest.split([',', ' ']).next().unwrap_or_default().to_owned());
            }
        }
        bail!("the gateway ended before it was ready")
    }
}

impl Drop for RunningPackage {
    fn drop(&mut self) {
        let id = i32::try_from(self.0.id()).map(nix::unistd::Pid::from_raw);
        // A gateway that is asked to stop also stops its servers.
        let asked = id.is_ok_and(|id| nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).is_ok());
        if !asked {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// The body of the answer to a request.
fn post(address: &str, path: &str, body: &str, token: Option<&str>) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let credential = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         {credential}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no body")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "the gateway answered {head}\n{body}");
    // A chunked body has its length on a line of its own.
    Ok(match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => body.lines().filter(|line| line.starts_with('{')).collect(),
        false => body.to_owned(),
    })
}
