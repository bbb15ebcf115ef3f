//! Checks that the Homebrew formula installs files that the archive contains.

use super::trial::succeed;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Checks the formula beside an archive. Its syntax is checked if there is a Ruby.
pub fn check(archive: &Path) -> Result<()> {
    let path = archive.with_file_name("toolbooth.rb");
    let formula = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let listing = Command::new("tar").arg("-tzf").arg(archive).output().context("`tar` is not installed")?;
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    // Homebrew enters the only folder of an archive.
    let files: Vec<&str> = listing.lines().filter_map(|line| Some(line.split_once('/')?.1)).collect();
    let installed = installed_files(&formula);
    ensure!(!installed.is_empty(), "{} installs nothing", path.display());
    for wanted in &installed {
        let (start, end) = wanted.split_once('*').unwrap_or((*wanted, ""));
        let is_packed = files.iter().any(|file| match wanted.contains('*') {
            true => file.starts_with(start) && file.ends_with(end),
            false => file == wanted,
        });
        ensure!(is_packed, "{} installs `{wanted}`, which is not in the archive", path.display());
    }
    let has_ruby = Command::new("ruby").arg("--version").output().is_ok();
    if has_ruby {
        succeed(Command::new("ruby").arg("-c").arg(&path))?;
    }
    println!("Homebrew: all {} entries of the formula are in the archive", installed.len());
    Ok(())
}

/// The quoted paths of the lines that install files.
fn installed_files(formula: &str) -> Vec<&str> {
    let lines = formula.lines().filter(|line| line.contains(".install "));
    lines.filter_map(|line| line.split('"').nth(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_installs_the_program_its_manual_and_completions() {
        let template = include_str!("../../../packaging/homebrew/toolbooth.rb");
        assert_eq!(
            installed_files(template),
            [
                "toolbooth",
                "man/*.1.gz",
                "completions/bash-completion/toolbooth",
                "completions/fish/toolbooth.fish",
                "completions/zsh/_toolbooth",
            ]
        );
    }
}
