//! Colours: only on a terminal, and not where they are not wanted.

use std::io::IsTerminal;

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// It is.
    Always,
    /// It is not.
    Never,
}

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// It works.
    Good,
    /// It does not.
    Bad,
    /// Look at it.
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

    /// Text in a tone.
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
