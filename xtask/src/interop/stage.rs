//! The environment of one part: its folder, and the programs that run in it.

use super::{
    process::{GatewayProcesses, MARK},
    script::{output, wait},
};
use crate::python::Venv;
use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Set by `cargo xtask test`, which has already built the programs.
pub const BUILT: &str = "TOOLBOOTH_BUILT";
/// The timeout for the start of servers.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// The timeout for the exit of a gateway.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest list of tools that is read.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Builds the gateway and the fixture.
pub fn build(root: &Path) -> Result<()> {
    // Building them as single packages would select other features of dependencies and rebuild everything.
    if std::env::var_os(BUILT).is_some() {
        return Ok(());
    }
    let packages = ["-p", "toolbooth", "-p", "toolbooth-testkit", "--bins"];
    let status = crate::cargo(root).args(["build", "--quiet"]).args(packages).status()?;
    if !status.success() {
        bail!("the programs do not build");
    }
    Ok(())
}

/// The path of a built program, which is in the folder of this one.
pub fn program(name: &str) -> Result<PathBuf> {
    let beside = std::env::current_exe().context("the path of this program")?.with_file_name(name);
    if !beside.exists() {
        bail!("{} was not built", beside.display());
    }
    Ok(beside)
}

/// The environment of one part, with an empty folder under `target/interop`.
#[derive(Debug)]
pub struct InteropStage {
    /// The repository.
    pub root: PathBuf,
    /// The folder.
    pub folder: PathBuf,
}

impl InteropStage {
    /// Creates the folder.
    pub fn new(root: &Path, name: &str) -> Result<Self> {
        let folder = root.join("target/interop").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(folder.join("home")).with_context(|| folder.display().to_string())?;
        Ok(Self { root: root.to_path_buf(), folder })
    }

    /// A script in the folder `interop`.
    pub fn script(&self, path: &str) -> PathBuf {
        self.root.join("interop").join(path)
    }

    /// A path in this part's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Isolates a program from this machine's configuration.
    pub fn isolate<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let home = self.folder.join("home");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOOLBOOTH_") {
                command.env_remove(name);
            }
        }
        command.current_dir(&self.folder).env("HOME", &home).env("XDG_CONFIG_HOME", home.join(".config"))
    }

    /// Starts the fixture over HTTP.
    pub fn start_fixture(&self, era: &str) -> Result<InteropProcess> {
        let mut command = Command::new(program("toolbooth-fixture")?);
        command.args(["--listen", "127.0.0.1:0", "--era", era]).stdout(Stdio::piped());
        let mut running = self.start(&mut command, &format!("fixture-{era}"))?;
        let mut line = String::new();
        if let Some(stdout) = running.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let url = line.trim().strip_prefix("listening ").context("the fixture did not print its address")?;
        running.url = url.to_owned();
        Ok(running)
    }

    /// Starts a server that takes a port as its last argument, and waits until it listens.
    pub fn start_on_port(&self, mut command: Command, name: &str) -> Result<InteropProcess> {
        let address = free_address()?;
        command.arg(address.port().to_string()).stdout(Stdio::null());
        let mut running = self.start(&mut command, name)?;
        running.url = format!("http://{address}/mcp");
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            running.is_alive_before(deadline, name)?;
        }
        Ok(running)
    }

    fn start(&self, command: &mut Command, name: &str) -> Result<InteropProcess> {
        let log = File::create(self.file(&format!("{name}.log")))?;
        let child = self.isolate(command).stdin(Stdio::null()).stderr(log).spawn();
        Ok(InteropProcess {
            child: child.with_context(|| format!("{name} did not start"))?,
            url: String::new(),
        })
    }

    /// The server entry of the fixture over stdio.
    pub fn fixture_entry(&self, era: &str) -> Result<Value> {
        Ok(json!({ "command": program("toolbooth-fixture")?, "args": ["--stdio", "--era", era] }))
    }

    /// The server entry of a server that writes each entry it receives to this file.
    pub fn ledger_entry(&self, file: &Path) -> Result<Value> {
        Ok(json!({ "command": program("toolbooth-hostile")?, "args": ["ledger", file], "inject": true }))
    }

    /// Configures a gateway with these servers. No call needs consent.
    pub fn gateway(&self, name: &str, servers: Value) -> Result<InteropGateway> {
        self.gateway_with(name, json!({}), servers)
    }

    /// Configures a gateway with these servers and settings.
    pub fn gateway_with(&self, name: &str, settings: Value, mut servers: Value) -> Result<InteropGateway> {
        let mark = format!("{name}-{}", std::process::id());
        for entry in servers.as_object_mut().into_iter().flat_map(|entries| entries.values_mut()) {
            entry["requires_consent"] = false.into();
            if entry["command"].is_string() {
                entry["env"][MARK] = mark.as_str().into();
            }
        }
        let config = self.file(&format!("{name}.json"));
        let mut content = settings;
        content["exposure"] = json!({ "mode": "full" });
        // Without the key, the bundled servers run; an empty map means no servers.
        if servers.as_object().is_some_and(|entries| !entries.is_empty()) {
            content["servers"] = servers;
        }
        fs::write(&config, format!("{content:#}\n"))?;
        let data = self.file(&format!("{name}-data"));
        Ok(InteropGateway { program: program("toolbooth")?, name: name.to_owned(), config, data, mark })
    }

    /// Configures a gateway with an existing file of servers.
    pub fn gateway_of(&self, name: &str, config: PathBuf) -> Result<InteropGateway> {
        let mark = format!("{name}-{}", std::process::id());
        let data = self.file(&format!("{name}-data"));
        Ok(InteropGateway { program: program("toolbooth")?, name: name.to_owned(), config, data, mark })
    }

    /// Starts a gateway whose servers use the Python of a virtual environment, and waits until it lists these tools.
    pub fn serve_with(
        &self,
        gateway: &InteropGateway,
        tools: &[&str],
        python: &Venv,
    ) -> Result<InteropProcess> {
        let mut command = Command::new(&gateway.program);
        command.env("PATH", first_in_path(&python.bin())?).env("PYTHONDONTWRITEBYTECODE", "1");
        self.serve_by(command, gateway, tools)
    }

    /// Starts a gateway, and waits until it lists these tools.
    pub fn serve(&self, gateway: &InteropGateway, tools: &[&str]) -> Result<InteropProcess> {
        self.serve_by(Command::new(&gateway.program), gateway, tools)
    }

    fn serve_by(
        &self,
        mut command: Command,
        gateway: &InteropGateway,
        tools: &[&str],
    ) -> Result<InteropProcess> {
        let address = free_address()?;
        command.arg("serve").args(gateway.arguments()).arg("--listen").arg(address.to_string());
        // The gateway must not pass this variable to servers.
        command.env("SECRET_OF_THE_HOST", "hidden");
        let output = File::create(self.file(&format!("{}.out", gateway.name)))?;
        let mut running = self.start(command.stdout(output), &gateway.name)?;
        running.url = format!("http://{address}/mcp");
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let listed = list_tools(address).unwrap_or_default();
            if tools.iter().all(|tool| listed.contains(&format!("\"{tool}\""))) {
                return Ok(running);
            }
            running.is_alive_before(deadline, &gateway.name)?;
        }
    }
}

