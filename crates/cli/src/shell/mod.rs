//! `toolbooth shell`: runs commands line by line, from a terminal or a pipe.
//!
//! The shell opens its gateway once and passes each line to the command of the same name, so a line behaves as it
//! does on the command line.

mod command;
mod complete;
mod editor;
mod help;
mod history;
mod input;
mod line;
mod words;

use crate::chat::{self, Chat, ChatContext, ChatPrinter, ChatTools, ChatVerbosity};
use crate::commands::{
    self, approvals, call, dead_letters, events, explain, files, in_runtime, jobs, plan, servers, skills,
    tasks, tools,
};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::prompter::Prompter;
use crate::render::{self, Paint, Tone};
use clap::{Args, Command};
use command::{McpAction, McpArguments, ShellCommand, ShellLine};
use input::{Input, InputLine};
use line::ParsedLine;
use std::ops::ControlFlow;

/// Arguments of `toolbooth shell`.
#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal, lines can be edited, completed with Tab and recalled from the history. From a pipe, the shell reads \
lines until the end, and the first command that fails ends it with exit code 1; a held call is not a failure.
For example:
  toolbooth shell
  echo '/call demo_hash text=hi' | toolbooth shell
  toolbooth shell --echo --keep-going < session.txt")]
pub struct ShellArguments {
    /// Continue after a command from a pipe has failed; the exit code is still 1.
    #[arg(long)]
    keep_going: bool,
    /// Print each line from a pipe before running it.
    #[arg(long)]
    echo: bool,
    /// Model for plain text, instead of `llm.model`: one of `llm.endpoints`, or another one at the same endpoint.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Session of the calls.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Runs `toolbooth shell`. `program` is the definition of the command line.
pub fn run(global: &GlobalOptions, arguments: &ShellArguments, program: Command) -> CommandResult {
    in_runtime(async {
        let mut gateway = GatewayHandle::open_persistent(global).await?;
        if let GatewayHandle::Embedded(embedded) = &mut gateway {
            embedded.keep_for_session();
        }
        let outcome = async {
            let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
            let input = Input::open(&gateway::data_dir(&sources)).map_err(CommandFailure::failed)?;
            let mut shell = Shell {
                gateway: &gateway,
                global,
                arguments,
                program,
                prompter: input.prompter(),
                chat: chat_of(global, arguments),
            };
            shell.read_lines(input).await
        }
        .await;
        gateway.close().await;
        outcome
    })
}

struct Shell<'a> {
    gateway: &'a GatewayHandle,
    global: &'a GlobalOptions,
    arguments: &'a ShellArguments,
    program: Command,
    prompter: Prompter,
    chat: Option<Chat>,
}

/// Creates a chat with the configured model, if there is one.
fn chat_of(global: &GlobalOptions, arguments: &ShellArguments) -> Option<Chat> {
    let (_, loaded) = gateway::load(global).ok()?;
    let model = chat::select(&loaded.settings, arguments.model.as_deref()).ok()?;
    Some(Chat::new(model, ChatTools::Search))
}

