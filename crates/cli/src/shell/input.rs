//! Where lines come from: a terminal, or whatever standard input is.

use super::complete::complete;
use super::editor::{Editor, LONGEST_LINE, PATIENCE, Question, Typed};
use super::history::History;
use crate::desk::Desk;
use crate::failure::Failure;
use crate::reach::Reach;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Stdin};
use tokio::sync::mpsc::Receiver;
use toolbooth_core::fault::{Blame, Problem};

/// What stands before a line that is typed.
const PROMPT: &str = "toolbooth> ";

/// A source of lines.
pub enum Input {
    /// Somebody types.
    Terminal { editor: Editor, questions: Receiver<Question> },
    /// A file or another program.
    Pipe(BufReader<Stdin>),
}

/// What came next.
pub enum Next {
    /// A line.
    Line(String),
    /// Nothing to do: somebody gave a line up.
    Nothing,
    /// There is no more.
    End,
    /// A line that is not taken; others may follow.
    Refused(Failure),
    /// There may be more, but it cannot be read.
    Cut(Failure),
}

impl Input {
    /// Opens standard input; what is typed there is remembered in a data folder.
    pub fn open(data_dir: &Path) -> Result<Self, Problem> {
        if !Editor::is_possible() {
            return Ok(Self::Pipe(BufReader::new(tokio::io::stdin())));
        }
        let (editor, questions) = Editor::start(History::of(data_dir)).map_err(|error| Problem {
            code: "serve.no-runtime",
            blame: Blame::Gateway,
            message: format!("the system gave no threads: {error}"),
            hint: Some("check the limits on processes and open files (`ulimit -a`)".into()),
        })?;
        Ok(Self::Terminal { editor, questions })
    }

    /// Whether somebody types.
    pub fn is_typed(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// Where a person is asked: never on a pipe, whose lines are commands.
    pub fn desk(&self) -> Desk {
        match self {
            Self::Terminal { editor, .. } => Desk::Editor(editor.clone()),
            Self::Pipe(_) => Desk::Nobody,
        }
    }

    /// The next line.
    pub async fn next(&mut self, reach: &Reach) -> Next {
        match self {
            Self::Pipe(input) => from_pipe(input).await,
            Self::Terminal { editor, questions } => {
                let typed = editor.command(PROMPT);
                tokio::pin!(typed);
                loop {
                    tokio::select! {
                        typed = &mut typed => return match typed {
                            Typed::Line(line) => Next::Line(line),
                            Typed::Interrupted => Next::Nothing,
                            Typed::End => Next::End,
                        },
                        Some(question) = questions.recv() => {
                            // The editor waits no longer than that, and a line that is done must be taken.
                            let found = tokio::time::timeout(PATIENCE, complete(reach, &question.line)).await;
                            question.answer(found.unwrap_or_default());
                        }
                    }
                }
            }
        }
    }
}

async fn from_pipe(input: &mut BufReader<Stdin>) -> Next {
    let mut line = Vec::new();
    let limit = LONGEST_LINE as u64 + 1;
    match input.take(limit).read_until(b'\n', &mut line).await {
        Ok(0) => Next::End,
        Ok(_) if line.len() > LONGEST_LINE => match skip_rest(input, line.ends_with(b"\n")).await {
            Ok(()) => {
                let hint = "long arguments can stand in a file: /call TOOL --args @FILE";
                Next::Refused(cut("a line is longer than 1 MiB and was not taken").hint(hint))
            }
            Err(error) => Next::Cut(cut(&format!("standard input cannot be read: {error}"))),
        },
        Ok(_) => Next::Line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()),
        Err(error) => Next::Cut(cut(&format!("standard input cannot be read: {error}"))),
    }
}

/// Reads on to the end of the line, and keeps nothing of it.
async fn skip_rest(input: &mut BufReader<Stdin>, mut at_end: bool) -> std::io::Result<()> {
    let mut piece = Vec::new();
    while !at_end {
        piece.clear();
        let read = input.take(LONGEST_LINE as u64).read_until(b'\n', &mut piece).await?;
        at_end = read == 0 || piece.ends_with(b"\n");
    }
    Ok(())
}

fn cut(why: &str) -> Failure {
    Failure::misuse("usage.shell-cut", why, None)
}
