//! Reads configuration files up to a size limit.

use crate::finding::Finding;
use crate::parse;
use std::path::Path;

/// Reads a file up to the size limit, so that a device or a huge file cannot exhaust memory.
pub(crate) fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    use std::os::unix::fs::FileTypeExt;
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    // A named pipe would wait for a writer.
    if about.file_type().is_fifo() || about.file_type().is_socket() {
        return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(parse::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The finding for a file that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error, what: &str) -> Finding {
    let (code, reason) = match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            ("config.no-file", "does not exist")
        }
        std::io::ErrorKind::PermissionDenied => ("config.unreadable", "is not readable for this user"),
        std::io::ErrorKind::IsADirectory => ("config.unreadable", "is a folder"),
        std::io::ErrorKind::InvalidInput => ("config.unreadable", "is a pipe or a socket"),
        _ => ("config.unreadable", "could not be read"),
    };
    Finding::error(code, format!("{what} {reason}")).in_file(path)
}
