//! The plain archive, for all other systems with glibc, and the Homebrew formula that installs it.

use super::archive::{PackedFile, gzip, tar};
use super::contents::PackageContents;
use anyhow::{Context, Result, ensure};

/// The file name and the content of the archive.
pub fn build(contents: &PackageContents) -> Result<(String, Vec<u8>)> {
    let name = format!("toolbooth-{}-linux-{}", contents.version, contents.needs.processor.plain);
    let mut files = vec![
        PackedFile::program("toolbooth", contents.binary.clone()),
        PackedFile::plain("systemd/system/toolbooth.service", contents.system_unit.as_str()),
        PackedFile::plain("systemd/user/toolbooth.service", contents.user_unit.as_str()),
        PackedFile::plain("systemd/sysusers/toolbooth.conf", contents.system_user.as_str()),
    ];
    files.extend(contents.texts.iter().map(|(name, text)| PackedFile::plain(*name, text.as_str())));
    files.extend(contents.manual_in("man")?);
    for (path, text) in &contents.completions {
        let file = path.rsplit('/').next().context("a path without a file name")?;
        // Bash and fish name the file as the program; the folder tells them apart.
        let shell = path.split('/').nth(2).context("a path without a shell")?;
        files.push(PackedFile::plain(format!("completions/{shell}/{file}"), text.clone()));
    }
    Ok((format!("{name}.tar.gz"), gzip(&tar(&files, &format!("{name}/"), contents.epoch)?)?))
}

/// The Homebrew formula for an archive, from its template.
pub fn formula(template: &str, contents: &PackageContents, archive: &str, hash: &str) -> Result<String> {
    let filled = template
        .replace("@VERSION@", &contents.version)
        .replace("@ARCHIVE@", archive)
        .replace("@SHA256@", hash);
    ensure!(!filled.contains('@'), "packaging/homebrew/toolbooth.rb has an unknown placeholder");
    Ok(filled)
}
