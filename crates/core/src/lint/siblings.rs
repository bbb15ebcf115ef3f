//! Finds tools of one server with the same description: a model cannot choose between them.

use super::names::SimilarNames;
use std::collections::HashMap;

/// Minimum number of words of a description that is compared; shorter ones are often equal by chance.
const FEWEST_WORDS: usize = 3;

/// Descriptions and names of other tools, for lookups.
#[derive(Debug, Default)]
pub struct Siblings {
    /// For a server and a wording the first two tools that use it: one may be the tool that is linted.
    wordings: HashMap<(String, String), (String, Option<String>)>,
    /// The names of all tools, of any server.
    names: SimilarNames,
}

impl Siblings {
    /// Adds a tool.
    pub fn add(&mut self, server: &str, name: &str, description: &str) {
        self.names.add(name);
        let Some(wording) = wording(description) else { return };
        let known =
            self.wordings.entry((server.to_owned(), wording)).or_insert_with(|| (name.to_owned(), None));
        if known.0 != name && known.1.is_none() {
            known.1 = Some(name.to_owned());
        }
    }

    /// Another tool, of any server, whose name looks the same.
    pub fn like(&self, name: &str) -> Option<&str> {
        self.names.like(name)
    }

    /// Another tool with the same description.
    pub fn with_same_description(&self, server: &str, name: &str, description: &str) -> Option<&str> {
        let (first, second) = self.wordings.get(&(server.to_owned(), wording(description)?))?;
        if first == name { second.as_deref() } else { Some(first) }
    }
}

/// The words of a description; `None` if there are too few.
fn wording(description: &str) -> Option<String> {
    let words: Vec<String> = words(description).collect();
    (words.len() >= FEWEST_WORDS).then(|| words.join(" "))
}

/// The words of a text, in lower case.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_descriptions_are_found_within_a_server() {
        let mut siblings = Siblings::default();
        let all = [
            ("s", "a", "Reads one file."),
            ("s", "b", "reads ONE file"),
            ("s", "c", "Reads two files."),
            ("s", "d", "Ping."),
            ("s", "e", "Ping."),
            ("t", "a", "Reads one file."),
        ];
        all.iter().for_each(|(server, name, text)| siblings.add(server, name, text));
        let twins: Vec<_> = all
            .iter()
            .map(|(server, name, text)| siblings.with_same_description(server, name, text))
            .collect();
        assert_eq!(twins, [Some("b"), Some("a"), None, None, None, None]);
    }
}
