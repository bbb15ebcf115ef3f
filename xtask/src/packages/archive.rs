//! Reproducible tar and ar archives: sorted by the caller, one time, no owner.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::process::{Command, Stdio};

/// The size of a block of a tar archive.
const BLOCK: usize = 512;

/// A file of a package.
#[derive(Debug, Clone)]
pub struct PackedFile {
    /// Its path in the package, without a leading slash.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its content.
    pub content: Vec<u8>,
}

impl PackedFile {
    /// A file that everyone can read.
    pub fn plain(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, content: content.into() }
    }

    /// A program.
    pub fn program(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::plain(path, content) }
    }
}

/// A tar archive of these files, with entries for their folders; `before` is written before each path.
pub fn tar(files: &[PackedFile], before: &str, epoch: u64) -> Result<Vec<u8>> {
    let mut sorted: Vec<&PackedFile> = files.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let mut folders: Vec<String> = Vec::new();
    let mut archive = Vec::new();
    for file in sorted {
        for (at, _) in file.path.match_indices('/') {
            let folder = file.path[..=at].to_owned();
            if !folders.contains(&folder) {
                archive.extend(header(&format!("{before}{folder}"), b'5', 0o755, 0, epoch)?);
                folders.push(folder);
            }
        }
        archive.extend(header(
            &format!("{before}{}", file.path),
            b'0',
            file.mode,
            file.content.len(),
            epoch,
        )?);
        archive.extend(&file.content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

/// The header of an entry, in the ustar format.
fn header(path: &str, kind: u8, mode: u32, size: usize, epoch: u64) -> Result<[u8; BLOCK]> {
    ensure!(path.len() <= 100, "`{path}` is too long for a tar archive");
    let mut block = [0_u8; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, &format!("{epoch:011o}"));
    // The checksum counts its own field as spaces.
    put(148, "        ");
    put(257, "ustar\u{0}00");
    put(265, "root");
    put(297, "root");
    block[156] = kind;
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

/// An ar archive of these members, as Debian packages are.
pub fn ar(members: &[(&str, Vec<u8>)], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header = format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", content.len());
        archive.extend(header.as_bytes());
        archive.extend(content);
        if content.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

/// Compresses with the program `gzip`, without a name and a time.
pub fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("gzip")
        .args(["--no-name", "--best", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("there is no `gzip`")?;
    let mut stdin = child.stdin.take().context("gzip has no standard input")?;
    let output = std::thread::scope(|scope| {
        let writing = scope.spawn(move || stdin.write_all(content));
        let output = child.wait_with_output();
        writing.join().map_err(|_| anyhow::anyhow!("the writer of gzip's input panicked"))??;
        output.context("gzip")
    })?;
    ensure!(output.status.success(), "gzip ended with {}", output.status);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<PackedFile> {
        vec![PackedFile::program("b/run", "x"), PackedFile::plain("a", "1".repeat(600))]
    }

    #[test]
    fn archives_depend_only_on_their_content() {
        let mut other = files();
        other.reverse();
        let archive = tar(&files(), "./", 7).expect("an archive");
        assert_eq!(archive, tar(&other, "./", 7).expect("an archive"));
        // Two blocks of `a` after its header, the folder, `b/run`, and the end.
        assert_eq!(archive.len(), BLOCK * (1 + 2 + 1 + 2 + 2));
        assert_eq!(&archive[..4], b"./a\0");
        assert_eq!(gzip(&archive).expect("gzip"), gzip(&archive).expect("gzip"));
        assert_eq!(&ar(&[("x", vec![1])], 7)[..8], b"!<arch>\n");
    }

    #[test]
    fn other_programs_read_the_archive() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.tar.gz");
        std::fs::write(&path, gzip(&tar(&files(), "", 7).expect("an archive")).expect("gzip"))
            .expect("written");
        let listed = Command::new("tar").args(["-tvzf"]).arg(&path).env("TZ", "UTC").output().expect("tar");
        let listed = String::from_utf8(listed.stdout).expect("text");
        let modes: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(modes, ["-rw-r--r--", "drwxr-xr-x", "-rwxr-xr-x"], "{listed}");
    }
}
