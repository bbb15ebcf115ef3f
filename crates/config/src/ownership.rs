//! Refuses configuration files that other users could have written: they contain commands that run with the gateway's
//! rights.

use crate::finding::Finding;
use crate::inputs::Sources;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The mode bit that lets every user write.
const WORLD_WRITABLE: u32 = 0o002;
/// The mode bit of a folder in which only the owner of a file may rename or remove it.
const STICKY: u32 = 0o1000;

/// Returns the reason to refuse a file of the system, the user or the command line, if there is one.
pub(crate) fn refusal(sources: &Sources, path: &Path) -> Option<Finding> {
    // Errors of `metadata` are reported when the file is read.
    let about = fs::metadata(path).ok().filter(Metadata::is_file)?;
    if about.mode() & WORLD_WRITABLE != 0 {
        let sentence = "this configuration file is world-writable";
        let finding = Finding::error("config.world-writable", sentence).in_file(path);
        return Some(finding.hint(format!("check its content, then run `chmod o-w '{}'`", path.display())));
    }
    let owner = about.uid();
    let is_foreign = sources.user_id.is_some_and(|own| owner != own && owner != 0);
    if is_foreign && !is_read_only(path) {
        let sentence = format!("this configuration file belongs to another user (id {owner})");
        let finding = Finding::error("config.foreign-owner", sentence).in_file(path);
        return Some(finding.hint("change its owner with chown, copy it, or mount it read-only"));
    }
    loose_folder(path)
}

/// Refuses a file if other users can replace it, because its folder is world-writable.
fn loose_folder(path: &Path) -> Option<Finding> {
    let real = path.canonicalize().ok()?;
    let folder = real.parent()?;
    let mode = fs::metadata(folder).ok()?.permissions().mode();
    let is_link = fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink());
    let is_loose = mode & WORLD_WRITABLE != 0 && (mode & STICKY == 0 || is_link);
    is_loose.then(|| {
        let sentence =
            format!("this configuration file is in the world-writable folder `{}`", folder.display());
        let finding = Finding::error("config.loose-folder", sentence).in_file(path);
        finding.hint("move it to a folder that only you may write to")
    })
}

/// Whether the file is on a read-only mount, as a container's configuration usually is.
fn is_read_only(path: &Path) -> bool {
    use nix::sys::statvfs::{FsFlags, statvfs};
    statvfs(path).is_ok_and(|about| about.flags().contains(FsFlags::ST_RDONLY))
}
