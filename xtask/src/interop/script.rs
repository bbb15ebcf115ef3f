//! Runs a client's script with a timeout, and reads its checks line by line.

use super::report::InteropReport;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// The timeout of a whole script; each of its checks has its own shorter timeout.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(300);
/// The timeout for its exit after the last check.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);
/// The most bytes of a command's output that are kept.
const MOST_OUTPUT: u64 = 32 * 1024 * 1024;

/// A client's script.
#[derive(Debug)]
pub struct Script {
    /// The name of the client in the report.
    pub name: String,
    /// The command to run.
    pub command: Command,
    /// The file for its standard error.
    pub log: PathBuf,
}

impl Script {
    /// Runs it, and reports each of its checks. It prints JSON lines: `check` with `ms` and optionally `failed`, and
    /// `through` at the end.
    pub fn run(mut self, report: &mut InteropReport) {
        match self.play(report) {
            Ok(()) => {}
            Err(error) => report.failed(&self.name, &format!("{error:#}{}", self.end_of_log())),
        }
    }

    fn play(&mut self, report: &mut InteropReport) -> Result<()> {
        let log = File::create(&self.log).with_context(|| self.log.display().to_string())?;
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("{:?} did not start", self.command.get_program()))?;
        let stdout = child.stdout.take().context("the script has no output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout.take(MOST_OUTPUT)).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + SCRIPT_TIMEOUT;
        let mut through = false;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => through |= self.report_line(&line, report),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    kill(&mut child);
                    bail!("the script took longer than {} s", SCRIPT_TIMEOUT.as_secs());
                }
            }
        }
        let status = wait(&mut child, EXIT_TIMEOUT)?;
        if !through {
            bail!("the script ended before its last check ({status})");
        }
        if !status.success() {
            bail!("the script ended with {status}");
        }
        Ok(())
    }

    /// Reports one line; returns whether it is the last one.
    fn report_line(&self, line: &str, report: &mut InteropReport) -> bool {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            println!("   {line}");
            return false;
        };
        if let Some(check) = line["check"].as_str() {
            let name = format!("{}: {check}", self.name);
            match line["failed"].as_str() {
                None => report.ok(&name, Duration::from_millis(line["ms"].as_u64().unwrap_or_default())),
                Some(reason) => report.failed(&name, reason),
            }
        }
        line["through"] == true
    }

    /// The last lines of its standard error.
    fn end_of_log(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].iter().map(|line| format!("\n   | {line}")).collect()
    }
}

/// The output and exit status of a command.
pub struct CommandOutput {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Runs a command with a timeout.
pub fn output(command: &mut Command, limit: Duration) -> Result<CommandOutput> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{:?} did not start", command.get_program()))?;
    let stdout = drain(child.stdout.take().context("the command has no output")?);
    let stderr = drain(child.stderr.take().context("the command has no standard error")?);
    let status = wait(&mut child, limit)?;
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(CommandOutput { status, stdout: text(stdout), stderr: text(stderr) })
}

fn drain(stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The output before an error is still worth showing.
        drop(stream.take(MOST_OUTPUT).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a process; kills it after the timeout.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            kill(child);
            bail!("the process did not exit within {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn kill(child: &mut Child) {
    // The process may have exited meanwhile.
    drop(child.kill());
    drop(child.wait());
}
