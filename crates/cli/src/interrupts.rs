//! Ctrl+C while a question is open is an answer to the question. At any other time it ends the command.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The exit code of a command that Ctrl+C ended, as shells report it.
const INTERRUPTED: i32 = 130;

static WATCH: Mutex<InterruptWatch> = Mutex::new(InterruptWatch { task: None, question: None });

/// The task that receives Ctrl+C, and the open question.
struct InterruptWatch {
    task: Option<JoinHandle<()>>,
    question: Option<oneshot::Sender<()>>,
}

fn lock() -> MutexGuard<'static, InterruptWatch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a question, until the returned receiver is dropped. It receives Ctrl+C.
pub fn open_question() -> oneshot::Receiver<()> {
    let (sender, interrupted) = oneshot::channel();
    let mut watch = lock();
    watch.question = Some(sender);
    let is_watched = watch.task.as_ref().is_some_and(|task| !task.is_finished());
    // The system's own handling does not come back after the question, so one task does both.
    if !is_watched && let Ok(mut interrupts) = signal(SignalKind::interrupt()) {
        watch.task = Some(tokio::spawn(async move {
            while interrupts.recv().await.is_some() {
                let question = lock().question.take();
                if question.is_none_or(|question| question.send(()).is_err()) {
                    std::process::exit(INTERRUPTED);
                }
            }
        }));
    }
    interrupted
}
