//! `toolbooth login`: keeps a gateway's token for all commands.

use super::in_runtime;
use crate::arguments::Global;
use crate::credentials::Credentials;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::reach::{self, Reach};
use crate::render::{self, line};
use clap::Args;
use std::io::{BufRead, IsTerminal};

/// Which token.
#[derive(Debug, Args)]
#[command(after_help = "\
The token is read from --token, TOOLBOOTH_TOKEN or standard input, tried, and kept for the user alone.
For example:
  toolbooth login --url https://booth.example < token.txt")]
pub struct LoginArguments {
    /// Forget the token instead.
    #[arg(long)]
    forget: bool,
}

/// Runs `toolbooth login`.
pub fn run(global: &Global, what: &LoginArguments) -> Outcome {
    let sources = gateway::sources(global).map_err(Failure::usage)?;
    let kept = Credentials::of(&sources);
    in_runtime(async {
        let Reach::Running(mut remote) = Reach::demand(global).await? else {
            return Err(Failure::misuse(
                "usage.url",
                "a gateway that runs is needed",
                Some("give its --url"),
            ));
        };
        if what.forget {
            kept.set(&remote.url, None)?;
            render::print(&format!("The token of {} is forgotten.\n", line(&remote.url)));
            return Ok(Exit::Ok);
        }
        let token = match reach::given_token(global) {
            Some(token) => token,
            None => ask(&remote.url)?,
        };
        remote.set_token(Some(token.clone()));
        let url = remote.url.clone();
        let me = Reach::Running(remote).get("/me").await?;
        kept.set(&url, Some(&token))?;
        if global.json {
            render::print_json(&me);
        } else {
            let user = me["user"].as_str().unwrap_or_default();
            render::print(&format!("{} takes you for {}.\n", line(&url), line(user)));
        }
        Ok(Exit::Ok)
    })
}

fn ask(url: &str) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        crate::desk::discard_type_ahead();
        render::complain(&format!("Token for {}: ", line(url)));
    }
    let mut text = String::new();
    let _ = stdin.lock().read_line(&mut text);
    match text.trim() {
        "" => Err(Failure::misuse(
            "usage.no-token",
            "no token was given",
            Some("`toolbooth tokens create` makes one where the gateway runs"),
        )),
        token => Ok(token.to_owned()),
    }
}
