//! `cargo xtask packages`: packs a binary for release, and checks that each package can be installed and used.
//!
//! All archives are reproducible: the same binary and commit give the same bytes.

mod archive;
mod binary;
mod check;
mod contents;
mod debian;
mod formula;
mod npm;
mod services;
mod tarball;
mod trial;
mod wheel;
mod zip;

use anyhow::{Context, Result, bail};
use contents::PackageContents;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The size that the shipped binary should stay below, in bytes (`docs/adr/0026-packages.md`).
const TARGET_BYTES: usize = 30_000_000;

const USAGE: &str = "usage: cargo xtask packages --binary PATH [--out FOLDER] [--check]";

/// The kinds of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageKind {
    /// A tar archive.
    Tarball,
    /// For Debian.
    Debian,
    /// For pip and uv.
    Wheel,
    /// For npm.
    Npm,
}

/// A package that was written.
#[derive(Debug)]
pub struct WrittenPackage {
    /// Its kind.
    pub kind: PackageKind,
    /// Its file.
    pub path: PathBuf,
}

/// Packs a binary.
pub fn run(root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let (mut binary, mut folder, mut checked) = (None, root.join("target/packages"), false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--binary" => binary = Some(PathBuf::from(arguments.next().context(USAGE)?)),
            "--out" => folder = PathBuf::from(arguments.next().context(USAGE)?),
            "--check" => checked = true,
            _ => bail!(USAGE),
        }
    }
    let packages = write(root, &binary.context(USAGE)?, &folder)?;
    if checked {
        check(root, &packages)?;
    }
    Ok(())
}

/// Installs each package, and calls a tool with it.
pub fn check(root: &Path, packages: &[WrittenPackage]) -> Result<()> {
    check::all(root, packages)
}

/// Writes all packages of a binary, their checksums and the Homebrew formula into a folder.
pub fn write(root: &Path, binary: &Path, folder: &Path) -> Result<Vec<WrittenPackage>> {
    let contents = PackageContents::gather(root, binary)?;
    std::fs::create_dir_all(folder)?;
    let (major, minor) = contents.needs.glibc;
    let size = contents.binary.len();
    println!("{}: {size} bytes, needs glibc {major}.{minor}", binary.display());
    if size > TARGET_BYTES {
        println!("note: the binary is over its target of {TARGET_BYTES} bytes");
    }
    let built = [
        (PackageKind::Tarball, tarball::build(&contents)?),
        (PackageKind::Debian, debian::build(&contents)?),
        (PackageKind::Wheel, wheel::build(&contents)?),
        (PackageKind::Npm, npm::build(&contents)?),
    ];
    let (mut packages, mut sums) = (Vec::new(), String::new());
    for (kind, (name, bytes)) in built {
        let hash = hex(&bytes);
        let path = folder.join(&name);
        std::fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
        println!("{:>11} bytes  {}", bytes.len(), path.display());
        sums.push_str(&format!("{hash}  {name}\n"));
        if kind == PackageKind::Tarball {
            let template = std::fs::read_to_string(root.join("packaging/homebrew/toolbooth.rb"))?;
            let formula = tarball::formula(&template, &contents, &name, &hash)?;
            std::fs::write(folder.join("toolbooth.rb"), formula)?;
        }
        packages.push(WrittenPackage { kind, path });
    }
    std::fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(packages)
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_container_file_installs_the_package_for_a_user_other_than_root() {
        let text = include_str!("../../../packaging/Containerfile");
        let parts = [
            "/packages/toolbooth_*.deb",
            "useradd --uid 8665 --create-home --home-dir /data",
            "\nUSER 8665\n",
            "\nVOLUME /data\n",
            "\nEXPOSE 8665\n",
            "\nHEALTHCHECK ",
            "\nENTRYPOINT [\"toolbooth\"]\n",
            "\"--listen\", \"0.0.0.0:8665\"",
        ];
        for part in parts {
            assert!(text.contains(part), "no {part:?} in packaging/Containerfile");
        }
    }
}
