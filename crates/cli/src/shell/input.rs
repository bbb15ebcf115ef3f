//! The input of the shell: a terminal, or another standard input.

use super::complete::complete;
use super::editor::{self, COMPLETION_TIMEOUT, CompletionRequest, MAX_LINE};
use super::history::ShellHistory;
use crate::editor_handle::{EditedLine, Editor};
use crate::failure::CommandFailure;
use crate::gateway_handle::GatewayHandle;
use crate::prompter::{PipedLines, Prompter};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Stdin};
use tokio::sync::mpsc::Receiver;
use toolbooth_core::fault::{Blame, Problem};

/// The prompt on a terminal.
const PROMPT: &str = "toolbooth> ";

/// A source of lines.
pub enum Input {
    /// A terminal with a line editor.
    Terminal { editor: Editor, completion_requests: Receiver<CompletionRequest> },
    /// A file or a pipe.
    Pipe(PipedLines),
}

/// The result of reading a line.
pub enum InputLine {
    /// A line.
    Line(String),
    /// The user cancelled the line.
    Nothing,
    /// The end of the input.
    End,
    /// A line that is too long; others may follow.
    Refused(CommandFailure),
    /// The input cannot be read any further.
    Cut(CommandFailure),
}

impl Input {
    /// Opens standard input. On a terminal, the history is stored in the data directory.
    pub fn open(data_dir: &Path) -> Result<Self, Problem> {
        if !editor::is_possible() {
            return Ok(Self::Pipe(PipedLines::of_stdin()));
        }
        let (editor, completion_requests) =
            editor::start(ShellHistory::of(data_dir)).map_err(|error| Problem {
                code: "serve.no-runtime",
                blame: Blame::Gateway,
                message: format!("the line editor cannot be started: {error}"),
                hint: Some("check the limits on processes and open files (`ulimit -a`)".into()),
            })?;
        Ok(Self::Terminal { editor, completion_requests })
    }

    /// Whether the input is a terminal.
    pub fn is_typed(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// How to ask the user a question. The next line of a pipe answers a server's question, but approves no call.
    pub fn prompter(&self) -> Prompter {
        match self {
            Self::Terminal { editor, .. } => Prompter::Editor(editor.clone()),
            Self::Pipe(lines) => Prompter::Lines(lines.clone()),
        }
    }

    /// Reads the next line.
    pub async fn next(&mut self, gateway: &GatewayHandle) -> InputLine {
        match self {
            Self::Pipe(lines) => from_pipe(&mut *lines.lock().await).await,
            Self::Terminal { editor, completion_requests } => {
                let typed = editor.command(PROMPT);
                tokio::pin!(typed);
                loop {
                    tokio::select! {
                        typed = &mut typed => return match typed {
                            EditedLine::Line(line) => InputLine::Line(line),
                            EditedLine::Interrupted => InputLine::Nothing,
                            EditedLine::End => InputLine::End,
                        },
                        Some(request) = completion_requests.recv() => {
                            // The editor waits no longer, and a finished line must not be delayed.
                            let found = tokio::time::timeout(COMPLETION_TIMEOUT, complete(gateway, &request.line)).await;
                            request.answer(found.unwrap_or_default());
                        }
                    }
                }
            }
        }
    }
}

async fn from_pipe(input: &mut BufReader<Stdin>) -> InputLine {
    let mut line = Vec::new();
    let limit = MAX_LINE as u64 + 1;
    match input.take(limit).read_until(b'\n', &mut line).await {
        Ok(0) => InputLine::End,
        Ok(_) if line.len() > MAX_LINE => match skip_rest(input, line.ends_with(b"\n")).await {
            Ok(()) => {
                let hint = "put long arguments into a file: /call TOOL --args @FILE";
                InputLine::Refused(cut("the line is longer than 1 MiB and was skipped").hint(hint))
            }
            Err(error) => InputLine::Cut(cut(&format!("standard input cannot be read: {error}"))),
        },
        Ok(_) => InputLine::Line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()),
        Err(error) => InputLine::Cut(cut(&format!("standard input cannot be read: {error}"))),
    }
}

/// Skips to the end of the line.
async fn skip_rest(input: &mut BufReader<Stdin>, mut at_end: bool) -> std::io::Result<()> {
    let mut piece = Vec::new();
    while !at_end {
        piece.clear();
        let read = input.take(MAX_LINE as u64).read_until(b'\n', &mut piece).await?;
        at_end = read == 0 || piece.ends_with(b"\n");
    }
    Ok(())
}

fn cut(why: &str) -> CommandFailure {
    CommandFailure::misuse("usage.shell-cut", why, None)
}
