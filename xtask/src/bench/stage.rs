//! The environment of a benchmark: builds the programs, and runs a server, nginx and a gateway for each catalog size.

use super::depth::Depth;
use super::route::BenchRoute;
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The timeout until a gateway lists its tools.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout for the exit of a program after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(8);

/// The measured programs and the load generator.
#[derive(Debug)]
pub struct BenchPrograms {
    /// The gateway.
    pub toolbooth: PathBuf,
    /// The test server.
    pub server: PathBuf,
    load: PathBuf,
    /// Debian's nginx, if it is installed.
    pub nginx: Option<PathBuf>,
}

impl BenchPrograms {
    /// Uses the existing programs of a folder.
    pub fn find(folder: &Path, toolbooth: Option<&Path>) -> Result<Self> {
        let [own, server, load] = ["toolbooth", "bench-server", "bench-load"].map(|name| folder.join(name));
        let toolbooth = toolbooth.map_or(own, Path::to_path_buf);
        let [toolbooth, server, load] = [toolbooth, server, load]
            .map(|path| fs::canonicalize(&path).with_context(|| path.display().to_string()));
        Ok(Self { toolbooth: toolbooth?, server: server?, load: load?, nginx: find_nginx() })
    }

    /// Builds release binaries; the gateway only if none is given.
    pub fn build(root: &Path, toolbooth: Option<&Path>) -> Result<Self> {
        if toolbooth.is_none() {
            // As the only package: others could enable more features of its dependencies.
            let built = crate::cargo(root).args(["build", "--release", "-p", "toolbooth"]).status();
            ensure!(built.context("cargo did not start")?.success(), "the gateway does not build");
        }
        let mut command = crate::cargo(root);
        command.args([
            "build",
            "--release",
            "--message-format=json-render-diagnostics",
            "-p",
            "toolbooth-bench",
        ]);
        let output = command.stderr(Stdio::inherit()).output().context("cargo did not start")?;
        ensure!(output.status.success(), "the programs do not build");
        let lines = output.stdout.split(|byte| *byte == b'\n');
        let mut messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let built = messages
            .find(|message| message["target"]["name"] == "bench-load" && message["executable"].is_string());
        let load = built.as_ref().and_then(|message| message["executable"].as_str()).map(Path::new);
        let folder = load.and_then(Path::parent).context("cargo built no load generator")?;
        Self::find(folder, toolbooth)
    }
}

fn find_nginx() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's PATH often lacks the folder where Debian installs it.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct BenchProcess(Child);

