//! `toolbooth upgrade`: says how this program was installed, and which command upgrades it.

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone};
use serde_json::json;
use std::path::{Path, PathBuf};

/// How this program was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum InstallMethod {
    /// A package of Debian or Ubuntu.
    Deb,
    /// A Python wheel: installed by uv, pipx or pip.
    Wheel(WheelInstaller),
    /// An npm package.
    Npm(NpmScope),
    /// `cargo install`.
    Cargo,
    /// A formula of Homebrew.
    Homebrew,
    /// Built in a checkout of the sources.
    Source,
    /// A container image.
    Container,
    /// An archive that was unpacked by hand.
    Tarball,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum WheelInstaller {
    UvTool,
    Pipx,
    /// pip, with the Python of this environment if it is known.
    Pip(Option<PathBuf>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NpmScope {
    Global,
    Project,
    /// `npx`, which downloads the package.
    Npx,
}

/// What is known about this machine besides the path of the program.
#[derive(Debug, Clone, Default)]
struct InstallFacts {
    /// The bin folder of cargo.
    cargo_bin: PathBuf,
    /// Whether dpkg lists the program.
    is_packaged: bool,
    /// Whether the process runs in a container.
    is_container: bool,
    /// The Python of the environment that the program is in.
    python: Option<PathBuf>,
}

impl InstallFacts {
    fn of(program: &Path) -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = folder("HOME").unwrap_or_default();
        let python = program.parent().map(|bin| bin.join("python")).filter(|python| python.exists());
        Self {
            cargo_bin: folder("CARGO_HOME").unwrap_or_else(|| home.join(".cargo")).join("bin"),
            is_packaged: Path::new("/var/lib/dpkg/info/toolbooth.list").is_file(),
            is_container: Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists(),
            python,
        }
    }
}

/// Determines from the path of the program how it was installed.
fn method(program: &Path, facts: &InstallFacts) -> InstallMethod {
    let parts: Vec<&str> = program.iter().filter_map(|part| part.to_str()).collect();
    let has = |wanted: &[&str]| parts.windows(wanted.len()).any(|window| window == wanted);
    if has(&["node_modules"]) {
        let scope = if has(&["_npx"]) {
            NpmScope::Npx
        } else if has(&["lib", "node_modules"]) {
            NpmScope::Global
        } else {
            NpmScope::Project
        };
        return InstallMethod::Npm(scope);
    }
    if has(&["uv", "tools"]) {
        return InstallMethod::Wheel(WheelInstaller::UvTool);
    }
    if has(&["pipx", "venvs"]) {
        return InstallMethod::Wheel(WheelInstaller::Pipx);
    }
    if has(&["site-packages"])
        || has(&["dist-packages"])
        || facts.python.is_some() && !is_system_folder(program)
    {
        return InstallMethod::Wheel(WheelInstaller::Pip(facts.python.clone()));
    }
    if has(&["Cellar"]) {
        return InstallMethod::Homebrew;
    }
    if program.starts_with(&facts.cargo_bin) {
        return InstallMethod::Cargo;
    }
    if has(&["target", "debug"]) || has(&["target", "release"]) || has(&["target", "dist"]) {
        return InstallMethod::Source;
    }
    if facts.is_packaged && program.starts_with("/usr/bin") {
        return InstallMethod::Deb;
    }
    if facts.is_container {
        return InstallMethod::Container;
    }
    InstallMethod::Tarball
}

/// Folders that also contain a Python which has nothing to do with this program.
fn is_system_folder(program: &Path) -> bool {
    ["/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin"]
        .iter()
        .any(|folder| program.parent() == Some(Path::new(folder)))
}

impl InstallMethod {
    /// The word for it in JSON.
    fn word(&self) -> &'static str {
        match self {
            Self::Deb => "deb",
            Self::Wheel(_) => "wheel",
            Self::Npm(_) => "npm",
            Self::Cargo => "cargo",
            Self::Homebrew => "homebrew",
            Self::Source => "source",
            Self::Container => "container",
            Self::Tarball => "tarball",
        }
    }

    /// The second half of the sentence "It was installed …".
    fn sentence(&self) -> &'static str {
        match self {
            Self::Deb => "as a Debian package",
            Self::Wheel(WheelInstaller::UvTool) => "as a Python wheel, by uv",
            Self::Wheel(WheelInstaller::Pipx) => "as a Python wheel, by pipx",
            Self::Wheel(WheelInstaller::Pip(_)) => "as a Python wheel",
            Self::Npm(NpmScope::Npx) => "as an npm package, by npx",
            Self::Npm(NpmScope::Project) => "as an npm package of a project",
            Self::Npm(NpmScope::Global) => "as a global npm package",
            Self::Cargo => "by cargo",
            Self::Homebrew => "by Homebrew",
            Self::Source => "from a checkout of the sources",
            Self::Container => "as part of a container image",
            Self::Tarball => "from an archive",
        }
    }

    /// The command that upgrades it, or the steps if there is no single command.
    fn command(&self, program: &Path) -> String {
        match self {
            Self::Deb => "sudo apt-get update && sudo apt-get install --only-upgrade toolbooth".to_owned(),
            Self::Wheel(WheelInstaller::UvTool) => "uv tool upgrade toolbooth".to_owned(),
            Self::Wheel(WheelInstaller::Pipx) => "pipx upgrade toolbooth".to_owned(),
            Self::Wheel(WheelInstaller::Pip(python)) => {
                let python = python.as_ref().map_or("python3".into(), |python| python.display().to_string());
                format!("{python} -m pip install --upgrade toolbooth")
            }
            Self::Npm(NpmScope::Npx) => "npx toolbooth@latest".to_owned(),
            Self::Npm(NpmScope::Project) => "npm install toolbooth@latest".to_owned(),
            Self::Npm(NpmScope::Global) => "npm install --global toolbooth@latest".to_owned(),
            Self::Cargo => "cargo install --locked toolbooth".to_owned(),
            Self::Homebrew => "brew upgrade toolbooth".to_owned(),
            Self::Source => "git pull && cargo build --release".to_owned(),
            Self::Container => "pull the new image, and create the container again".to_owned(),
            Self::Tarball => {
                let name = format!("toolbooth-{}-{}", std::env::consts::OS, std::env::consts::ARCH);
                format!(
                    "unpack the archive of the new release for this platform ({name}) over {}",
                    program.display()
                )
            }
        }
    }
}

