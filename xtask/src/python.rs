//! Other people's Python packages, pinned: each generation of the SDK in a virtual environment of its own, and
//! a server that speaks S3 and a fuzzer of REST endpoints in two more.
//!
//! `interop/python` holds one list of exact versions for each; they are installed under `.setup/python`.

use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The generations of the official SDK; FastMCP 3 is built on the first, FastMCP 4 on the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// `mcp` 1.x: sessions only.
    First,
    /// `mcp` 2.x: both eras.
    Second,
    /// No SDK: `moto`, a server that speaks S3.
    ObjectStorage,
    /// No SDK: Schemathesis, which holds a gateway against its OpenAPI document.
    OpenApi,
}

impl Generation {
    fn name(self) -> &'static str {
        match self {
            Self::First => "sdk1",
            Self::Second => "sdk2",
            Self::ObjectStorage => "s3",
            Self::OpenApi => "openapi",
        }
    }
}

/// A virtual environment with its packages.
#[derive(Debug, Clone)]
pub struct Venv {
    home: PathBuf,
}

impl Venv {
    /// Makes it under `root/.setup/python`, unless it is there as listed.
    pub fn install(root: &Path, generation: Generation) -> Result<Self> {
        let list = root.join("interop/python").join(format!("{}.txt", generation.name()));
        let venv = Self { home: root.join(".setup/python").join(generation.name()) };
        let wanted = fs::read(&list).with_context(|| list.display().to_string())?;
        let stamp = venv.home.join("installed.txt");
        // A machine that got another Python since then has left the venv without one.
        if fs::read(&stamp).ok().as_ref() == Some(&wanted) && venv.python().exists() {
            return Ok(venv);
        }
        succeed(
            Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv.home),
            "python3 could not make a virtual environment",
        )?;
        let quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-compile"];
        succeed(
            Command::new(venv.python()).args(["-m", "pip", "install"]).args(quiet).arg("-r").arg(&list),
            &format!("pip could not install the packages of interop/python/{}.txt", generation.name()),
        )?;
        // Written last: an installation that broke off is done again.
        fs::write(&stamp, &wanted)?;
        Ok(venv)
    }

    /// Its Python.
    pub fn python(&self) -> PathBuf {
        self.home.join("bin/python")
    }

    /// The folder of its programs.
    pub fn bin(&self) -> PathBuf {
        self.home.join("bin")
    }

    /// A program that one of its packages brought.
    pub fn program(&self, name: &str) -> PathBuf {
        self.home.join("bin").join(name)
    }
}

fn succeed(command: &mut Command, otherwise: &str) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().context("python3 did not start")?;
    if !status.success() {
        bail!("{otherwise} ({status})");
    }
    Ok(())
}
