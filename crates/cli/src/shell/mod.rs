//! `toolbooth shell`: the commands of a gateway, one line at a time, on a terminal or from a pipe.
//!
//! It opens its gateway once and gives each line to the command that it stands for, so that a line says and does what
//! the same words do on the command line.

mod complete;
pub mod editor;
mod help;
mod history;
mod input;
mod line;
mod words;

use crate::arguments::Global;
use crate::chat::{Chat, Kit, Manner, Model, Surroundings, Voice};
use crate::commands::{
    self, approvals, call, dead_letters, events, explain, files, in_runtime, plan, servers, tools,
};
use crate::desk::Desk;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::own::Wanted;
use crate::reach::Reach;
use crate::render::{self, Paint, Tone};
use clap::Args;
use input::{Input, Next};
use line::{Line, McpAction, McpArguments, Reading, What};
use std::ops::ControlFlow;

/// How the shell behaves.
#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal lines are edited, completed with Tab and remembered. From a pipe they are taken as they come, and
the first command that fails ends the shell with exit code 1; a call that waits for a person is no failure.
For example:
  toolbooth shell
  echo '/call demo_hash text=hi' | toolbooth shell
  toolbooth shell --echo --keep-going < session.txt")]
pub struct ShellArguments {
    /// Go on after a command from a pipe has failed; the exit code is still 1.
    #[arg(long)]
    keep_going: bool,
    /// Print each line from a pipe before what it does.
    #[arg(long)]
    echo: bool,
    /// Another model for plain text than `llm.model`, at the same endpoint.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The session that calls belong to.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Runs `toolbooth shell`.
pub fn run(global: &Global, how: &ShellArguments) -> Outcome {
    in_runtime(async {
        let mut reach = Reach::open_lasting(global).await?;
        if let Reach::Own(own) = &mut reach {
            own.settle_in();
        }
        let outcome = async {
            let sources = gateway::sources(global).map_err(Failure::usage)?;
            let input = Input::open(&gateway::data_dir(&sources)).map_err(Failure::failed)?;
            let mut shell =
                Shell { reach: &reach, global, how, desk: input.desk(), chat: chat_of(global, how) };
            shell.follow(input).await
        }
        .await;
        reach.close().await;
        outcome
    })
}

struct Shell<'a> {
    reach: &'a Reach,
    global: &'a Global,
    how: &'a ShellArguments,
    desk: Desk,
    chat: Option<Chat>,
}

/// The chat of the configured model, if there is one.
fn chat_of(global: &Global, how: &ShellArguments) -> Option<Chat> {
    let (_, loaded) = gateway::load(global).ok()?;
    let model = Model::of(&loaded.settings, how.model.as_deref()).ok()?;
    Some(Chat::new(model, Kit::Search))
}

