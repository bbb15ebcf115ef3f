//! `toolbooth start`: runs the gateway in the background.

use super::client_views::{self, ClientView};
use super::serve::{self, ServeArguments};
use super::{in_runtime, service};
use crate::background::{self, GatewayStart, StartOptions};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::progress::while_waiting;
use crate::render::{self, Paint, Tone, line};
use clap::Args;
use serde_json::json;

/// Arguments of `toolbooth start`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The command returns when the gateway answers. If a gateway is running already, it changes nothing.
`toolbooth status` shows the gateway, `toolbooth stop` stops it, and `toolbooth service install` starts it at login.")]
pub struct GatewayStartArguments {
    #[command(flatten)]
    serve: ServeArguments,
}

/// Runs `toolbooth start`.
pub fn run(global: &GlobalOptions, arguments: &GatewayStartArguments) -> CommandResult {
    let mut sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    // Questions about trust and findings are for this terminal: the gateway will have none.
    let loaded = serve::load(&mut sources, &arguments.serve)?;
    let data_dir = loaded.settings.data_dir.clone();
    in_runtime(async {
        let options = StartOptions { listen: arguments.serve.listen.clone(), linger: None };
        let is_plain = options.listen.is_none() && gateway::named(&sources).is_empty();
        let started = while_waiting("starting the gateway", async {
            let by_service = match is_plain {
                true => service::start_installed(&sources, &data_dir).await,
                false => None,
            };
            match by_service {
                Some(started) => Ok(started),
                None => background::start(global, &data_dir, &options).await,
            }
        });
        let started = started.await?;
        if started.record().named != gateway::named(&sources) {
            render::complain("warning: the running gateway was started with other configuration files\n");
        }
        let unused = options.listen.as_deref().filter(|address| !is_used(address, &started));
        if let (GatewayStart::AlreadyRunning(_), Some(address)) = (&started, unused) {
            render::complain(&format!(
                "warning: `--listen {}` was not used, because a gateway is running; `toolbooth stop` stops it\n",
                line(address)
            ));
        }
        let views = views_of(global).await;
        report(global, &started, &views);
        if let Some(address) = options.listen.as_deref().filter(|_| !global.json) {
            render::print(&listen_hint(address, &started));
        }
        Ok(Exit::Ok)
    })
}

/// How to keep an address that was given for one run; empty if that address is not in use, or changes with every run.
fn listen_hint(address: &str, started: &GatewayStart) -> String {
    if !is_used(address, started) {
        return String::new();
    }
    let value = match address.parse::<u16>() {
        Ok(port) => port.to_string(),
        Err(_) => format!("\"{address}\""),
    };
    let sentence = format!(
        "`--listen` is for this run. To keep the address, write `listen = {value}` to ~/.config/toolbooth/toolbooth.toml, \
         above the first table."
    );
    format!("\n{}\n", render::wrap(&line(&sentence), 0))
}

/// Whether the gateway listens on the port of an address. Port 0, a free port, counts as not used.
fn is_used(address: &str, started: &GatewayStart) -> bool {
    let port = address.rsplit(':').next().unwrap_or(address);
    started.record().url.ends_with(&format!(":{port}"))
}

/// What clients will see; empty if the gateway does not say.
async fn views_of(global: &GlobalOptions) -> Vec<ClientView> {
    let Ok(Some(gateway)) = GatewayHandle::running(&GlobalOptions { url: None, ..global.clone() }).await
    else {
        return Vec::new();
    };
    let views = client_views::ask(&gateway).await.unwrap_or_default();
    gateway.close().await;
    views
}

fn report(global: &GlobalOptions, started: &GatewayStart, views: &[ClientView]) {
    let GatewayRecord { url, pid, version, linger_seconds, log, .. } = started.record();
    let is_new = matches!(started, GatewayStart::Started(_));
    if global.json {
        return render::print_json(&json!({
            "started": is_new, "url": url, "pid": pid, "version": version, "log": log, "clients": views,
        }));
    }
    let title = match is_new {
        true => format!("Toolbooth {version} is running in the background: {url} (process {pid})"),
        false => format!("Toolbooth {version} was already running: {url} (process {pid})"),
    };
    let mut text = format!(
        "{}\n\n  Console       {url}/console/\n  MCP endpoint  {url}/mcp\n",
        Paint::stdout().tone(Tone::Strong, &title),
    );
    // A gateway in the foreground writes no log file.
    if let Some(log) = log {
        text.push_str(&format!("  Log           {}\n", render::path(log)));
    }
    text.push('\n');
    if let Some(seconds) = linger_seconds {
        let sentence = format!(
            "A client started this gateway, and it ends {seconds} s after its last client has disconnected. \
             To keep one running, run `toolbooth stop` and `toolbooth start`."
        );
        text.push_str(&format!("{}\n\n", render::wrap(&sentence, 0)));
    }
    if !views.is_empty() {
        text.push_str(&format!("{}\n", client_views::draw(views)));
    }
    text.push_str(
        "`toolbooth connect CLIENT` connects a client, `toolbooth servers add` adds\n\
         a server, `toolbooth stop` stops the gateway.\n",
    );
    render::print(&text);
}
