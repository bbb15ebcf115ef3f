//! Blobs on disk: symbolic links in the folder are not followed, and only the owner may read.

use super::BlobError;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// The flags with which existing parts of the path are opened.
const NO_LINK: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_CLOEXEC);

/// Opens `folder/inner/name` for reading, if neither `inner` nor `name` is a link and the blob is a regular file.
pub(super) fn open(folder: &Path, inner: &str, name: &str) -> Result<File, BlobError> {
    let as_io = |error: Errno| io::Error::from(error);
    let opened = (|| {
        let root = File::open(folder)?;
        let part = openat(&root, inner, NO_LINK | OFlag::O_DIRECTORY, Mode::empty()).map_err(as_io)?;
        // Does not block if the path is a FIFO.
        let flags = NO_LINK | OFlag::O_NONBLOCK | OFlag::O_RDONLY;
        let file = File::from(openat(&part, name, flags, Mode::empty()).map_err(as_io)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
    })();
    opened.map_err(|error| link_or_disk_error(folder, inner, &error))
}

/// Creates the folder of a blob, for its owner only; an existing one must be a folder and not a link.
pub(super) fn prepare(folder: &Path, inner: &str) -> Result<(), BlobError> {
    let path = folder.join(inner);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder).and_then(|()| {
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        match path.symlink_metadata()?.is_dir() {
            true => restrict_to_owner(&path, 0o700),
            false => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
    });
    made.map_err(|error| link_or_disk_error(folder, inner, &error))
}

/// Restricts a finished blob to its owner, independent of the process's umask.
pub(super) fn seal(folder: &Path, inner: &str, name: &str) -> Result<(), BlobError> {
    let file = open(folder, inner, name)?;
    file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| BlobError::of_disk(&error))
}

fn restrict_to_owner(path: &Path, mode: u32) -> io::Result<()> {
    if path.metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

fn link_or_disk_error(folder: &Path, inner: &str, error: &io::Error) -> BlobError {
    let is_link = matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ELOOP | Errno::ENOTDIR));
    if is_link || error.kind() == io::ErrorKind::NotADirectory {
        tracing::error!(
            blobs.path = %folder.join(inner).display(),
            "found a link in the folder of files; the gateway does not create links there"
        );
        return BlobError::Denied;
    }
    BlobError::of_disk(error)
}
