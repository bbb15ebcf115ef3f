//! The commands of the shell, most of them shorter names for commands of the command line.

use crate::commands::approvals::{ApprovalsArguments, ApproveArguments, RejectArguments};
use crate::commands::call::CallArguments;
use crate::commands::dead_letters::DeadLettersArguments;
use crate::commands::explain::ExplainArguments;
use crate::commands::files::FilesArguments;
use crate::commands::jobs::JobsArguments;
use crate::commands::plan::PlanArguments;
use crate::commands::servers::ServersArguments;
use crate::commands::skills::SkillsArguments;
use crate::commands::tasks::TasksArguments;
use crate::commands::tools::{StatsArguments, ToolListFilter, ToolsArguments};
use crate::failure::CommandFailure;
use crate::render;
use clap::{Args, CommandFactory, Parser, Subcommand};
use toolbooth_config::nearest;

/// A parsed command of the shell.
#[derive(Debug, Parser)]
#[command(
    name = "",
    bin_name = "",
    no_binary_name = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct ShellLine {
    /// Print JSON for programs.
    #[arg(long, global = true, display_order = 901)]
    pub json: bool,
    #[command(subcommand)]
    pub command: ShellCommand,
}

/// A command of the shell.
#[derive(Debug, Subcommand)]
pub enum ShellCommand {
    /// List and control servers, list and search tools, show token costs.
    #[command(name = "/mcp")]
    Mcp(McpArguments),
    /// Call a tool.
    #[command(name = "/call")]
    Call(CallArguments),
    /// Queue calls as a plan, review them and run them in order.
    #[command(name = "/plan")]
    Plan(PlanArguments),
    /// List, approve and reject held calls.
    #[command(name = "/approvals")]
    Approvals(ApprovalsArguments),
    /// Approve a held call: it runs once.
    #[command(name = "/approve")]
    Approve(ApproveArguments),
    /// Reject a held call.
    #[command(name = "/reject")]
    Reject(RejectArguments),
    /// Upload, list, download and remove files.
    #[command(name = "/files")]
    Files(FilesArguments),
    /// Show recent events.
    #[command(name = "/events")]
    Events {
        /// Number of events.
        #[arg(value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// List, replay and drop calls that failed permanently.
    #[command(name = "/dlq", alias = "/dead-letters")]
    DeadLetters(DeadLettersArguments),
    /// List, show, check and run skills.
    #[command(name = "/skills")]
    Skills(SkillsArguments),
    /// List, change, schedule, run and cancel jobs.
    #[command(name = "/jobs")]
    Jobs(JobsArguments),
    /// List and change tasks.
    #[command(name = "/tasks")]
    Tasks(TasksArguments),
    /// Explain a fault code.
    #[command(name = "/explain")]
    Explain(ExplainArguments),
    /// List, show, connect, disconnect and restart servers.
    #[command(name = "/servers", hide = true)]
    Servers(ServersArguments),
    /// List, search, score and compare tools, and show token costs.
    #[command(name = "/tools", hide = true)]
    Tools(Box<ToolsArguments>),
    /// Start a new conversation with the model.
    #[command(name = "/new")]
    New,
    /// List commands, or explain one.
    #[command(name = "/help", alias = "/?")]
    Help {
        /// Command to explain.
        command: Option<String>,
    },
    /// Exit, like Ctrl-D.
    #[command(name = "/quit", alias = "/exit")]
    Quit,
}

/// Arguments of `/mcp`.
#[derive(Debug, Args)]
pub struct McpArguments {
    #[command(subcommand)]
    pub action: Option<McpAction>,
}

/// An action of `/mcp`.
#[derive(Debug, Subcommand)]
pub enum McpAction {
    /// Connect a server now.
    Connect { name: String },
    /// Disconnect a server until it is connected again.
    Disconnect { name: String },
    /// List tools with their quality scores.
    Tools(Box<ToolListFilter>),
    /// Search for tools.
    Search(SearchArguments),
    /// Show one tool, its arguments and how to call it.
    Show { name: String },
    /// Show how many context tokens the tools use.
    Stats(StatsArguments),
}

/// Arguments of `/mcp search`: like `toolbooth tools search`, but all words are one query.
#[derive(Debug, Args)]
pub struct SearchArguments {
    /// What the tool should do, or its name.
    #[arg(required = true, value_name = "WORDS")]
    pub words: Vec<String>,
    /// The words are a regular expression.
    #[arg(long)]
    pub regex: bool,
    /// Maximum number of hits.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub limit: u32,
}

/// Whether the shell has this command.
pub fn is_known(command: &str) -> bool {
    ShellLine::command().find_subcommand(command).is_some()
}

/// The names of all visible commands.
pub fn names() -> Vec<String> {
    let command = ShellLine::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

/// All commands, hidden ones included: the name on the command line, and the name in the shell.
pub fn all_names() -> Vec<(String, String)> {
    let command = ShellLine::command();
    let names = command.get_subcommands().flat_map(|command| {
        let all = std::iter::once(command.get_name()).chain(command.get_all_aliases());
        all.map(|name| (name.trim_start_matches('/').to_owned(), command.get_name().to_owned()))
    });
    names.collect()
}

/// The subcommands of a command.
pub fn actions_of(command: &str) -> Vec<String> {
    let all = ShellLine::command();
    let actions = all.find_subcommand(command).into_iter().flat_map(clap::Command::get_subcommands);
    actions.map(|action| action.get_name().to_owned()).collect()
}

/// The failure of an unknown command.
pub fn unknown(command: &str) -> CommandFailure {
    let names = names();
    let hint = match nearest(command, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`/help` lists the commands".to_owned(),
    };
    let message = format!("there is no command `{}`", render::line(command));
    CommandFailure::misuse("usage.shell-command", message, Some(&hint))
}
