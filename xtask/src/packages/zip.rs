//! Reproducible zip archives, as Python wheels are.

use super::archive::{PackedFile, gzip};
use anyhow::{Context, Result};

/// The time of all entries: the first that the format can express, 1980-01-01.
const DOS_DATE: u16 = 0x21;
/// The length of the header and of the trailer that gzip adds to the compressed data.
const GZIP_HEADER: usize = 10;
const GZIP_TRAILER: usize = 8;

/// A zip archive of these files, in this order.
pub fn zip(files: &[PackedFile]) -> Result<Vec<u8>> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for file in files {
        let compressed = gzip(&file.content)?;
        let end = compressed.len().checked_sub(GZIP_TRAILER).context("gzip wrote too little")?;
        let data = compressed.get(GZIP_HEADER..end).context("gzip wrote too little")?;
        // The trailer is the checksum and the size, as zip has them.
        let checksum = &compressed[end..end + 4];
        let common = common_header(file, checksum, data.len())?;
        let at = u32::try_from(archive.len())?;
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(file.path.as_bytes());
        archive.extend(data);

        directory.extend(b"PK\x01\x02");
        // Made by Unix, so that the permission bits count.
        directory.extend([20, 3]);
        directory.extend(&common);
        directory.extend([0; 6]); // No comment, first disk, no internal attributes.
        directory.extend(((0o100_000 | file.mode) << 16).to_le_bytes());
        directory.extend(at.to_le_bytes());
        directory.extend(file.path.as_bytes());
    }
    let (at, size) = (u32::try_from(archive.len())?, u32::try_from(directory.len())?);
    let count = u16::try_from(files.len())?.to_le_bytes();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].concat());
    archive.extend(size.to_le_bytes());
    archive.extend(at.to_le_bytes());
    archive.extend([0, 0]);
    Ok(archive)
}

/// The fields that a file's header and its entry in the directory share.
fn common_header(file: &PackedFile, checksum: &[u8], compressed: usize) -> Result<Vec<u8>> {
    let mut header = Vec::new();
    let words = [20_u16, 0, 8, 0, DOS_DATE]; // Version 2.0, no flags, deflate, midnight.
    words.iter().for_each(|word| header.extend(word.to_le_bytes()));
    header.extend(checksum);
    header.extend(u32::try_from(compressed)?.to_le_bytes());
    header.extend(u32::try_from(file.content.len())?.to_le_bytes());
    header.extend(u16::try_from(file.path.len())?.to_le_bytes());
    header.extend([0, 0]); // No extra field.
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn python_reads_the_archive() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.zip");
        let files = [PackedFile::plain("a/b.txt", "text".repeat(100)), PackedFile::program("run", "#!x")];
        std::fs::write(&path, zip(&files).expect("an archive")).expect("written");
        let script = "import sys, zipfile\n\
                      z = zipfile.ZipFile(sys.argv[1])\n\
                      assert z.testzip() is None\n\
                      print([(i.filename, oct(i.external_attr >> 16), i.file_size) for i in z.infolist()])";
        let output = Command::new("python3").args(["-c", script]).arg(&path).output().expect("python3");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            "[('a/b.txt', '0o100644', 400), ('run', '0o100755', 3)]",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
