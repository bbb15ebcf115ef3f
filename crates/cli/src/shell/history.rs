//! The history of the shell: in the data directory, readable only by its owner, limited, and without secrets.

use crate::render;
use nix::fcntl::OFlag;
use serde_json::value::RawValue;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use toolbooth_core::json::RawJson;
use toolbooth_core::redact;

/// The maximum number of lines.
pub const MAX_LINES: usize = 1_000;
/// The longest stored line.
const MAX_LINE: usize = 4 << 10;
/// The maximum number of bytes that are read from the end of the file.
const MAX_FILE: u64 = (2 * MAX_LINES * MAX_LINE) as u64;

/// The history of a user's shells.
#[derive(Debug)]
pub struct ShellHistory {
    path: PathBuf,
    lines: Vec<String>,
    broken: bool,
}

impl ShellHistory {
    /// Loads the history of a data directory. Unreadable parts are ignored.
    pub fn of(data_dir: &Path) -> Self {
        let path = data_dir.join("shell-history");
        let HistoryFile { mut lines, remainder } = read(&path).unwrap_or_default();
        let surplus = lines.len().saturating_sub(MAX_LINES);
        lines.drain(..surplus);
        if surplus > 0 || remainder == Remainder::Unread {
            let _ = replace(&path, &lines);
        }
        Self { path, lines, broken: false }
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Stores a line unless it is empty, private or a repetition. Returns whether it was stored.
    pub fn add(&mut self, line: &str) -> bool {
        if !is_storable(line) || self.lines.last().is_some_and(|last| last == line) {
            return false;
        }
        self.lines.push(line.to_owned());
        if self.lines.len() > MAX_LINES {
            self.lines.remove(0);
        }
        let written = open(&self.path).and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let (Err(error), false) = (written, self.broken) {
            self.broken = true;
            let path = render::path(&self.path);
            render::complain(&format!("warning: the history cannot be stored: {path}: {error}\n"));
        }
        true
    }
}

/// The content of the history file.
#[derive(Default)]
struct HistoryFile {
    lines: Vec<String>,
    remainder: Remainder,
}

/// Whether the file has more before the part that was read.
#[derive(Default, PartialEq)]
enum Remainder {
    #[default]
    Nothing,
    /// There is an unread part.
    Unread,
}

fn read(path: &Path) -> std::io::Result<HistoryFile> {
    let mut file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    let start = file.metadata()?.len().saturating_sub(MAX_FILE);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    // An invalid byte must not lose all lines.
    let text = String::from_utf8_lossy(&bytes);
    // A partial read usually starts in the middle of a line.
    let (partial, remainder) = if start > 0 { (1, Remainder::Unread) } else { (0, Remainder::Nothing) };
    let lines = text.lines().skip(partial).filter(|line| line.len() <= MAX_LINE);
    Ok(HistoryFile { lines: lines.map(str::to_owned).collect(), remainder })
}

/// Replaces the file atomically.
fn replace(path: &Path, lines: &[String]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Temporary files are readable only by their owner.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let whole = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    file.write_all(whole.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Opens the file for appending.
fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Links are not followed, because the history would be written to their target.
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let file = options.open(path)?;
    // An existing file may be readable by others.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Whether a line may be stored.
fn is_storable(line: &str) -> bool {
    let is_blank = line.trim().is_empty();
    // As in other shells, a line that begins with a space is not stored.
    let is_private = line.starts_with(' ') || line.trim_start().starts_with("/login");
    !is_blank && !is_private && line.len() <= MAX_LINE && !line.contains('\n') && !holds_secret(line)
}

fn holds_secret(line: &str) -> bool {
    let mut words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let in_pair = |word: &str| {
        word.split_once('=')
            .is_some_and(|(key, value)| redact::is_secret(key, value.trim_matches(['"', '\''])))
    };
    let is_option = |word: &str| word.starts_with("--") && redact::is_secret(word, "");
    words.any(|word| in_pair(word) || is_option(word) || redact::is_secret("", word)) || in_json(line)
}

/// Whether an object or list in a line contains a secret. If it is not valid JSON, a word that may be the name of a
/// secret is enough.
fn in_json(line: &str) -> bool {
    let mut remainder = line;
    while let Some(at) = remainder.find(['{', '[']) {
        let text = &remainder[at..];
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let Some(Ok(value)) = values.next() else { return in_words(text) };
        if RawJson::parse(value.get().to_owned()).map_or(true, |json| redact::holds_secret(&json)) {
            return true;
        }
        remainder = &text[value.get().len()..];
    }
    false
}

fn in_words(text: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    text.split(|letter| !is_part(letter)).any(|word| redact::is_secret(word, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_stored() {
        let cases = [
            ("/call mail_send to=bo", true),
            ("what is the weather", true),
            ("", false),
            ("   ", false),
            (" /call mail_send to=bo", false),
            ("/login", false),
            ("/login tb_abc", false),
            ("/call vault_open password=hunter2", false),
            ("/call vault_open \"api_key=x y\"", false),
            ("/call vault_open {\"deep\": {\"token\": \"x\"}}", false),
            ("/call vault_open --args '{\"secret\": \"x\"}'", false),
            ("/call vault_open {\"deep\": {\"name\": \"x\"}}", true),
            ("/call vault_open --args '{\"password\":\"hunter2\"}' --yes", false),
            ("/call vault_open {\"password\":\"hunter2\"} --json", false),
            ("/call vault_open {\"password\":\"hunter2\"", false),
            ("/call vault_open {\"deep\": {password: \"hunter2\"}}", false),
            ("/call vault_open --args \"{\\\"password\\\": \\\"x\\\"}\"", false),
            ("/call vault_open tags=[1] more={\"password\":\"hunter2\"}", false),
            ("/call vault_open [{\"cvv\": 123}", false),
            ("/call vault_open {\"name\":\"x\"} --yes", true),
            ("/call vault_open {\"name\":\"x\"", true),
            ("what does {x} mean", true),
            ("use sk-12345 for it", false),
            ("/mcp --token abc", false),
            ("toolbooth login --api-key abc", false),
        ];
        for (line, expected) in cases {
            assert_eq!(is_storable(line), expected, "{line}");
        }
    }

    #[test]
    fn the_file_is_limited_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data/shell-history");
        let mut history = ShellHistory::of(&folder.path().join("data"));
        for number in 0..MAX_LINES + 5 {
            assert!(history.add(&format!("/call n={number}")));
        }
        assert!(!history.add("/call n=1004"), "a repeated line is stored once");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        let again = ShellHistory::of(&folder.path().join("data"));
        assert_eq!((again.lines().len(), again.lines()[0].as_str()), (MAX_LINES, "/call n=5"));
        assert_eq!(
            read(&path).expect("the file exists").lines.len(),
            MAX_LINES,
            "the file is trimmed on load"
        );
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(folder.path().join("data")).expect("a folder").count(),
            1,
            "no other file is left"
        );
    }

    // audit: planted history link followed.
    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("precious");
        fs::write(&target, "precious\n").expect("it is written");
        std::os::unix::fs::symlink(&target, folder.path().join("shell-history")).expect("a link");
        let mut history = ShellHistory::of(folder.path());
        assert_eq!(history.lines(), Vec::<String>::new(), "the target is not read");
        history.add("/mcp");
        assert_eq!(fs::read_to_string(&target).expect("the file exists"), "precious\n", "nor written");
    }

    #[test]
    fn a_damaged_file_loses_only_the_damaged_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shell-history");
        fs::write(&path, b"/mcp\n/call a text=\xff\n/dlq\n").expect("it is written");
        assert_eq!(ShellHistory::of(folder.path()).lines(), ["/mcp", "/call a text=\u{fffd}", "/dlq"]);
        let huge = usize::try_from(MAX_FILE).expect("it fits") + 10;
        fs::write(&path, ["x".repeat(huge).as_str(), "\n/mcp\n"].concat()).expect("it is written");
        assert_eq!(ShellHistory::of(folder.path()).lines(), ["/mcp"]);
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), "/mcp\n", "the file is trimmed");
    }
}
