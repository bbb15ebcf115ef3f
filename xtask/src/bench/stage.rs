//! The stage: the programs, built; and for each size of catalog a server, nginx and a gateway, all running.

use super::cells::Via;
use super::goals::Depth;
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

/// How long a gateway may take to offer its tools.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a program may take to end when it is asked to.
const END_PATIENCE: Duration = Duration::from_secs(8);

/// The programs that are measured, and those that measure.
#[derive(Debug)]
pub struct Programs {
    /// The gateway.
    pub toolbooth: PathBuf,
    /// The server of test data.
    pub server: PathBuf,
    load: PathBuf,
    /// Debian's nginx, if it is installed.
    pub nginx: Option<PathBuf>,
}

impl Programs {
    /// The programs of this folder, as they are.
    pub fn find(folder: &Path, toolbooth: Option<&Path>) -> Result<Self> {
        let [own, server, load] = ["toolbooth", "bench-server", "bench-load"].map(|name| folder.join(name));
        let toolbooth = toolbooth.map_or(own, Path::to_path_buf);
        let [toolbooth, server, load] = [toolbooth, server, load]
            .map(|path| fs::canonicalize(&path).with_context(|| path.display().to_string()));
        Ok(Self { toolbooth: toolbooth?, server: server?, load: load?, nginx: find_nginx() })
    }

