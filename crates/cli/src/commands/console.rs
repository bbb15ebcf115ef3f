//! `toolbooth console`: opens the web console of the running gateway, as its owner.

use super::in_runtime;
use crate::browser::open_page;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::render::{self, line};
use clap::Args;
use serde_json::json;
use std::io::IsTerminal;

/// Arguments of `toolbooth console`.
#[derive(Debug, Args)]
#[command(after_help = "\
The command opens the console in a browser, if there is one, and always prints its address. If `auth.mode` is `local`, the \
address contains a code that works once, within five minutes. It shows that you opened the console yourself: only then \
can you trust the servers of project files in the browser.
For example:
  toolbooth console
  toolbooth console --no-browser    (only prints the address)")]
pub struct ConsoleArguments {
    /// Only print the address.
    #[arg(long)]
    no_browser: bool,
}

/// The address of the console.
struct ConsoleAddress {
    url: String,
    /// Whether it contains a code that makes the browser the owner's.
    has_code: bool,
}

/// Runs `toolbooth console`.
pub fn run(global: &GlobalOptions, arguments: &ConsoleArguments) -> CommandResult {
    in_runtime(async {
        let gateway = GatewayHandle::require_running(global).await?;
        let ConsoleAddress { url, has_code } = address(&gateway).await?;
        if global.json {
            render::print_json(&json!({ "url": url, "owner": has_code }));
            return Ok(Exit::Ok);
        }
        let introduction = match has_code {
            true => "The console (this address works once, within 5 minutes):",
            false => "The console:",
        };
        render::print(&format!("{introduction}\n\n  {}\n\n", line(&url)));
        if !arguments.no_browser && std::io::stdout().is_terminal() {
            open_page(&url);
        }
        Ok(Exit::Ok)
    })
}

/// Asks the gateway for a code. Only the control socket gives one; over the network the address has none.
async fn address(gateway: &GatewayHandle) -> Result<ConsoleAddress, CommandFailure> {
    let GatewayHandle::Running(remote) = gateway else {
        return Err(CommandFailure::misuse("usage.url", "a running gateway is required", None));
    };
    if !remote.uses_control() {
        return Ok(ConsoleAddress { url: format!("{}/console/", remote.url), has_code: false });
    }
    let answer = read(&gateway.post("opening the console", "/console/owner-code", None).await?)?;
    Ok(match (answer["code"].as_str(), answer["public_url"].as_str()) {
        // The cookie belongs to the address of this machine.
        (Some(code), _) => {
            ConsoleAddress { url: format!("{}/console/#owner={code}", remote.url), has_code: true }
        }
        (None, public) => {
            let base = public.unwrap_or(&remote.url).trim_end_matches('/');
            ConsoleAddress { url: format!("{base}/console/"), has_code: false }
        }
    })
}
