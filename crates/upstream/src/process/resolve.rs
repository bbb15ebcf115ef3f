//! Finds the file a command means, as the server's own process would, so that a fault can be told exactly.

use super::fault::LaunchError;
use nix::unistd::{AccessFlags, access};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toolbooth_core::secret::SecretText;

/// What the system searches when an environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The system reads no more than this of a script's first line.
const FIRST_LINE_BYTES: usize = 256;

/// Where a command is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whereabouts<'a> {
    /// The working folder of the server.
    pub folder: &'a Path,
    /// `PATH` in the environment of the server.
    pub path: Option<&'a str>,
}

impl Whereabouts<'_> {
    /// The executable file that `command` means.
    pub fn find(&self, command: &SecretText) -> Result<PathBuf, LaunchError> {
        let file = self.file(command.expose(), command.shown())?;
        self.check_interpreter(&file, command.shown())?;
        Ok(file)
    }

    fn file(&self, command: &str, shown: &str) -> Result<PathBuf, LaunchError> {
        if command.contains('/') {
            let path = self.folder.join(command);
            return match standing(&path) {
                Standing::Runs => Ok(path),
                // The path may hold an expanded secret, so the fault shows what was written.
                Standing::Idle => Err(LaunchError::NotExecutable { path: shown.into() }),
                Standing::Absent => {
                    Err(LaunchError::CommandNotFound { command: shown.into(), searched: Vec::new() })
                }
            };
        }
        let searched: Vec<PathBuf> = std::env::split_paths(self.path.unwrap_or(DEFAULT_PATH))
            .map(|part| self.folder.join(part))
            .collect();
        let mut idle = None;
        for path in searched.iter().filter(|_| !command.is_empty()).map(|folder| folder.join(command)) {
            match standing(&path) {
                Standing::Runs => return Ok(path),
                Standing::Idle => idle = idle.or(Some(path)),
                Standing::Absent => {}
            }
        }
        Err(match idle {
            Some(path) => LaunchError::NotExecutable { path },
            None => LaunchError::CommandNotFound { command: shown.into(), searched },
        })
    }

    /// A missing interpreter looks to the system like a missing script, which sends people looking in the wrong place.
    fn check_interpreter(&self, file: &Path, shown: &str) -> Result<(), LaunchError> {
        let Some(interpreter) = first_line(file).as_deref().and_then(interpreter) else { return Ok(()) };
        let missing = match &interpreter {
            Interpreter::File(path) => matches!(standing(&self.folder.join(path)), Standing::Absent),
            Interpreter::InPath(name) => self.file(name, name).is_err(),
        };
        let (Interpreter::File(name) | Interpreter::InPath(name)) = interpreter;
        match missing {
            true => Err(LaunchError::InterpreterNotFound { command: shown.into(), interpreter: name }),
            false => Ok(()),
        }
    }
}

enum Standing {
    Runs,
    Idle,
    Absent,
}

fn standing(path: &Path) -> Standing {
    match path.metadata() {
        Err(_) => Standing::Absent,
        Ok(about) if about.is_file() && access(path, AccessFlags::X_OK).is_ok() => Standing::Runs,
        Ok(_) => Standing::Idle,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Interpreter {
    File(String),
    /// Named through `env`.
    InPath(String),
}

fn first_line(file: &Path) -> Option<String> {
    let mut start = Vec::with_capacity(FIRST_LINE_BYTES);
    File::open(file).ok()?.take(FIRST_LINE_BYTES as u64).read_to_end(&mut start).ok()?;
    let end = memchr::memchr(b'\n', &start)?;
    String::from_utf8(start[..end].to_vec()).ok()
}

fn interpreter(first_line: &str) -> Option<Interpreter> {
    let mut words = first_line.strip_prefix("#!")?.split_ascii_whitespace();
    let program = words.next()?;
    if !program.ends_with("/env") {
        return Some(Interpreter::File(program.into()));
    }
    let word = words.find(|word| *word != "-S" && !word.contains('='));
    // Any other option of `env` may change where it looks; then only running it can tell.
    match word {
        Some(name) if !name.starts_with('-') => Some(Interpreter::InPath(name.into())),
        _ => Some(Interpreter::File(program.into())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use toolbooth_core::fault::{Fault, Problem};

    fn folder_with(files: &[(&str, u32, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    #[test]
    fn commands_are_found_as_their_process_would_find_them() {
        let folder = folder_with(&[("a/tool", 0o644, ""), ("b/tool", 0o755, ""), ("run", 0o755, "")]);
        let path = format!("{0}/missing:{0}/a:b", folder.path().display());
        let places = Whereabouts { folder: folder.path(), path: Some(&path) };
        let cases = [("tool", "b/tool"), ("./run", "./run"), ("b/tool", "b/tool")];
        for (command, expected) in cases {
            assert_eq!(places.find(&SecretText::plain(command)).unwrap(), folder.path().join(expected));
        }
    }

    #[test]
    fn faults_say_what_and_what_next() {
        let folder = folder_with(&[
            ("idle", 0o644, ""),
            ("bad", 0o755, "#!/no/such/python3\n"),
            ("env-bad", 0o755, "#!/usr/bin/env -S no-such-node --flag\n"),
            ("env-odd", 0o755, "#!/usr/bin/env -i no-such-node\n"),
        ]);
        let path = folder.path().display().to_string();
        let places = Whereabouts { folder: folder.path(), path: Some(&path) };
        let cases = [
            ("nope", "server.command-not-found", "`nope` was not found", "install `nope`"),
            ("npx -y x", "server.command-not-found", "`npx -y x` was not found", "in `args`"),
            ("./nope", "server.command-not-found", "`./nope` was not found", "full path"),
            ("", "server.command-not-found", "`` was not found", "install"),
            ("./idle", "server.not-executable", "`./idle` is not executable", "chmod +x ./idle"),
            ("bad", "server.interpreter-not-found", "for `/no/such/python3`", "install `/no/such/python3`"),
            ("env-bad", "server.interpreter-not-found", "for `no-such-node`", "PATH"),
        ];
        for (command, code, message, hint) in cases {
            let error = places.find(&SecretText::plain(command)).unwrap_err();
            assert_eq!(error.code(), code, "{command}");
            let problem = Problem::of(&error);
            assert!(problem.message.contains(message), "{command}: {problem}");
            assert!(problem.hint.unwrap().contains(hint), "{command}");
        }
        assert!(places.find(&SecretText::plain("env-odd")).is_ok());
    }

    #[test]
    fn faults_show_templates_and_not_values() {
        let places = Whereabouts { folder: Path::new("/"), path: Some("/bin") };
        let error = places.find(&SecretText::expanded("${TOOL}", "hunter2")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
