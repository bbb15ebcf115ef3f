//! Asking a jq filter, in a process of its own.
//!
//! A filter is a program of whoever wrote it: it may loop for ever or fill all memory inside one step, where
//! nothing could stop it. So it runs in a child of the gateway's own executable that bounds its own memory
//! and time, gets no environment, and is ended at the deadline.

use bytes::Bytes;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// The longest filter.
pub(super) const MAX_FILTER: usize = 2_000;
/// How long a filter may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most that a child may say about what is wrong.
const MAX_COMPLAINT: u64 = 1_000;

/// The most that a filter may give, however far into it somebody wants to read.
const MAX_OUTPUT: usize = 64 << 20;

/// What a filter gave.
pub(super) struct Filtered {
    /// The text.
    pub(super) bytes: Bytes,
    /// Whether there is more than was wanted.
    pub(super) is_cut: bool,
}

/// Why a filter gave nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum JqFault {
    /// It is too long.
    #[error("`jq` has more than {MAX_FILTER} characters")]
    TooLong,
    /// It took too long.
    #[error("the jq filter took longer than {} seconds", DEADLINE.as_secs())]
    Deadline,
    /// What is wanted lies too far in.
    #[error("the jq filter gives more than {MAX_OUTPUT} bytes before what you want: let it give less")]
    TooMuch,
    /// It failed.
    #[error("the jq filter failed: {0}")]
    Failed(String),
    /// It could not be asked.
    #[error("jq filters cannot be run here: {0}")]
    Unavailable(std::io::Error),
}

/// What a filter makes of a text of JSON: its values, one a line, as many bytes as are wanted.
pub(super) async fn run(
    executable: &Path,
    filter: &str,
    text: Bytes,
    most: usize,
) -> Result<Filtered, JqFault> {
    let wanted = most;
    let most = most.min(MAX_OUTPUT);
    if filter.chars().count() > MAX_FILTER {
        return Err(JqFault::TooLong);
    }
    let mut child = Command::new(executable)
        .arg("jq-worker")
        .arg(filter)
        .env_clear()
        // The allocator takes addresses in advance, which its bound on memory would not see used.
        .env("MIMALLOC_ARENA_RESERVE", "32M")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(JqFault::Unavailable)?;
    let (Some(mut input), Some(output), Some(complaint)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(JqFault::Failed("it has no pipes".into()));
    };
    let feeding = async move {
        // A filter that needs no input may end before it has read it.
        let _ = input.write_all(&text).await;
    };
    let reading = async move {
        let mut out = Vec::new();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let read = output.take(most).read_to_end(&mut out).await;
        (out, read.is_ok_and(|read| read as u64 == most))
    };
    let hearing = async move {
        let mut said = Vec::new();
        let _ = complaint.take(MAX_COMPLAINT).read_to_end(&mut said).await;
        String::from_utf8_lossy(&said).trim().to_owned()
    };
    let work = async {
        let rest = async { tokio::join!(feeding, hearing).1 };
        tokio::pin!(reading, rest);
        let (out, is_full, said) = tokio::select! {
            (out, is_full) = &mut reading => match is_full {
                true => (out, true, String::new()),
                false => (out, false, rest.await),
            },
            said = &mut rest => {
                let (out, is_full) = reading.await;
                (out, is_full, said)
            }
        };
        // Once there is enough, nobody waits for the rest.
        if is_full {
            return Ok((out, true));
        }
        match child.wait().await {
            Ok(status) if status.success() => Ok((out, false)),
            Ok(status) if status.code() == Some(1) && !said.is_empty() => Err(JqFault::Failed(said)),
            // It did not end by itself.
            Ok(_) => Err(JqFault::Failed("it needed too much memory or time".into())),
            Err(error) => Err(JqFault::Unavailable(error)),
        }
    };
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(Ok((_, true))) if wanted > most => Err(JqFault::TooMuch),
        Ok(Ok((mut out, is_cut))) => {
            if is_cut {
                out.truncate(whole_characters(&out));
            }
            Ok(Filtered { bytes: Bytes::from(out), is_cut })
        }
        Ok(Err(fault)) => Err(fault),
        Err(_) => Err(JqFault::Deadline),
    }
}

/// How much of a text that was cut anywhere ends with a character.
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
        assert_eq!(whole_characters(b"a\xff"), 2, "what is no text is told as such");
    }
}
