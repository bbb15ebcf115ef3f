//! The environment of one run: builds the programs, and starts and stops the fixture and the gateway.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The timeout until the gateway lists the fixture's tools.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The programs to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildScope {
    /// Only the fixture.
    Fixture,
    /// The fixture and the gateway.
    FixtureAndGateway,
}

/// The built programs.
#[derive(Debug)]
pub struct ConformancePrograms {
    root: PathBuf,
    fixture: PathBuf,
    gateway: Option<PathBuf>,
}

impl ConformancePrograms {
    /// Uses the existing programs of a folder.
    pub fn find(root: &Path, folder: &Path) -> Self {
        let [fixture, gateway] = ["toolbooth-fixture", "toolbooth"].map(|name| folder.join(name));
        Self { root: root.to_path_buf(), fixture, gateway: Some(gateway) }
    }

    /// Builds the programs.
    pub fn build(root: &Path, scope: BuildScope) -> Result<Self> {
        let mut command = crate::cargo(root);
        command.args(["build", "--message-format=json-render-diagnostics"]);
        command.args(["-p", "toolbooth-testkit", "--bin", "toolbooth-fixture"]);
        if scope == BuildScope::FixtureAndGateway {
            command.args(["-p", "toolbooth", "--bin", "toolbooth"]);
        }
        let output = command.stderr(Stdio::inherit()).output().context("cargo did not start")?;
        if !output.status.success() {
            bail!("the programs do not build");
        }
        let executable = |name: &str| -> Option<PathBuf> {
            let lines = output.stdout.split(|byte| *byte == b'\n');
            let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
            let built = messages.filter(|message| message["target"]["name"] == name);
            built.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back()
        };
        let fixture = executable("toolbooth-fixture").context("cargo built no fixture")?;
        Ok(Self { root: root.to_path_buf(), fixture, gateway: executable("toolbooth") })
    }

    fn gateway(&self) -> Result<&Path> {
        self.gateway.as_deref().context("cargo built no gateway")
    }
}

/// A program that runs until it is dropped.
pub struct ConformanceProcess {
    child: Child,
    /// The URL of its MCP endpoint.
    pub url: String,
}

impl Drop for ConformanceProcess {
    fn drop(&mut self) {
        // The process may have exited already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The environment of one run, with a folder for logs and results.
pub struct ConformanceStage<'a> {
    programs: &'a ConformancePrograms,
    folder: PathBuf,
}

impl<'a> ConformanceStage<'a> {
    /// Creates an empty folder under `target/conformance`.
    pub fn new(programs: &'a ConformancePrograms, name: &str) -> Result<Self> {
        let folder = programs.root.join("target/conformance").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { programs, folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the fixture in this era, on a free port.
    pub fn start_fixture(&self, era: &str) -> Result<ConformanceProcess> {
        let mut child = Command::new(&self.programs.fixture)
            .args(["--listen", "127.0.0.1:0", "--era", era])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(self.folder.join("fixture.log"))?)
            .spawn()
            .context("the fixture did not start")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let url = line.trim().strip_prefix("listening ").unwrap_or_default().to_owned();
        let running = ConformanceProcess { child, url };
        if running.url.is_empty() {
            bail!("the fixture did not print its address");
        }
        Ok(running)
    }

    /// The server entry for a fixture of this era over stdio.
    pub fn fixture_command(&self, era: &str) -> Value {
        json!({ "command": self.programs.fixture, "args": ["--stdio", "--era", era], "share": "all" })
    }

    /// Starts the gateway with the fixture as its only server, and waits until it lists the fixture's tools.
    pub fn start_gateway(&self, fixture: &Value) -> Result<ConformanceProcess> {
        let config = json!({ "naming": { "style": "tool" }, "servers": { "fx": fixture } });
        let file = self.folder.join("toolbooth.json");
        fs::write(&file, format!("{config:#}\n"))?;
        let address = free_address()?;
        let log = File::create(self.folder.join("gateway.log"))?;
        let child = Command::new(self.programs.gateway()?)
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .arg("--listen")
            .arg(address.to_string())
            .arg("--data-dir")
            .arg(self.folder.join("data"))
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()
            .context("the gateway did not start")?;
        let mut running = ConformanceProcess { child, url: format!("http://{address}/mcp") };
        let deadline = Instant::now() + START_TIMEOUT;
        while !offers_tools(address) {
            if let Some(status) = running.child.try_wait()? {
                bail!("the gateway ended with {status}; see {}", self.folder.join("gateway.log").display());
            }
            if Instant::now() > deadline {
                bail!("the gateway lists no tools; see {}", self.folder.join("gateway.log").display());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(running)
    }

    /// The command line of the gateway's conformance client; the suite appends a URL.
    pub fn client_command(&self) -> Result<String> {
        Ok(format!("{} conformance-client", self.programs.gateway()?.display()))
    }
}

/// A free local address.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?)
}

/// Whether the gateway lists a tool of the fixture.
fn offers_tools(address: SocketAddr) -> bool {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "xtask", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } }).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/list\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(8 * 1024 * 1024).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    ask().is_ok_and(|answer| answer.contains("test_simple_text"))
}
