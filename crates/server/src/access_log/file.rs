//! The file of the access log. It is rotated by size, and opened again if another program moved it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Lines are written together up to this size.
const BUFFER_BYTES: usize = 64 << 10;

/// An open log file.
pub(super) struct LogFile {
    path: PathBuf,
    max_bytes: u64,
    file: File,
    /// The length of the file, without the buffer.
    size: u64,
    buffer: Vec<u8>,
}

impl LogFile {
    /// Opens the file for appending.
    pub(super) fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let file = append_to(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.into(), max_bytes, file, size, buffer: Vec::new() })
    }

    /// Adds a line. Rotates the file first if the line would make it too long.
    pub(super) fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let length = self.size + self.buffer.len() as u64;
        if length > 0 && length + line.len() as u64 > self.max_bytes {
            self.flush()?;
            self.rotate()?;
        }
        self.buffer.extend_from_slice(line);
        match self.buffer.len() >= BUFFER_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes the buffer. The buffer is empty afterwards, also after an error: it must not grow.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        self.reopen_if_moved()?;
        self.file.write_all(&buffer)?;
        self.size += buffer.len() as u64;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    /// Renames the file to `PATH.1`, which replaces an earlier one, and begins a new file.
    fn rotate(&mut self) -> io::Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        fs::rename(&self.path, old)?;
        self.reopen()
    }

    /// Opens the file again if the path no longer leads to it: a program such as logrotate moved it.
    fn reopen_if_moved(&mut self) -> io::Result<()> {
        let open = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) == (open.dev(), open.ino()) => Ok(()),
            Ok(_) | Err(_) => self.reopen(),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = append_to(&self.path)?;
        self.size = self.file.metadata()?.len();
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_rotated_before_it_is_too_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let mut file = LogFile::open(&path, 20).expect("it is opened");
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        for line in ["first 1\n", "second\n", "third 3\n", "fourth\n", "a line over the limit\n", "end\n"] {
            file.add(line.as_bytes()).expect("it is written");
        }
        file.flush().expect("it is written");
        assert_eq!(read(&path), "end\n");
        assert_eq!(read(&old), "a line over the limit\n", "only one earlier file is kept");
        let mode = fs::metadata(&path).expect("it exists").mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn a_file_that_was_moved_away_is_created_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("access.log"), folder.path().join("moved"));
        let mut file = LogFile::open(&path, 1_000).expect("it is opened");
        for (line, before) in [("one\n", false), ("two\n", true)] {
            if before {
                fs::rename(&path, &moved).expect("it is moved");
            }
            file.add(line.as_bytes()).expect("it is added");
            file.flush().expect("it is written");
        }
        assert_eq!(fs::read_to_string(&moved).expect("it exists"), "one\n");
        assert_eq!(fs::read_to_string(&path).expect("it exists"), "two\n");
    }
}
