//! Tools of one server that say the same of themselves: a model cannot choose between them.

use super::names::Looks;
use std::collections::HashMap;

/// Fewer words than this are alike by chance.
const FEWEST_WORDS: usize = 3;

/// What tools of the same servers say, to be looked up.
#[derive(Debug, Default)]
pub struct Siblings {
    /// For a server and a wording, the first tools that use it: one may be the tool that asks.
    said: HashMap<(String, String), (String, Option<String>)>,
    /// The names of all tools, whatever their server.
    looks: Looks,
}

impl Siblings {
    /// Notes a tool.
    pub fn note(&mut self, server: &str, name: &str, description: &str) {
        self.looks.note(name);
        let Some(wording) = wording(description) else { return };
        let known = self.said.entry((server.to_owned(), wording)).or_insert_with(|| (name.to_owned(), None));
        if known.0 != name && known.1.is_none() {
            known.1 = Some(name.to_owned());
        }
    }

    /// Another tool, of any server, whose name looks the same.
    pub fn like(&self, name: &str) -> Option<&str> {
        self.looks.like(name)
    }

    /// Another tool that says the same.
    pub fn twin(&self, server: &str, name: &str, description: &str) -> Option<&str> {
        let (first, second) = self.said.get(&(server.to_owned(), wording(description)?))?;
        if first == name { second.as_deref() } else { Some(first) }
    }
}

/// A description by its words alone.
fn wording(description: &str) -> Option<String> {
    let words: Vec<String> = words(description).collect();
    (words.len() >= FEWEST_WORDS).then(|| words.join(" "))
}

/// The words of a text, in small letters.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_are_found_within_a_server() {
        let mut siblings = Siblings::default();
        let all = [
            ("s", "a", "Reads one file."),
            ("s", "b", "reads ONE file"),
            ("s", "c", "Reads two files."),
            ("s", "d", "Ping."),
            ("s", "e", "Ping."),
            ("t", "a", "Reads one file."),
        ];
        all.iter().for_each(|(server, name, text)| siblings.note(server, name, text));
        let twins: Vec<_> =
            all.iter().map(|(server, name, text)| siblings.twin(server, name, text)).collect();
        assert_eq!(twins, [Some("b"), Some("a"), None, None, None, None]);
    }
}
