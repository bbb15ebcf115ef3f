//! The C library that the shipped binary is linked with: an old one, so that the binary runs on old systems, too.
//!
//! Rust needs glibc 2.17, but a binary requires the version of each function in the library that it was linked with. So the
//! headers and libraries of an old Debian release are unpacked into a folder, and compiler and linker look there
//! (ADR 36). The compilers themselves are those of this machine.

use anyhow::{Context, Result, ensure};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian 11, with glibc 2.31.
const RELEASE: &str = "bullseye";
/// What is linked: the C library, its headers, those of Linux, and the library that unwinds the stack.
const PACKAGES: [&str; 4] = ["libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1"];

/// A folder with the C library of an old release.
pub struct OldLibrary {
    folder: PathBuf,
    /// The name of the architecture in paths, such as `x86_64-linux-gnu`.
    multiarch: String,
}

impl OldLibrary {
    /// Unpacks the library below `setup`, unless it is there. Needs apt with a Debian mirror.
    pub fn prepare(setup: &Path) -> Result<Self> {
        let multiarch = output("gcc", &["-print-multiarch"])?;
        ensure!(!multiarch.is_empty(), "this gcc does not know Debian's paths");
        let library = Self { folder: setup.join(format!("sysroot-{RELEASE}")), multiarch };
        if !library.folder.join("complete").is_file() {
            library.unpack(setup)?;
        }
        Ok(library)
    }

    fn unpack(&self, setup: &Path) -> Result<()> {
        let (apt, unpacked) = (setup.join("sysroot-apt"), setup.join("sysroot-unpacked"));
        for folder in [&apt, &unpacked, &self.folder] {
            let _ = std::fs::remove_dir_all(folder);
        }
        for folder in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(apt.join(folder))?;
        }
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let mirror = debian_mirror()?;
        std::fs::write(
            apt.join("sources.list"),
            format!("deb [signed-by={keys}] {mirror} {RELEASE} main\n"),
        )?;
        // Nothing of the system's own apt is read or changed.
        let options: Vec<String> = [
            format!("Dir::Etc::sourcelist={}", apt.join("sources.list").display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", apt.join("lists").display()),
            "Dir::State::status=/dev/null".to_owned(),
            format!("Dir::Cache={}", apt.join("cache").display()),
            "APT::Sandbox::User=root".to_owned(),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect();
        run(Command::new("apt-get").args(&options).args(["-qq", "update"]))?;
        run(Command::new("apt-get")
            .args(&options)
            .args(["-qq", "download"])
            .args(PACKAGES)
            .current_dir(&apt))?;
        std::fs::create_dir_all(&unpacked)?;
        for entry in std::fs::read_dir(&apt)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&unpacked))?;
            }
        }
        relink(&unpacked, &self.folder)?;
        std::fs::write(unpacked.join("complete"), "")?;
        std::fs::rename(&unpacked, &self.folder).context("the libraries cannot be moved")?;
        let _ = std::fs::remove_dir_all(&apt);
        Ok(())
    }

    /// The compiler flags that link with this library.
    pub fn rust_flags(&self) -> String {
        let (root, multiarch) = (self.folder.display(), &self.multiarch);
        // gcc looks in its own folders first, so those of the library are named, too.
        let arguments = [
            format!("--sysroot={root}"),
            format!("-B{root}/usr/lib/{multiarch}"),
            format!("-L{root}/usr/lib/{multiarch}"),
            format!("-L{root}/lib/{multiarch}"),
        ];
        arguments.map(|argument| format!("-Clink-arg={argument}")).join(" ")
    }

    /// The flags for C code.
    pub fn c_flags(&self) -> String {
        format!("--sysroot={}", self.folder.display())
    }
}

/// Makes absolute links lead into the folder that the tree is moved to: otherwise they lead to the libraries of this machine.
fn relink(folder: &Path, root: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_symlink() {
            let target = std::fs::read_link(&path)?;
            if let Ok(inside) = target.strip_prefix("/") {
                std::fs::remove_file(&path)?;
                symlink(root.join(inside), &path)?;
            }
        } else if path.is_dir() {
            relink(&path, root)?;
        }
    }
    Ok(())
}

/// The mirror of Debian that this machine uses.
fn debian_mirror() -> Result<String> {
    let listed =
        output("apt-get", &["indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"])?;
    let mirror = listed.lines().find_map(|line| line.strip_prefix("Debian "));
    Ok(mirror.context("apt does not list a mirror of Debian; `apt-get update` first")?.trim().to_owned())
}

fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("{program} was not found"))?;
    ensure!(output.status.success(), "{program} ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{program} was not found"))?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(())
}
