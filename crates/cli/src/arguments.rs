//! The command line: what every command takes, and which commands there are.

use crate::commands;
use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{FalseyValueParser, Resettable};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Options that every command takes are explained once, here, and hidden elsewhere.
const EVERYWHERE: &str = "\
More options of every command:
  --config-dir DIR         A folder with mcp.json, toolbooth.* and llmconfig.yml
  --config-overrides DIR   A folder laid over --config-dir
  --mcp-config FILE        A file of servers
  --llm-config FILE        A file about the language model
  --env-file FILE          Variables, loaded first
  --data-dir DIR           Where state is kept
  --no-project             Leave the files of this folder out
  --set KEY=VALUE          One setting, such as naming.style=tool; may repeat
  --token TOKEN            The token for --url; others can see it there, TOOLBOOTH_TOKEN they cannot

Variables do the same: TOOLBOOTH_CONFIG, _CONFIG_DIR, _CONFIG_OVERRIDES,
_MCP_CONFIG, _LLM_CONFIG, _PERSONA, _JSON and _URL; and TOOLBOOTH_NAMING_STYLE
sets `naming.style`, as with every setting.

Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 refused, 4 held, 5 gateway unreachable.";

/// What is printed when nothing is asked for.
pub const WELCOME: &str = "\
Toolbooth: one endpoint for every tool of your agents.

  toolbooth serve                   run the gateway
  toolbooth connect claude-code     let a client use it (or cursor, vscode, …)
  toolbooth servers                 how your servers do
  toolbooth tools list              what they offer
  toolbooth call demo_hash text=hi  call a tool
  toolbooth shell                   all of that, line by line
  toolbooth doctor                  find out what is wrong

Servers come from .mcp.json here, or from ~/.config/toolbooth/toolbooth.toml.
`toolbooth config import` takes them over from other clients. More: toolbooth --help
";

