//! Findings: what is wrong in a configuration, where it stands, and what to write instead.

use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault, Problem};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something does not work as written.
    Error,
    /// It works, but probably not as meant.
    Warning,
}

impl Severity {
    /// The word in front of a finding.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Where something is written. Lines and columns count from one; zero means unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file, unless it was not in a file.
    pub file: Option<PathBuf>,
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
    /// What it was instead of a file, such as "variable `TOOLBOOTH_LISTEN`".
    pub via: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.via) {
            (Some(file), _) if self.line > 0 => write!(f, "{}:{}:{}", file.display(), self.line, self.column),
            (Some(file), _) => write!(f, "{}", file.display()),
            (None, Some(via)) => f.write_str(via),
            (None, None) => f.write_str("(built in)"),
        }
    }
}

/// The line of a file that a finding is about. It may hold literal secrets, so it is drawn on a terminal only.
#[derive(Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The whole line.
    pub line: String,
    /// Characters before the marked part.
    pub before: usize,
    /// Characters in the marked part, at least one.
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

/// One thing that is wrong, or probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// A stable code such as `config.unknown-key`.
    pub code: &'static str,
    /// One sentence; never holds a secret.
    pub message: String,
    /// The file it stands in, unless it was not in a file.
    pub file: Option<PathBuf>,
    /// The line, from one; zero means unknown.
    pub line: u32,
    /// The column in characters, from one.
    pub column: u32,
    /// What it stands in instead of a file, such as "variable `TOOLBOOTH_LISTEN`".
    pub via: Option<String>,
    /// The dotted key it is about, such as `servers.fs.env.TOKEN`.
    pub key: Option<String>,
    /// A few words under the caret.
    #[serde(skip)]
    pub label: Option<String>,
    /// The line itself.
    #[serde(skip)]
    pub snippet: Option<Snippet>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    /// An error without a place.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            file: None,
            line: 0,
            column: 0,
            via: None,
            key: None,
            label: None,
            snippet: None,
            hint: None,
        }
    }

    /// A warning without a place.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the words under the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds the dotted key it is about.
    #[must_use]
    pub fn about(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a file as its place, when no line is known.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Adds where it stands.
    #[must_use]
    pub fn at(mut self, texts: &crate::texts::Texts, mark: crate::node::Mark) -> Self {
        let Place { file, line, column, via } = texts.place(mark);
        (self.file, self.line, self.column, self.via) = (file, line, column, via);
        self.snippet = texts.snippet(mark);
        self
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        let Self { file, line, column, via, .. } = self;
        Place { file: file.clone(), line: *line, column: *column, via: via.clone() }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Whether it is about a `key=value` of the command line.
    pub(crate) fn is_on_command_line(&self) -> bool {
        self.via.as_deref().is_some_and(|via| via.ends_with(crate::texts::ON_COMMAND_LINE))
    }

    /// The same as a problem that can travel to any door.
    pub fn problem(&self) -> Problem {
        Problem::of(self)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.via) {
            (None, None) => f.write_str(&self.message),
            _ => write!(f, "{}: {}", self.place(), self.message),
        }
    }
}

impl std::error::Error for Finding {}

impl Fault for Finding {
    fn code(&self) -> &'static str {
        self.code
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Draws a finding for a terminal, with its line and a caret under the part it is about.
pub fn render(finding: &Finding) -> String {
    let mut out =
        format!("{}[{}]: {}\n", finding.severity.as_str(), finding.code, printable(&finding.message));
    let placed = finding.file.is_some() || finding.via.is_some();
    if placed {
        let gutter = finding.line.to_string().len();
        // Manifests are told of by JSON pointers, which programs can follow as well.
        let pointer = finding.key.as_deref().filter(|key| key.starts_with('/'));
        let pointer = pointer.map(|pointer| format!("  at {}", printable(pointer))).unwrap_or_default();
        out.push_str(&format!("{:gutter$}--> {}{pointer}\n", "", finding.place()));
        if let Some(snippet) = &finding.snippet {
            draw(&mut out, finding, snippet, gutter);
        }
    }
    // What stands under the caret need not be said again.
    let said = finding.snippet.is_some() && finding.label == finding.hint;
    if let Some(hint) = finding.hint.as_ref().filter(|_| !said) {
        out.push_str(&format!("hint: {}\n", printable(hint)));
    }
    out
}

/// A long line is shown around the marked part only.
const LINE_WIDTH: usize = 120;

fn draw(out: &mut String, finding: &Finding, snippet: &Snippet, gutter: usize) {
    let skip = snippet.before.saturating_sub(LINE_WIDTH / 2);
    let line: String = snippet.line.chars().skip(skip).take(LINE_WIDTH).map(tame).collect();
    let before = snippet.before - skip;
    let width = snippet.width.min(LINE_WIDTH.saturating_sub(before)).max(1);
    let label = finding.label.as_deref().map(printable).unwrap_or_default();
    out.push_str(&format!("{:gutter$} |\n", ""));
    out.push_str(format!("{} | {line}", finding.line).trim_end());
    out.push('\n');
    let caret = format!("{:gutter$} | {:before$}{} {label}", "", "", "^".repeat(width));
    out.push_str(caret.trim_end());
    out.push('\n');
}

/// Files are somebody else's text: what could move the cursor is replaced.
fn tame(character: char) -> char {
    match character {
        '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        character if character.is_control() => '\u{fffd}',
        character => character,
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { tame(c) }).collect()
}
