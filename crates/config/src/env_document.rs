//! An environment file whose variables a command changes. Comments and other lines stay as they are.

use crate::finding::Finding;
use crate::parse::dotenv;
use crate::texts::SourceTexts;
use std::path::Path;

/// The lines of an environment file.
#[derive(Clone, Default)]
pub struct EnvDocument {
    lines: Vec<EnvLine>,
}

/// One line, with the variable that it sets.
#[derive(Clone)]
struct EnvLine {
    text: String,
    variable: Option<(String, String)>,
}

impl std::fmt::Debug for EnvDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The values may be secrets.
        f.debug_list().entries(self.variables().map(|(name, _)| name)).finish()
    }
}

impl EnvDocument {
    /// Parses a file; the first invalid line is the error.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Box<Finding>> {
        dotenv::parse(&mut SourceTexts::default(), path, bytes)?;
        let Ok(text) = std::str::from_utf8(bytes) else {
            let finding = Finding::error("config.env-file", "the env file is not UTF-8 text").in_file(path);
            return Err(Box::new(finding));
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let line = |text: &str| EnvLine {
            text: text.to_owned(),
            variable: dotenv::assignment(text.trim()).ok().flatten(),
        };
        Ok(Self { lines: text.lines().map(line).collect() })
    }

    /// The variables with their values as written, in the order of the file. If a name is repeated, the last value counts.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().enumerate().filter_map(|(place, line)| {
            let (name, value) = line.variable.as_ref()?;
            let is_last = !self.lines[place + 1..].iter().any(|later| later.sets(name));
            is_last.then_some((name.as_str(), value.as_str()))
        })
    }

    /// Sets a variable in the line that has it, or in a new one.
    pub fn set(&mut self, name: &str, value: &str) {
        let variable = Some((name.to_owned(), value.to_owned()));
        let line = EnvLine { text: dotenv::line(name, value), variable };
        let place = self.lines.iter().position(|line| line.sets(name));
        self.remove(name);
        self.lines.insert(place.unwrap_or(self.lines.len()), line);
    }

    /// Removes a variable; false if the file does not have it.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| !line.sets(name));
        self.lines.len() < before
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }
}

impl EnvLine {
    fn sets(&self, name: &str) -> bool {
        self.variable.as_ref().is_some_and(|(own, _)| own == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_stay_as_they_are() {
        let text = "# mine\nA=1\nexport B = 'x' \n\nA=\"2\"\n";
        let mut document = EnvDocument::parse(Path::new("x.env"), text.as_bytes()).expect("valid");
        assert_eq!(document.text(), text);
        assert_eq!(document.variables().collect::<Vec<_>>(), [("B", "x"), ("A", "2")]);
        document.set("A", "two words # \"quoted\"\n\\");
        document.set("C", "sealed:v1:Ab-_9");
        let expected =
            "# mine\nA=\"two words # \\\"quoted\\\"\\n\\\\\"\nexport B = 'x' \n\nC=sealed:v1:Ab-_9\n";
        assert_eq!(document.text(), expected);
        let again = EnvDocument::parse(Path::new("x.env"), expected.as_bytes()).expect("valid");
        assert_eq!(again.variables().next(), Some(("A", "two words # \"quoted\"\n\\")));
        assert!(document.remove("B") && !document.remove("B"));
        assert_eq!(format!("{document:?}"), "[\"A\", \"C\"]");
    }
}
