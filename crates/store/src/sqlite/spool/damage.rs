//! Handles damaged spool files: keeps a copy for inspection, and adds an audit entry about the missing records.

use nix::fcntl::OFlag;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::clock::unix_ms;
use toolbooth_core::json::ObjectWriter;
use toolbooth_core::outcome::OutcomeKind;

/// The most copies of one file. The first ones are kept, since they show how the damage began.
const MAX_COPIES: usize = 3;

/// When a file was last written, in milliseconds since 1970.
pub(super) fn written_ms(file: &File) -> io::Result<i64> {
    Ok(unix_ms(file.metadata()?.modified()?))
}

/// Copies a damaged file and returns the audit entry about the missing records.
pub(super) fn keep(path: &Path, bytes: &[u8], damaged_bytes: usize, written_ms: i64) -> AuditEntry {
    let mut detail = ObjectWriter::default();
    detail.number("damaged_bytes", damaged_bytes as u64);
    match copy(path, bytes, written_ms) {
        Ok(Some(copy)) => {
            tracing::error!(
                damaged_bytes,
                copy = %copy.display(),
                "a part of the spool is damaged, and audit entries may be lost; a copy of the file was saved"
            );
            if let Some(name) = copy.file_name() {
                detail.text("copy", &name.to_string_lossy());
            }
        }
        Ok(None) => tracing::error!(
            damaged_bytes,
            "a part of the spool is damaged, and audit entries may be lost; \
             no copy was saved, because {MAX_COPIES} already exist"
        ),
        Err(error) => tracing::error!(
            damaged_bytes,
            %error,
            "a part of the spool is damaged, and audit entries may be lost; the file could not be copied"
        ),
    }
    AuditEntry {
        code: Some("store.spool-damaged".into()),
        detail: Some(detail.finish()),
        // The missing rows are rows of calls.
        ..AuditEntry::new(written_ms, AuditKind::Call.as_str(), "", OutcomeKind::Unknown.as_str())
    }
}

/// Copies a damaged file into the same folder; `None` if there are enough copies.
fn copy(path: &Path, bytes: &[u8], written_ms: i64) -> io::Result<Option<PathBuf>> {
    let mut prefix = path.file_name().map(OsString::from).unwrap_or_default();
    prefix.push(".damaged-");
    let mut name = prefix.clone();
    name.push(written_ms.to_string());
    let copy = path.with_file_name(name);
    // An earlier start may have been interrupted after the copy.
    if copy.symlink_metadata().is_ok() {
        return Ok(Some(copy));
    }
    let mut copies = 0;
    for entry in path.parent().unwrap_or(Path::new(".")).read_dir()? {
        let is_copy = entry?.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
        copies += usize::from(is_copy);
    }
    if copies >= MAX_COPIES {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let mut file = options.open(&copy)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // The next start would take a partial copy for a complete one.
        let _ = std::fs::remove_file(&copy);
    }
    written.map(|()| Some(copy))
}
