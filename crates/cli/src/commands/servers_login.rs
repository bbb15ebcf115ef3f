//! `toolbooth servers login` and `logout`: the gateway's own sign-in to a server.

use super::server_view::{print_server, suggest};
use crate::browser::open_page;
use crate::callback::{CallbackListener, state_of};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::progress::while_waiting;
use crate::remote_gateway::segment;
use crate::render::{self, line};
use crate::sign_in::{PORT, redirect_uri};
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Problem};

/// Arguments of `toolbooth servers login`.
#[derive(Debug, Args)]
#[command(after_help = "\
The command opens the sign-in page in a browser, if there is one, and always prints its URL. The gateway stores the \
tokens and uses them for every caller of the server; it never shows them.
For example:
  toolbooth servers login tracker
  toolbooth servers login tracker --no-browser    (only prints the URL)")]
pub struct ServerLoginArguments {
    /// Name of the server.
    name: String,
    /// Only print the URL of the page.
    #[arg(long)]
    no_browser: bool,
    /// Port for the redirect after the sign-in; 8666, or another if that is in use.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// How long to wait for the sign-in.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
}

/// Signs in to a server.
pub async fn login(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &ServerLoginArguments,
) -> CommandResult {
    let callback = CallbackListener::open(arguments.port, PORT)
        .await
        .map_err(|error| cannot_listen(arguments.port, &error))?;
    let home = redirect_uri(callback.port);
    let path = format!("/servers/{}/login", segment(&arguments.name));
    let begun =
        post(gateway, arguments, "starting the sign-in", &path, json!({ "redirect_uri": home })).await?;
    let Some(url) = begun["url"].as_str() else {
        return Ok(finish(&begun["server"], global));
    };
    show(url, global, arguments);
    let state = state_of(url).unwrap_or_default().to_owned();
    let waited = tokio::time::timeout(Duration::from_secs(arguments.wait), callback.answer(&state));
    let query = match while_waiting("waiting for the sign-in", waited).await {
        Ok(Ok(query)) => query,
        Ok(Err(error)) => return Err(cannot_listen(arguments.port, &error)),
        Err(_) => return Err(timed_out(arguments)),
    };
    let redirect = format!("{home}?{query}");
    let finished =
        post(gateway, arguments, "signing in", &format!("{path}/finish"), json!({ "redirect": redirect }))
            .await?;
    Ok(finish(&finished, global))
}

/// Deletes the stored sign-in to a server.
pub async fn logout(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    let server = match gateway.delete(&format!("/servers/{}/login", segment(name))).await {
        Ok(server) => server,
        Err(failure) => return Err(suggest(gateway, failure, name).await),
    };
    print_server(&server, global);
    Ok(Exit::Ok)
}

async fn post(
    gateway: &GatewayHandle,
    arguments: &ServerLoginArguments,
    what: &str,
    path: &str,
    body: Value,
) -> Result<Value, CommandFailure> {
    match gateway.post(what, path, Some(Bytes::from(body.to_string()))).await {
        Ok(body) => read(&body),
        Err(failure) => Err(suggest(gateway, failure, &arguments.name).await),
    }
}

fn finish(server: &Value, global: &GlobalOptions) -> Exit {
    print_server(server, global);
    if server["state"] == "connected" { Exit::Ok } else { Exit::Failed }
}

fn show(url: &str, global: &GlobalOptions, arguments: &ServerLoginArguments) {
    let text = format!("Sign in to `{}` on this page:\n\n  {}\n\n", line(&arguments.name), line(url));
    match global.json {
        true => render::complain(&text),
        false => render::print(&text),
    }
    let is_page = url.starts_with("https://") || url.starts_with("http://");
    if is_page && !arguments.no_browser && !global.json && std::io::stdout().is_terminal() {
        open_page(url);
    }
}

fn cannot_listen(port: Option<u16>, error: &std::io::Error) -> CommandFailure {
    let place = port.map_or_else(|| "this machine".to_owned(), |port| format!("port {port}"));
    CommandFailure::failed(Problem {
        code: "gateway.no-callback",
        blame: Blame::Gateway,
        message: format!("cannot listen on {place} for the end of the sign-in: {error}"),
        hint: Some("give another --port".into()),
    })
}

fn timed_out(arguments: &ServerLoginArguments) -> CommandFailure {
    CommandFailure::failed(Problem {
        code: "oauth.login-failed",
        blame: Blame::Caller,
        message: format!("the sign-in to `{}` did not finish within {} s", arguments.name, arguments.wait),
        hint: Some(
            "the browser must be able to reach 127.0.0.1 on this machine; --wait sets a longer time".into(),
        ),
    })
}
