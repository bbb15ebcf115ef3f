//! Colours: only on a terminal, and not with `NO_COLOR` or `TERM=dumb`.

use std::io::IsTerminal;

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Coloured.
    Always,
    /// Plain.
    Never,
}

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Success.
    Good,
    /// Failure.
    Bad,
    /// Needs attention.
    Warn,
    /// Less important than the rest.
    Dim,
    /// More important than the rest.
    Strong,
}

impl Paint {
    /// For standard output.
    pub fn stdout() -> Self {
        Self::on(std::io::stdout().is_terminal())
    }

    /// For standard error.
    pub fn stderr() -> Self {
        Self::on(std::io::stderr().is_terminal())
    }

    fn on(terminal: bool) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if terminal && !unwanted && !dumb { Self::Always } else { Self::Never }
    }

    /// Colours a text.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        if self == Self::Never || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Warn => "33",
            Tone::Dim => "2",
            Tone::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
