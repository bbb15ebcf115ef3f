//! `toolbooth servers login` and `logout`: the gateway's own sign-in to a server.

use super::servers::{print_server, suggest};
use crate::arguments::Global;
use crate::callback::{Callback, state_of};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::progress::while_waiting;
use crate::reach::{Reach, read};
use crate::remote::segment;
use crate::render::{self, line};
use crate::sign_in::{PORT, redirect_uri};
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::process::Stdio;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Problem};

/// Which server, and how.
#[derive(Debug, Args)]
#[command(after_help = "\
The page is opened in a browser where there is one, and printed in any case. The tokens stay with the gateway,
for everybody who may use the server; nothing is shown of them. For example:
  toolbooth servers login tracker
  toolbooth servers login tracker --no-browser    (then open the page on this machine yourself)")]
pub struct LoginArguments {
    /// The server.
    name: String,
    /// Only print the page.
    #[arg(long)]
    no_browser: bool,
    /// The port that the page comes back to; 8666, or another if that is taken.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// How long to wait for you.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
}

/// Signs in to a server.
pub async fn login(reach: &Reach, global: &Global, how: &LoginArguments) -> Outcome {
    let callback = Callback::open(how.port, PORT).await.map_err(|error| cannot_listen(how.port, &error))?;
    let home = redirect_uri(callback.port);
    let path = format!("/servers/{}/login", segment(&how.name));
    let begun = post(reach, how, "asking where to sign in", &path, json!({ "redirect_uri": home })).await?;
    let Some(url) = begun["url"].as_str() else {
        return Ok(told(&begun["server"], global));
    };
    show(url, global, how);
    let state = state_of(url).unwrap_or_default().to_owned();
    let waited = tokio::time::timeout(Duration::from_secs(how.wait), callback.answer(&state));
    let query = match while_waiting("waiting for the sign-in", waited).await {
        Ok(Ok(query)) => query,
        Ok(Err(error)) => return Err(cannot_listen(how.port, &error)),
        Err(_) => return Err(nobody_came(how)),
    };
    let redirect = format!("{home}?{query}");
    let finished =
        post(reach, how, "signing in", &format!("{path}/finish"), json!({ "redirect": redirect })).await?;
    Ok(told(&finished, global))
}

/// Forgets the sign-in to a server.
pub async fn logout(reach: &Reach, global: &Global, name: &str) -> Outcome {
    let server = match reach.delete(&format!("/servers/{}/login", segment(name))).await {
        Ok(server) => server,
        Err(failure) => return Err(suggest(reach, failure, name).await),
    };
    print_server(&server, global);
    Ok(Exit::Ok)
}

async fn post(
    reach: &Reach,
    how: &LoginArguments,
    what: &str,
    path: &str,
    body: Value,
) -> Result<Value, Failure> {
    match reach.post(what, path, Some(Bytes::from(body.to_string()))).await {
        Ok(body) => read(&body),
        Err(failure) => Err(suggest(reach, failure, &how.name).await),
    }
}

fn told(server: &Value, global: &Global) -> Exit {
    print_server(server, global);
    if server["state"] == "connected" { Exit::Ok } else { Exit::Failed }
}

fn show(url: &str, global: &Global, how: &LoginArguments) {
    let text = format!("Sign in to `{}` on this page:\n\n  {}\n\n", line(&how.name), line(url));
    match global.json {
        true => render::complain(&text),
        false => render::print(&text),
    }
    let is_page = url.starts_with("https://") || url.starts_with("http://");
    if is_page && !how.no_browser && !global.json && std::io::stdout().is_terminal() {
        open(url);
    }
}

/// Opens a page in the person's browser; where there is none, the page was printed.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !cfg!(target_os = "macos") && !has_screen {
        return;
    }
    let mut command = tokio::process::Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn();
}

fn cannot_listen(port: Option<u16>, error: &std::io::Error) -> Failure {
    let place = port.map_or_else(|| "this machine".to_owned(), |port| format!("port {port}"));
    Failure::failed(Problem {
        code: "gateway.no-callback",
        blame: Blame::Gateway,
        message: format!("the sign-in cannot be waited for on {place}: {error}"),
        hint: Some("give another --port".into()),
    })
}

fn nobody_came(how: &LoginArguments) -> Failure {
    Failure::failed(Problem {
        code: "oauth.login-failed",
        blame: Blame::Caller,
        message: format!("nobody finished the sign-in to `{}` within {} s", how.name, how.wait),
        hint: Some("the browser must be able to reach 127.0.0.1 of this machine; --wait waits longer".into()),
    })
}
