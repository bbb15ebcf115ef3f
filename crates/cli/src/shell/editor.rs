//! The line editor: a thread that owns the terminal's input while a line is edited.
//!
//! The rest of the process keeps running. The editor asks the shell for completions, which queries its gateway, so
//! completions are always current.

use super::history::{self, ShellHistory};
use crate::editor_handle::{EditedLine, Editor, LineKind, ReadRequest};
use crate::prompter::discard_type_ahead;
use crate::render;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Helper};
use std::io::IsTerminal;
use std::sync::mpsc as blocking;
use std::time::Duration;
use tokio::sync::mpsc;

/// The time limit of a completion.
pub const COMPLETION_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest accepted line.
pub const MAX_LINE: usize = 1 << 20;

type CommandEditor = rustyline::Editor<CommandCompleter, MemHistory>;

/// A request for the completions of a line.
#[derive(Debug)]
pub struct CompletionRequest {
    /// The line up to the cursor.
    pub line: String,
    reply: blocking::Sender<Completions>,
}

/// The completions of a line.
#[derive(Debug, Default)]
pub struct Completions {
    /// The byte offset of the part that they replace.
    pub from: usize,
    /// The completions.
    pub words: Vec<String>,
}

impl CompletionRequest {
    /// Sends the completions; the editor may have stopped waiting.
    pub fn answer(self, completions: Completions) {
        let _ = self.reply.send(completions);
    }
}

/// Whether standard input and output are a terminal.
pub fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Starts the thread. The receiver gets its completion requests.
pub fn start(history: ShellHistory) -> std::io::Result<(Editor, mpsc::Receiver<CompletionRequest>)> {
    let (editor, received) = Editor::new();
    let (completion_requests, questions) = mpsc::channel(1);
    std::thread::Builder::new()
        .name("editor".into())
        .spawn(move || serve(&received, completion_requests, history))?;
    Ok((editor, questions))
}

/// The configuration of the editor, with room for the whole history.
fn config() -> rustyline::Result<Config> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .behavior(Behavior::Stdio)
        .max_history_size(history::MAX_LINES)?;
    Ok(config.build())
}

fn serve(
    requests: &blocking::Receiver<ReadRequest>,
    completion_requests: mpsc::Sender<CompletionRequest>,
    mut history: ShellHistory,
) {
    let Ok(config) = config() else { return };
    let memory = || MemHistory::with_config(&config);
    let Ok(mut commands) = CommandEditor::with_history(config.clone(), memory()) else { return };
    let Ok(mut answers) = rustyline::Editor::<(), MemHistory>::with_history(config.clone(), memory()) else {
        return;
    };
    commands.set_helper(Some(CommandCompleter { completion_requests }));
    for line in history.lines() {
        let _ = commands.add_history_entry(line);
    }
    serve_requests(requests, |kind, prompt| match kind {
        LineKind::Command => {
            let typed = outcome(commands.readline(prompt));
            if let EditedLine::Line(line) = &typed
                && history.add(line)
            {
                let _ = commands.add_history_entry(line.as_str());
            }
            typed
        }
        LineKind::Answer => {
            discard_type_ahead();
            outcome(answers.readline(prompt))
        }
    });
}

fn serve_requests(
    requests: &blocking::Receiver<ReadRequest>,
    mut read: impl FnMut(LineKind, &str) -> EditedLine,
) {
    while let Ok(ReadRequest { kind, prompt, reply }) = requests.recv() {
        // The requester may have been cancelled; the thread serves the next request.
        let _ = reply.send(read(kind, &prompt));
    }
}

fn outcome(read: rustyline::Result<String>) -> EditedLine {
    match read {
        Ok(line) if line.len() <= MAX_LINE => EditedLine::Line(line),
        Ok(_) => {
            render::complain("error[usage.shell-cut]: the line is longer than 1 MiB and was skipped\n");
            EditedLine::Interrupted
        }
        Err(ReadlineError::Interrupted) => EditedLine::Interrupted,
        Err(_) => EditedLine::End,
    }
}

/// Requests completions from the shell.
struct CommandCompleter {
    completion_requests: mpsc::Sender<CompletionRequest>,
}

impl Completer for CommandCompleter {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (reply, answer) = blocking::channel();
        let question = CompletionRequest { line: line[..pos].to_owned(), reply };
        let is_sent = self.completion_requests.try_send(question).is_ok();
        let found =
            is_sent.then(|| answer.recv_timeout(COMPLETION_TIMEOUT).ok()).flatten().unwrap_or_default();
        let pair = |word: String| Pair { display: word.trim_end().to_owned(), replacement: word };
        Ok((found.from.min(pos), found.words.into_iter().map(pair).collect()))
    }
}

impl Hinter for CommandCompleter {
    type Hint = String;
}
impl Highlighter for CommandCompleter {}
impl Validator for CommandCompleter {}
impl Helper for CommandCompleter {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::History as _;
    use tokio::sync::oneshot;

    #[test]
    fn the_editor_keeps_as_many_lines_as_the_file() {
        let config = config().expect("the configuration is valid");
        let mut memory = MemHistory::with_config(&config);
        for number in 0..history::MAX_LINES + 5 {
            memory.add(&number.to_string()).expect("there is room");
        }
        assert_eq!(memory.len(), history::MAX_LINES);
    }

    #[test]
    fn a_cancelled_question_does_not_end_the_editor() {
        let (requests, received) = blocking::channel();
        let order = |prompt: &str| {
            let (reply, typed) = oneshot::channel();
            requests
                .send(ReadRequest { kind: LineKind::Answer, prompt: prompt.to_owned(), reply })
                .expect("it is taken");
            typed
        };
        drop(order("first"));
        let second = order("second");
        drop(requests);
        serve_requests(&received, |_, prompt| EditedLine::Line(prompt.to_owned()));
        assert_eq!(second.blocking_recv(), Ok(EditedLine::Line("second".to_owned())));
    }
}
