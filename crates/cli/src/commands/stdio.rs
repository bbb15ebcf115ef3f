//! `toolbooth stdio`: an MCP server on standard input and output, connected to a shared gateway.
//!
//! The process only relays bytes: many clients share one gateway and one set of server processes.

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_record::{GatewayRecord, socket_path};
use crate::global_options::GlobalOptions;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::UnixStream;
use tokio::time::Instant;
use toolbooth_core::fault::{Blame, Problem};

/// How long a gateway may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a gateway started for its clients outlives the last of them.
const LINGER_SECONDS: u64 = 30;

/// Arguments of `toolbooth stdio`.
#[derive(Debug, Clone, Args)]
pub struct StdioArguments {
    /// How many seconds a gateway started for this client outlives its last client.
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
        let stream = join(&data_dir, global, arguments).await.map_err(CommandFailure::failed)?;
        if GatewayRecord::find(&data_dir).is_some_and(|found| found.named != gateway::named(&sources)) {
            eprintln!("warning: the running gateway was started with other configuration files");
        }
        relay(introduced(stream, global).await).await;
        Ok(Exit::Ok)
    });
    // The thread that reads standard input cannot be interrupted.
    runtime.shutdown_background();
    outcome
}

/// Sends the persona to the gateway, before the client's first message.
async fn introduced(mut stream: UnixStream, global: &GlobalOptions) -> UnixStream {
    if let Some(persona) = &global.persona {
        let line = format!("{}\n", serde_json::json!({ "toolbooth": { "persona": persona } }));
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

async fn join(
    data_dir: &Path,
    global: &GlobalOptions,
    arguments: &StdioArguments,
) -> Result<UnixStream, Problem> {
    if let Some(record) = GatewayRecord::find(data_dir)
        && let Ok(stream) = UnixStream::connect(&record.socket).await
    {
        return Ok(stream);
    }
    let mut gateway = start(data_dir, global, arguments).map_err(|error| problem(&error.to_string()))?;
    let started = Instant::now();
    while started.elapsed() < START_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(15)).await;
        if let Ok(stream) = UnixStream::connect(socket_path(data_dir)).await {
            return Ok(stream);
        }
        // Another client may have started a gateway at the same time.
        if let Ok(Some(status)) = gateway.try_wait()
            && !status.success()
            && GatewayRecord::find(data_dir).is_none()
            && started.elapsed() > Duration::from_secs(2)
        {
            return Err(problem(&format!("the gateway exited at startup ({status})")));
        }
    }
    Err(problem("it did not start in time"))
}

/// Starts a gateway that outlives this client: in its own process group, with its own standard streams.
fn start(
    data_dir: &Path,
    global: &GlobalOptions,
    arguments: &StdioArguments,
) -> std::io::Result<std::process::Child> {
    std::fs::create_dir_all(data_dir)?;
    let log = std::fs::File::create(data_dir.join("gateway.log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").args(["--listen", "127.0.0.1:0", "--linger", &arguments.linger.to_string()]);
    for file in &global.config {
        command.arg("--config").arg(file);
    }
    let folders = [
        ("--config-dir", &global.config_dir),
        ("--config-overrides", &global.config_overrides),
        ("--mcp-config", &global.mcp_config),
        ("--llm-config", &global.llm_config),
        ("--env-file", &global.env_file),
        ("--data-dir", &global.data_dir),
    ];
    for (flag, value) in folders {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
    if global.no_project {
        command.arg("--no-project");
    }
    for pair in &global.set {
        command.arg("--set").arg(pair);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).spawn()
}

/// Relays bytes in both directions until either side ends.
async fn relay(stream: UnixStream) {
    let (mut from_gateway, mut to_gateway) = stream.into_split();
    let up = async {
        let _ = copy(&mut tokio::io::stdin(), &mut to_gateway).await;
        let _ = to_gateway.shutdown().await;
    };
    let down = async {
        let mut stdout = tokio::io::stdout();
        let mut buffer = vec![0_u8; 64 * 1024];
        loop {
            match tokio::io::AsyncReadExt::read(&mut from_gateway, &mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    if stdout.write_all(&buffer[..read]).await.is_err() || stdout.flush().await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    tokio::pin!(up, down);
    tokio::select! {
        () = &mut up => down.await, // The last requests still get their answers.
        () = &mut down => {}
    }
}
