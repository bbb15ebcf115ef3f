//! Who else could have written a file of the operator's: such a file names commands that run with the gateway's rights.

use crate::finding::Finding;
use crate::inputs::Sources;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Anybody may write.
const WORLD_WRITABLE: u32 = 0o002;
/// In this folder only its owner may rename or remove a file.
const STICKY: u32 = 0o1000;

/// Why a file of the system, the user or the command line is not read, if it is not.
pub(crate) fn refusal(sources: &Sources, path: &Path) -> Option<Finding> {
    // What cannot be looked at is reported where it is read.
    let about = fs::metadata(path).ok().filter(Metadata::is_file)?;
    if about.mode() & WORLD_WRITABLE != 0 {
        let sentence = "everybody on this machine may write to this configuration file";
        let finding = Finding::error("config.world-writable", sentence).in_file(path);
        return Some(finding.hint(format!("chmod o-w '{}', after a look at what it says", path.display())));
    }
    let owner = about.uid();
    let is_foreign = sources.user_id.is_some_and(|own| owner != own && owner != 0);
    if is_foreign && !is_read_only(path) {
        let sentence = format!("this configuration file belongs to another user (id {owner})");
        let finding = Finding::error("config.foreign-owner", sentence).in_file(path);
        return Some(finding.hint("take it over with chown, copy it, or mount it read-only"));
    }
    loose_folder(path)
}

/// A folder in which others may put another file in its place, or to which a link leads.
fn loose_folder(path: &Path) -> Option<Finding> {
    let real = path.canonicalize().ok()?;
    let folder = real.parent()?;
    let mode = fs::metadata(folder).ok()?.permissions().mode();
    let is_link = fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink());
    let is_loose = mode & WORLD_WRITABLE != 0 && (mode & STICKY == 0 || is_link);
    is_loose.then(|| {
        let sentence = format!(
            "this configuration file is kept in `{}`, where everybody may put files",
            folder.display()
        );
        let finding = Finding::error("config.loose-folder", sentence).in_file(path);
        finding.hint("move it to a folder that only you may write to")
    })
}

/// Whether the file is on a read-only mount, as a container's configuration usually is.
fn is_read_only(path: &Path) -> bool {
    use nix::sys::statvfs::{FsFlags, statvfs};
    statvfs(path).is_ok_and(|about| about.flags().contains(FsFlags::ST_RDONLY))
}
