//! The executables under test: they are beside the test executable, and the gateway is built on first use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Environment variable with the path of a gateway to test instead of the one built here.
const OVERRIDE: &str = "TOOLBOOTH_BIN";

/// The gateway. Built once per test process, so that no test runs against an outdated build.
pub fn toolbooth() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| match std::env::var_os(OVERRIDE) {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

/// The era-adaptive test server.
pub fn fixture() -> PathBuf {
    folder().join("toolbooth-fixture")
}

/// The misbehaving test servers.
pub fn hostile() -> PathBuf {
    folder().join("toolbooth-hostile")
}

/// The folder of this build profile: tests run from its `deps`.
fn folder() -> PathBuf {
    let this = std::env::current_exe().expect("the system knows this executable");
    let folder = this.parent().expect("an executable is in a folder");
    match folder.file_name() {
        Some(name) if name == "deps" => {
            folder.parent().expect("`deps` is in the profile's folder").to_owned()
        }
        _ => folder.to_owned(),
    }
}

fn build() -> PathBuf {
    let folder = folder();
    let target = folder.parent().expect("a profile's folder is in the target folder");
    // `cargo xtask test` has built it already, with the same features of its libraries.
    if std::env::var_os("TOOLBOOTH_BUILT").is_some() && folder.join("toolbooth").exists() {
        return folder.join("toolbooth");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Variables of the running test. Some build scripts run again when one of them changes, and everything after them is
    // built again.
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_package)) {
        command.env_remove(name);
    }
    command.args(["build", "--quiet", "--package", "toolbooth", "--bin", "toolbooth"]);
    command.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => drop(command.args(["--profile", profile])),
    }
    let output = command.output().expect("cargo runs");
    assert!(
        output.status.success(),
        "the gateway does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    folder.join("toolbooth")
}