impl Shell<'_> {
    async fn read_lines(&mut self, mut input: Input) -> CommandResult {
        let typed = input.is_typed();
        if typed {
            self.gateway.connect(ServerSelection::AutoConnected).await;
            render::print(&self.greeting().await);
        }
        let mut exit = Exit::Ok;
        loop {
            let next = tokio::select! {
                next = input.next(self.gateway) => next,
                // On a terminal the line editor handles Ctrl-C; from a pipe it ends the shell.
                _ = tokio::signal::ctrl_c(), if !typed => return Ok(Exit::Failed),
            };
            let line = match next {
                InputLine::Line(line) => line,
                InputLine::Nothing => continue,
                InputLine::End => return Ok(exit),
                InputLine::Refused(failure) => {
                    // Like a failed command, because later lines may depend on it.
                    report(failure, self.global);
                    exit = Exit::Failed;
                    if !self.arguments.keep_going {
                        return Ok(exit);
                    }
                    continue;
                }
                InputLine::Cut(failure) => {
                    report(failure, self.global);
                    return Ok(Exit::Failed);
                }
            };
            if self.arguments.echo && !typed {
                render::print(&format!("> {}\n", render::plain(&line)));
            }
            let done = tokio::select! {
                done = self.run_line(&line) => done,
                // Dropping the future cancels the call.
                _ = tokio::signal::ctrl_c() => {
                    render::complain("\nCancelled.\n");
                    if !typed {
                        return Ok(Exit::Failed);
                    }
                    continue;
                }
            };
            match done {
                ControlFlow::Break(()) => return Ok(exit),
                ControlFlow::Continue(Exit::Ok | Exit::Held) => {}
                // The user at the terminal has seen the error.
                ControlFlow::Continue(_) if typed => {}
                ControlFlow::Continue(_) => exit = Exit::Failed,
            }
            if exit == Exit::Failed && !self.arguments.keep_going {
                return Ok(exit);
            }
        }
    }

    /// The greeting on a terminal.
    async fn greeting(&self) -> String {
        let paint = Paint::stdout();
        let count = |answer: &serde_json::Value, key: &str| {
            usize::try_from(answer[key].as_u64().unwrap_or(0)).unwrap_or(0)
        };
        let servers = self.gateway.get("/servers").await.unwrap_or_default();
        let servers = servers["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tools: usize = servers.iter().map(|server| count(server, "tools")).sum();
        let offer = format!("{} of {}", render::count(tools, "tool"), render::count(servers.len(), "server"));
        let place = match self.gateway {
            GatewayHandle::Running(remote) => format!("at {}", render::line(&remote.url)),
            GatewayHandle::Embedded(_) => "for this shell only, without a running gateway".to_owned(),
        };
        let name = format!("Toolbooth {}", env!("CARGO_PKG_VERSION"));
        let head = render::wrap(&format!("{name}: {offer}, {place}."), 0);
        let head = head.replacen(&name, &paint.tone(Tone::Strong, &name), 1);
        let text = match &self.chat {
            Some(chat) => format!("Plain text is sent to {}; ", render::line(chat.model())),
            None => String::new(),
        };
        let keys = format!("{text}/help lists the commands, Tab completes, Ctrl-D exits.");
        let keys = paint.tone(Tone::Dim, &render::wrap(&keys, 0));
        format!("{head}\n{keys}\n\n")
    }

    /// Runs a line and reports its failure.
    async fn run_line(&mut self, line: &str) -> ControlFlow<(), Exit> {
        let reading = match line::read(line, &self.program) {
            Ok(reading) => reading,
            Err(failure) => return ControlFlow::Continue(report(failure, self.global)),
        };
        match reading {
            ParsedLine::Nothing => ControlFlow::Continue(Exit::Ok),
            ParsedLine::Page(page) => {
                render::print(&page);
                ControlFlow::Continue(Exit::Ok)
            }
            ParsedLine::Text(text) => {
                let outcome = Box::pin(self.chat(&text)).await;
                ControlFlow::Continue(outcome.unwrap_or_else(|failure| report(failure, self.global)))
            }
            ParsedLine::Command(line) if matches!(line.command, ShellCommand::Quit) => ControlFlow::Break(()),
            ParsedLine::Command(line) => {
                let ShellLine { json, command } = *line;
                let global = GlobalOptions { json: json || self.global.json, ..self.global.clone() };
                let outcome = Box::pin(self.perform(&global, command)).await;
                ControlFlow::Continue(outcome.unwrap_or_else(|failure| report(failure, &global)))
            }
        }
    }

    /// Sends a message to the model.
    async fn chat(&mut self, text: &str) -> CommandResult {
        if self.chat.is_none() {
            // A model may have been configured since the start, and the error depends on which key is missing.
            let (_, loaded) = gateway::load(self.global)?;
            if loaded.settings.llm.base_url.is_none() {
                return Err(no_model(text));
            }
            let model = chat::select(&loaded.settings, self.arguments.model.as_deref())?;
            self.chat = Some(Chat::new(model, ChatTools::Search));
        }
        let Some(chat) = &mut self.chat else { return Err(no_model(text)) };
        let context = ChatContext {
            gateway: self.gateway,
            prompter: &self.prompter,
            session: self.arguments.session.as_deref(),
        };
        let mut printer = ChatPrinter::new(if self.global.json {
            ChatVerbosity::Silent
        } else {
            ChatVerbosity::Everything
        });
        let turn = chat.say(&context, text, &mut printer).await?;
        if self.global.json {
            render::print_json(&turn);
        }
        Ok(turn.exit())
    }

    async fn perform(&mut self, global: &GlobalOptions, arguments: ShellCommand) -> CommandResult {
        let gateway = self.gateway;
        match arguments {
            ShellCommand::Mcp(arguments) => self.mcp(global, arguments).await,
            ShellCommand::Call(arguments) if arguments.reads_input() => Err(input_in_use()),
            ShellCommand::Call(arguments) => {
                call::within(
                    gateway,
                    global,
                    &arguments.session_or(self.arguments.session.as_deref()),
                    &self.prompter,
                )
                .await
            }
            ShellCommand::Plan(arguments) => plan::within(gateway, global, arguments).await,
            ShellCommand::Approvals(arguments) if arguments.reads_input() => Err(input_in_use()),
            ShellCommand::Approvals(arguments) => approvals::within(gateway, global, arguments.read()?).await,
            ShellCommand::Approve(arguments) if arguments.reads_input() => Err(input_in_use()),
            ShellCommand::Approve(mut arguments) => {
                arguments.read()?;
                approvals::approve(gateway, global, &arguments).await
            }
            ShellCommand::Reject(arguments) => approvals::reject(gateway, global, &arguments).await,
            ShellCommand::Files(arguments) if arguments.reads_input() => Err(input_in_use()),
            ShellCommand::Files(arguments) => files::within(gateway, global, arguments).await,
            ShellCommand::Events { limit } => events::within(gateway, global, &events::latest(limit)).await,
            ShellCommand::DeadLetters(arguments) => dead_letters::within(gateway, global, arguments).await,
            ShellCommand::Skills(arguments) if arguments.reads_input() => Err(input_in_use()),
            ShellCommand::Skills(arguments) => {
                gateway.connect(ServerSelection::AutoConnected).await;
                skills::within(gateway, global, arguments, &self.prompter).await
            }
            ShellCommand::Jobs(arguments) if arguments.reads_input() => Err(input_in_use()),
            ShellCommand::Jobs(arguments) => jobs::within(gateway, global, arguments).await,
            ShellCommand::Tasks(arguments) if arguments.reads_input() => Err(input_in_use()),
            ShellCommand::Tasks(arguments) => tasks::within(gateway, global, arguments).await,
            ShellCommand::Explain(arguments) => explain::run(global, &arguments),
            ShellCommand::Servers(arguments) => servers::within(gateway, global, arguments).await,
            ShellCommand::Tools(arguments) => tools::within(gateway, global, *arguments).await,
            ShellCommand::Help { command } => {
                render::print(&help::help(command.as_deref())?);
                Ok(Exit::Ok)
            }
            ShellCommand::New => {
                let forgotten = self.chat.as_mut().is_some_and(Chat::forget);
                render::print(if forgotten {
                    "Started a new conversation.\n"
                } else {
                    "The conversation is already empty.\n"
                });
                Ok(Exit::Ok)
            }
            ShellCommand::Quit => Ok(Exit::Ok),
        }
    }

    async fn mcp(&self, global: &GlobalOptions, arguments: McpArguments) -> CommandResult {
        let gateway = self.gateway;
        match arguments.action {
            None => servers::list(gateway, global).await,
            Some(McpAction::Connect { name }) => {
                servers::change_connection(gateway, global, &name, servers::ConnectionChange::Connect).await
            }
            Some(McpAction::Disconnect { name }) => {
                servers::change_connection(gateway, global, &name, servers::ConnectionChange::Disconnect)
                    .await
            }
            Some(McpAction::Tools(filter)) => tools::list(gateway, global, &filter).await,
            Some(McpAction::Search(arguments)) => {
                tools::within(gateway, global, line::search(&arguments)?).await
            }
            Some(McpAction::Show { name }) => tools::within(gateway, global, line::show(&name)?).await,
            Some(McpAction::Stats(arguments)) => tools::show_stats(gateway, global, &arguments).await,
        }
    }
}

/// Prints the failure of a line.
fn report(failure: CommandFailure, global: &GlobalOptions) -> Exit {
    commands::report(&help::translate_hint(failure), global)
}

fn no_model(text: &str) -> CommandFailure {
    let message = "plain text is sent to a language model, and none is configured";
    let word = format!("/{}", text.split_whitespace().next().unwrap_or_default());
    let hint = match command::names().contains(&word) {
        true => format!("did you mean `{word}`?"),
        false => "commands begin with /, and `/help` lists them; `llm.base_url` and `llm.model` set a model"
            .to_owned(),
    };
    CommandFailure::misuse("usage.shell-text", message, Some(&hint))
}

/// The failure of a command that would read standard input.
fn input_in_use() -> CommandFailure {
    CommandFailure::misuse(
        "usage.shell-input",
        "commands in the shell cannot read standard input",
        Some("give the text itself, or the name of a file (@FILE for arguments)"),
    )
}
