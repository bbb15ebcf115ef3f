//! Installs each package into an empty environment, and calls a first tool with it.

use super::trial::{LIMIT, RunningPackage, call_echo, succeed};
use super::{PackageKind, WrittenPackage, formula, services};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Checks all packages, and prints how long each took.
pub fn all(root: &Path, packages: &[WrittenPackage]) -> Result<()> {
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
        match package.kind {
            PackageKind::Tarball => formula::check(&package.path)?,
            // Its units and the container file run this package.
            PackageKind::Debian => services::check(root, &program, folder.path())?,
            PackageKind::Wheel | PackageKind::Npm => {}
        }
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
    dpkg.args(["--force-depends", "--force-script-chrootless", "--log=/dev/null", "--root"]);
    dpkg.arg(root).arg("-i").arg(file);
    // dpkg looks for these in the PATH.
    dpkg.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").stdout(Stdio::null());
    succeed(&mut dpkg)
}

/// Starts a gateway with an empty home, and calls a bundled tool over REST.
fn first_call(program: &Path, home: &Path) -> Result<()> {
    std::fs::create_dir_all(home)?;
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0"]).env_clear().env("HOME", home);
    command.env("PATH", "/usr/bin:/bin").current_dir(home);
    let (_gateway, address) = RunningPackage::start(&mut command)?;
    call_echo(&address, None)
}
