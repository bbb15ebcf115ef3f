//! Runs a PostgreSQL server for the tests of stores that several gateways share.

use crate::setup;
use anyhow::{Context, Result, bail};
use std::{
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The environment variable with the server's URL.
pub const VARIABLE: &str = "TOOLBOOTH_TEST_POSTGRES";
/// Where Debian installs the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that runs the server if this process is root, which PostgreSQL refuses.
const UNPRIVILEGED: &str = "daemon";
/// The clock ticks of a second in `/proc`.
const TICKS: f64 = 100.0;

/// The folder with the programs of the newest installed version; installs Debian's package if it can.
pub fn programs() -> Option<PathBuf> {
    installed().or_else(|| {
        setup::provide_postgresql();
        installed()
    })
}

fn installed() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let number = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let newest =
        versions.map(|entry| entry.path()).max_by_key(|folder| number(folder)).map(|path| path.join("bin"));
    let on_path = std::env::var_os("PATH");
    let others = on_path.iter().flat_map(std::env::split_paths);
    newest.into_iter().chain(others).find(|folder| folder.join("initdb").is_file())
}

/// Starts a server in a temporary folder, runs `work` with its URL, and stops the server.
pub fn serving<T>(programs: &Path, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    // Without syncs: the tests are not about power cuts of the database server.
    let server = PostgresServer::start(programs, "-c fsync=off")?;
    let outcome = work(&server.url());
    server.stop()?;
    outcome
}

/// A server in a temporary folder, which ends when it is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    folder: tempfile::TempDir,
    user: Option<(u32, u32)>,
    port: u16,
    options: String,
}

impl PostgresServer {
    /// Creates the files of a server and starts it with these options.
    pub fn start(programs: &Path, options: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("a temporary folder")?;
        let user = user()?;
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid))?;
        }
        // Another process may take the port in between; then the server fails to start, which is reported.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=300 {options}"
        );
        let server = Self { programs: programs.to_path_buf(), folder, user, port, options };
        let initial = ["--auth=trust", "--username=toolbooth", "--encoding=UTF8", "--no-locale", "--no-sync"];
        server.run("initdb", &initial)?;
        server.start_again()?;
        Ok(server)
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        format!("postgres://toolbooth@127.0.0.1:{}/postgres", self.port)
    }

    /// The CPU time that its processes have used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let file = self.folder.path().join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).context("the server does not run")?;
        let main = text.lines().next().unwrap_or_default();
        let mut ticks: f64 = stat(main).context("the server has no times")?[11..15].iter().sum();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let fields = entry.file_name().to_str().and_then(stat);
            // The times of processes that have ended are in the children's times of the first one.
            ticks += fields
                .filter(|fields| fields[1].to_string() == main)
                .map_or(0.0, |fields| fields[11] + fields[12]);
        }
        Ok(ticks / TICKS)
    }

    /// Kills all its processes at once.
    pub fn crash(&self) -> Result<()> {
        self.halt()
    }

    /// Starts it, also after a crash.
    pub fn start_again(&self) -> Result<()> {
        self.run("pg_ctl", &["-w", "-l", "log", "-o", &self.options, "start"])
    }

    /// Stops it.
    pub fn stop(self) -> Result<()> {
        self.halt()
    }

    fn halt(&self) -> Result<()> {
        self.run("pg_ctl", &["-w", "-m", "immediate", "stop"])
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-D").arg(self.folder.path().join("data")).args(arguments);
        command.current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        match command.status().with_context(|| format!("{program} did not start"))? {
            status if status.success() => Ok(()),
            status => bail!("{program} failed ({status})"),
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // It may have been stopped already.
        drop(self.halt());
    }
}

/// The numbers that `/proc` shows of a process, after its name and state: its parent first after the state, and its times
/// from the 12th.
fn stat(pid: &str) -> Option<Vec<f64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<f64> = fields.split_whitespace().map(|text| text.parse().unwrap_or(0.0)).collect();
    (fields.len() > 15).then_some(fields)
}

/// The user and group that run the server, if not those of this process.
fn user() -> Result<Option<(u32, u32)>> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let user = nix::unistd::User::from_name(UNPRIVILEGED)?;
    let user = user.with_context(|| format!("there is no user `{UNPRIVILEGED}`"))?;
    Ok(Some((user.uid.as_raw(), user.gid.as_raw())))
}