/// One endpoint for every tool of your agents.
#[derive(Debug, Parser)]
#[command(name = "toolbooth", version, about, max_term_width = 100, styles = STYLES)]
#[command(after_help = EVERYWHERE, subcommand_required = true, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Reads a command line, or ends with what is wrong with it.
    pub fn of(words: impl IntoIterator<Item = OsString>) -> Self {
        let matches = Self::command().mut_args(without_empty_variable).get_matches_from(words);
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// An empty variable says nothing, as everywhere.
fn without_empty_variable(argument: clap::Arg) -> clap::Arg {
    match argument.get_env().and_then(std::env::var_os) {
        Some(value) if value.is_empty() => argument.env(Resettable::Reset),
        _ => argument,
    }
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// A configuration file; may repeat, later ones win.
    #[arg(
        long = "config",
        global = true,
        value_name = "FILE",
        env = "TOOLBOOTH_CONFIG",
        hide_env = true,
        display_order = 900
    )]
    pub config: Vec<PathBuf>,
    #[arg(long, global = true, value_name = "DIR", hide = true, env = "TOOLBOOTH_CONFIG_DIR")]
    pub config_dir: Option<PathBuf>,
    #[arg(long, global = true, value_name = "DIR", hide = true, env = "TOOLBOOTH_CONFIG_OVERRIDES")]
    pub config_overrides: Option<PathBuf>,
    #[arg(long, global = true, value_name = "FILE", hide = true, env = "TOOLBOOTH_MCP_CONFIG")]
    pub mcp_config: Option<PathBuf>,
    #[arg(long, global = true, value_name = "FILE", hide = true, env = "TOOLBOOTH_LLM_CONFIG")]
    pub llm_config: Option<PathBuf>,
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    pub env_file: Option<PathBuf>,
    #[arg(long, global = true, value_name = "DIR", hide = true)]
    pub data_dir: Option<PathBuf>,
    #[arg(long, global = true, hide = true)]
    pub no_project: bool,
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", hide = true)]
    pub set: Vec<String>,
    #[arg(long, global = true, value_name = "TOKEN", hide = true)]
    pub token: Option<String>,
    /// A persona: a named, narrower view of the tools.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "TOOLBOOTH_PERSONA",
        hide_env = true,
        display_order = 903
    )]
    pub persona: Option<String>,
    /// Print JSON for programs.
    #[arg(
        long,
        global = true,
        env = "TOOLBOOTH_JSON",
        value_parser = FalseyValueParser::new(),
        hide_env = true,
        display_order = 901
    )]
    pub json: bool,
    /// A running gateway to talk to; TOOLBOOTH_TOKEN is its token.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TOOLBOOTH_URL",
        hide_env = true,
        display_order = 902
    )]
    pub url: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway.
    Serve(commands::serve::ServeArguments),
    /// Speak MCP on standard input and output, through a shared gateway.
    Stdio(commands::stdio::StdioArguments),
    /// Type commands one after another, with history and completion.
    Shell(crate::shell::ShellArguments),
    /// Ask a language model, which may use the tools.
    Chat(crate::chat::ChatArguments),
    /// Let a client use the gateway: writes its configuration, with a backup.
    Connect(commands::connect::ConnectArguments),
    /// List servers, look at one, connect, disconnect or restart it.
    Servers(commands::servers::ServersArguments),
    /// List, search, score, weigh and compare tools.
    Tools(commands::tools::ToolsArguments),
    /// Call a tool.
    Call(commands::call::CallArguments),
    /// Answer for calls that wait for a person.
    Approvals(commands::approvals::ApprovalsArguments),
    /// Queue calls, read them, and run them in order.
    Plan(commands::plan::PlanArguments),
    /// Calls that failed for good: look at them, make them again, or give them up.
    DeadLetters(commands::dead_letters::DeadLettersArguments),
    /// Upload files, list, fetch and remove them.
    Files(commands::files::FilesArguments),
    /// Show what happened lately, or follow what happens.
    Events(commands::events::EventsArguments),
    /// Show and check the record of calls and decisions.
    Audit(commands::audit::AuditArguments),
    /// Say what a client is shown of the tools, and why.
    Exposure(commands::exposure::ExposureArguments),
    /// Check, show, explain or import configuration.
    Config(commands::config::ConfigArguments),
    /// Check tool manifests, list what they say, print their schema.
    Manifest(commands::manifest::ManifestArguments),
    /// Make the running gateway read its configuration again.
    Reload,
    /// Make, list and take back tokens of this gateway.
    Tokens(commands::tokens::TokensArguments),
    /// Keep the token of a gateway elsewhere for all commands.
    Login(commands::login::LoginArguments),
    /// Let the servers of a project folder run.
    Trust(commands::trust::TrustArguments),
    /// Find out what is wrong, and how to put it right.
    Doctor,
    /// Explain a fault code.
    Explain(commands::explain::ExplainArguments),
    /// Print completions for a shell.
    Completions(commands::completions::CompletionsArguments),
    /// Print manual pages.
    Man(commands::man::ManArguments),
    /// Play a scenario of the conformance suite.
    #[command(hide = true)]
    ConformanceClient {
        /// The suite's server.
        #[arg(id = "server", value_name = "URL")]
        url: String,
    },
    /// A server that comes with the binary.
    #[command(hide = true)]
    DemoServer {
        /// Its name.
        #[arg(value_parser = crate::demo::NAMES)]
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_variable_of_a_command_is_reserved() {
        let command = Arguments::command();
        let named = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
        let mut named: Vec<&str> = named.filter_map(|name| name.strip_prefix("TOOLBOOTH_")).collect();
        // Read where they are needed: neither is to show in a list of processes.
        named.extend(["TOKEN", "LOG"]);
        named.sort_unstable();
        let mut reserved = toolbooth_config::RESERVED_VARIABLES.to_vec();
        reserved.sort_unstable();
        assert_eq!(named, reserved);
    }

    #[test]
    fn every_hidden_option_is_explained_at_the_top() {
        for argument in Arguments::command().get_arguments().filter(|argument| argument.is_hide_set()) {
            let long = argument.get_long().expect("globals have long names");
            assert!(EVERYWHERE.contains(&format!("--{long} ")), "--{long}");
        }
    }
}
