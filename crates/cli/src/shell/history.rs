//! Lines that were typed before: in the data folder, for their owner alone, bounded, and without secrets.

use crate::render;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use toolbooth_core::json::RawJson;
use toolbooth_core::redact;

/// How many lines are kept.
const MOST: usize = 1_000;
/// The longest line that is kept.
const LONGEST: usize = 4 << 10;
/// How much of the file is read; a longer one is not ours.
const LONGEST_FILE: u64 = (2 * MOST * LONGEST) as u64;

/// The history of a user's shells.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    lines: Vec<String>,
    broken: bool,
}

impl History {
    /// The one of a data folder. One that cannot be read is begun anew.
    pub fn of(data_dir: &Path) -> Self {
        let path = data_dir.join("shell-history");
        let mut lines = read(&path);
        if lines.len() > MOST {
            lines.drain(..lines.len() - MOST);
            let whole = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let _ = open(&path, Opening::Anew).and_then(|mut file| file.write_all(whole.as_bytes()));
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
        let written = open(&self.path, Opening::AtItsEnd)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let (Err(error), false) = (written, self.broken) {
            self.broken = true;
            let path = render::path(&self.path);
            render::complain(&format!("warning: the history is not kept: {path}: {error}\n"));
        }
        true
    }
}

fn read(path: &Path) -> Vec<String> {
    let mut text = String::new();
    let taken = File::open(path).and_then(|file| file.take(LONGEST_FILE).read_to_string(&mut text));
    match taken {
        Ok(_) => text.lines().filter(|line| line.len() <= LONGEST).map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    }
}

enum Opening {
    Anew,
    AtItsEnd,
}

fn open(path: &Path, opening: Opening) -> std::io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = OpenOptions::new();
    match opening {
        Opening::Anew => options.write(true).truncate(true),
        Opening::AtItsEnd => options.append(true),
    };
    let file = options.create(true).mode(0o600).open(path)?;
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
    let words = || line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let in_pair = |word: &str| {
        word.split_once('=')
            .is_some_and(|(key, value)| redact::is_secret(key, value.trim_matches(['"', '\''])))
    };
    let json = line.find('{').map(|at| &line[at..]);
    let in_json = |text: &str| {
        let whole = text.trim_end().trim_end_matches(['\'', '"']);
        RawJson::parse(whole.as_bytes().to_vec()).is_ok_and(|json| redact::holds_secret(&json))
    };
    words().any(|word| in_pair(word) || redact::is_secret("", word) || word == "--token")
        || json.is_some_and(in_json)
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
            ("use sk-12345 for it", false),
            ("/mcp --token abc", false),
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
        assert_eq!(read(&path).len(), MOST, "and is cut when it is read");
    }
}
