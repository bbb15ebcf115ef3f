//! What all packages contain: the binary, texts, manual pages and completions.

use super::archive::{PackedFile, gzip};
use super::binary::BinaryNeeds;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shells with completions, and the paths at which Debian expects them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/toolbooth"),
    ("fish", "usr/share/fish/vendor_completions.d/toolbooth.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_toolbooth"),
];

/// One line about the program.
pub const SUMMARY: &str = "Gateway between AI agents and their tool servers (Model Context Protocol)";
/// The license of the program.
pub const LICENSE: &str = "Apache-2.0";

/// The input of all packages.
#[derive(Debug)]
pub struct PackageContents {
    /// The binary.
    pub binary: Vec<u8>,
    /// What the binary needs.
    pub needs: BinaryNeeds,
    /// The version of the program.
    pub version: String,
    /// The time of all files, in seconds since 1970.
    pub epoch: u64,
    /// The texts of the repository that are packed, by file name.
    pub texts: Vec<(&'static str, String)>,
    /// The completions: the path in a Debian package, and the text.
    pub completions: Vec<(&'static str, Vec<u8>)>,
    /// The manual pages, by file name.
    pub manual: Vec<(String, Vec<u8>)>,
    /// The units for systemd: of the system, and of a user.
    pub system_unit: String,
    /// The unit for a user.
    pub user_unit: String,
    /// The user of the system unit, for systemd-sysusers.
    pub system_user: String,
    /// The script that Debian runs after the installation.
    pub postinst: String,
}

impl PackageContents {
    /// Reads the files of the repository, and asks the binary for its manual pages and completions.
    pub fn gather(root: &Path, program: &Path) -> Result<Self> {
        let program = program.canonicalize().with_context(|| program.display().to_string())?;
        let binary = std::fs::read(&program)?;
        let needs = BinaryNeeds::read(&binary).with_context(|| program.display().to_string())?;
        let read = |path: &str| {
            std::fs::read_to_string(root.join(path)).with_context(|| format!("`{path}` cannot be read"))
        };
        let mut texts = Vec::new();
        for name in ["CHANGELOG.md", "LICENSE", "README.md"] {
            texts.push((name, read(name)?));
        }
        let mut completions = Vec::new();
        for (shell, path) in COMPLETIONS {
            completions.push((path, output(&program, &["completions", shell])?));
        }
        Ok(Self {
            version: version_of(&program)?,
            epoch: epoch(root)?,
            manual: manual(&program)?,
            binary,
            needs,
            texts,
            completions,
            system_unit: read("packaging/systemd/system/toolbooth.service")?,
            user_unit: read("packaging/systemd/user/toolbooth.service")?,
            system_user: read("packaging/systemd/sysusers/toolbooth.conf")?,
            postinst: read("packaging/debian/postinst")?,
        })
    }

    /// A text of the repository.
    pub fn text(&self, name: &str) -> &str {
        self.texts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }

    /// The manual pages, compressed, in a folder.
    pub fn manual_in(&self, folder: &str) -> Result<Vec<PackedFile>> {
        let page = |(name, text): &(String, Vec<u8>)| {
            Ok(PackedFile::plain(format!("{folder}/{name}.gz"), gzip(text)?))
        };
        self.manual.iter().map(page).collect()
    }
}

/// What a command of the program prints. It runs without the configuration of this machine.
fn output(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let output = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("HOME", folder.path())
        .current_dir(folder.path())
        .output()
        .with_context(|| format!("{} did not start", program.display()))?;
    ensure!(output.status.success(), "`toolbooth {}` ended with {}", arguments.join(" "), output.status);
    Ok(output.stdout)
}

fn version_of(program: &Path) -> Result<String> {
    let text = String::from_utf8(output(program, &["--version"])?)?;
    let version = text.split_whitespace().nth(1).context("the program does not print its version")?;
    ensure!(version == env!("CARGO_PKG_VERSION"), "the binary has the version {version} of other sources");
    Ok(version.to_owned())
}

fn manual(program: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = tempfile::tempdir()?;
    let target = folder.path().to_string_lossy().into_owned();
    output(program, &["man", "--dir", &target])?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.path())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let page = |file: PathBuf| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok((name, std::fs::read(&file)?))
    };
    files.into_iter().map(page).collect()
}

/// The time for reproducible packages: `SOURCE_DATE_EPOCH`, or the time of the latest commit.
fn epoch(root: &Path) -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let log = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
            String::from_utf8(log.context("there is no git; set SOURCE_DATE_EPOCH")?.stdout)?
        }
    };
    text.trim().parse().context("SOURCE_DATE_EPOCH must be a number of seconds")
}