impl Shell<'_> {
    async fn follow(&mut self, mut input: Input) -> Outcome {
        let typed = input.is_typed();
        if typed {
            self.reach.connect(Wanted::Started).await;
            render::print(&self.greeting().await);
        }
        let mut exit = Exit::Ok;
        loop {
            let next = tokio::select! {
                next = input.next(self.reach) => next,
                // A terminal tells its editor; to others it is what ends a command.
                _ = tokio::signal::ctrl_c(), if !typed => return Ok(Exit::Failed),
            };
            let line = match next {
                Next::Line(line) => line,
                Next::Nothing => continue,
                Next::End => return Ok(exit),
                Next::Refused(failure) => {
                    // As a command that failed: what follows it may build on it.
                    report(failure, self.global);
                    exit = Exit::Failed;
                    if !self.how.keep_going {
                        return Ok(exit);
                    }
                    continue;
                }
                Next::Cut(failure) => {
                    report(failure, self.global);
                    return Ok(Exit::Failed);
                }
            };
            if self.how.echo && !typed {
                render::print(&format!("> {}\n", render::plain(&line)));
            }
            let done = tokio::select! {
                done = self.obey(&line) => done,
                // The call is given up by letting go of it; its gateway notices.
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
                // Somebody who sits there has seen it.
                ControlFlow::Continue(_) if typed => {}
                ControlFlow::Continue(_) => exit = Exit::Failed,
            }
            if exit == Exit::Failed && !self.how.keep_going {
                return Ok(exit);
            }
        }
    }

    /// What a person reads first.
    async fn greeting(&self) -> String {
        let paint = Paint::stdout();
        let count = |answer: &serde_json::Value, key: &str| {
            usize::try_from(answer[key].as_u64().unwrap_or(0)).unwrap_or(0)
        };
        let servers = self.reach.get("/servers").await.unwrap_or_default();
        let servers = servers["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tools: usize = servers.iter().map(|server| count(server, "tools")).sum();
        let offer = format!("{} of {}", render::count(tools, "tool"), render::count(servers.len(), "server"));
        let place = match self.reach {
            Reach::Running(remote) => format!("at {}", render::line(&remote.url)),
            Reach::Own(_) => "for this shell alone, since no gateway runs here".to_owned(),
        };
        let name = format!("Toolbooth {}", env!("CARGO_PKG_VERSION"));
        let head = render::wrap(&format!("{name}: {offer}, {place}."), 0);
        let head = head.replacen(&name, &paint.tone(Tone::Strong, &name), 1);
        let text = match &self.chat {
            Some(chat) => format!("Plain text asks {}; ", render::line(chat.model())),
            None => String::new(),
        };
        let keys = format!("{text}/help lists the commands, Tab completes, Ctrl-D leaves.");
        let keys = paint.tone(Tone::Dim, &render::wrap(&keys, 0));
        format!("{head}\n{keys}\n\n")
    }

    /// Does what a line says, and tells if that went wrong.
    async fn obey(&mut self, line: &str) -> ControlFlow<(), Exit> {
        let reading = match line::read(line) {
            Ok(reading) => reading,
            Err(failure) => return ControlFlow::Continue(report(failure, self.global)),
        };
        match reading {
            Reading::Nothing => ControlFlow::Continue(Exit::Ok),
            Reading::Page(page) => {
                render::print(&page);
                ControlFlow::Continue(Exit::Ok)
            }
            Reading::Text(text) => {
                let outcome = Box::pin(self.chat(&text)).await;
                ControlFlow::Continue(outcome.unwrap_or_else(|failure| report(failure, self.global)))
            }
            Reading::Command(line) if matches!(line.what, What::Quit) => ControlFlow::Break(()),
            Reading::Command(line) => {
                let Line { json, what } = *line;
                let global = Global { json: json || self.global.json, ..self.global.clone() };
                let outcome = Box::pin(self.perform(&global, what)).await;
                ControlFlow::Continue(outcome.unwrap_or_else(|failure| report(failure, &global)))
            }
        }
    }

    /// Says something to the model.
    async fn chat(&mut self, text: &str) -> Outcome {
        if self.chat.is_none() {
            // Somebody may have configured one meanwhile, and not all that is missing is missing alike.
            let (_, loaded) = gateway::load(self.global)?;
            if loaded.settings.llm.base_url.is_none() {
                return Err(no_model(text));
            }
            let model = Model::of(&loaded.settings, self.how.model.as_deref())?;
            self.chat = Some(Chat::new(model, Kit::Search));
        }
        let Some(chat) = &mut self.chat else { return Err(no_model(text)) };
        let around =
            Surroundings { reach: self.reach, desk: &self.desk, session: self.how.session.as_deref() };
        let mut voice = Voice::new(if self.global.json { Manner::Silent } else { Manner::Aloud });
        let turn = chat.say(&around, text, &mut voice).await?;
        if self.global.json {
            render::print_json(&turn);
        }
        Ok(turn.exit())
    }

    async fn perform(&mut self, global: &Global, what: What) -> Outcome {
        let reach = self.reach;
        match what {
            What::Mcp(what) => self.mcp(global, what).await,
            What::Call(what) if what.reads_input() => Err(taken()),
            What::Call(what) => {
                call::within(reach, global, &what.session_or(self.how.session.as_deref()), &self.desk).await
            }
            What::Plan(what) => plan::within(reach, global, what).await,
            What::Approvals(what) if what.reads_input() => Err(taken()),
            What::Approvals(what) => approvals::within(reach, global, what.read()?).await,
            What::Approve(what) if what.reads_input() => Err(taken()),
            What::Approve(mut what) => {
                what.read()?;
                approvals::approve(reach, global, &what).await
            }
            What::Reject(what) => approvals::reject(reach, global, &what).await,
            What::Files(what) if what.reads_input() => Err(taken()),
            What::Files(what) => files::within(reach, global, what).await,
            What::Events { limit } => events::within(reach, global, &events::latest(limit)).await,
            What::DeadLetters(what) => dead_letters::within(reach, global, what).await,
            What::Explain(what) => explain::run(global, &what),
            What::Servers(what) => servers::within(reach, global, what).await,
            What::Tools(what) => tools::within(reach, global, *what).await,
            What::Help { command } => {
                render::print(&help::help(command.as_deref())?);
                Ok(Exit::Ok)
            }
            What::New => {
                let forgotten = self.chat.as_mut().is_some_and(Chat::forget);
                render::print(if forgotten {
                    "The conversation is forgotten.\n"
                } else {
                    "Nothing was said yet.\n"
                });
                Ok(Exit::Ok)
            }
            What::Quit => Ok(Exit::Ok),
        }
    }

    async fn mcp(&self, global: &Global, what: McpArguments) -> Outcome {
        let reach = self.reach;
        match what.action {
            None => servers::list(reach, global).await,
            Some(McpAction::Connect { name }) => {
                servers::connect_or_not(reach, global, &name, servers::Link::Up).await
            }
            Some(McpAction::Disconnect { name }) => {
                servers::connect_or_not(reach, global, &name, servers::Link::Down).await
            }
            Some(McpAction::Tools(filter)) => tools::list(reach, global, &filter).await,
            Some(McpAction::Search(what)) => tools::within(reach, global, line::search(&what)?).await,
            Some(McpAction::Show { name }) => tools::within(reach, global, line::show(&name)?).await,
            Some(McpAction::Stats(what)) => tools::show_stats(reach, global, &what).await,
        }
    }
}

/// Tells why a line did not do its work.
fn report(failure: Failure, global: &Global) -> Exit {
    commands::report(&help::hinted(failure), global)
}

fn no_model(text: &str) -> Failure {
    let message = "plain text is for a language model, and none is configured";
    let word = format!("/{}", text.split_whitespace().next().unwrap_or_default());
    let hint = match line::names().contains(&word) {
        true => format!("did you mean `{word}`?"),
        false => "commands begin with /, and `/help` lists them; `llm.base_url` and `llm.model` name a model"
            .to_owned(),
    };
    Failure::misuse("usage.shell-text", message, Some(&hint))
}

/// Standard input is where the shell's own lines come from.
fn taken() -> Failure {
    Failure::misuse(
        "usage.shell-input",
        "standard input is the shell's own, so nothing else can be read from it",
        Some("give the text itself, or a file by its name (@FILE for arguments)"),
    )
}
