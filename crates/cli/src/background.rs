//! Starts and stops the gateway in the background.

use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::render;
use crate::running_gateway::find_running;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a gateway may take to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for another command that is starting a gateway on the same data directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(35);
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the kernel may take to end a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of log lines in the failure of a start.
const LOG_LINES: usize = 15;
/// The number of bytes of the log in which these lines are looked for.
const LOG_BYTES: u64 = 16 * 1024;
/// The maximum number of characters of such a line.
const LOG_LINE_CHARS: usize = 500;

/// How to start a gateway.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// The address to listen on; the configured one by default.
    pub listen: Option<String>,
    /// The gateway exits after its local socket has had no client for this long.
    pub linger: Option<Duration>,
}

/// The result of a start.
#[derive(Debug)]
pub enum GatewayStart {
    /// A gateway was started and answers.
    Started(GatewayRecord),
    /// A gateway was already running.
    AlreadyRunning(GatewayRecord),
}

impl GatewayStart {
    /// The gateway that is running now.
    pub fn record(&self) -> &GatewayRecord {
        match self {
            Self::Started(record) | Self::AlreadyRunning(record) => record,
        }
    }
}

/// The result of a stop.
#[derive(Debug)]
pub enum GatewayStop {
    /// No gateway was running.
    NotRunning,
    /// The gateway finished its calls and ended.
    Stopped {
        /// The gateway.
        record: Box<GatewayRecord>,
        /// How long that took.
        waited: Duration,
    },
}

/// The log of the gateway that runs in the background on a data directory.
pub fn log_path(data_dir: &Path) -> PathBuf {
    data_dir.join("gateway.log")
}

/// Starts a gateway on a data directory and waits until it answers. If one is running already, nothing is started.
pub async fn start(
    global: &GlobalOptions,
    data_dir: &Path,
    options: &StartOptions,
) -> Result<GatewayStart, CommandFailure> {
    if let Some(record) = find_running(data_dir).await {
        return Ok(GatewayStart::AlreadyRunning(record));
    }
    let cannot = |error: &io::Error| failed(format!("the gateway cannot be started: {error}"), None);
    let _lock = lock(data_dir).await.map_err(|error| cannot(&error))?;
    // Another command may have started one in the meantime.
    if let Some(record) = find_running(data_dir).await {
        return Ok(GatewayStart::AlreadyRunning(record));
    }
    let child = spawn(global, data_dir, options).map_err(|error| cannot(&error))?;
    wait_until_ready(child, data_dir).await
}

/// Locks the data directory against other starts. The lock ends with the file or the process.
async fn lock(data_dir: &Path) -> io::Result<File> {
    std::fs::create_dir_all(data_dir)?;
    let path = data_dir.join("start.lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if started.elapsed() > LOCK_TIMEOUT => {
                return Err(io::Error::other("another command is still starting one"));
            }
            Err(TryLockError::WouldBlock) => sleep(PAUSE).await,
        }
    }
}

/// Starts a gateway process that outlives this one: in its own process group, with its own standard streams. Does not
/// wait for it.
pub fn spawn(global: &GlobalOptions, data_dir: &Path, options: &StartOptions) -> io::Result<Child> {
    std::fs::create_dir_all(data_dir)?;
    let log = log_path(data_dir);
    if log.exists() {
        // The log of the previous run is kept.
        std::fs::rename(&log, log.with_extension("log.1"))?;
    }
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").args(options_of(global));
    if let Some(address) = &options.listen {
        command.arg("--listen").arg(address);
    }
    if let Some(linger) = options.linger {
        command.arg("--linger").arg(linger.as_secs().to_string());
    }
    // Its failures are read from the log as text.
    command.env_remove("TOOLBOOTH_JSON");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).spawn()
}

/// The options of this command line that select the configuration.
fn options_of(global: &GlobalOptions) -> Vec<std::ffi::OsString> {
    let mut words: Vec<std::ffi::OsString> = Vec::new();
    for (flag, path) in global.named_paths() {
        words.extend([flag.into(), path.into()]);
    }
    if global.no_project {
        words.push("--no-project".into());
    }
    for pair in &global.set {
        words.extend(["--set".into(), pair.into()]);
    }
    words
}

async fn wait_until_ready(mut child: Child, data_dir: &Path) -> Result<GatewayStart, CommandFailure> {
    let started = Instant::now();
    loop {
        let ended = child.try_wait().ok().flatten();
        if let Some(record) = find_running(data_dir).await {
            if record.pid == child.id() && ended.is_none() {
                collect_in_background(child);
                return Ok(GatewayStart::Started(record));
            }
            if ended.is_some() {
                // `toolbooth serve` was started by hand at the same time.
                return Ok(GatewayStart::AlreadyRunning(record));
            }
        }
        if let Some(status) = ended {
            return Err(exited(status, data_dir));
        }
        if started.elapsed() > START_TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            let message = format!("the gateway did not answer within {} s", START_TIMEOUT.as_secs());
            return Err(failed(message, Some(data_dir)));
        }
        sleep(PAUSE).await;
    }
}

/// Collects the exit status of the gateway in a thread, so that it does not stay a zombie if it ends before this
/// process.
fn collect_in_background(mut child: Child) {
    let thread = std::thread::Builder::new().name("gateway-exit".to_owned());
    let _ = thread.spawn(move || drop(child.wait()));
}

