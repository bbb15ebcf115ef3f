//! A client's script: runs it, reads its checks line by line, and does not wait for ever.

use super::report::Report;
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

/// How long a whole script may take; each of its checks has a shorter limit of its own.
const LIMIT: Duration = Duration::from_secs(150);
/// How long it may take to end after its last check.
const FAREWELL: Duration = Duration::from_secs(15);
/// How much of what a command prints is kept.
const MOST_OUTPUT: u64 = 32 * 1024 * 1024;

/// A client to run.
#[derive(Debug)]
pub struct Script {
    /// The name that its checks are told under.
    pub name: String,
    /// What to run.
    pub command: Command,
    /// Where its standard error goes.
    pub log: PathBuf,
}

impl Script {
    /// Runs it, and tells each of its checks. It prints JSON lines: `check` with `ms` and perhaps `failed`, and at
    /// the end `through`.
    pub fn run(mut self, report: &mut Report) {
        match self.play(report) {
            Ok(()) => {}
            Err(error) => report.failed(&self.name, &format!("{error:#}{}", self.last_words())),
        }
    }

    fn play(&mut self, report: &mut Report) -> Result<()> {
        let log = File::create(&self.log).with_context(|| self.log.display().to_string())?;
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("{:?} did not start", self.command.get_program()))?;
        let stdout = child.stdout.take().context("it has no output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout.take(MOST_OUTPUT)).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + LIMIT;
        let mut through = false;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => through |= self.tell(&line, report),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    kill(&mut child);
                    bail!("it took longer than {} s", LIMIT.as_secs());
                }
            }
        }
        let status = wait(&mut child, FAREWELL)?;
        if !through {
            bail!("it broke off ({status})");
        }
        if !status.success() {
            bail!("it ended with {status}");
        }
        Ok(())
    }

    /// Tells one line; whether it was the last word.
    fn tell(&self, line: &str, report: &mut Report) -> bool {
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

    /// The end of what it wrote on standard error.
    fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].iter().map(|line| format!("\n   | {line}")).collect()
    }
}

/// What a command printed, and how it ended.
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Runs a command to its end, within a limit.
pub fn output(command: &mut Command, limit: Duration) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{:?} did not start", command.get_program()))?;
    let stdout = drain(child.stdout.take().context("it has no output")?);
    let stderr = drain(child.stderr.take().context("it has no standard error")?);
    let status = wait(&mut child, limit)?;
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Output { status, stdout: text(stdout), stderr: text(stderr) })
}

fn drain(stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read before an error is still worth showing.
        drop(stream.take(MOST_OUTPUT).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a process; one that does not end in time is killed.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            kill(child);
            bail!("it did not end within {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn kill(child: &mut Child) {
    // It may have ended by itself meanwhile.
    drop(child.kill());
    drop(child.wait());
}
