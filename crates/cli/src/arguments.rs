//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// One endpoint for every tool of your agents.
#[derive(Debug, Parser)]
#[command(name = "toolbooth", version, about, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// A configuration file; may repeat, later ones win.
    #[arg(long = "config", global = true, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// A folder with `mcp.json`, `toolbooth.*` and `llmconfig.yml`.
    #[arg(long, global = true, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// A folder laid over `--config-dir`.
    #[arg(long, global = true, value_name = "DIR")]
    pub config_overrides: Option<PathBuf>,
    /// A file of servers.
    #[arg(long, global = true, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
    /// A file about the language model.
    #[arg(long, global = true, value_name = "FILE")]
    pub llm_config: Option<PathBuf>,
    /// Variables, loaded first.
    #[arg(long, global = true, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Where state is kept.
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// One setting, such as `naming.style=tool`; may repeat.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Machine-readable output.
    #[arg(long, global = true)]
    pub json: bool,
    /// A running gateway to talk to.
    #[arg(long, global = true, value_name = "URL", env = "TOOLBOOTH_URL")]
    pub url: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway.
    Serve(ServeArguments),
    /// Speak MCP on standard input and output, through a shared gateway.
    Stdio,
    /// A server that comes with the binary.
    #[command(hide = true)]
    DemoServer {
        /// Its name.
        name: String,
    },
}

/// How the gateway is run.
#[derive(Debug, Clone, Args)]
pub struct ServeArguments {
    /// Where to listen: `HOST:PORT`, or a port.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Trust the servers of the project folder from now on.
    #[arg(long)]
    pub trust: bool,
    /// End when nobody has been connected over the local socket for this many seconds.
    #[arg(long, hide = true, value_name = "SECONDS")]
    pub linger: Option<u64>,
}
