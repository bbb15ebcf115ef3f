//! The gateway's side of a reaper: starts it, sends orders, and reads its reports.

use super::checked_launch::{CheckedLaunch, refusal};
use super::exit::{ProcessExit, ReaperReport};
use super::fault::LaunchError;
use super::reaper::{CONTROL_FD, KILL, REPORT_FD, TERMINATE, WATCH, kill_session};
use super::running::{ProcessControl, ProcessStage, ServerProcess, StopOrder};
use command_fds::{CommandFdExt, FdMapping};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Maximum total size of the reports. A reaper writes only a few short lines.
const REPORT_LIMIT_BYTES: u64 = 4096;

/// The only write end of a reaper's control pipe. Closing it ends the tree.
#[derive(Debug)]
struct ReaperControl(PipeWriter);

impl ProcessControl for ReaperControl {
    fn order(&self, order: StopOrder) {
        let byte = match order {
            StopOrder::Terminate => TERMINATE,
            StopOrder::Kill => KILL,
        };
        // The pipe never blocks, because it only ever holds a few bytes. Without a reader there is no tree
        // either.
        let _ = (&self.0).write(&[byte]);
    }
}

/// Starts a checked launch under its own reaper.
pub(super) fn start(checked: CheckedLaunch) -> Result<ServerProcess, LaunchError> {
    let shown = checked.shown.clone();
    let pipes = || -> io::Result<_> { Ok((io::pipe()?, io::pipe()?)) };
    let ((orders, control), (reports, report)) =
        pipes().map_err(|source| LaunchError::Refused { command: shown.clone(), source })?;
    let reports = Receiver::from_owned_fd(reports.into())
        .map_err(|source| LaunchError::Refused { command: shown.clone(), source })?;
    let mut child = command(checked, orders, report)?;
    let pid = child.id().unwrap_or_default();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (stage, seen) = watch::channel(ProcessStage::Starting);
    tokio::spawn(follow(child, reports, stage));
    let control = Box::new(ReaperControl(control));
    Ok(ServerProcess { stdin, stdout, stderr, pid, control, stage: seen })
}

fn command(checked: CheckedLaunch, orders: PipeReader, report: PipeWriter) -> Result<Child, LaunchError> {
    let CheckedLaunch { shown, file, name, args, folder, env, reaper } = checked;
    let mut command = Command::new(&reaper.program);
    command.arg0("toolbooth").args(&reaper.args).arg(WATCH).arg("--").arg(file).arg(name).args(args);
    // The reaper gets the server's environment and folder, which the server inherits.
    command.env_clear().envs(env).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mappings = vec![
        FdMapping { parent_fd: orders.into(), child_fd: CONTROL_FD },
        FdMapping { parent_fd: report.into(), child_fd: REPORT_FD },
    ];
    command.fd_mappings(mappings).expect("the two descriptors differ");
    command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            LaunchError::NoReaper { path: reaper.program, source }
        }
        _ => refusal(shown, source),
    })
}

/// Follows a reaper to its end, so that it does not become a zombie, and publishes its reports.
async fn follow(mut reaper: Child, reports: Receiver, stage: watch::Sender<ProcessStage>) {
    let session = reaper.id();
    let mut ended = None;
    let mut lines = BufReader::with_capacity(128, reports.take(REPORT_LIMIT_BYTES)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match ReaperReport::parse(&line) {
            Some(ReaperReport::Running(pid)) => {
                stage.send_replace(ProcessStage::Running(pid));
            }
            Some(ReaperReport::Ended(exit)) => {
                // The first report is the correct one: a server that could not be run also "exits".
                let exit = *ended.get_or_insert(exit);
                stage.send_replace(ProcessStage::Ended(exit));
            }
            Some(ReaperReport::LeftBehind(count)) => {
                tracing::warn!(reaper.pid = session, "{count} processes of a server could not be killed");
            }
            None => tracing::debug!(reaper.pid = session, "a reaper sent an unknown report"),
        }
    }
    let status = reaper.wait().await;
    let complete = ended.is_some() && status.is_ok_and(|status| status.code().is_some());
    if let (false, Some(session)) = (complete, session) {
        tracing::warn!(reaper.pid = session, "a reaper was killed; ending what is left of its session");
        let _ = tokio::task::spawn_blocking(move || kill_session(session)).await;
    }
    stage.send_replace(ProcessStage::Gone(ended.unwrap_or(ProcessExit::ReaperLost)));
}
