//! `cargo xtask setup`: installs the third-party packages that the tests need, under `.setup`.
//!
//! All versions are pinned in the repository. Nothing outside `.setup` is changed, with one exception: on a
//! bare Debian machine (a container, run as root) Python's venv, npm, a keyring, Chromium and PostgreSQL are installed as
//! packages.

use crate::{
    node::{NodeTools, install_servers},
    python::{Venv, VenvKind},
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// The installed packages.
#[derive(Debug)]
pub struct Setup {
    /// The installed Node packages.
    pub node: NodeTools,
    /// The folder of the Node packages of published servers.
    pub servers: PathBuf,
    /// The first generation of the Python SDK, and packages built on it.
    pub first: Venv,
    /// The second generation.
    pub second: Venv,
}

impl Setup {
    /// Installs missing packages; does nothing if all are installed.
    pub fn install(root: &Path) -> Result<Self> {
        provide_programs()?;
        // In parallel, because each mostly waits for the network.
        thread::scope(|scope| {
            let node = scope.spawn(|| NodeTools::install(root));
            let servers = scope.spawn(|| install_servers(root));
            let first = scope.spawn(|| Venv::install(root, VenvKind::First));
            let second = scope.spawn(|| Venv::install(root, VenvKind::Second));
            let panicked = |_| anyhow!("an installation panicked");
            Ok(Self {
                node: node.join().map_err(panicked)??,
                servers: servers.join().map_err(panicked)??,
                first: first.join().map_err(panicked)??,
                second: second.join().map_err(panicked)??,
            })
        })
    }
}

/// Installs everything and prints the paths.
pub fn run(root: &Path) -> Result<()> {
    provide_programs()?;
    let setup = thread::scope(|scope| {
        let others = [VenvKind::ObjectStorage, VenvKind::OpenApi]
            .map(|kind| scope.spawn(move || Venv::install(root, kind)));
        let setup = Setup::install(root)?;
        for other in others {
            other.join().map_err(|_| anyhow!("an installation panicked"))??;
        }
        Ok::<_, anyhow::Error>(setup)
    })?;
    println!("node     {}", setup.node.node.display());
    for venv in [&setup.first, &setup.second] {
        println!("python   {}", venv.python().display());
    }
    Ok(())
}

/// Installs the Debian packages of missing programs.
fn provide_programs() -> Result<()> {
    let needed: [(&[&str], &[&str]); 6] = [
        // A venv without `ensurepip` has no pip, and Debian packages them separately.
        (&["python3", "-c", "import ensurepip, venv"], &["python3", "python3-venv"]),
        (&["npm", "--version"], &["nodejs", "npm"]),
        (&["git", "--version"], &["git"]),
        // A keyring for the tests of stored secrets.
        (&["dbus-run-session", "--version"], &["dbus-daemon"]),
        (&["gnome-keyring-daemon", "--version"], &["gnome-keyring"]),
        (&["sh", "-c", "command -v secret-tool"], &["libsecret-tools"]),
    ];
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(probe, _)| !runs(probe))
        .flat_map(|(_, packages)| *packages)
        .copied()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    install_packages(&missing)
}

/// Installs Debian's Chromium if it can, for the tests of the console.
pub fn provide_chromium() {
    provide("chromium");
}

/// Installs Debian's PostgreSQL if it can, for the tests of shared stores.
pub fn provide_postgresql() {
    provide("postgresql");
}

/// Installs Debian's LLVM if it can, whose program reads profiles.
pub fn provide_profile_reader() {
    provide("llvm-19");
}

fn provide(package: &str) {
    if runs(&["apt-get", "--version"])
        && is_root()
        && let Err(error) = install_packages(&[package])
    {
        println!("notice: {error}");
    }
}

/// Installs Debian packages.
fn install_packages(missing: &[&str]) -> Result<()> {
    let packages = missing.join(" ");
    if !(runs(&["apt-get", "--version"]) && is_root()) {
        bail!("the tests need {packages}; install them and run this again");
    }
    println!("installing {packages}");
    let apt = |words: &[&str]| -> Result<bool> {
        let mut command = Command::new("apt-get");
        // Another installation may be running: wait for it.
        command
            .args(["-y", "-qq", "-o", "DPkg::Lock::Timeout=300"])
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive");
        Ok(command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("apt-get did not start")?
            .success())
    };
    // A failed update is ignored: the old package lists may be good enough.
    apt(&["update"])?;
    let install = [&["install", "--no-install-recommends"][..], missing].concat();
    if !apt(&install)? {
        bail!("apt-get could not install {packages}");
    }
    Ok(())
}

fn runs(probe: &[&str]) -> bool {
    let [program, arguments @ ..] = probe else { return false };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
