//! The presence of a running gateway in its data folder: where to reach it.

use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a running gateway leaves in its data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// Its address.
    pub url: String,
    /// Its process.
    pub pid: u32,
    /// When that process was started, as the system counts: another process may get the same number later.
    #[serde(default)]
    pub started: Option<u64>,
    /// The socket that `toolbooth stdio` joins.
    pub socket: PathBuf,
    /// The control socket, by which commands of the same user administer it.
    #[serde(default)]
    pub control: Option<PathBuf>,
    /// Its version.
    pub version: String,
    /// The files and settings that its command line named.
    #[serde(default)]
    pub named: Vec<String>,
}

fn file(data_dir: &Path) -> PathBuf {
    data_dir.join("gateway.json")
}

/// The longest path a socket may have.
const MAX_SOCKET_PATH: usize = 100;

/// Where the socket of a data folder is. Paths too long for a socket move to the temporary folder.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    socket_named(data_dir, "gateway")
}

/// Where the control socket of a data folder is.
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

/// When a process was started, in ticks since the system was; nothing where the system does not tell.
pub fn start_of(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses and may hold anything; the start is the 20th word after it.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

impl Presence {
    /// Writes it, for the owner alone.
    pub fn announce(&self, data_dir: &Path) -> io::Result<()> {
        let path = file(data_dir);
        let draft = path.with_extension("json.new");
        std::fs::write(&draft, serde_json::to_vec(self)?)?;
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(draft, path)
    }

    /// The gateway that runs on this data folder, if one does.
    pub fn find(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read(file(data_dir)).ok()?;
        let presence: Self = serde_json::from_slice(&text).ok()?;
        let pid = nix::unistd::Pid::from_raw(i32::try_from(presence.pid).ok()?);
        nix::sys::signal::kill(pid, None).ok()?;
        (presence.started.is_none() || presence.started == start_of(presence.pid)).then_some(presence)
    }

    /// Takes it away again.
    pub fn withdraw(&self, data_dir: &Path) {
        if Self::find(data_dir).as_ref() == Some(self) {
            let _ = std::fs::remove_file(file(data_dir));
        }
        let _ = std::fs::remove_file(&self.socket);
        if let Some(control) = &self.control {
            let _ = std::fs::remove_file(control);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Audit: a process that got the number of a dead gateway was taken for it.
    #[test]
    fn another_process_of_the_same_number_is_no_gateway() {
        let folder = tempfile::tempdir().expect("a folder");
        let presence = |started| Presence {
            url: "http://127.0.0.1:1".into(),
            pid: std::process::id(),
            started,
            socket: folder.path().join("gateway.sock"),
            control: None,
            version: "1".into(),
            named: Vec::new(),
        };
        let this = presence(start_of(std::process::id()));
        this.announce(folder.path()).expect("written");
        assert_eq!(Presence::find(folder.path()), Some(this));
        presence(Some(1)).announce(folder.path()).expect("written");
        assert_eq!(Presence::find(folder.path()), None);
    }
}