impl BenchProcess {
    /// Wraps a started program.
    pub fn of(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for BenchProcess {
    fn drop(&mut self) {
        // SIGTERM first: an instrumented gateway (`profile`) writes its counts on exit.
        if let Ok(pid) = self.0.id().try_into() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        // The process may have exited already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The environment of one run, with a temporary folder that is deleted with it.
#[derive(Debug)]
pub struct BenchStage<'a> {
    /// The programs.
    pub programs: &'a BenchPrograms,
    depth: Depth,
    folder: PathBuf,
    folders: AtomicUsize,
}

impl Drop for BenchStage<'_> {
    fn drop(&mut self) {
        // The system removes leftovers with its temporary files.
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl<'a> BenchStage<'a> {
    /// Creates a temporary folder.
    pub fn new(programs: &'a BenchPrograms, depth: Depth) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("toolbooth-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { programs, depth, folder, folders: AtomicUsize::new(0) })
    }

    /// Creates an empty subfolder.
    pub fn new_folder(&self) -> Result<PathBuf> {
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(number.to_string());
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Starts the test server over HTTP; returns its address.
    pub fn start_server(&self, tools: usize) -> Result<(BenchProcess, SocketAddr)> {
        let mut child = Command::new(&self.programs.server)
            .args(["--listen", "127.0.0.1:0", "--tools", &tools.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the server did not start")?;
        let stdout = child.stdout.take();
        let server = BenchProcess(child);
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout.take(1000)).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening http://").and_then(|url| url.strip_suffix("/mcp"));
        let address = address.and_then(|address| address.parse().ok());
        Ok((server, address.context("the server did not print its address")?))
    }

    /// The command line of a gateway with these servers and its data in this folder.
    pub fn gateway_command(
        &self,
        folder: &Path,
        address: SocketAddr,
        servers: &Value,
    ) -> Result<Vec<OsString>> {
        let config = folder.join("toolbooth.json");
        let mut settings = match self.depth {
            Depth::Lean => json!({ "audit": { "calls": "none" }, "limits": { "result_tokens": 0 },
                "results": { "inspect": false } }),
            // A limit above every result of the bench: results are inspected and forwarded unchanged.
            Depth::Full => json!({ "limits": { "result_tokens": 1_000_000 } }),
        };
        settings["servers"] = servers.clone();
        // Complete lists are compared, and no model's context has to be saved.
        settings["exposure"] = json!({ "mode": "full" });
        fs::write(&config, settings.to_string())?;
        let words: [&std::ffi::OsStr; 8] = [
            self.programs.toolbooth.as_ref(),
            "serve".as_ref(),
            "--config".as_ref(),
            config.as_ref(),
            "--data-dir".as_ref(),
            folder.as_ref(),
            "--listen".as_ref(),
            "LISTEN".as_ref(),
        ];
        let mut words = words.map(OsString::from).to_vec();
        if let Some(last) = words.last_mut() {
            *last = address.to_string().into();
        }
        Ok(words)
    }

    /// Isolates the gateway from the settings of the user who runs this.
    pub fn isolate(&self, command: &mut Command) -> Result<()> {
        command.current_dir(&self.folder).env("HOME", &self.folder).env("XDG_CONFIG_HOME", &self.folder);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOOLBOOTH_") {
                command.env_remove(name);
            }
        }
        Ok(())
    }

    /// The command of a task of the load generator.
    pub fn load(&self, task: &str) -> Command {
        let mut command = Command::new(&self.programs.load);
        command.arg(task);
        command
    }

    /// Starts server, nginx and gateway with this many tools, and waits until they are ready.
    pub fn start_stack(&'a self, tools: usize) -> Result<Stack<'a>> {
        let (server, server_address) = self.start_server(tools)?;
        let nginx = match &self.programs.nginx {
            Some(program) => Some(self.start_nginx(program, server_address)?),
            None => None,
        };
        let folder = self.new_folder()?;
        let address = free_address()?;
        // Health checks are periodic; one must not be counted among the requests of a call.
        let entry = json!({ "url": format!("http://{server_address}/mcp"), "health_check_interval": 3600 });
        let servers = json!({ "bench": entry });
        let words = self.gateway_command(&folder, address, &servers)?;
        let log = File::create(folder.join("gateway.log"))?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.isolate(&mut command)?;
        let gateway = BenchProcess(command.spawn().context("the gateway did not start")?);
        let mut stack =
            Stack { stage: self, tools, _server: server, server_address, nginx, gateway: (gateway, address) };
        stack.wait(&folder.join("gateway.log"))?;
        Ok(stack)
    }

    fn start_nginx(&self, program: &Path, upstream: SocketAddr) -> Result<(BenchProcess, SocketAddr)> {
        let (folder, address) = (self.new_folder()?, free_address()?);
        let config = folder.join("nginx.conf");
        fs::write(&config, nginx_config(&folder, address, upstream))?;
        let log = File::create(folder.join("nginx.log"))?;
        let child = Command::new(program)
            .arg("-p")
            .arg(&folder)
            .arg("-e")
            .arg(folder.join("error.log"))
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("nginx did not start")?;
        let nginx = BenchProcess(child);
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            ensure!(
                Instant::now() < deadline,
                "nginx does not listen; try `nginx -t -c {}`",
                config.display()
            );
            thread::sleep(Duration::from_millis(20));
        }
        Ok((nginx, address))
    }
}

/// A plain reverse proxy in one process: keep-alive on both sides, answers buffered in memory, no logs.
fn nginx_config(folder: &Path, address: SocketAddr, upstream: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
           access_log off; tcp_nodelay on; keepalive_requests 100000000;\n\
           client_max_body_size 64m; client_body_buffer_size 1m;\n\
           client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n\
           fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
           upstream server {{ server {upstream}; keepalive 128; keepalive_requests 100000000; }}\n\
           server {{\n\
             listen {address};\n\
             location / {{\n\
               proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
               proxy_buffer_size 16k; proxy_buffers 64 64k; proxy_busy_buffers_size 256k;\n\
               proxy_max_temp_file_size 0;\n\
             }}\n\
           }}\n\
         }}\n"
    )
}

/// A free local address.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?)
}

