//! Findings: errors and warnings about a configuration, with their location and a hint.

use crate::node::Mark;
use crate::texts::{ON_COMMAND_LINE, Snippet, SourceLocation, SourceTexts};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault, Problem};

/// The hint for an invalid glob.
pub(crate) const GLOB_HINT: &str =
    "`*` matches any characters, `?` one character, `[ab]` and `{a,b}` one of several";

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A part of the configuration is invalid.
    Error,
    /// The configuration is valid, but probably not what was intended.
    Warning,
}

impl Severity {
    /// The word printed before a finding.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// An error in or a warning about a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// A stable code such as `config.unknown-key`.
    pub code: &'static str,
    /// One sentence that never contains a secret.
    pub message: String,
    /// The file, if the source is a file.
    pub file: Option<PathBuf>,
    /// The line, starting at one; zero means unknown.
    pub line: u32,
    /// The column in characters, starting at one.
    pub column: u32,
    /// The source if it is not a file, such as "variable `TOOLBOOTH_LISTEN`".
    pub via: Option<String>,
    /// The dotted key, such as `servers.fs.env.TOKEN`.
    pub key: Option<String>,
    /// A short text after the caret.
    #[serde(skip)]
    pub label: Option<String>,
    /// The line of the file.
    #[serde(skip)]
    pub snippet: Option<Snippet>,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Finding {
    /// Creates an error without a location.
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

    /// Creates a warning without a location.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the text after the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds the dotted key.
    #[must_use]
    pub fn about(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the file as the location, without a line.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn at(mut self, texts: &SourceTexts, mark: Mark) -> Self {
        let SourceLocation { file, line, column, via } = texts.location(mark);
        (self.file, self.line, self.column, self.via) = (file, line, column, via);
        self.snippet = texts.snippet(mark);
        self
    }

    /// The location.
    pub fn location(&self) -> SourceLocation {
        let Self { file, line, column, via, .. } = self;
        SourceLocation { file: file.clone(), line: *line, column: *column, via: via.clone() }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Whether the finding is about a `key=value` argument of the command line.
    pub(crate) fn is_on_command_line(&self) -> bool {
        self.via.as_deref().is_some_and(|via| via.ends_with(ON_COMMAND_LINE))
    }

    /// Converts the finding to a problem, which every interface can render.
    pub fn problem(&self) -> Problem {
        Problem::of(self)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.via) {
            (None, None) => f.write_str(&self.message),
            _ => write!(f, "{}: {}", self.location(), self.message),
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

/// Renders a finding for a terminal, with its line and a caret under the marked part.
pub fn render(finding: &Finding) -> String {
    let mut out =
        format!("{}[{}]: {}\n", finding.severity.as_str(), finding.code, printable(&finding.message));
    let placed = finding.file.is_some() || finding.via.is_some();
    if placed {
        let gutter = finding.line.to_string().len();
        // Findings about manifests have JSON pointers as keys, which programs can resolve.
        let pointer = finding.key.as_deref().filter(|key| key.starts_with('/'));
        let pointer = pointer.map(|pointer| format!("  at {}", printable(pointer))).unwrap_or_default();
        out.push_str(&format!("{:gutter$}--> {}{pointer}\n", "", finding.location()));
        if let Some(snippet) = &finding.snippet {
            draw(&mut out, finding, snippet, gutter);
        }
    }
    // Do not repeat the text after the caret.
    let is_label = finding.snippet.is_some() && finding.label == finding.hint;
    if let Some(hint) = finding.hint.as_ref().filter(|_| !is_label) {
        out.push_str(&format!("hint: {}\n", printable(hint)));
    }
    out
}

/// Renders a finding without the line of the file, which may contain a secret, for readers of a running gateway.
pub fn render_without_line(finding: &Finding) -> String {
    render(&Finding { snippet: None, ..finding.clone() })
}

/// The maximum number of characters shown of a line; a longer line is cut around the marked part.
const LINE_WIDTH: usize = 120;

fn draw(out: &mut String, finding: &Finding, snippet: &Snippet, gutter: usize) {
    let skip = snippet.before.saturating_sub(LINE_WIDTH / 2);
    let line: String = snippet.line.chars().skip(skip).take(LINE_WIDTH).map(without_control).collect();
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

/// Replaces characters that could control the terminal: the content of files is not trusted.
fn without_control(character: char) -> char {
    match character {
        '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        character if character.is_control() => '\u{fffd}',
        character => character,
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { without_control(c) }).collect()
}
