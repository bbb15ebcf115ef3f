//! The command line: the list of commands.

use crate::commands;
use crate::global_options::GlobalOptions;
use clap::builder::Resettable;
use clap::builder::styling::{AnsiColor, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Options of every command that the help of subcommands hides.
const EVERYWHERE: &str = "\
More options of every command:
  --config-dir DIR         Folder with mcp.json, toolbooth.* and llmconfig.yml
  --config-overrides DIR   Folder whose files override those of --config-dir
  --mcp-config FILE        File that defines servers
  --llm-config FILE        File that configures the language model
  --rag-sources-config F   Accepted from Atlas UI, and not used
  --env-file FILE          File of environment variables, loaded first
  --data-dir DIR           Folder for the gateway's state
  --no-project             Ignore the files of the current folder
  --set KEY=VALUE          Override a setting (naming.style=tool); may repeat
  --token TOKEN            Token for --url (TOOLBOOTH_TOKEN is safer)

Environment variables for these options: TOOLBOOTH_CONFIG, _CONFIG_DIR,
_CONFIG_OVERRIDES, _MCP_CONFIG, _LLM_CONFIG, _PERSONA, _JSON and _URL.
TOOLBOOTH_NAMING_STYLE sets `naming.style`, and so on for every setting.

Exit codes: 0 ok, 1 failed, 2 usage or configuration error, 3 refused,
4 held, 5 gateway unreachable.";

/// The text that `toolbooth` without arguments prints.
pub const WELCOME: &str = "\
Toolbooth: one endpoint for every tool of your agents.

  toolbooth up                      set up the gateway and all your clients
  toolbooth start                   run the gateway (stop, status)
  toolbooth connect claude-code     connect a client (or cursor, vscode, …)
  toolbooth servers                 show the state of your servers (add, remove)
  toolbooth tools list              list their tools
  toolbooth call demo_hash text=hi  call a tool
  toolbooth shell                   run these commands interactively
  toolbooth doctor                  find problems and suggest fixes

Servers are defined in .mcp.json here, or in ~/.config/toolbooth/toolbooth.toml.
`toolbooth config import` imports your clients' servers. More: toolbooth --help
";

/// One endpoint for every tool of your agents.
#[derive(Debug, Parser)]
#[command(name = "toolbooth", version, about, max_term_width = 100, styles = STYLES)]
#[command(after_help = EVERYWHERE, subcommand_required = true, disable_help_subcommand = true)]
pub struct CliArguments {
    #[command(flatten)]
    pub global: GlobalOptions,
    #[command(subcommand)]
    pub command: CliCommand,
}

impl CliArguments {
    /// Parses a command line. Exits the process with a message if it is not valid.
    pub fn of(words: impl IntoIterator<Item = OsString>) -> Self {
        let words: Vec<OsString> = words.into_iter().collect();
        let matches = Self::command().mut_args(without_empty_variable).try_get_matches_from(&words);
        let matches = matches.unwrap_or_else(|error| with_own_tip(error, &words).exit());
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// Words that users expect to be commands, and the command that each is a part of.
const PARTS: [(&str, &str); 10] = [
    ("add", "servers add"),
    ("approve", "approvals approve"),
    ("disable", "servers disable"),
    ("enable", "servers enable"),
    ("import", "config import"),
    ("list", "tools list"),
    ("logs", "servers logs"),
    ("reject", "approvals reject"),
    ("search", "tools search"),
    ("stats", "tools stats"),
];

/// Replaces the tips of clap if they would lead to another mistake.
fn with_own_tip(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(tip) = commands::servers_add::separator_tip(words)
    {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(word) = words.get(1).and_then(|word| word.to_str())
        && let Some((_, whole)) = PARTS.iter().find(|(part, _)| *part == word)
    {
        let tip = format!("the command is `toolbooth {whole}`");
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Ignores the environment variable of an argument if it is empty, as all settings do.
fn without_empty_variable(argument: clap::Arg) -> clap::Arg {
    match argument.get_env().and_then(std::env::var_os) {
        Some(value) if value.is_empty() => argument.env(Resettable::Reset),
        _ => argument,
    }
}

/// A command of `toolbooth`.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Import the servers of your clients and connect the clients.
    Up(commands::up::UpArguments),
    /// Run the gateway.
    Serve(commands::serve::ServeArguments),
    /// Run the gateway in the background.
    Start(commands::start::GatewayStartArguments),
    /// Stop the gateway, after its running calls.
    Stop(commands::stop::StopArguments),
    /// Show the running gateway, its servers, and what clients see.
    Status,
    /// Start the gateway at login (systemd or launchd).
    Service(commands::service::ServiceArguments),
    /// Open the web console of the running gateway.
    Console(commands::console::ConsoleArguments),
    /// Serve MCP over standard input and output via a shared gateway.
    Stdio(commands::stdio::StdioArguments),
    /// Run commands interactively, with history and completion.
    Shell(crate::shell::ShellArguments),
    /// Ask a language model that can call the tools.
    Chat(crate::chat::ChatArguments),
    /// Add the gateway to a client's configuration, with a backup.
    Connect(commands::connect::ConnectArguments),
    /// List, show, add, remove, connect and restart servers.
    Servers(commands::servers::ServersArguments),
    /// Store, list and remove the secrets of servers, sealed.
    Secrets(commands::secrets::SecretsArguments),
    /// List, search, score and compare tools, and show token costs.
    Tools(commands::tools::ToolsArguments),
    /// Call a tool.
    Call(commands::call::CallArguments),
    /// List finished calls and show their attempts, timings and files.
    Calls(commands::calls::CallsArguments),
    /// List, approve and reject held calls.
    Approvals(commands::approvals::ApprovalsArguments),
    /// Queue calls as a plan, review them and run them in order.
    Plan(commands::plan::PlanArguments),
    /// List, show, check and run skills.
    Skills(commands::skills::SkillsArguments),
    /// List, schedule, run and cancel jobs.
    Jobs(commands::jobs::JobsArguments),
    /// List tasks and change their states.
    Tasks(commands::tasks::TasksArguments),
    /// List, replay and drop calls that failed permanently.
    DeadLetters(commands::dead_letters::DeadLettersArguments),
    /// Upload, list, download and remove files.
    Files(commands::files::FilesArguments),
    /// Show recent events, or follow new ones.
    Events(commands::events::EventsArguments),
    /// Show and verify the audit log of calls and decisions.
    Audit(commands::audit::AuditArguments),
    /// Copy the store to another database, to a file and back.
    Store(commands::store::StoreArguments),
    /// Explain which tools a client is shown, and why.
    Exposure(commands::exposure::ExposureArguments),
    /// Check, show, explain or import configuration.
    Config(commands::config::ConfigArguments),
    /// Check tool manifests, list their entries, print their schema.
    Manifest(commands::manifest::ManifestArguments),
    /// Reload the configuration of the running gateway.
    Reload,
    /// Create, list and revoke tokens of this gateway.
    Tokens(commands::tokens::TokensArguments),
    /// Store the token of a remote gateway for all commands.
    Login(commands::login::LoginArguments),
    /// Trust the servers and settings of a project folder.
    Trust(commands::trust::TrustArguments),
    /// Find problems and suggest fixes.
    Doctor,
    /// Show how to upgrade this program.
    Upgrade,
    /// Explain a fault code.
    Explain(commands::explain::ExplainArguments),
    /// Print completions for a shell.
    Completions(commands::completions::CompletionsArguments),
    /// Print manual pages.
    Man(commands::man::ManArguments),
    /// Run a scenario of the conformance suite.
    #[command(hide = true)]
    ConformanceClient {
        /// URL of the suite's server.
        #[arg(id = "server", value_name = "URL")]
        url: String,
    },
    /// Run a bundled server.
    #[command(hide = true)]
    DemoServer {
        /// Name of the server.
        #[arg(value_parser = crate::demo::NAMES)]
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_valid() {
        CliArguments::command().debug_assert();
    }

    #[test]
    fn every_environment_variable_of_an_option_is_reserved() {
        let command = CliArguments::command();
        let named = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
        let mut named: Vec<&str> = named.filter_map(|name| name.strip_prefix("TOOLBOOTH_")).collect();
        // These two are read directly from the environment, without an option.
        named.extend(["TOKEN", "LOG"]);
        named.sort_unstable();
        let mut reserved = toolbooth_config::RESERVED_VARIABLES.to_vec();
        reserved.sort_unstable();
        assert_eq!(named, reserved);
    }

    #[test]
    fn every_hidden_option_is_explained_in_the_main_help() {
        for argument in CliArguments::command().get_arguments().filter(|argument| argument.is_hide_set()) {
            let long = argument.get_long().expect("global options have long names");
            assert!(EVERYWHERE.contains(&format!("--{long} ")), "--{long}");
        }
    }
}