    /// Builds them for release; a gateway that is given is not built.
    pub fn build(root: &Path, toolbooth: Option<&Path>) -> Result<Self> {
        if toolbooth.is_none() {
            // On its own: beside other packages it may get other features of its dependencies.
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
    // A user's PATH often leaves out the folder where Debian puts it.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Takes a program that was started.
    pub fn of(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Asked first: a gateway that counts where it goes (`profile`) writes it down when it ends.
        if let Ok(pid) = self.0.id().try_into() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let deadline = Instant::now() + END_PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        // It may have ended by itself; either way nothing is left behind.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The folder of one run, which goes with it.
#[derive(Debug)]
pub struct Stage<'a> {
    /// What is on stage.
    pub programs: &'a Programs,
    depth: Depth,
    folder: PathBuf,
    folders: AtomicUsize,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // What cannot be removed now goes with the temporary files of the system.
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl<'a> Stage<'a> {
    /// A new folder among the temporary files.
    pub fn new(programs: &'a Programs, depth: Depth) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("toolbooth-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { programs, depth, folder, folders: AtomicUsize::new(0) })
    }

    /// A folder that nobody used yet.
    pub fn new_folder(&self) -> Result<PathBuf> {
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(number.to_string());
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// The server of test data over HTTP, and where it listens.
    pub fn start_server(&self, tools: usize) -> Result<(Running, SocketAddr)> {
        let mut child = Command::new(&self.programs.server)
            .args(["--listen", "127.0.0.1:0", "--tools", &tools.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the server did not start")?;
        let stdout = child.stdout.take();
        let server = Running(child);
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout.take(1000)).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening http://").and_then(|url| url.strip_suffix("/mcp"));
        let address = address.and_then(|address| address.parse().ok());
        Ok((server, address.context("the server did not say where it listens")?))
    }

    /// The command line of a gateway with these servers, which keeps its state in this folder.
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
            // A budget that every result of the bench fits into: they are looked into, and passed on.
            Depth::Full => json!({ "limits": { "result_tokens": 1_000_000 } }),
        };
        settings["servers"] = servers.clone();
        // Lists are compared whole, and there is no model whose context they could fill.
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

    /// Keeps the settings of whoever runs this away from the gateway.
    pub fn isolate(&self, command: &mut Command) -> Result<()> {
        command.current_dir(&self.folder).env("HOME", &self.folder).env("XDG_CONFIG_HOME", &self.folder);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOOLBOOTH_") {
                command.env_remove(name);
            }
        }
        Ok(())
    }

    /// A task of the load generator.
    pub fn load(&self, task: &str) -> Command {
        let mut command = Command::new(&self.programs.load);
        command.arg(task);
        command
    }

    /// Server, nginx and gateway with this many tools, ready to answer.
    pub fn start_stack(&'a self, tools: usize) -> Result<Stack<'a>> {
        let (server, server_address) = self.start_server(tools)?;
        let nginx = match &self.programs.nginx {
            Some(program) => Some(self.start_nginx(program, server_address)?),
            None => None,
        };
        let folder = self.new_folder()?;
        let address = free_address()?;
        // Health checks come by the clock; none may fall into a count of what one call sends.
        let entry = json!({ "url": format!("http://{server_address}/mcp"), "health_check_interval": 3600 });
        let servers = json!({ "bench": entry });
        let words = self.gateway_command(&folder, address, &servers)?;
        let log = File::create(folder.join("gateway.log"))?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.isolate(&mut command)?;
        let gateway = Running(command.spawn().context("the gateway did not start")?);
        let mut stack =
            Stack { stage: self, tools, _server: server, server_address, nginx, gateway: (gateway, address) };
        stack.wait(&folder.join("gateway.log"))?;
        Ok(stack)
    }

    fn start_nginx(&self, program: &Path, upstream: SocketAddr) -> Result<(Running, SocketAddr)> {
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
        let nginx = Running(child);
        let deadline = Instant::now() + PATIENCE;
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

/// A plain reverse proxy in one process: connections kept on both sides, answers passed through memory, no logs.
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

/// An address that nobody listens on right now.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?)
}

/// A server, with nginx and a gateway before it.
#[derive(Debug)]
pub struct Stack<'a> {
    stage: &'a Stage<'a>,
    /// How many tools the server has.
    pub tools: usize,
    _server: Running,
    server_address: SocketAddr,
    nginx: Option<(Running, SocketAddr)>,
    gateway: (Running, SocketAddr),
}

impl Stack<'_> {
    fn wait(&mut self, log: &Path) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut look = self.load(Via::Toolbooth)?;
            look.args(["--operation", "list", "--era", "modern", "--duration-ms", "50", "--warm-up-ms", "0"]);
            look.args(["--min-bytes", &(self.tools * 500).to_string()]);
            let Err(error) = self.answer(look) else { return Ok(()) };
            let said = fs::read_to_string(log).unwrap_or_default();
            if let Some(status) = self.gateway.0.0.try_wait()? {
                bail!("the gateway ended with {status}: {said}");
            }
            ensure!(Instant::now() < deadline, "the gateway offers no tools: {error:#}; {said}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether this way exists.
    pub fn has(&self, via: Via) -> bool {
        via != Via::Nginx || self.nginx.is_some()
    }

    /// What the tool is called on this way.
    pub fn tool_name(&self, via: Via, tool: &str) -> String {
        match via {
            Via::Toolbooth => format!("bench_{tool}"),
            Via::Direct | Via::Nginx => tool.to_owned(),
        }
    }

    /// The load generator, aimed this way and watching what stands in it.
    pub fn load(&self, via: Via) -> Result<Command> {
        let (address, watched) = match via {
            Via::Direct => (self.server_address, None),
            Via::Nginx => {
                let (nginx, address) = self.nginx.as_ref().context("there is no nginx")?;
                (*address, Some(nginx.0.id()))
            }
            Via::Toolbooth => (self.gateway.1, Some(self.gateway.0.0.id())),
        };
        let mut command = self.stage.load("run");
        command.args(["--url", &format!("http://{address}/mcp")]);
        command.args(["--count-at", &self.server_address.to_string()]);
        if let Some(pid) = watched {
            command.args(["--pid", &pid.to_string()]);
        }
        Ok(command)
    }

    /// The memory of the gateway now.
    pub fn memory(&self) -> Result<Value> {
        let mut command = self.stage.load("memory");
        command.args(["--pid", &self.gateway.0.0.id().to_string()]);
        self.answer(command)
    }

    /// Runs the load generator and reads its line.
    pub fn answer(&self, command: Command) -> Result<Value> {
        answer(command)
    }
}

/// Runs the load generator and reads its line.
pub fn answer(mut command: Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output().context("the load generator did not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim());
    let line = output.stdout.split(|byte| *byte == b'\n').rfind(|line| line.starts_with(b"{"));
    serde_json::from_slice(line.unwrap_or_default()).context("the load generator printed no JSON")
}
