//! `toolbooth login`: stores a gateway's token for all commands.

use super::in_runtime;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::{self, GatewayHandle};
use crate::global_options::GlobalOptions;
use crate::hidden_input::{HiddenInput, read_secret};
use crate::render::{self, line};
use crate::stored_tokens::StoredTokens;
use clap::Args;

/// Arguments of `toolbooth login`.
#[derive(Debug, Args)]
#[command(after_help = "\
The token is read from --token, TOOLBOOTH_TOKEN or standard input, tested, and stored in a file that only you can read.
For example:
  toolbooth login --url https://booth.example < token.txt")]
pub struct LoginArguments {
    /// Delete the stored token.
    #[arg(long)]
    forget: bool,
}

/// Runs `toolbooth login`.
pub fn run(global: &GlobalOptions, arguments: &LoginArguments) -> CommandResult {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let kept = StoredTokens::of(&sources);
    in_runtime(async {
        let GatewayHandle::Running(mut remote) = GatewayHandle::require_running(global).await? else {
            return Err(CommandFailure::misuse(
                "usage.url",
                "a running gateway is required",
                Some("give its --url"),
            ));
        };
        if arguments.forget {
            kept.set(&remote.url, None)?;
            render::print(&format!("Deleted the token of {}.\n", line(&remote.url)));
            return Ok(Exit::Ok);
        }
        let token = match gateway_handle::given_token(global) {
            Some(token) => token,
            None => match ask(&remote.url).await? {
                Some(token) => token,
                None => return Ok(Exit::Failed),
            },
        };
        remote.set_token(Some(token.clone()));
        let url = remote.url.clone();
        let me = GatewayHandle::Running(remote).get("/me").await?;
        kept.set(&url, Some(&token))?;
        if global.json {
            render::print_json(&me);
        } else {
            let user = me["user"].as_str().unwrap_or_default();
            render::print(&format!("Logged in to {} as {}.\n", line(&url), line(user)));
        }
        Ok(Exit::Ok)
    })
}

/// Asks for the token without showing it; `None` after Ctrl+C.
async fn ask(url: &str) -> Result<Option<String>, CommandFailure> {
    let text = match read_secret(&format!("Token for {}: ", line(url))).await? {
        HiddenInput::Line(text) => text,
        HiddenInput::Interrupted => return Ok(None),
    };
    match text.trim() {
        "" => Err(CommandFailure::misuse(
            "usage.no-token",
            "no token was given",
            Some("`toolbooth tokens create` creates one on the machine of the gateway"),
        )),
        token => Ok(Some(token.to_owned())),
    }
}
