//! The options of every command.

use clap::Args;
use clap::builder::FalseyValueParser;
use std::path::PathBuf;

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct GlobalOptions {
    /// Configuration file; may repeat, later files win.
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
    pub rag_sources_config: Option<PathBuf>,
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
    /// Persona: a named, restricted view of the tools.
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
    /// URL of a running gateway; its token is TOOLBOOTH_TOKEN.
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

impl GlobalOptions {
    /// The options that name files and folders of the configuration, with their paths.
    pub fn named_paths(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let files = self.config.iter().map(|file| ("--config", Some(file)));
        let others = [
            ("--config-dir", self.config_dir.as_ref()),
            ("--config-overrides", self.config_overrides.as_ref()),
            ("--mcp-config", self.mcp_config.as_ref()),
            ("--llm-config", self.llm_config.as_ref()),
            ("--env-file", self.env_file.as_ref()),
            ("--data-dir", self.data_dir.as_ref()),
        ];
        files.chain(others).filter_map(|(flag, path)| Some((flag, path?)))
    }
}