/// Runs `toolbooth upgrade`.
pub fn run(global: &GlobalOptions) -> CommandResult {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("toolbooth"));
    let program = program.canonicalize().unwrap_or(program);
    let method = method(&program, &InstallFacts::of(&program));
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let running = GatewayRecord::find(&gateway::data_dir(&sources));
    let version = env!("CARGO_PKG_VERSION");
    let command = method.command(&program);
    if global.json {
        render::print_json(&json!({
            "version": version,
            "program": program,
            "installed": method.word(),
            "command": command,
            "running_version": running.map(|record| record.version),
        }));
        return Ok(Exit::Ok);
    }
    let mut text = format!(
        "Toolbooth {version}: {}\nIt was installed {}. To upgrade it:\n\n  {}\n",
        render::path(&program),
        method.sentence(),
        Paint::stdout().tone(Tone::Strong, &render::line(&command)),
    );
    if let Some(record) = running {
        let (pid, running) = (record.pid, render::line(&record.version));
        let said = format!(
            "A gateway of version {running} is running (process {pid}). Afterwards run `toolbooth stop` and \
             `toolbooth start`."
        );
        text.push_str(&format!("\n{}\n", render::wrap(&said, 0)));
    }
    render::print(&text);
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_how_it_was_installed() {
        let facts = InstallFacts { cargo_bin: "/home/ann/.cargo/bin".into(), ..InstallFacts::default() };
        let cases = [
            ("/home/ann/.local/share/uv/tools/toolbooth/bin/toolbooth", "wheel", "uv tool upgrade toolbooth"),
            ("/home/ann/.local/share/pipx/venvs/toolbooth/bin/toolbooth", "wheel", "pipx upgrade toolbooth"),
            (
                "/usr/lib/python3/dist-packages/toolbooth/bin/toolbooth",
                "wheel",
                "python3 -m pip install --upgrade toolbooth",
            ),
            ("/usr/lib/node_modules/toolbooth/bin/toolbooth", "npm", "npm install --global toolbooth@latest"),
            ("/home/ann/.npm/_npx/1f/node_modules/toolbooth/bin/toolbooth", "npm", "npx toolbooth@latest"),
            ("/home/ann/app/node_modules/toolbooth/bin/toolbooth", "npm", "npm install toolbooth@latest"),
            ("/home/ann/.cargo/bin/toolbooth", "cargo", "cargo install --locked toolbooth"),
            ("/opt/homebrew/Cellar/toolbooth/1/bin/toolbooth", "homebrew", "brew upgrade toolbooth"),
            (
                "/home/ann/src/toolbooth/target/release/toolbooth",
                "source",
                "git pull && cargo build --release",
            ),
        ];
        for (path, word, command) in cases {
            let found = method(Path::new(path), &facts);
            assert_eq!((found.word(), found.command(Path::new(path)).as_str()), (word, command), "{path}");
        }
        let packaged = InstallFacts { is_packaged: true, ..facts.clone() };
        let contained = InstallFacts { is_container: true, ..facts.clone() };
        let venv = InstallFacts { python: Some("/v/bin/python".into()), ..facts.clone() };
        assert_eq!(method(Path::new("/usr/bin/toolbooth"), &packaged), InstallMethod::Deb);
        assert_eq!(method(Path::new("/usr/local/bin/toolbooth"), &contained), InstallMethod::Container);
        assert_eq!(method(Path::new("/usr/local/bin/toolbooth"), &packaged), InstallMethod::Tarball);
        assert_eq!(
            method(Path::new("/v/bin/toolbooth"), &venv).command(Path::new("/v/bin/toolbooth")),
            "/v/bin/python -m pip install --upgrade toolbooth"
        );
    }
}
