//! The processes of a run: a fixture, and gateways that are started, killed and stopped.

use super::http::ReplicaUser;
use crate::postgresql::PostgresServer;
use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The timeout until a gateway has connected to its servers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Ports of gateways are below the range from which the system takes ports of outgoing connections: the port of a
/// gateway that is down must stay free.
const PORTS: std::ops::Range<u16> = 18_000..28_000;
/// The servers of each gateway.
const SERVERS: u64 = 5;

/// The programs that are run.
#[derive(Debug)]
pub struct ReplicaPrograms {
    pub toolbooth: PathBuf,
    pub fixture: PathBuf,
    pub hostile: PathBuf,
}

impl ReplicaPrograms {
    /// The programs in this folder.
    pub fn find(folder: &Path) -> Result<Self> {
        let find = |name: &str| {
            let path = folder.join(name);
            path.canonicalize().with_context(|| format!("{} was not built", path.display()))
        };
        Ok(Self {
            toolbooth: find("toolbooth")?,
            fixture: find("toolbooth-fixture")?,
            hostile: find("toolbooth-hostile")?,
        })
    }
}

/// The folder of a run, which stays for its logs.
#[derive(Debug)]
pub struct ReplicaStage {
    folder: PathBuf,
    /// The first port that no gateway was given yet.
    next_port: AtomicU16,
}

impl ReplicaStage {
    /// Creates the folder, and removes that of the run before.
    pub fn new(folder: PathBuf) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(folder.join("home")).with_context(|| folder.display().to_string())?;
        // Two runs at the same time begin at different ports.
        let first = PORTS.start + u16::try_from(std::process::id() % 900)? * 10;
        Ok(Self { folder, next_port: AtomicU16::new(first) })
    }

    /// Free addresses, which no other gateway of this run was given.
    fn free_addresses(&self, count: usize) -> Result<Vec<SocketAddr>> {
        let mut free = Vec::new();
        while free.len() < count {
            let port = self.next_port.fetch_add(1, Ordering::Relaxed);
            ensure!(port < PORTS.end, "no ports are free");
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            if TcpListener::bind(address).is_ok() {
                free.push(address);
            }
        }
        Ok(free)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Isolates a program from the configuration of this machine.
    fn isolate(&self, command: &mut Command) {
        let home = self.folder.join("home");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOOLBOOTH_") {
                command.env_remove(name);
            }
        }
        command.current_dir(&self.folder).env("HOME", &home).env("XDG_CONFIG_HOME", home.join(".config"));
    }
}

/// A server of the gateways over HTTP, which ends when it is dropped.
#[derive(Debug)]
pub struct ReplicaFixture {
    child: Child,
    url: String,
}

impl ReplicaFixture {
    /// Starts it on a free port.
    pub fn start(programs: &ReplicaPrograms) -> Result<Self> {
        let mut child = Command::new(&programs.fixture)
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the fixture did not start")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let url = line.trim().strip_prefix("listening ").map(str::to_owned);
        let Some(url) = url else {
            drop(child.kill());
            bail!("the fixture did not print its address");
        };
        Ok(Self { child, url })
    }
}

impl Drop for ReplicaFixture {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Gateways with one configuration.
#[derive(Debug)]
pub struct ReplicaCluster<'a> {
    programs: &'a ReplicaPrograms,
    stage: &'a ReplicaStage,
    name: String,
    /// The addresses of the gateways.
    pub addresses: Vec<SocketAddr>,
    processes: Vec<Mutex<Option<Child>>>,
    /// The file to which all gateways write through their servers.
    ledger: PathBuf,
    /// The token of an administrator.
    pub root: String,
}

impl<'a> ReplicaCluster<'a> {
    /// Configures gateways on this store; `store` is `None` for a file of SQLite.
    pub fn configure(
        programs: &'a ReplicaPrograms,
        stage: &'a ReplicaStage,
        fixture: &ReplicaFixture,
        (name, count, store): (&str, usize, Option<&str>),
    ) -> Result<Self> {
        let ledger = stage.file(&format!("{name}-ledger.txt"));
        fs::write(&ledger, "")?;
        let led = json!({ "command": programs.hostile, "args": ["ledger", ledger], "inject": true,
            "requires_consent": false });
        let remote = json!({ "url": fixture.url, "requires_consent": false, "health_check_interval": 3600 });
        // Over stdio, so a question belongs to one gateway and cannot move.
        let old = json!({ "command": programs.fixture, "args": ["--stdio", "--era", "legacy"],
            "requires_consent": false, "health_check_interval": 3600 });
        let mut read = remote.clone();
        read["side_effects"] = "read_external_service".into();
        let mut settings = json!({
            "auth": { "mode": "token" },
            "exposure": { "mode": "full" },
            "approval": { "approvers": ["leads"] },
            "retry": { "attempts": 1 },
            "policy": {
                "consent": "client",
                "rules": [
                    { "tools": "held_write_entry", "effect": "ask", "approval": "approver", "reason": "writes are checked" },
                    { "tools": "held_read_entries", "effect": "ask", "reason": "reads are checked" },
                ],
            },
            "servers": { "fix": read, "late": remote, "led": led, "held": led, "old": old },
        });
        if let Some(url) = store {
            settings["store"] = json!({ "url": url });
        }
        fs::write(stage.file(&format!("{name}.json")), format!("{settings:#}\n"))?;
        let mut cluster = Self {
            programs,
            stage,
            name: name.to_owned(),
            addresses: stage.free_addresses(count)?,
            processes: (0..count).map(|_| Mutex::new(None)).collect(),
            ledger,
            root: String::new(),
        };
        cluster.root = cluster.first_token()?;
        Ok(cluster)
    }

