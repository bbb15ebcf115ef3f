//! The package for Debian and its derivatives.

use super::archive::{PackedFile, ar, gzip, tar};
use super::contents::{LICENSE, PackageContents, SUMMARY};
use anyhow::Result;

/// The file name and the content of the package.
pub fn build(contents: &PackageContents) -> Result<(String, Vec<u8>)> {
    let files = files(contents)?;
    let kib: usize = files.iter().map(|file| file.content.len().div_ceil(1024)).sum();
    let control = [
        PackedFile::plain("control", control(contents, kib)),
        PackedFile::program("postinst", contents.postinst.as_str()),
    ];
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(&control, "./", contents.epoch)?)?),
        ("data.tar.gz", gzip(&tar(&files, "./", contents.epoch)?)?),
    ];
    let name = format!("toolbooth_{}_{}.deb", contents.version, contents.needs.processor.debian);
    Ok((name, ar(&members, contents.epoch)))
}

fn files(contents: &PackageContents) -> Result<Vec<PackedFile>> {
    let copyright = format!("Toolbooth, licensed under {LICENSE}:\n\n{}", contents.text("LICENSE"));
    let mut files = vec![
        PackedFile::program("usr/bin/toolbooth", contents.binary.clone()),
        PackedFile::plain("usr/lib/systemd/system/toolbooth.service", contents.system_unit.as_str()),
        PackedFile::plain("usr/lib/systemd/user/toolbooth.service", contents.user_unit.as_str()),
        PackedFile::plain("usr/lib/sysusers.d/toolbooth.conf", contents.system_user.as_str()),
        PackedFile::plain("usr/share/doc/toolbooth/README.md", contents.text("README.md")),
        PackedFile::plain(
            "usr/share/doc/toolbooth/changelog.gz",
            gzip(contents.text("CHANGELOG.md").as_bytes())?,
        ),
        PackedFile::plain("usr/share/doc/toolbooth/copyright", copyright),
    ];
    files.extend(contents.manual_in("usr/share/man/man1")?);
    files.extend(contents.completions.iter().map(|(path, text)| PackedFile::plain(*path, text.clone())));
    Ok(files)
}

fn control(contents: &PackageContents, installed_kib: usize) -> String {
    let (major, minor) = contents.needs.glibc;
    format!(
        "Package: toolbooth\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The Toolbooth project\n\
         Installed-Size: {installed_kib}\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1\n\
         Suggests: nodejs, python3\n\
         Section: net\n\
         Priority: optional\n\
         Description: {SUMMARY}\n \
         One binary that every tool call of your agents passes through. It offers many\n \
         servers behind one endpoint, checks each call, asks a person if a rule requires\n \
         it, and records the outcome.\n",
        contents.version, contents.needs.processor.debian,
    )
}
