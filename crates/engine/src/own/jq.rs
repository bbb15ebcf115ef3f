//! Runs jq filters, each in its own process.
//!
//! A filter is an untrusted program: it may loop for ever or use all memory within one step, where it cannot be
//! interrupted. So it runs in a child process of the gateway's own executable, which limits its memory and time, has
//! no environment, and is killed at the deadline.

use bytes::Bytes;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// The longest filter, in characters.
pub(super) const MAX_FILTER: usize = 2_000;
/// How long a filter may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// The longest error message of a child, in bytes.
const MAX_ERRORS: u64 = 1_000;

/// The largest output of a filter, in bytes.
const MAX_OUTPUT: usize = 64 << 20;

/// The output of a filter.
pub(super) struct FilterOutput {
    /// The text.
    pub(super) bytes: Bytes,
    /// Whether there is more output than was requested.
    pub(super) is_cut: bool,
}

/// Why a filter has no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum JqFault {
    /// The filter is too long.
    #[error("`jq` has more than {MAX_FILTER} characters")]
    TooLong,
    /// The filter took too long.
    #[error("the jq filter took longer than {} seconds", DEADLINE.as_secs())]
    Deadline,
    /// The requested part is too far into the output.
    #[error(
        "the jq filter returns more than {MAX_OUTPUT} bytes before the requested part: use a more specific filter"
    )]
    TooMuch,
    /// The filter failed.
    #[error("the jq filter failed: {0}")]
    Failed(String),
    /// The child process could not be started.
    #[error("jq filters cannot be run here: {0}")]
    Unavailable(std::io::Error),
}

/// Runs a filter on a JSON text, and returns up to `most` bytes of its output: its values, one per line.
pub(super) async fn run(
    executable: &Path,
    filter: &str,
    text: Bytes,
    most: usize,
) -> Result<FilterOutput, JqFault> {
    let requested = most;
    let most = most.min(MAX_OUTPUT);
    if filter.chars().count() > MAX_FILTER {
        return Err(JqFault::TooLong);
    }
    let mut child = start_worker(executable, filter).map_err(JqFault::Unavailable)?;
    let (Some(mut input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(JqFault::Failed("it has no pipes".into()));
    };
    let writing = async move {
        // A filter that needs no input may end before it has read it.
        let _ = input.write_all(&text).await;
    };
    let reading = async move {
        let mut out = Vec::new();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let read = output.take(most).read_to_end(&mut out).await;
        (out, read.is_ok_and(|read| read as u64 == most))
    };
    let reading_errors = async move {
        let mut text = Vec::new();
        let _ = errors.take(MAX_ERRORS).read_to_end(&mut text).await;
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let work = async {
        let rest = async { tokio::join!(writing, reading_errors).1 };
        tokio::pin!(reading, rest);
        let (out, is_full, errors) = tokio::select! {
            (out, is_full) = &mut reading => match is_full {
                true => (out, true, String::new()),
                false => (out, false, rest.await),
            },
            errors = &mut rest => {
                let (out, is_full) = reading.await;
                (out, is_full, errors)
            }
        };
        // Once there is enough output, the rest is not awaited.
        if is_full {
            return Ok((out, true));
        }
        match child.wait().await {
            Ok(status) if status.success() => Ok((out, false)),
            Ok(status) if status.code() == Some(1) && !errors.is_empty() => Err(JqFault::Failed(errors)),
            // It was killed by a limit.
            Ok(_) => Err(JqFault::Failed("it needed too much memory or time".into())),
            Err(error) => Err(JqFault::Unavailable(error)),
        }
    };
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(Ok((_, true))) if requested > most => Err(JqFault::TooMuch),
        Ok(Ok((mut out, is_cut))) => {
            if is_cut {
                out.truncate(whole_characters(&out));
            }
            Ok(FilterOutput { bytes: Bytes::from(out), is_cut })
        }
        Ok(Err(fault)) => Err(fault),
        Err(_) => Err(JqFault::Deadline),
    }
}

/// Starts the process that runs a filter.
fn start_worker(executable: &Path, filter: &str) -> std::io::Result<Child> {
    Command::new(executable)
        .arg("jq-worker")
        .arg(filter)
        .env_clear()
        // The allocator reserves address space in advance, which would count toward the memory limit.
        .env("MIMALLOC_ARENA_RESERVE", "32M")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// The length of the longest prefix that does not end within a character.
fn whole_characters(text: &[u8]) -> usize {
    match std::str::from_utf8(text) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "añ中🦀".as_bytes();
        let whole: Vec<usize> = (0..=text.len()).map(|end| whole_characters(&text[..end])).collect();
        assert_eq!(whole, [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10]);
        assert_eq!(whole_characters(b"a\xff"), 2, "invalid UTF-8 is not cut");
    }
}