    /// Creates the token of an administrator in the store, before a gateway runs.
    fn first_token(&self) -> Result<String> {
        let mut command = Command::new(&self.programs.toolbooth);
        self.stage.isolate(&mut command);
        command.args(["tokens", "create", "--json", "--user", "root", "--groups", "admin"]);
        let output = command.args(self.options(0)).stdin(Stdio::null()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "no token was created: {}", errors.trim());
        let made: Value = serde_json::from_slice(&output.stdout)?;
        Ok(made["token"].as_str().context("the command printed no token")?.to_owned())
    }

    fn options(&self, replica: usize) -> [String; 4] {
        let config = self.stage.file(&format!("{}.json", self.name)).display().to_string();
        let data = self.stage.file(&format!("{}-data-{replica}", self.name)).display().to_string();
        ["--config".into(), config, "--data-dir".into(), data]
    }

    /// The administrator at this gateway.
    pub fn admin(&self, replica: usize) -> ReplicaUser {
        ReplicaUser::new(self.addresses[replica], &self.root)
    }

    /// Creates a token through this gateway; returns it and its id.
    pub fn token(&self, replica: usize, user: &str, groups: &[&str]) -> Result<(String, String)> {
        let made = self.admin(replica).order("/tokens", &json!({ "user": user, "groups": groups }))?;
        let text = |key: &str| made[key].as_str().map(str::to_owned);
        text("token").zip(text("id")).with_context(|| format!("no token: {made}"))
    }

    fn process(&self, replica: usize) -> MutexGuard<'_, Option<Child>> {
        self.processes[replica].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the program that is tested.
    pub fn program(&self) -> &Path {
        &self.programs.toolbooth
    }

    /// Starts a gateway; it may not be ready yet.
    pub fn start(&self, replica: usize) -> Result<()> {
        self.start_program(replica, self.program())
    }

    /// Starts a gateway with another version of the program; it may not be ready yet.
    pub fn start_program(&self, replica: usize, program: &Path) -> Result<()> {
        let mut command = Command::new(program);
        self.stage.isolate(&mut command);
        command.arg("serve").args(self.options(replica));
        command.args(["--listen", &self.addresses[replica].to_string()]);
        let log = self.stage.file(&format!("{}-{replica}.log", self.name));
        let log = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        *self.process(replica) = Some(command.spawn().context("a gateway did not start")?);
        Ok(())
    }

    /// Starts all gateways at once, and waits until they are ready.
    pub fn start_all(&self) -> Result<()> {
        (0..self.addresses.len()).try_for_each(|replica| self.start(replica))?;
        (0..self.addresses.len()).try_for_each(|replica| self.ready(replica))
    }

    /// Waits until a gateway has connected to all its servers.
    pub fn ready(&self, replica: usize) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let admin = self.admin(replica);
        loop {
            let seen = admin.get("/ready");
            if seen.as_ref().is_ok_and(|ready| ready["servers"]["connected"] == SERVERS) {
                return Ok(());
            }
            if let Some(status) = self.process(replica).as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("gateway {replica} ended with {status}; its log is in {}", self.stage.folder.display());
            }
            ensure!(Instant::now() < deadline, "gateway {replica} is not ready: {seen:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process id of a gateway that runs.
    pub fn pid(&self, replica: usize) -> Result<u32> {
        Ok(self.process(replica).as_ref().context("the gateway does not run")?.id())
    }

    /// Sends a signal to a gateway.
    pub fn signal(&self, replica: usize, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.pid(replica)?)?), signal)?)
    }

    /// Kills a gateway (`kill -9`).
    pub fn kill(&self, replica: usize) -> Result<()> {
        if let Some(mut child) = self.process(replica).take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Stops a gateway as a deployment does, and waits for its end; returns how long it took.
    pub fn stop(&self, replica: usize) -> Result<Duration> {
        self.signal(replica, Signal::SIGTERM)?;
        let started = Instant::now();
        let Some(mut child) = self.process(replica).take() else { bail!("the gateway does not run") };
        let status = child.wait()?;
        ensure!(status.success(), "gateway {replica} ended with {status} after SIGTERM");
        Ok(started.elapsed())
    }

    /// The number of entries of each text that the servers of all gateways have written.
    pub fn written(&self) -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for line in fs::read_to_string(&self.ledger)?.lines() {
            *counts.entry(line.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        Ok(counts)
    }
}

impl Drop for ReplicaCluster<'_> {
    fn drop(&mut self) {
        for replica in 0..self.processes.len() {
            // The process may have ended already.
            drop(self.kill(replica));
        }
    }
}

/// The URL of a database whose commits take as long as on a disk with a flush of 2.5 ms. A fast disk hides errors in the
/// order of commits.
pub fn slow_url(server: &PostgresServer) -> String {
    format!("{}?options[commit_delay]=2500&options[commit_siblings]=0", server.url())
}
