//! The line editor: a thread that owns the terminal's input while a line is typed.
//!
//! The rest of the process goes on meanwhile. What could follow a half-typed line is asked of the shell, which asks
//! its gateway: so completion knows what there is at that moment.

use super::history::{self, History};
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
use tokio::sync::{mpsc, oneshot};

/// How long completion may take before nothing is offered.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// The longest line that is taken.
pub const LONGEST_LINE: usize = 1 << 20;

type Lines = rustyline::Editor<Completing, MemHistory>;

/// What came of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or there is no terminal any more.
    End,
}

/// A half-typed line whose continuations are wanted.
#[derive(Debug)]
pub struct Question {
    /// The line up to the cursor.
    pub line: String,
    reply: blocking::Sender<Continuations>,
}

/// What may stand from a place on.
#[derive(Debug, Default)]
pub struct Continuations {
    /// Where the part begins that they replace.
    pub from: usize,
    /// The words.
    pub words: Vec<String>,
}

impl Question {
    /// Answers it; nobody minds if that comes too late.
    pub fn answer(self, continuations: Continuations) {
        let _ = self.reply.send(continuations);
    }
}

/// What is to be read.
enum Kind {
    /// A command: with history and completion.
    Command,
    /// An answer to a question: with neither.
    Answer,
}

struct Order {
    kind: Kind,
    prompt: String,
    reply: oneshot::Sender<Typed>,
}

/// The shell's end of the editor.
#[derive(Debug, Clone)]
pub struct Editor {
    orders: blocking::Sender<Order>,
}

impl Editor {
    /// Whether somebody sits at a terminal.
    pub fn is_possible() -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Starts the thread; questions about continuations come out of the second part.
    pub fn start(history: History) -> std::io::Result<(Self, mpsc::Receiver<Question>)> {
        let (orders, taken) = blocking::channel();
        let (asking, questions) = mpsc::channel(1);
        std::thread::Builder::new().name("editor".into()).spawn(move || serve(&taken, asking, history))?;
        Ok((Self { orders }, questions))
    }

    /// Reads a command.
    pub async fn command(&self, prompt: &str) -> Typed {
        self.read(Kind::Command, prompt).await
    }

    /// Reads an answer.
    pub async fn answer(&self, prompt: &str) -> Typed {
        self.read(Kind::Answer, prompt).await
    }

    async fn read(&self, kind: Kind, prompt: &str) -> Typed {
        let (reply, typed) = oneshot::channel();
        if self.orders.send(Order { kind, prompt: prompt.to_owned(), reply }).is_err() {
            return Typed::End;
        }
        typed.await.unwrap_or(Typed::End)
    }
}

/// How lines are edited, with room for all that the history keeps.
fn config() -> rustyline::Result<Config> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .behavior(Behavior::Stdio)
        .max_history_size(history::MOST)?;
    Ok(config.build())
}

fn serve(orders: &blocking::Receiver<Order>, asking: mpsc::Sender<Question>, mut history: History) {
    let Ok(config) = config() else { return };
    let memory = || MemHistory::with_config(&config);
    let Ok(mut commands) = Lines::with_history(config.clone(), memory()) else { return };
    let Ok(mut answers) = rustyline::Editor::<(), MemHistory>::with_history(config.clone(), memory()) else {
        return;
    };
    commands.set_helper(Some(Completing { asking }));
    for line in history.lines() {
        let _ = commands.add_history_entry(line);
    }
    obey(orders, |kind, prompt| match kind {
        Kind::Command => {
            let typed = outcome(commands.readline(prompt));
            if let Typed::Line(line) = &typed
                && history.keep(line)
            {
                let _ = commands.add_history_entry(line.as_str());
            }
            typed
        }
        Kind::Answer => {
            crate::desk::discard_type_ahead();
            outcome(answers.readline(prompt))
        }
    });
}

fn obey(orders: &blocking::Receiver<Order>, mut read: impl FnMut(Kind, &str) -> Typed) {
    while let Ok(Order { kind, prompt, reply }) = orders.recv() {
        // Who asked may have been cancelled meanwhile; the next one has not.
        let _ = reply.send(read(kind, &prompt));
    }
}

fn outcome(read: rustyline::Result<String>) -> Typed {
    match read {
        Ok(line) if line.len() <= LONGEST_LINE => Typed::Line(line),
        Ok(_) => {
            render::complain("error[usage.shell-cut]: a line is longer than 1 MiB and was not taken\n");
            Typed::Interrupted
        }
        Err(ReadlineError::Interrupted) => Typed::Interrupted,
        Err(_) => Typed::End,
    }
}

/// Asks the shell what may follow.
struct Completing {
    asking: mpsc::Sender<Question>,
}

impl Completer for Completing {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (reply, answer) = blocking::channel();
        let question = Question { line: line[..pos].to_owned(), reply };
        let asked = self.asking.try_send(question).is_ok();
        let found = asked.then(|| answer.recv_timeout(PATIENCE).ok()).flatten().unwrap_or_default();
        let pair = |word: String| Pair { display: word.trim_end().to_owned(), replacement: word };
        Ok((found.from.min(pos), found.words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completing {
    type Hint = String;
}
impl Highlighter for Completing {}
impl Validator for Completing {}
impl Helper for Completing {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::History as _;

    #[test]
    fn the_editor_remembers_as_much_as_the_file() {
        let config = config().expect("it can be built");
        let mut memory = MemHistory::with_config(&config);
        for number in 0..history::MOST + 5 {
            memory.add(&number.to_string()).expect("there is room");
        }
        assert_eq!(memory.len(), history::MOST);
    }

    #[test]
    fn a_question_that_was_cancelled_does_not_end_the_editor() {
        let (orders, taken) = blocking::channel();
        let order = |prompt: &str| {
            let (reply, typed) = oneshot::channel();
            orders.send(Order { kind: Kind::Answer, prompt: prompt.to_owned(), reply }).expect("it is taken");
            typed
        };
        drop(order("first"));
        let second = order("second");
        drop(orders);
        obey(&taken, |_, prompt| Typed::Line(prompt.to_owned()));
        assert_eq!(second.blocking_recv(), Ok(Typed::Line("second".to_owned())));
    }
}