/// A server, and nginx and a gateway in front of it.
#[derive(Debug)]
pub struct Stack<'a> {
    stage: &'a BenchStage<'a>,
    /// The number of tools of the server.
    pub tools: usize,
    _server: BenchProcess,
    server_address: SocketAddr,
    nginx: Option<(BenchProcess, SocketAddr)>,
    gateway: (BenchProcess, SocketAddr),
}

impl Stack<'_> {
    fn wait(&mut self, log: &Path) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let mut list = self.load(BenchRoute::Toolbooth)?;
            list.args(["--operation", "list", "--era", "modern", "--duration-ms", "50", "--warm-up-ms", "0"]);
            list.args(["--min-bytes", &(self.tools * 500).to_string()]);
            let Err(error) = self.answer(list) else { return Ok(()) };
            let log_text = fs::read_to_string(log).unwrap_or_default();
            if let Some(status) = self.gateway.0.0.try_wait()? {
                bail!("the gateway ended with {status}: {log_text}");
            }
            ensure!(Instant::now() < deadline, "the gateway lists no tools: {error:#}; {log_text}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether this route exists.
    pub fn has(&self, via: BenchRoute) -> bool {
        via != BenchRoute::Nginx || self.nginx.is_some()
    }

    /// The name of the tool on this route.
    pub fn tool_name(&self, via: BenchRoute, tool: &str) -> String {
        match via {
            BenchRoute::Toolbooth => format!("bench_{tool}"),
            BenchRoute::Direct | BenchRoute::Nginx => tool.to_owned(),
        }
    }

    /// The load generator for this route; it watches the process in between.
    pub fn load(&self, via: BenchRoute) -> Result<Command> {
        let (address, watched) = match via {
            BenchRoute::Direct => (self.server_address, None),
            BenchRoute::Nginx => {
                let (nginx, address) = self.nginx.as_ref().context("nginx is not installed")?;
                (*address, Some(nginx.0.id()))
            }
            BenchRoute::Toolbooth => (self.gateway.1, Some(self.gateway.0.0.id())),
        };
        let mut command = self.stage.load("run");
        command.args(["--url", &format!("http://{address}/mcp")]);
        command.args(["--count-at", &self.server_address.to_string()]);
        if let Some(pid) = watched {
            command.args(["--pid", &pid.to_string()]);
        }
        Ok(command)
    }

    /// The current memory of the gateway.
    pub fn memory(&self) -> Result<Value> {
        let mut command = self.stage.load("memory");
        command.args(["--pid", &self.gateway.0.0.id().to_string()]);
        self.answer(command)
    }

    /// Runs the load generator and parses its line of JSON.
    pub fn answer(&self, command: Command) -> Result<Value> {
        answer(command)
    }
}

/// Runs the load generator and parses its line of JSON.
pub fn answer(mut command: Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output().context("the load generator did not start")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", errors.trim());
    let line = output.stdout.split(|byte| *byte == b'\n').rfind(|line| line.starts_with(b"{"));
    serde_json::from_slice(line.unwrap_or_default()).context("the load generator printed no JSON")
}
