//! `toolbooth stdio`: an MCP server on standard input and output, connected to a shared gateway.
//!
//! The process only relays bytes: many clients share one gateway and one set of server processes.

use super::trust;
use crate::background::{self, StartOptions};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::project_notice;
use clap::Args;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use toolbooth_core::fault::{Blame, Problem};

/// How long a gateway started for its clients outlives the last of them.
const LINGER_SECONDS: u64 = 30;
/// The size of the pieces that are relayed.
const BUFFER_BYTES: usize = 64 << 10;

/// Arguments of `toolbooth stdio`.
#[derive(Debug, Clone, Args)]
pub struct StdioArguments {
    /// How many seconds a gateway that this command starts keeps running after its last client has disconnected.
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = LINGER_SECONDS)]
    linger: u64,
}

/// Runs `toolbooth stdio`: connects to the running gateway, or starts one.
pub fn run(global: &GlobalOptions, arguments: &StdioArguments) -> CommandResult {
    let (sources, loaded) = gateway::load(global)?;
    let data_dir = loaded.settings.data_dir.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::failed(problem(&error.to_string())))?;
    let outcome = runtime.block_on(async {
        let stream = join(&data_dir, global, arguments).await?;
        let mut folder = None;
        if let Some(record) = GatewayRecord::find(&data_dir) {
            if record.named != gateway::named(&sources) {
                eprintln!("warning: the running gateway was started with other configuration files");
            }
            // A gateway of another version may not understand the folder.
            if project_notice::is_elsewhere(&loaded, &sources, &record)
                && record.version == env!("CARGO_PKG_VERSION")
            {
                folder = Some(sources.cwd.display().to_string());
            }
        }
        let waiting = trust::pending(&loaded);
        if !waiting.is_empty() {
            let names: Vec<&str> = waiting.iter().filter_map(|one| one.name).collect();
            eprintln!(
                "warning: `toolbooth trust` is needed for the servers of this folder: {}",
                names.join(", ")
            );
        }
        match relay(introduced(stream, global, folder).await).await {
            RelayEnd::Client => Ok(Exit::Ok),
            RelayEnd::Gateway => Err(CommandFailure::new(Exit::Unreachable, ended())),
        }
    });
    // The thread that reads standard input cannot be interrupted.
    runtime.shutdown_background();
    outcome
}

/// Sends the persona and the folder of the client to the gateway, before the client's first message.
async fn introduced(mut stream: UnixStream, global: &GlobalOptions, folder: Option<String>) -> UnixStream {
    let mut options = serde_json::Map::new();
    for (key, value) in [("persona", global.persona.clone()), ("folder", folder)] {
        if let Some(value) = value {
            options.insert(key.to_owned(), value.into());
        }
    }
    if !options.is_empty() {
        let line = format!("{}\n", serde_json::json!({ "toolbooth": options }));
        let _ = stream.write_all(line.as_bytes()).await;
    }
    stream
}

fn problem(why: &str) -> Problem {
    Problem {
        code: "stdio.no-gateway",
        blame: Blame::Gateway,
        message: format!("cannot connect to a gateway: {why}"),
        hint: Some("`toolbooth serve` shows what is wrong".into()),
    }
}

fn ended() -> Problem {
    Problem {
        code: "stdio.gateway-ended",
        blame: Blame::Gateway,
        message: "the gateway has ended, and with it this connection".into(),
        hint: Some(
            "restart the MCP client: `toolbooth stdio` then connects to the running gateway, or starts one"
                .into(),
        ),
    }
}

async fn join(
    data_dir: &Path,
    global: &GlobalOptions,
    arguments: &StdioArguments,
) -> Result<UnixStream, CommandFailure> {
    if let Some(record) = GatewayRecord::find(data_dir)
        && let Ok(stream) = UnixStream::connect(&record.socket).await
    {
        return Ok(stream);
    }
    let options = StartOptions {
        listen: Some("127.0.0.1:0".to_owned()),
        linger: Some(Duration::from_secs(arguments.linger)),
    };
    let gateway = background::start(global, data_dir, &options).await?;
    let stream = UnixStream::connect(&gateway.record().socket).await;
    stream.map_err(|error| CommandFailure::failed(problem(&error.to_string())))
}

/// The side that ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelayEnd {
    Client,
    Gateway,
}

/// Relays bytes in both directions until either side ends.
async fn relay(stream: UnixStream) -> RelayEnd {
    let (from_gateway, to_gateway) = stream.into_split();
    let requests = relay_requests(to_gateway);
    let answers = relay_answers(from_gateway);
    tokio::pin!(requests, answers);
    tokio::select! {
        end = &mut requests => match end {
            // The last requests still get their answers.
            RelayEnd::Client => {
                answers.await;
                RelayEnd::Client
            }
            RelayEnd::Gateway => RelayEnd::Gateway,
        },
        end = &mut answers => end,
    }
}

/// Relays standard input to the gateway, and returns the side that ended.
///
/// A gateway that ends is often noticed here first: writing to it fails.
async fn relay_requests(mut to_gateway: OwnedWriteHalf) -> RelayEnd {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    loop {
        let read = match stdin.read(&mut buffer).await {
            Ok(0) | Err(_) => {
                let _ = to_gateway.shutdown().await;
                return RelayEnd::Client;
            }
            Ok(read) => read,
        };
        if to_gateway.write_all(&buffer[..read]).await.is_err() {
            return RelayEnd::Gateway;
        }
    }
}

/// Relays answers of the gateway to standard output, and returns the side that ended.
async fn relay_answers(mut from_gateway: OwnedReadHalf) -> RelayEnd {
    let mut stdout = tokio::io::stdout();
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    loop {
        let read = match from_gateway.read(&mut buffer).await {
            Ok(0) | Err(_) => return RelayEnd::Gateway,
            Ok(read) => read,
        };
        if stdout.write_all(&buffer[..read]).await.is_err() || stdout.flush().await.is_err() {
            return RelayEnd::Client;
        }
    }
}
