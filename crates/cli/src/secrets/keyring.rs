//! The keyring of the operating system, through the system's own programs: `secret-tool` of libsecret on Linux, `security` on
//! macOS. No library is linked for it (`docs/adr/0040-stored-secrets.md`).

use super::fault::SecretFault;
use super::key_file::SealingKey;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The name of the program, as an attribute of its keys.
const APPLICATION: &str = "toolbooth";
/// The description that a keyring shows for a key.
const LABEL: &str = "Toolbooth: key of stored secrets";
/// How long a program may take. A locked keyring asks its user for the password.
const LIMIT: Duration = Duration::from_secs(30);
/// How often a program is checked.
const CHECK: Duration = Duration::from_millis(5);
/// The longest output that is read.
const MAX_OUTPUT: u64 = 4 << 10;
/// The exit code of `security` for an item that does not exist.
const SECURITY_NOT_FOUND: i32 = 44;

/// The keyring of this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyring {
    /// A Secret Service, such as GNOME Keyring or KWallet.
    SecretService,
    /// The keychain of macOS.
    Keychain,
}

/// The result of a program that ended.
struct ProgramResult {
    status: ExitStatus,
    output: String,
    /// Whether it printed a message.
    has_complained: bool,
}

impl Keyring {
    /// The keyring of this session, if its program is installed and can reach it.
    pub fn here() -> Option<Self> {
        match cfg!(target_os = "macos") {
            true => Path::new("/usr/bin/security").is_file().then_some(Self::Keychain),
            false => (has_session_bus() && is_installed("secret-tool")).then_some(Self::SecretService),
        }
    }

    /// Stores a key under its fingerprint, and reads it back.
    pub fn store(self, key: &SealingKey) -> Result<(), SecretFault> {
        let id = key.fingerprint();
        let ended = match self {
            Self::SecretService => {
                let words = ["store", "--label", LABEL, "application", APPLICATION, "key", id.as_str()];
                run("secret-tool", &words, &key.hex())?
            }
            // The command is read from standard input, because the arguments of a process are public.
            Self::Keychain => {
                let hex = key.hex();
                let line =
                    format!("add-generic-password -U -a {id} -s {APPLICATION} -l \"{LABEL}\" -w {hex}\n");
                run("/usr/bin/security", &["-i"], &line)?
            }
        };
        if !ended.status.success() {
            return Err(self.failed("store the key"));
        }
        match self.find(&id)? {
            Some(stored) if stored == *key => Ok(()),
            _ => Err(self.failed("return the key that was stored")),
        }
    }

    /// The key with this fingerprint; `None` if the keyring answers that it has none.
    pub fn find(self, id: &str) -> Result<Option<SealingKey>, SecretFault> {
        let ended = match self {
            Self::SecretService => {
                run("secret-tool", &["lookup", "application", APPLICATION, "key", id], "")?
            }
            Self::Keychain => {
                run("/usr/bin/security", &["find-generic-password", "-a", id, "-s", APPLICATION, "-w"], "")?
            }
        };
        let is_absent = match self {
            Self::SecretService => !ended.has_complained,
            Self::Keychain => ended.status.code() == Some(SECURITY_NOT_FOUND),
        };
        match ended.status.success() {
            true => SealingKey::from_hex(&ended.output)
                .map(Some)
                .ok_or_else(|| self.failed("return the key as it was stored")),
            false if is_absent && self.has_locked(id)? => {
                Err(SecretFault::Keyring { why: "it is locked".into() })
            }
            false if is_absent => Ok(None),
            false => Err(self.failed("be reached")),
        }
    }

    /// Whether it has the key without giving it. `secret-tool lookup` does not tell a locked key from one that does not exist,
    /// and `search` lists both.
    fn has_locked(self, id: &str) -> Result<bool, SecretFault> {
        if self == Self::Keychain {
            return Ok(false);
        }
        let ended = run("secret-tool", &["search", "application", APPLICATION, "key", id], "")?;
        Ok(ended.output.trim_start().starts_with('['))
    }

    /// Removes the key with this fingerprint.
    pub fn remove(self, id: &str) -> Result<(), SecretFault> {
        let ended = match self {
            Self::SecretService => run("secret-tool", &["clear", "application", APPLICATION, "key", id], "")?,
            Self::Keychain => {
                run("/usr/bin/security", &["delete-generic-password", "-a", id, "-s", APPLICATION], "")?
            }
        };
        match ended.status.success() || self.find(id)?.is_none() {
            true => Ok(()),
            false => Err(self.failed("remove the key")),
        }
    }

    fn failed(self, what: &str) -> SecretFault {
        let program = match self {
            Self::SecretService => "`secret-tool`",
            Self::Keychain => "`security`",
        };
        SecretFault::Keyring { why: format!("it could not {what} ({program})") }
    }
}

/// Whether a session bus is there. Without one, libsecret would try to start it.
fn has_session_bus() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("DBUS_SESSION_BUS_ADDRESS").is_some()
        || set("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("bus").exists())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a program with a text on its standard input. Its messages are not passed on.
fn run(program: &str, words: &[&str], input: &str) -> Result<ProgramResult, SecretFault> {
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or(program);
    let failed = |why: String| SecretFault::Keyring { why };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| failed(format!("`{name}` cannot be started: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ended without reading its input reports the reason with its status.
        let _ = stdin.write_all(input.as_bytes());
    }
    let (output, complaint) = (read(child.stdout.take()), read(child.stderr.take()));
    let Some(status) = wait(&mut child) else {
        return Err(failed(format!("`{name}` did not answer within {} seconds", LIMIT.as_secs())));
    };
    // A process that it started may keep the pipes open.
    let text =
        |output: mpsc::Receiver<String>| output.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    let (output, complaint) = (text(output), text(complaint));
    if !status.success() {
        tracing::debug!(program = name, %status, "the program of the keyring failed: {complaint}");
    }
    Ok(ProgramResult { status, output, has_complained: !complaint.trim().is_empty() })
}

/// Reads a pipe on a thread of its own, so that a full pipe does not stop the program.
fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MAX_OUTPUT).read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Waits until a program ends; kills it at the time limit.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let checks = LIMIT.as_millis() / CHECK.as_millis();
    for _ in 0..checks {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(CHECK),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