/// A gateway's configuration and data.
#[derive(Debug)]
pub struct InteropGateway {
    program: PathBuf,
    name: String,
    config: PathBuf,
    data: PathBuf,
    mark: String,
}

impl InteropGateway {
    fn arguments(&self) -> [String; 4] {
        let [config, data] = [&self.config, &self.data].map(|path| path.display().to_string());
        ["--config".into(), config, "--data-dir".into(), data]
    }

    /// The program and the options for commands with this configuration.
    pub fn command(&self) -> Vec<String> {
        [vec![self.program.display().to_string()], self.arguments().to_vec()].concat()
    }

    /// The command of `toolbooth stdio` with this configuration.
    pub fn stdio_command(&self) -> Vec<String> {
        let program = self.program.display().to_string();
        [vec![program, "stdio".into()], self.arguments().to_vec()].concat()
    }

    /// Runs a `toolbooth` command against this gateway; returns its JSON output.
    pub fn run_json(&self, stage: &InteropStage, words: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.program);
        stage.isolate(&mut command).args(words).arg("--json").args(self.arguments());
        let seen = output(&mut command, Duration::from_secs(60))?;
        if !seen.status.success() {
            bail!("{}: {}{}", seen.status, seen.stdout.trim(), seen.stderr.trim());
        }
        serde_json::from_str(&seen.stdout).with_context(|| format!("the output is not JSON: {}", seen.stdout))
    }

    /// Calls a tool.
    pub fn call(&self, stage: &InteropStage, tool: &str, arguments: &Value) -> Result<Value> {
        self.run_json(stage, &["call", tool, "--args", &arguments.to_string()])
    }

    /// Adds the program `toolbooth` to the `PATH` of a shell, with this gateway's data folder.
    pub fn add_to_path<'a>(&self, shell: &'a mut Command) -> Result<&'a mut Command> {
        let folder = self.program.parent().context("the program has no folder")?;
        Ok(shell.env("PATH", first_in_path(folder)?).env("TOOLBOOTH_DATA_DIR", &self.data))
    }

    /// The process of a gateway that `toolbooth stdio` started, and its descendants.
    pub fn started_by_stdio(&self) -> Result<(Pid, GatewayProcesses)> {
        let presence = fs::read(self.data.join("gateway.json")).context("no gateway is running")?;
        let presence: Value = serde_json::from_slice(&presence)?;
        let id = presence["pid"]
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .context("`gateway.json` has no process id")?;
        Ok((Pid::from_raw(i32::try_from(id)?), GatewayProcesses::of(id, &self.mark)))
    }

    /// The descendants of this gateway's process.
    pub fn family(&self, running: &InteropProcess) -> GatewayProcesses {
        GatewayProcesses::of(running.child.id(), &self.mark)
    }
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct InteropProcess {
    child: Child,
    /// The URL of its MCP endpoint.
    pub url: String,
}

impl InteropProcess {
    /// Sends it a signal, and waits for its exit.
    pub fn end(&mut self, signal: Signal) -> Result<()> {
        let id = Pid::from_raw(i32::try_from(self.child.id())?);
        kill(id, signal).context("the process cannot be signalled")?;
        wait(&mut self.child, EXIT_TIMEOUT).map(|_| ())
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn is_alive_before(&mut self, deadline: Instant, name: &str) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{name} ended with {status}; see its log under target/interop");
        }
        if Instant::now() > deadline {
            bail!(
                "{name} was not ready within {} s; see its log under target/interop",
                START_TIMEOUT.as_secs()
            );
        }
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }
}

impl Drop for InteropProcess {
    fn drop(&mut self) {
        // The process may have exited already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The `PATH`, with one more folder at the front.
fn first_in_path(folder: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}

/// A free local address.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?)
}

/// The gateway's answer to `tools/list`, as text.
fn list_tools(address: SocketAddr) -> Result<String> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "xtask", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let params = json!({ "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params }).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/list\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
