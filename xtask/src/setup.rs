//! `cargo xtask setup`: what the tests need of other people's, installed under `.setup`.
//!
//! Everything is pinned in the repository and nothing outside `.setup` is touched, with one exception: on
//! a bare Debian machine (a container, run as root) Python's venv and npm are installed as packages.

use crate::{
    node::Node,
    python::{Generation, Venv},
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
};

/// Everything that was installed.
#[derive(Debug)]
pub struct Setup {
    /// The tools in Node.
    pub node: Node,
    /// The first generation of Python's SDK, and what is built on it.
    pub first: Venv,
    /// The second generation.
    pub second: Venv,
}

impl Setup {
    /// Installs what is missing; a second time it costs nothing.
    pub fn install(root: &Path) -> Result<Self> {
        provide_programs()?;
        // The three wait for the network most of the time, so they wait together.
        thread::scope(|scope| {
            let node = scope.spawn(|| Node::install(root));
            let first = scope.spawn(|| Venv::install(root, Generation::First));
            let second = scope.spawn(|| Venv::install(root, Generation::Second));
            let fell = |_| anyhow!("an installation panicked");
            Ok(Self {
                node: node.join().map_err(fell)??,
                first: first.join().map_err(fell)??,
                second: second.join().map_err(fell)??,
            })
        })
    }
}

/// Installs everything and says where it is.
pub fn run(root: &Path) -> Result<()> {
    let setup = Setup::install(root)?;
    println!("node     {}", setup.node.node.display());
    for venv in [&setup.first, &setup.second] {
        println!("python   {}", venv.python().display());
    }
    Ok(())
}

/// The programs that are needed, and the Debian package of each.
fn provide_programs() -> Result<()> {
    let needed: [(&[&str], &[&str]); 3] = [
        // A venv without `ensurepip` has no pip, and Debian ships them apart.
        (&["python3", "-c", "import ensurepip, venv"], &["python3", "python3-venv"]),
        (&["npm", "--version"], &["nodejs", "npm"]),
        (&["git", "--version"], &["git"]),
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
    let packages = missing.join(" ");
    if !(runs(&["apt-get", "--version"]) && is_root()) {
        bail!("the tests need {packages}; install them and try again");
    }
    println!("installing {packages}");
    let apt = |words: &[&str]| -> Result<bool> {
        let mut command = Command::new("apt-get");
        command.args(["-y", "-qq"]).args(words).env("DEBIAN_FRONTEND", "noninteractive");
        Ok(command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("apt-get did not start")?
            .success())
    };
    // Stale lists are no reason to stop: what is needed may be in them.
    apt(&["update"])?;
    let install = [&["install", "--no-install-recommends"][..], &missing].concat();
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
