//! `toolbooth stdio`: an MCP server on standard input and output, joined to one shared gateway.
//!
//! The process is a pipe and nothing else: many clients, one gateway, one set of server processes.

use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::presence::{Presence, socket_path};
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::UnixStream;
use toolbooth_core::fault::{Blame, Problem};

/// How long a gateway may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a gateway started for its clients outlives the last of them.
const LINGER_SECONDS: u64 = 30;

/// How a gateway is joined.
#[derive(Debug, Clone, Args)]
pub struct StdioArguments {
    /// How many seconds a gateway started for this client outlives its last one.
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = LINGER_SECONDS)]
    linger: u64,
}

/// Joins a running gateway or starts one.
pub fn run(global: &Global, how: &StdioArguments) -> Outcome {
    let (sources, loaded) = gateway::load(global)?;
    let data_dir = loaded.settings.data_dir.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(problem(&error.to_string())))?;
    let outcome = runtime.block_on(async {
        let stream = join(&data_dir, global, how).await.map_err(Failure::failed)?;
        if Presence::find(&data_dir).is_some_and(|found| found.named != gateway::named(&sources)) {
            eprintln!("warning: the gateway that runs here was started with other files than these");
        }
        relay(introduced(stream, global).await).await;
        Ok(Exit::Ok)
    });
    // The reader of standard input is a thread that nothing can wake.
    runtime.shutdown_background();
    outcome
}

/// Tells the gateway which persona the client is to see, before the client's own first word.
async fn introduced(mut stream: UnixStream, global: &Global) -> UnixStream {
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
        message: format!("no gateway could be joined: {why}"),
        hint: Some("`toolbooth serve` shows what is wrong".into()),
    }
}

async fn join(data_dir: &Path, global: &Global, how: &StdioArguments) -> Result<UnixStream, Problem> {
    if let Some(presence) = Presence::find(data_dir)
        && let Ok(stream) = UnixStream::connect(&presence.socket).await
    {
        return Ok(stream);
    }
    let mut gateway = start(data_dir, global, how).map_err(|error| problem(&error.to_string()))?;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(15)).await;
        if let Ok(stream) = UnixStream::connect(socket_path(data_dir)).await {
            return Ok(stream);
        }
        // Another client may have been quicker; its gateway is as good.
        if let Ok(Some(status)) = gateway.try_wait()
            && !status.success()
            && Presence::find(data_dir).is_none()
            && started.elapsed() > Duration::from_secs(2)
        {
            return Err(problem(&format!("the gateway ended at once ({status})")));
        }
    }
    Err(problem("it did not come up in time"))
}

/// Starts a gateway that belongs to no client: a session of its own, nothing inherited.
fn start(data_dir: &Path, global: &Global, how: &StdioArguments) -> std::io::Result<std::process::Child> {
    std::fs::create_dir_all(data_dir)?;
    let log = std::fs::File::create(data_dir.join("gateway.log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").args(["--listen", "127.0.0.1:0", "--linger", &how.linger.to_string()]);
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

/// Passes bytes both ways until either side ends.
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
        () = &mut up => down.await, // Answers to what was asked last.
        () = &mut down => {}
    }
}
