//! How this program was installed, judged by its path.

use std::path::{Path, PathBuf};

/// How this program was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallMethod {
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

/// The program that installed a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WheelInstaller {
    UvTool,
    /// `uvx`, which keeps the package in its cache.
    Uvx,
    Pipx,
    /// pip, with the Python of this environment if it is known.
    Pip(Option<PathBuf>),
}

/// Where npm has put the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NpmScope {
    Global,
    Project,
    /// `npx`, which keeps the package in its cache.
    Npx,
}

/// What is known about this machine besides the path of the program.
#[derive(Debug, Clone, Default)]
struct InstallFacts {
    /// The bin folder of cargo.
    cargo_bin: PathBuf,
    /// Whether dpkg lists the program.
    is_packaged: bool,
    /// Whether a container runs the program as its first process.
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
            // In other containers, the program was installed as on any machine.
            is_container: std::fs::read_to_string("/proc/1/comm")
                .is_ok_and(|name| name.trim() == "toolbooth"),
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
    // The caches of uv, which may have another name than `uv`.
    if has(&["archive-v0"]) || has(&["environments-v2"]) {
        return InstallMethod::Wheel(WheelInstaller::Uvx);
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
    // Before the package: the image is made from it.
    if facts.is_container {
        return InstallMethod::Container;
    }
    if facts.is_packaged && program.starts_with("/usr/bin") {
        return InstallMethod::Deb;
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
    /// How the running program was installed.
    pub fn of_running(program: &Path) -> Self {
        method(program, &InstallFacts::of(program))
    }

    /// The warning for commands that write the path of the program into a file, if it is in a cache.
    pub fn cache_warning(&self) -> Option<String> {
        let (name, install) = match self {
            Self::Npm(NpmScope::Npx) => ("npx", "npm install --global toolbooth"),
            Self::Wheel(WheelInstaller::Uvx) => ("uvx", "uv tool install toolbooth"),
            _ => return None,
        };
        Some(format!(
            "this program is in the cache of {name}, and its path stops working when the cache is emptied; install it \
             with `{install}`, and run the command again"
        ))
    }

    /// The word for it in JSON.
    pub fn word(&self) -> &'static str {
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
    pub fn sentence(&self) -> &'static str {
        match self {
            Self::Deb => "as a Debian package",
            Self::Wheel(WheelInstaller::UvTool) => "as a Python wheel, by uv",
            Self::Wheel(WheelInstaller::Uvx) => "as a Python wheel, by uvx",
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
    pub fn command(&self, program: &Path) -> String {
        match self {
            Self::Deb => "sudo apt-get update && sudo apt-get install --only-upgrade toolbooth".to_owned(),
            Self::Wheel(WheelInstaller::UvTool) => "uv tool upgrade toolbooth".to_owned(),
            Self::Wheel(WheelInstaller::Uvx) => "uvx toolbooth@latest".to_owned(),
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
            Self::Container => "pull or build the new image, and create the container again".to_owned(),
            Self::Tarball => {
                let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
                format!(
                    "unpack toolbooth-VERSION-{platform}.tar.gz of the new release over {}",
                    program.display()
                )
            }
        }
    }

    /// The command that upgrades it from a downloaded package of the new release: an index knows only packages that were
    /// published in it.
    pub fn file_command(&self) -> Option<String> {
        let wheel = "./toolbooth-VERSION-*.whl";
        let npm = "./toolbooth-VERSION.tgz";
        Some(match self {
            Self::Deb => {
                let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
                format!("sudo apt install ./toolbooth_VERSION_{architecture}.deb")
            }
            Self::Wheel(WheelInstaller::UvTool) => format!("uv tool install --force {wheel}"),
            Self::Wheel(WheelInstaller::Uvx) => format!("uvx --from {wheel} toolbooth"),
            Self::Wheel(WheelInstaller::Pipx) => format!("pipx install --force {wheel}"),
            Self::Wheel(WheelInstaller::Pip(python)) => {
                let python = python.as_ref().map_or("python3".into(), |python| python.display().to_string());
                format!("{python} -m pip install --upgrade {wheel}")
            }
            Self::Npm(NpmScope::Npx) => format!("npx {npm}"),
            Self::Npm(NpmScope::Project) => format!("npm install {npm}"),
            Self::Npm(NpmScope::Global) => format!("npm install --global {npm}"),
            Self::Cargo => "cargo install --locked --path crates/cli".to_owned(),
            Self::Homebrew => {
                "cp toolbooth.rb *.tar.gz \"$(brew --repository local/toolbooth)/Formula/\" && brew upgrade toolbooth"
                    .to_owned()
            }
            Self::Source | Self::Container | Self::Tarball => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_how_it_was_installed() {
        let facts = InstallFacts { cargo_bin: "/home/ann/.cargo/bin".into(), ..InstallFacts::default() };
        let cases = [
            ("/home/ann/.local/share/uv/tools/toolbooth/bin/toolbooth", "wheel", "uv tool upgrade toolbooth"),
            ("/home/ann/.cache/uv/archive-v0/WhR/bin/toolbooth", "wheel", "uvx toolbooth@latest"),
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
            let by_file = found.file_command();
            assert_eq!(by_file.is_none(), word == "source", "{path}: {by_file:?}");
        }
        let packaged = InstallFacts { is_packaged: true, ..facts.clone() };
        let contained = InstallFacts { is_container: true, ..packaged.clone() };
        let venv = InstallFacts { python: Some("/v/bin/python".into()), ..facts.clone() };
        assert_eq!(method(Path::new("/usr/bin/toolbooth"), &packaged), InstallMethod::Deb);
        assert_eq!(method(Path::new("/usr/bin/toolbooth"), &contained), InstallMethod::Container);
        assert_eq!(method(Path::new("/usr/local/bin/toolbooth"), &packaged), InstallMethod::Tarball);
        assert_eq!(
            method(Path::new("/v/bin/toolbooth"), &venv).command(Path::new("/v/bin/toolbooth")),
            "/v/bin/python -m pip install --upgrade toolbooth"
        );
    }

    #[test]
    fn a_program_in_a_cache_is_warned_about() {
        let cases = [
            ("/home/ann/.npm/_npx/1f/node_modules/toolbooth/bin/toolbooth", Some("npm install --global")),
            ("/home/ann/.cache/uv/archive-v0/WhR/bin/toolbooth", Some("uv tool install")),
            ("/home/ann/.local/share/uv/tools/toolbooth/bin/toolbooth", None),
            ("/usr/lib/node_modules/toolbooth/bin/toolbooth", None),
            ("/usr/bin/toolbooth", None),
        ];
        for (path, install) in cases {
            let warning = method(Path::new(path), &InstallFacts::default()).cache_warning();
            assert_eq!(warning.is_some(), install.is_some(), "{path}");
            assert!(warning.unwrap_or_default().contains(install.unwrap_or_default()), "{path}");
        }
    }
}
