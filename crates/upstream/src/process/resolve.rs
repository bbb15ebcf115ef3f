//! Finds the file of a command as the server's own process would, so that errors can be specific.

use super::fault::LaunchError;
use nix::unistd::{AccessFlags, access};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toolbooth_core::secret::SecretText;

/// The default search path of the system if an environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The system reads at most this much of a script's first line.
const FIRST_LINE_BYTES: usize = 256;

/// Where to search for a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandSearch<'a> {
    /// The working folder of the server.
    pub folder: &'a Path,
    /// `PATH` in the environment of the server.
    pub path: Option<&'a str>,
}

impl CommandSearch<'_> {
    /// The executable file of `command`.
    pub fn find(&self, command: &SecretText) -> Result<PathBuf, LaunchError> {
        let file = self.file(command.expose(), command.shown())?;
        self.check_interpreter(&file, command.shown())?;
        Ok(file)
    }

    fn file(&self, command: &str, shown: &str) -> Result<PathBuf, LaunchError> {
        if command.contains('/') {
            let path = self.folder.join(command);
            return match file_status(&path) {
                FileStatus::Executable => Ok(path),
                // The path may contain an expanded secret, so the error shows the text as written.
                FileStatus::NotExecutable => Err(LaunchError::NotExecutable { path: shown.into() }),
                FileStatus::Missing => {
                    Err(LaunchError::CommandNotFound { command: shown.into(), searched: Vec::new() })
                }
            };
        }
        let searched: Vec<PathBuf> = std::env::split_paths(self.path.unwrap_or(DEFAULT_PATH))
            .map(|part| self.folder.join(part))
            .collect();
        let mut idle = None;
        for path in searched.iter().filter(|_| !command.is_empty()).map(|folder| folder.join(command)) {
            match file_status(&path) {
                FileStatus::Executable => return Ok(path),
                FileStatus::NotExecutable => idle = idle.or(Some(path)),
                FileStatus::Missing => {}
            }
        }
        Err(match idle {
            Some(path) => LaunchError::NotExecutable { path },
            None => LaunchError::CommandNotFound { command: shown.into(), searched },
        })
    }

    /// Reports a missing interpreter, which the system reports as a missing script.
    fn check_interpreter(&self, file: &Path, shown: &str) -> Result<(), LaunchError> {
        let Some(interpreter) = first_line(file).as_deref().and_then(interpreter) else { return Ok(()) };
        let missing = match &interpreter {
            Interpreter::File(path) => matches!(file_status(&self.folder.join(path)), FileStatus::Missing),
            Interpreter::InPath(name) => self.file(name, name).is_err(),
        };
        let (Interpreter::File(name) | Interpreter::InPath(name)) = interpreter;
        match missing {
            true => Err(LaunchError::InterpreterNotFound { command: shown.into(), interpreter: name }),
            false => Ok(()),
        }
    }
}

enum FileStatus {
    Executable,
    NotExecutable,
    Missing,
}

fn file_status(path: &Path) -> FileStatus {
    match path.metadata() {
        Err(_) => FileStatus::Missing,
        Ok(about) if about.is_file() && access(path, AccessFlags::X_OK).is_ok() => FileStatus::Executable,
        Ok(_) => FileStatus::NotExecutable,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Interpreter {
    File(String),
    /// Given through `env`.
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
    // Other options of `env` may change where it searches; then only running it can tell.
    match word {
        Some(name) if !name.starts_with('-') => Some(Interpreter::InPath(name.into())),
        _ => Some(Interpreter::File(program.into())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
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
    fn commands_are_found_like_execvp_would() {
        let folder = folder_with(&[("a/tool", 0o644, ""), ("b/tool", 0o755, ""), ("run", 0o755, "")]);
        let path = format!("{0}/missing:{0}/a:b", folder.path().display());
        let places = CommandSearch { folder: folder.path(), path: Some(&path) };
        let cases = [("tool", "b/tool"), ("./run", "./run"), ("b/tool", "b/tool")];
        for (command, expected) in cases {
            assert_eq!(places.find(&SecretText::plain(command)).unwrap(), folder.path().join(expected));
        }
    }

    #[test]
    fn faults_have_a_message_and_a_hint() {
        let folder = folder_with(&[
            ("idle", 0o644, ""),
            ("bad", 0o755, "#!/no/such/python3\n"),
            ("env-bad", 0o755, "#!/usr/bin/env -S no-such-node --flag\n"),
            ("env-odd", 0o755, "#!/usr/bin/env -i no-such-node\n"),
        ]);
        let path = folder.path().display().to_string();
        let places = CommandSearch { folder: folder.path(), path: Some(&path) };
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
        let places = CommandSearch { folder: Path::new("/"), path: Some("/bin") };
        let error = places.find(&SecretText::expanded("${TOOL}", "hunter2")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
