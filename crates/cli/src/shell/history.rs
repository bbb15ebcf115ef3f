//! Lines that were typed before: in the data folder, for their owner alone, bounded, and without secrets.

use crate::render;
use nix::fcntl::OFlag;
use serde_json::value::RawValue;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use toolbooth_core::json::RawJson;
use toolbooth_core::redact;

/// How many lines are kept.
pub const MOST: usize = 1_000;
/// The longest line that is kept.
const LONGEST: usize = 4 << 10;
/// How much of the file is read, from its end.
const LONGEST_FILE: u64 = (2 * MOST * LONGEST) as u64;

/// The history of a user's shells.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    lines: Vec<String>,
    broken: bool,
}

impl History {
    /// The one of a data folder. What cannot be read of it is left out.
    pub fn of(data_dir: &Path) -> Self {
        let path = data_dir.join("shell-history");
        let Found { mut lines, rest } = read(&path).unwrap_or_default();
        let surplus = lines.len().saturating_sub(MOST);
        lines.drain(..surplus);
        if surplus > 0 || rest == Rest::Unread {
            let _ = replace(&path, &lines);
        }
        Self { path, lines, broken: false }
    }

    /// What was typed before, oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Keeps a line, if it is one to keep.
    pub fn keep(&mut self, line: &str) -> bool {
        if !is_keepable(line) || self.lines.last().is_some_and(|last| last == line) {
            return false;
        }
        self.lines.push(line.to_owned());
        if self.lines.len() > MOST {
            self.lines.remove(0);
        }
        let written = open(&self.path).and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let (Err(error), false) = (written, self.broken) {
            self.broken = true;
            let path = render::path(&self.path);
            render::complain(&format!("warning: the history is not kept: {path}: {error}\n"));
        }
        true
    }
}

/// What is in the file.
#[derive(Default)]
struct Found {
    lines: Vec<String>,
    rest: Rest,
}

/// What comes before what was read.
#[derive(Default, PartialEq)]
enum Rest {
    #[default]
    Nothing,
    /// More than is kept.
    Unread,
}

fn read(path: &Path) -> std::io::Result<Found> {
    let mut file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    let start = file.metadata()?.len().saturating_sub(LONGEST_FILE);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LONGEST_FILE).read_to_end(&mut bytes)?;
    // One bad byte must not cost all the lines.
    let text = String::from_utf8_lossy(&bytes);
    // A file that is cut is cut within a line.
    let (partial, rest) = if start > 0 { (1, Rest::Unread) } else { (0, Rest::Nothing) };
    let lines = text.lines().skip(partial).filter(|line| line.len() <= LONGEST);
    Ok(Found { lines: lines.map(str::to_owned).collect(), rest })
}

/// Puts other lines in the place of the file, all of them or none.
fn replace(path: &Path, lines: &[String]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // For its owner alone, as such files are made.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let whole = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    file.write_all(whole.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Opens the file to add to its end.
fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // A link there would have what is typed written to wherever it points.
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let file = options.open(path)?;
    // One that was there before may be open to others.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Whether a line may be read by whoever gets hold of the file later.
fn is_keepable(line: &str) -> bool {
    let is_blank = line.trim().is_empty();
    // As in other shells: who begins with a space wants it forgotten.
    let is_private = line.starts_with(' ') || line.trim_start().starts_with("/login");
    !is_blank && !is_private && line.len() <= LONGEST && !line.contains('\n') && !holds_secret(line)
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

/// Whether one of the objects and lists in a line holds a secret. Where one cannot be read, a word that could be the
/// name of a secret is enough: a slip is what one types again.
fn in_json(line: &str) -> bool {
    let mut rest = line;
    while let Some(at) = rest.find(['{', '[']) {
        let text = &rest[at..];
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let Some(Ok(value)) = values.next() else { return in_words(text) };
        if RawJson::parse(value.get().to_owned()).map_or(true, |json| redact::holds_secret(&json)) {
            return true;
        }
        rest = &text[value.get().len()..];
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
    fn secrets_are_not_kept() {
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
            assert_eq!(is_keepable(line), expected, "{line}");
        }
    }

    #[test]
    fn the_file_is_bounded_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data/shell-history");
        let mut history = History::of(&folder.path().join("data"));
        for number in 0..MOST + 5 {
            assert!(history.keep(&format!("/call n={number}")));
        }
        assert!(!history.keep("/call n=1004"), "the same twice in a row is one");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        let again = History::of(&folder.path().join("data"));
        assert_eq!((again.lines().len(), again.lines()[0].as_str()), (MOST, "/call n=5"));
        assert_eq!(read(&path).expect("it is there").lines.len(), MOST, "and is cut when it is read");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(folder.path().join("data")).expect("a folder").count(),
            1,
            "nothing else is left"
        );
    }

    // audit: planted history link followed.
    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("precious");
        fs::write(&target, "precious\n").expect("it is written");
        std::os::unix::fs::symlink(&target, folder.path().join("shell-history")).expect("a link");
        let mut history = History::of(folder.path());
        assert_eq!(history.lines(), Vec::<String>::new(), "what it points to is not read");
        history.keep("/mcp");
        assert_eq!(fs::read_to_string(&target).expect("it is there"), "precious\n", "nor written");
    }

    #[test]
    fn a_damaged_file_loses_no_more_than_it_must() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shell-history");
        fs::write(&path, b"/mcp\n/call a text=\xff\n/dlq\n").expect("it is written");
        assert_eq!(History::of(folder.path()).lines(), ["/mcp", "/call a text=\u{fffd}", "/dlq"]);
        let huge = usize::try_from(LONGEST_FILE).expect("it fits") + 10;
        fs::write(&path, ["x".repeat(huge).as_str(), "\n/mcp\n"].concat()).expect("it is written");
        assert_eq!(History::of(folder.path()).lines(), ["/mcp"]);
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "/mcp\n", "and does not grow for ever");
    }
}