fn exited(status: ExitStatus, data_dir: &Path) -> CommandFailure {
    let mut failure = failed(format!("the gateway ended at startup ({status})"), Some(data_dir));
    if status.code() == Some(2) {
        failure.exit = Exit::Usage;
    }
    failure
}

/// The failure of a start, with the last lines of the gateway's log.
fn failed(message: String, data_dir: Option<&Path>) -> CommandFailure {
    let hint = "`toolbooth serve` runs the gateway in this terminal and shows what is wrong";
    let tail = data_dir.map(|data_dir| (log_path(data_dir), last_lines(&log_path(data_dir))));
    let mut drawn = None;
    let mut whole = message.clone();
    if let Some((log, lines)) = tail.filter(|(_, lines)| !lines.is_empty()) {
        let log = render::path(&log);
        let indented: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        // The gateway's own hint says more.
        let more = match lines.iter().any(|line| line.starts_with("hint: ")) {
            true => String::new(),
            false => format!("\nhint: {hint}\n"),
        };
        drawn = Some(format!("error[start.failed]: {message}. The last lines of {log}:\n\n{indented}{more}"));
        whole = format!("{message}; the last lines of {log}:\n{}", lines.join("\n"));
    }
    let fault = FaultReport {
        code: "start.failed".to_owned(),
        blame: "gateway".to_owned(),
        message: whole,
        hint: Some(hint.to_owned()),
    };
    CommandFailure { drawn, ..CommandFailure::failed(fault) }
}

/// The last lines of a log that are not blank, without control characters.
pub fn last_lines(log: &Path) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(LOG_LINES)..];
    shown
        .iter()
        .map(|line| render::plain(&line.trim_end().chars().take(LOG_LINE_CHARS).collect::<String>()))
        .collect()
}

/// Stops the gateway of a data directory: it finishes its calls, and this waits until its process has ended.
pub async fn stop(data_dir: &Path, patience: Duration) -> Result<GatewayStop, CommandFailure> {
    let Some(record) = own_process(data_dir).await else { return Ok(GatewayStop::NotRunning) };
    let started = Instant::now();
    signal(&record, Signal::SIGTERM)?;
    if has_ended(&record, patience).await {
        return Ok(GatewayStop::Stopped { record: Box::new(record), waited: started.elapsed() });
    }
    Err(CommandFailure::failed(FaultReport {
        code: "stop.timeout".to_owned(),
        blame: "gateway".to_owned(),
        message: format!(
            "the gateway (process {}) is still finishing its calls after {} s",
            record.pid,
            patience.as_secs()
        ),
        hint: Some("wait longer with --wait SECONDS, or end it now with --force".to_owned()),
    }))
}

/// Kills the gateway of a data directory without waiting for its calls. Its servers end with it.
pub async fn force_stop(data_dir: &Path) -> Result<GatewayStop, CommandFailure> {
    let Some(record) = own_process(data_dir).await else { return Ok(GatewayStop::NotRunning) };
    let started = Instant::now();
    signal(&record, Signal::SIGKILL)?;
    let _ = has_ended(&record, KILL_TIMEOUT).await;
    record.withdraw(data_dir);
    Ok(GatewayStop::Stopped { record: Box::new(record), waited: started.elapsed() })
}

/// The gateway of a data directory, if its process is certain to be that gateway. Without a start time the process id
/// may have been reused, so the gateway must answer.
async fn own_process(data_dir: &Path) -> Option<GatewayRecord> {
    let record = GatewayRecord::find(data_dir).filter(GatewayRecord::is_alive)?;
    match record.started {
        Some(_) => Some(record),
        None => find_running(data_dir).await,
    }
}

fn signal(record: &GatewayRecord, signal: Signal) -> Result<(), CommandFailure> {
    // 0 would be the process group of this command.
    let Some(pid) = i32::try_from(record.pid).ok().filter(|pid| *pid > 0) else { return Ok(()) };
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(error) => Err(CommandFailure::failed(FaultReport {
            code: "stop.not-allowed".to_owned(),
            blame: "caller".to_owned(),
            message: format!("the gateway (process {}) cannot be stopped: {}", record.pid, error.desc()),
            hint: Some("run the command as the user who started it".to_owned()),
        })),
    }
}

/// Waits until the process has ended, and returns whether it has.
async fn has_ended(record: &GatewayRecord, patience: Duration) -> bool {
    let started = Instant::now();
    while record.is_alive() {
        if started.elapsed() > patience {
            return false;
        }
        sleep(PAUSE).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_short_and_plain() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("gateway.log");
        assert_eq!(last_lines(&log), Vec::<String>::new(), "no log");
        let lines: String = (0..2000).map(|number| format!("line {number}\n\n")).collect();
        std::fs::write(&log, format!("{lines}\u{1b}[31mred\n{}\n", "x".repeat(2000))).expect("written");
        let last = last_lines(&log);
        assert_eq!(last.len(), LOG_LINES);
        assert_eq!(last[LOG_LINES - 2], "\\u{1b}[31mred");
        assert_eq!(last[LOG_LINES - 1].len(), LOG_LINE_CHARS);
        assert_eq!(last[LOG_LINES - 3], "line 1999");
    }
}
