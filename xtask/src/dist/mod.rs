//! `cargo xtask dist`: builds the binary for release, packs it, and checks the packages.
//!
//! Whole-program optimisation (the `dist` profile in `Cargo.toml`), a profile of real calls (`profile/README.md`) and an
//! old C library (`sysroot.rs`), so that the binary runs on systems with glibc 2.31.
//! `cargo build --release` uses neither: it is for users who build from source and want the program in minutes.

mod fit;
mod sysroot;

use crate::{packages, setup};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
pub use sysroot::OldLibrary;

/// The PGO profile of real calls.
pub const PROFILE: &str = "profile/calls.profdata";

/// The share of the busiest functions that must be found in the binary. A matching profile has about two thirds: the
/// others were inlined. A profile of other dependencies or another compiler has almost none.
const MIN_FIT: f64 = 0.4;

/// Builds the binary and checks that the profile fits it.
pub fn run(root: &Path, arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    ensure!(arguments.is_empty(), "usage: cargo xtask dist");
    let profile = root.join(PROFILE);
    // Before the build, which takes half an hour.
    if fit::check_reader(&profile).is_err() {
        setup::provide_profile_reader();
        fit::check_reader(&profile)?;
    }
    let flags = format!("-Cprofile-use={} -Cllvm-args=-no-pgo-warn-mismatch", profile.display());
    let library = match OldLibrary::prepare(&root.join(".setup")) {
        Ok(library) => Some(library),
        Err(reason) => {
            println!("note: the binary will need the glibc of this machine: {reason:#}");
            None
        }
    };
    let program = build(root, &root.join("target"), &flags, library.as_ref())?;
    let fit = fit::measure(&profile, &program)?;
    println!("{fit}");
    ensure!(
        fit.share() >= MIN_FIT,
        "the profile does not match the code any more; regenerate it with `cargo xtask profile`"
    );
    strip(&program)?;
    let packages = packages::write(root, &program, &root.join("target/packages"))?;
    packages::check(root, &packages)
}

/// Builds the gateway for release with these compiler flags, and links it with the library or with that of this machine;
/// returns its path.
pub fn build(root: &Path, folder: &Path, flags: &str, library: Option<&OldLibrary>) -> Result<PathBuf> {
    let host = host()?;
    let mut cargo = crate::cargo(root);
    let mut flags = flags.to_owned();
    if let Some(library) = library {
        flags = format!("{flags} {}", library.rust_flags());
        cargo.env(format!("CFLAGS_{}", host.replace('-', "_")), library.c_flags());
    }
    // As the only package: others could enable more features of its dependencies, which changes names of functions.
    // For a named target, so that the flags do not apply to build scripts.
    let status = cargo
        .args(["build", "--profile", "dist", "--package", "toolbooth", "--target", &host, "--target-dir"])
        .arg(folder)
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .context("cargo did not start")?;
    ensure!(status.success(), "the gateway does not build");
    Ok(folder.join(host).join("dist/toolbooth"))
}

/// The binary that an earlier `cargo xtask dist` built.
pub fn program(root: &Path) -> Result<PathBuf> {
    let program = root.join("target").join(host()?).join("dist/toolbooth");
    ensure!(program.is_file(), "there is no {}: run `cargo xtask dist` first", program.display());
    Ok(program)
}

/// The compiler's default target.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc did not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

/// Removes the symbols, which only the check of the profile needs.
fn strip(program: &Path) -> Result<()> {
    let status = Command::new("strip").arg(program).status().context("there is no `strip` (binutils)")?;
    ensure!(status.success(), "strip ended with {status}");
    Ok(())
}

/// The program that reads profiles: from the toolchain's component `llvm-tools`, or from the system's LLVM.
pub fn profile_reader() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output().context("no rustc")?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let of_toolchain = libraries.with_file_name("bin").join("llvm-profdata");
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The newest first: one without a version may be too old for the compiler's format.
    let names = (19..=30).rev().map(|version| format!("llvm-profdata-{version}"));
    let names: Vec<String> = names.chain(["llvm-profdata".to_owned()]).collect();
    let of_system = names
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file());
    if of_toolchain.is_file() {
        return Ok(of_toolchain);
    }
    match of_system {
        Some(program) => Ok(program),
        None => {
            bail!("there is no llvm-profdata: `rustup component add llvm-tools`, or Debian's package llvm-19")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The level of the binary's own package is the level of the optimisation of the whole program. At "s", results of
    /// 1 MiB cost twice as much, because no loop uses vector instructions.
    #[test]
    fn the_whole_program_is_optimised_for_speed() -> Result<()> {
        let text = include_str!("../../../Cargo.toml");
        let (_, dist) = text.split_once("[profile.dist]\n").context("the profile `dist` is missing")?;
        let (settings, entries) = dist.split_once("\n[").context("it has no entries of packages")?;
        ensure!(settings.contains("opt-level = 3") && settings.contains("lto = \"fat\""), "{settings}");
        ensure!(
            !entries.contains("profile.dist.package.toolbooth]"),
            "the binary must stay at the level of `dist`"
        );
        Ok(())
    }
}
