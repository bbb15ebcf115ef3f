//! Installs each package into an empty environment, and calls a first tool with it.

use super::{PackageKind, WrittenPackage};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the way from the package to the first result may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The text that the first tool returns.
const TEXT: &str = "it works";

/// Checks all packages, and prints how long each took.
pub fn all(packages: &[WrittenPackage]) -> Result<()> {
    for package in packages {
        let folder = tempfile::tempdir()?;
        let start = Instant::now();
        let program = install(package, folder.path())
            .with_context(|| format!("{} cannot be installed", package.path.display()))?;
        let installed = start.elapsed();
        first_call(&program, &folder.path().join("home"))
            .with_context(|| format!("{}: no first call", package.path.display()))?;
        let took = start.elapsed();
        println!(
            "{:?}: installed in {:.1} s, first result after {:.1} s",
            package.kind,
            installed.as_secs_f64(),
            took.as_secs_f64()
        );
        ensure!(took < LIMIT, "{} took {took:?}, more than {LIMIT:?}", package.path.display());
    }
    Ok(())
}

/// Installs a package below a folder; returns the path of the program.
fn install(package: &WrittenPackage, folder: &Path) -> Result<PathBuf> {
    let file = package.path.canonicalize()?;
    match package.kind {
        PackageKind::Tarball => {
            succeed(Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(folder))?;
            let name = file.file_name().context("a file without a name")?.to_string_lossy().into_owned();
            Ok(folder.join(name.trim_end_matches(".tar.gz")).join("toolbooth"))
        }
        PackageKind::Debian => {
            let root = folder.join("root");
            debian(&file, &root)?;
            Ok(root.join("usr/bin/toolbooth"))
        }
        PackageKind::Wheel => {
            let venv = folder.join("venv");
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            let pip = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"];
            succeed(Command::new(venv.join("bin/python")).args(pip).arg(&file))?;
            Ok(venv.join("bin/toolbooth"))
        }
        PackageKind::Npm => {
            let quiet = ["--offline", "--no-audit", "--no-fund", "--loglevel=error"];
            let prefix = folder.join("node");
            std::fs::create_dir_all(&prefix)?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--prefix"]).arg(&prefix).args(quiet).arg(&file).env("HOME", folder);
            succeed(&mut npm)?;
            Ok(prefix.join("node_modules/.bin/toolbooth"))
        }
    }
}

/// Installs with dpkg into an empty root; only root may do that, so other users unpack the package.
fn debian(file: &Path, root: &Path) -> Result<()> {
    for folder in ["info", "updates"] {
        std::fs::create_dir_all(root.join("var/lib/dpkg").join(folder))?;
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "")?;
    if !nix::unistd::geteuid().is_root() {
        return succeed(Command::new("dpkg-deb").arg("-x").arg(file).arg(root));
    }
    // The empty root has no libraries, and the program is run with those of this machine.
    let mut dpkg = Command::new("dpkg");
    dpkg.args(["--force-depends", "--log=/dev/null", "--root"]).arg(root).arg("-i").arg(file);
    // dpkg looks for these in the PATH.
    dpkg.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").stdout(Stdio::null());
    succeed(&mut dpkg)
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Starts a gateway with an empty home, and calls a bundled tool over REST.
fn first_call(program: &Path, home: &Path) -> Result<()> {
    std::fs::create_dir_all(home)?;
    let child = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} did not start", program.display()))?;
    let mut gateway = RunningPackage(child);
    let address = gateway.address()?;
    let answer = post(&address, "/tools/demo_echo/call", &format!(r#"{{"arguments":{{"text":"{TEXT}"}}}}"#))?;
    let answer: Value = serde_json::from_str(&answer).context("the answer is not JSON")?;
    ensure!(answer["result"]["content"][0]["text"] == TEXT, "the first call returned {answer}");
    Ok(())
}

/// The gateway of an installed package; it ends with this value.
struct RunningPackage(Child);

impl RunningPackage {
    /// The address that the gateway prints when it is ready.
    fn address(&mut self) -> Result<String> {
        let stdout = self.0.stdout.take().context("no standard output")?;
        for line in BufReader::new(stdout).lines() {
            if let Some((_, rest)) = line?.split_once("is listening on http://") {
                return Ok(rest.split([',', ' ']).next().unwrap_or_default().to_owned());
            }
        }
        bail!("the gateway ended before it was ready")
    }
}

impl Drop for RunningPackage {
    fn drop(&mut self) {
        let id = i32::try_from(self.0.id()).map(nix::unistd::Pid::from_raw);
        // A gateway that is asked to stop also stops its servers.
        let asked = id.is_ok_and(|id| nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).is_ok());
        if !asked {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// The body of the answer to a request.
fn post(address: &str, path: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no body")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "the gateway answered {head}\n{body}");
    // A chunked body has its length on a line of its own.
    Ok(match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => body.lines().filter(|line| line.starts_with('{')).collect(),
        false => body.to_owned(),
    })
}
