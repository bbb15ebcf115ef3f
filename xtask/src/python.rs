//! Pinned third-party Python packages: one virtual environment for each generation of the SDK, one for an
//! S3-compatible server, and one for a fuzzer of REST endpoints.
//!
//! `interop/python` holds a list of exact versions for each; they are installed under `.setup/python`.

use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The kinds of virtual environments. FastMCP 3 is built on the first generation of the SDK, FastMCP 4 on the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VenvKind {
    /// `mcp` 1.x: sessions only.
    First,
    /// `mcp` 2.x: both eras.
    Second,
    /// No SDK: `moto`, an S3-compatible server.
    ObjectStorage,
    /// No SDK: Schemathesis, which tests a gateway against its OpenAPI document.
    OpenApi,
}

impl VenvKind {
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
    /// Creates it under `root/.setup/python`, unless it exists with the listed versions.
    pub fn install(root: &Path, kind: VenvKind) -> Result<Self> {
        let list = root.join("interop/python").join(format!("{}.txt", kind.name()));
        let venv = Self { home: root.join(".setup/python").join(kind.name()) };
        let wanted = fs::read(&list).with_context(|| list.display().to_string())?;
        let stamp = venv.home.join("installed.txt");
        // After an upgrade of the machine's Python, the venv may have none.
        if fs::read(&stamp).ok().as_ref() == Some(&wanted) && venv.python().exists() {
            return Ok(venv);
        }
        succeed(
            Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv.home),
            "python3 could not create a virtual environment",
        )?;
        let quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-compile"];
        succeed(
            Command::new(venv.python()).args(["-m", "pip", "install"]).args(quiet).arg("-r").arg(&list),
            &format!("pip could not install the packages of interop/python/{}.txt", kind.name()),
        )?;
        // Written last, so that an interrupted installation is repeated.
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

    /// A program of one of its packages.
    pub fn program(&self, name: &str) -> PathBuf {
        self.home.join("bin").join(name)
    }
}

fn succeed(command: &mut Command, message: &str) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().context("python3 did not start")?;
    if !status.success() {
        bail!("{message} ({status})");
    }
    Ok(())
}
