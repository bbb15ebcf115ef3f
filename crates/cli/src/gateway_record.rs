//! The record of a running gateway in its data directory (`gateway.json`).

use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How to reach a running gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayRecord {
    /// URL of the gateway.
    pub url: String,
    /// Process id.
    pub pid: u32,
    /// Start time of the process in clock ticks: another process may get the same id later.
    #[serde(default)]
    pub started: Option<u64>,
    /// The socket for `toolbooth stdio`.
    pub socket: PathBuf,
    /// The control socket, for commands of the same user.
    #[serde(default)]
    pub control: Option<PathBuf>,
    /// Version of the gateway.
    pub version: String,
    /// The files and settings of its command line.
    #[serde(default)]
    pub named: Vec<String>,
    /// How long it runs without a client, if it ends then: a client started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_seconds: Option<u64>,
    /// The folder that it was started in, whose project files it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_in: Option<PathBuf>,
    /// The file that its log is written to; absent if the log goes to a terminal or to a service manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// Whether it is stopping: it finishes running calls and accepts no others.
    #[serde(default)]
    pub stopping: bool,
}

/// The file of a record.
#[derive(Serialize, Deserialize)]
struct RecordFile {
    #[serde(flatten)]
    record: GatewayRecord,
    /// The data directory that it was written to: in a copy of it, the record is of another gateway.
    #[serde(default)]
    data_dir_id: Option<FolderId>,
}

/// The device and inode number of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct FolderId(u64, u64);

impl FolderId {
    fn of(folder: &Path) -> Option<Self> {
        std::fs::metadata(folder).ok().map(|folder| Self(folder.dev(), folder.ino()))
    }
}

fn file(data_dir: &Path) -> PathBuf {
    data_dir.join("gateway.json")
}

/// The maximum length of a socket path.
const MAX_SOCKET_PATH: usize = 100;

/// The socket path of a data directory. Paths that are too long for a socket are in the temporary folder instead.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    socket_named(data_dir, "gateway")
}

/// The path of the control socket of a data directory.
pub fn control_path(data_dir: &Path) -> PathBuf {
    socket_named(data_dir, "control")
}

fn socket_named(data_dir: &Path, kind: &str) -> PathBuf {
    let beside = data_dir.join(format!("{kind}.sock"));
    if beside.as_os_str().len() <= MAX_SOCKET_PATH {
        return beside;
    }
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(data_dir.as_os_str().as_encoded_bytes());
    let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let user = nix::unistd::getuid();
    std::env::temp_dir().join(format!("toolbooth-{user}-{kind}-{name}.sock"))
}

/// The start time of a process, in clock ticks since boot; `None` if the system does not report it.
pub fn start_of(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name is in parentheses and may contain any character; the start time is the 20th word after it.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The path, if the standard error of this process goes to that file.
pub fn own_log(path: PathBuf) -> Option<PathBuf> {
    let own = std::fs::File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
    let file = std::fs::metadata(&path).ok()?;
    ((own.dev(), own.ino()) == (file.dev(), file.ino())).then_some(path)
}

fn is_zombie(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    matches!(state, Some("Z" | "X"))
}

impl GatewayRecord {
    /// Writes the record, readable only by the owner.
    pub fn announce(&self, data_dir: &Path) -> io::Result<()> {
        let path = file(data_dir);
        let draft = path.with_extension("json.new");
        let content = RecordFile { record: self.clone(), data_dir_id: FolderId::of(data_dir) };
        std::fs::write(&draft, serde_json::to_vec(&content)?)?;
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(draft, path)
    }

    /// The gateway that is running on this data directory, if there is one.
    pub fn find(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read(file(data_dir)).ok()?;
        let RecordFile { record, data_dir_id } = serde_json::from_slice(&text).ok()?;
        if data_dir_id.is_some() && data_dir_id != FolderId::of(data_dir) {
            return None;
        }
        let pid = nix::unistd::Pid::from_raw(i32::try_from(record.pid).ok()?);
        nix::sys::signal::kill(pid, None).ok()?;
        (record.started.is_none() || record.started == start_of(record.pid)).then_some(record)
    }

    /// How long the process has been running, if the system reports it.
    pub fn running_for(&self) -> Option<Duration> {
        /// Clock ticks per second in `/proc`, the same on all platforms of Linux.
        const TICKS: f64 = 100.0;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        Duration::try_from_secs_f64((now - self.started? as f64 / TICKS).max(0.0)).ok()
    }

    /// Whether the process of this record is still running. A process that has ended and was not collected by its
    /// parent does not count.
    pub fn is_alive(&self) -> bool {
        let Ok(id) = i32::try_from(self.pid) else { return false };
        let exists = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), None).is_ok();
        exists && !is_zombie(self.pid) && (self.started.is_none() || self.started == start_of(self.pid))
    }

    /// Removes the record and the sockets.
    pub fn withdraw(&self, data_dir: &Path) {
        self.remove_file(data_dir);
        self.remove_sockets();
    }

    /// Removes the record, unless it is of another gateway by now.
    pub fn remove_file(&self, data_dir: &Path) {
        let is_own = |found: &Self| (found.pid, found.started) == (self.pid, self.started);
        if Self::find(data_dir).as_ref().is_some_and(is_own) {
            let _ = std::fs::remove_file(file(data_dir));
        }
    }

    /// Removes the sockets. A gateway does it while it has its store: the next one opens sockets of the same names.
    pub fn remove_sockets(&self) {
        let _ = std::fs::remove_file(&self.socket);
        if let Some(control) = &self.control {
            let _ = std::fs::remove_file(control);
        }
    }
}

#[cfg(test)]
impl GatewayRecord {
    /// The record of a gateway that is this process, with its socket in a folder.
    pub fn of_test(folder: &Path) -> Self {
        Self {
            url: "http://127.0.0.1:1".into(),
            pid: std::process::id(),
            started: start_of(std::process::id()),
            socket: folder.join("gateway.sock"),
            control: None,
            version: "1".into(),
            named: Vec::new(),
            linger_seconds: None,
            started_in: None,
            log: None,
            stopping: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The system may give the id of a dead gateway to another process.
    #[test]
    fn another_process_with_the_same_id_is_not_a_gateway() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = |started| GatewayRecord { started, ..GatewayRecord::of_test(folder.path()) };
        let this = record(start_of(std::process::id()));
        this.announce(folder.path()).expect("written");
        assert_eq!(GatewayRecord::find(folder.path()), Some(this));
        record(Some(1)).announce(folder.path()).expect("written");
        assert_eq!(GatewayRecord::find(folder.path()), None);
    }

    // Otherwise commands on a copy of a live data directory would use the original gateway.
    #[test]
    fn the_record_in_a_copied_data_directory_is_not_used() {
        let (original, copy) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let record = GatewayRecord::of_test(original.path());
        record.announce(original.path()).expect("written");
        std::fs::copy(file(original.path()), file(copy.path())).expect("copied");
        assert_eq!(GatewayRecord::find(copy.path()), None);
        assert_eq!(GatewayRecord::find(original.path()), Some(record));
    }
}
