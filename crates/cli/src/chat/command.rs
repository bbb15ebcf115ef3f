//! `toolbooth chat`: one question to the model, and its answer.

use super::{Chat, Kit, Manner, Model, Surroundings, Turn, Voice};
use crate::arguments::Global;
use crate::commands::in_runtime;
use crate::desk::Desk;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::reach::Reach;
use crate::render;
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// The most that is read from standard input.
const LONGEST_INPUT: u64 = 1 << 20;

/// What to ask.
#[derive(Debug, Args)]
#[command(after_help = "\
The model is the one of `llm` in the configuration: any OpenAI-compatible endpoint. It finds and calls tools by itself,
as you and under the same policies; a call that needs a person is asked about here, or held where nobody sits.
For example:
  toolbooth chat 'what is the SHA-256 of hello?'
  git diff | toolbooth chat 'write a commit message' -o message.txt
  toolbooth chat --tools demo_time 'what time is it?' --json")]
pub struct ChatArguments {
    /// The question; text on standard input is added to it.
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
    /// Only these tools.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    tools: Vec<String>,
    /// Another model than `llm.model`, at the same endpoint.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Write the answer to a file instead.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The session that calls belong to.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Runs `toolbooth chat`.
pub fn run(global: &Global, what: &ChatArguments) -> Outcome {
    // What can be refused without a gateway is refused before one is started.
    let (_, loaded) = gateway::load(global)?;
    let model = Model::of(&loaded.settings, what.model.as_deref())?;
    let prompt = prompt(what)?;
    let page = what.output.as_deref().map(Page::open).transpose()?;
    in_runtime(async {
        let mut reach = Reach::open_lasting(global).await?;
        if let Reach::Own(own) = &mut reach {
            own.settle_in();
        }
        let turn = ask(&reach, global, what, model, &prompt).await;
        reach.close().await;
        let turn = turn?;
        if let Some(page) = page {
            page.write(&turn.answer)?;
        }
        if global.json {
            render::print_json(&turn);
        }
        Ok(turn.exit())
    })
}

async fn ask(
    reach: &Reach,
    global: &Global,
    what: &ChatArguments,
    model: Model,
    prompt: &str,
) -> Result<Turn, Failure> {
    let kit = match what.tools.as_slice() {
        [] => Kit::Search,
        names => Kit::of(reach, names).await?,
    };
    let manner = match (global.json, &what.output) {
        (true, _) => Manner::Silent,
        (false, Some(_)) => Manner::Working,
        (false, None) => Manner::Aloud,
    };
    let mut voice = Voice::new(manner);
    let around = Surroundings { reach, desk: &Desk::here(), session: what.session.as_deref() };
    let mut chat = Chat::new(model, kit);
    chat.say(&around, prompt, &mut voice).await
}

/// The question: the words, and what comes from a pipe.
fn prompt(what: &ChatArguments) -> Result<String, Failure> {
    let mut parts = vec![what.prompt.join(" ")];
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let mut text = Vec::new();
        let read = stdin.lock().take(LONGEST_INPUT + 1).read_to_end(&mut text);
        if read.is_ok() && text.len() as u64 > LONGEST_INPUT {
            let message = "standard input holds more than 1 MiB";
            return Err(Failure::misuse(
                "usage.prompt",
                message,
                Some("give the model less to read at once"),
            ));
        }
        parts.push(String::from_utf8_lossy(&text).into_owned());
    }
    let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => Err(Failure::misuse(
            "usage.prompt",
            "there is nothing to ask",
            Some("give a question, for example: toolbooth chat 'what time is it?'"),
        )),
        false => Ok(parts.join("\n\n")),
    }
}

/// The file that an answer goes to: opened before the model is asked, since an answer that cannot be kept is paid for
/// all the same. What is in it stays until there is an answer.
struct Page<'a> {
    path: &'a Path,
    file: File,
    /// Whether it was made for the answer, and there is none yet.
    is_void: bool,
}

impl<'a> Page<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let open = |options: &mut OpenOptions| options.write(true).open(path);
        let (file, is_void) = match open(OpenOptions::new().create_new(true)) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (open(&mut OpenOptions::new()).map_err(|error| unwritable(path, &error))?, false)
            }
            Err(error) => return Err(unwritable(path, &error)),
        };
        Ok(Self { path, file, is_void })
    }

    fn write(mut self, answer: &str) -> Result<(), Failure> {
        let end = if answer.ends_with('\n') { "" } else { "\n" };
        let path = self.path;
        self.is_void = false;
        let mut put = || {
            // A device or a pipe has no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(format!("{answer}{end}").as_bytes())
        };
        put().map_err(|error| unwritable(path, &error))
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        if self.is_void {
            let _ = std::fs::remove_file(self.path);
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", render::path(path));
    Failure { exit: Exit::Failed, ..Failure::misuse("usage.file", message, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_only_changed_by_an_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        let text = |path: &Path| std::fs::read_to_string(path).ok();
        std::fs::write(&old, "what was there before").expect("it is written");
        for path in [&new, &old] {
            drop(Page::open(path).expect("it can be written"));
        }
        assert_eq!((text(&new), text(&old).as_deref()), (None, Some("what was there before")));
        for path in [&new, &old] {
            Page::open(path).and_then(|page| page.write("42")).expect("it can be written");
            assert_eq!(text(path).as_deref(), Some("42\n"));
        }
        Page::open(Path::new("/dev/null")).and_then(|page| page.write("42")).expect("so can devices");
        let failure = Page::open(folder.path()).err().expect("a folder cannot");
        assert_eq!((failure.exit, failure.trouble.code.as_str()), (Exit::Failed, "usage.file"));
    }
}
