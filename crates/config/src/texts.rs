//! The source texts of a load, which turn a mark into file, line and column.

use crate::node::{Mark, TextId};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The source of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextName {
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A `key=value` of the command line.
    Argument(String),
}

/// The location of a value or a finding. Lines and columns start at one; zero means unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SourceLocation {
    /// The file, if the source is a file.
    pub file: Option<PathBuf>,
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
    /// The source if it is not a file, such as "variable `TOOLBOOTH_LISTEN`".
    pub via: Option<String>,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.via) {
            (Some(file), _) if self.line > 0 => write!(f, "{}:{}:{}", file.display(), self.line, self.column),
            (Some(file), _) => write!(f, "{}", file.display()),
            (None, Some(via)) => f.write_str(via),
            (None, None) => f.write_str("(built in)"),
        }
    }
}

/// The file in the text of a location, which ends in line and column.
pub(crate) fn file_of(location: &str) -> &str {
    location.rsplitn(3, ':').nth(2).unwrap_or(location)
}

/// The line of a file that a finding is about. It may contain literal secrets, so it is printed on a terminal only.
#[derive(Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The whole line.
    pub line: String,
    /// The number of characters before the marked part.
    pub before: usize,
    /// The number of characters in the marked part, at least one.
    pub width: usize,
}

impl fmt::Debug for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snippet")
            .field("before", &self.before)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}

/// The end of the location of an argument.
pub(crate) const ON_COMMAND_LINE: &str = " on the command line";

#[derive(Clone)]
struct SourceText {
    name: TextName,
    text: Arc<str>,
}

/// All source texts of one load.
#[derive(Clone, Default)]
pub struct SourceTexts {
    entries: Vec<SourceText>,
}

impl fmt::Debug for SourceTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The texts may contain literal secrets.
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.name)).finish()
    }
}

impl SourceTexts {
    /// Adds a text.
    pub fn add(&mut self, name: TextName, text: impl Into<Arc<str>>) -> TextId {
        self.entries.push(SourceText { name, text: text.into() });
        TextId(u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX))
    }

    /// The source of a text.
    pub fn name(&self, id: TextId) -> Option<&TextName> {
        self.entries.get(id.0 as usize).map(|entry| &entry.name)
    }

    /// The file of a mark, if its source is a file.
    pub fn file(&self, mark: Mark) -> Option<&Path> {
        match self.name(mark.text)? {
            TextName::File(path) => Some(path),
            TextName::Variable(_) | TextName::Argument(_) => None,
        }
    }

    /// The folder that relative paths written at `mark` start from.
    pub fn folder(&self, mark: Mark) -> Option<&Path> {
        self.file(mark)?.parent()
    }

    /// The location of a mark. Lines and columns start at one; columns count characters.
    pub fn location(&self, mark: Mark) -> SourceLocation {
        let Some(entry) = self.entries.get(mark.text.0 as usize) else { return SourceLocation::default() };
        match &entry.name {
            TextName::File(path) => {
                let (line, column) = line_and_column(&entry.text, mark.start as usize);
                SourceLocation { file: Some(path.clone()), line, column, via: None }
            }
            TextName::Variable(name) => {
                SourceLocation { via: Some(format!("variable `{name}`")), ..SourceLocation::default() }
            }
            TextName::Argument(name) => SourceLocation {
                via: Some(format!("`{name}`{ON_COMMAND_LINE}")),
                ..SourceLocation::default()
            },
        }
    }

    /// The line that contains a mark, for printing with a caret.
    pub fn snippet(&self, mark: Mark) -> Option<Snippet> {
        let entry = self.entries.get(mark.text.0 as usize)?;
        if !matches!(entry.name, TextName::File(_)) {
            return None;
        }
        let text = &entry.text;
        let start = floor_boundary(text, mark.start as usize);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor_boundary(text, (mark.end as usize).clamp(start, line_end));
        Some(Snippet {
            line: text[line_start..line_end].trim_end_matches('\r').to_owned(),
            before: text[line_start..start].chars().count(),
            width: text[start..end.max(start)].trim_end_matches('\r').chars().count().max(1),
        })
    }
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let before = &text[..floor_boundary(text, offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let lines = before.bytes().filter(|byte| *byte == b'\n').count();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
    (count(lines), count(before[line_start..].chars().count()))
}
