//! `toolbooth chat`: asks the model one question and prints its answer.

use super::{Chat, ChatContext, ChatPrinter, ChatTools, ChatTurn, ChatVerbosity, select};
use crate::commands::in_runtime;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::prompter::Prompter;
use crate::render;
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use toolbooth_upstream::llm::ChatModel;

/// The maximum size of standard input.
const MAX_INPUT: u64 = 1 << 20;

/// Arguments of `toolbooth chat`.
#[derive(Debug, Args)]
#[command(after_help = "\
`llm` in the configuration sets the model: any OpenAI-compatible endpoint. The model searches and calls tools on your \
behalf, under the same policies. If a call needs approval, you are asked; without a terminal the call is held.
For example:
  toolbooth chat 'what is the SHA-256 of hello?'
  git diff | toolbooth chat 'write a commit message' -o message.txt
  toolbooth chat --tools demo_time 'what time is it?' --json")]
pub struct ChatArguments {
    /// Question; text on standard input is appended.
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
    /// Give the model only these tools.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    tools: Vec<String>,
    /// Model to use instead of `llm.model`: one of `llm.endpoints`, or another one at the same endpoint.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Write the answer to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Session of the calls.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Runs `toolbooth chat`.
pub fn run(global: &GlobalOptions, arguments: &ChatArguments) -> CommandResult {
    // Invalid arguments are refused before a gateway is started.
    let (_, loaded) = gateway::load(global)?;
    let model = select(&loaded.settings, arguments.model.as_deref())?;
    let prompt = prompt(arguments)?;
    let answer_file = arguments.output.as_deref().map(AnswerFile::open).transpose()?;
    in_runtime(async {
        let mut gateway = GatewayHandle::open_persistent(global).await?;
        if let GatewayHandle::Embedded(embedded) = &mut gateway {
            embedded.keep_for_session();
        }
        let turn = ask(&gateway, global, arguments, model, &prompt).await;
        gateway.close().await;
        let turn = turn?;
        if let Some(answer_file) = answer_file {
            answer_file.write(&turn.answer)?;
        }
        if global.json {
            render::print_json(&turn);
        }
        Ok(turn.exit())
    })
}

async fn ask(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &ChatArguments,
    model: ChatModel,
    prompt: &str,
) -> Result<ChatTurn, CommandFailure> {
    let tools = match arguments.tools.as_slice() {
        [] => ChatTools::Search,
        names => ChatTools::of(gateway, names).await?,
    };
    let verbosity = match (global.json, &arguments.output) {
        (true, _) => ChatVerbosity::Silent,
        (false, Some(_)) => ChatVerbosity::NotesOnly,
        (false, None) => ChatVerbosity::Everything,
    };
    let mut printer = ChatPrinter::new(verbosity);
    let context = ChatContext { gateway, prompter: &Prompter::here(), session: arguments.session.as_deref() };
    let mut chat = Chat::new(model, tools);
    chat.say(&context, prompt, &mut printer).await
}

/// The question: the arguments, and the text on standard input.
fn prompt(arguments: &ChatArguments) -> Result<String, CommandFailure> {
    let mut parts = vec![arguments.prompt.join(" ")];
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let mut text = Vec::new();
        let read = stdin.lock().take(MAX_INPUT + 1).read_to_end(&mut text);
        if read.is_ok() && text.len() as u64 > MAX_INPUT {
            let message = "standard input is longer than 1 MiB";
            return Err(CommandFailure::misuse("usage.prompt", message, Some("send less text at once")));
        }
        parts.push(String::from_utf8_lossy(&text).into_owned());
    }
    let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => Err(CommandFailure::misuse(
            "usage.prompt",
            "the question is empty",
            Some("give a question, for example: toolbooth chat 'what time is it?'"),
        )),
        false => Ok(parts.join("\n\n")),
    }
}

/// The file for an answer. It is opened before the model is asked, because an answer that cannot be written still
/// costs tokens. Its content stays unchanged until there is an answer.
struct AnswerFile<'a> {
    path: &'a Path,
    file: File,
    /// Whether the file was created for the answer and has no answer yet.
    is_unused: bool,
}

impl<'a> AnswerFile<'a> {
    fn open(path: &'a Path) -> Result<Self, CommandFailure> {
        let open = |options: &mut OpenOptions| options.write(true).open(path);
        let (file, is_unused) = match open(OpenOptions::new().create_new(true)) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (open(&mut OpenOptions::new()).map_err(|error| unwritable(path, &error))?, false)
            }
            Err(error) => return Err(unwritable(path, &error)),
        };
        Ok(Self { path, file, is_unused })
    }

    fn write(mut self, answer: &str) -> Result<(), CommandFailure> {
        let end = if answer.ends_with('\n') { "" } else { "\n" };
        let path = self.path;
        self.is_unused = false;
        let mut put = || {
            // A device or a pipe cannot be truncated.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(format!("{answer}{end}").as_bytes())
        };
        put().map_err(|error| unwritable(path, &error))
    }
}

impl Drop for AnswerFile<'_> {
    fn drop(&mut self) {
        if self.is_unused {
            let _ = std::fs::remove_file(self.path);
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> CommandFailure {
    let message = format!("{} cannot be written: {error}", render::path(path));
    CommandFailure { exit: Exit::Failed, ..CommandFailure::misuse("usage.file", message, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_changed_only_by_an_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        let text = |path: &Path| std::fs::read_to_string(path).ok();
        std::fs::write(&old, "what was there before").expect("it is written");
        for path in [&new, &old] {
            drop(AnswerFile::open(path).expect("it can be written"));
        }
        assert_eq!((text(&new), text(&old).as_deref()), (None, Some("what was there before")));
        for path in [&new, &old] {
            AnswerFile::open(path)
                .and_then(|answer_file| answer_file.write("42"))
                .expect("it can be written");
            assert_eq!(text(path).as_deref(), Some("42\n"));
        }
        AnswerFile::open(Path::new("/dev/null"))
            .and_then(|answer_file| answer_file.write("42"))
            .expect("so can devices");
        let failure = AnswerFile::open(folder.path()).err().expect("a folder cannot");
        assert_eq!((failure.exit, failure.fault.code.as_str()), (Exit::Failed, "usage.file"));
    }
}
