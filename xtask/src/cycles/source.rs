//! Reads what one file defines and imports. Items for tests only are skipped.

use super::lexeme::{Lexeme, lexemes};
use std::collections::BTreeSet;

/// The definitions and imports of a file.
#[derive(Debug, Default)]
pub struct ModuleSource {
    /// Items and inline modules.
    pub defined: BTreeSet<String>,
    pub imports: Vec<ImportedPath>,
    /// Modules that are declared for tests only.
    pub test_modules: BTreeSet<String>,
}

/// A path in a `use` item or in an expression, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedPath {
    pub path: Vec<String>,
    /// The name that a `use` item gives it; none for a glob and in an expression.
    pub name: Option<String>,
    pub is_glob: bool,
    /// The number of inline modules around it.
    pub depth: usize,
    pub line: usize,
}

/// Reads a file.
pub fn read(text: &str) -> ModuleSource {
    let mut reader =
        SourceReader { lexemes: lexemes(text), at: 0, inline: Vec::new(), found: ModuleSource::default() };
    reader.items();
    reader.found
}

struct SourceReader<'a> {
    lexemes: Vec<Lexeme<'a>>,
    at: usize,
    /// The depth of braces in each inline module around the position.
    inline: Vec<usize>,
    found: ModuleSource,
}

impl SourceReader<'_> {
    fn text(&self, offset: usize) -> &str {
        self.lexemes.get(self.at + offset).map_or("", |lexeme| lexeme.text)
    }

    fn word(&self, offset: usize) -> Option<String> {
        self.lexemes
            .get(self.at + offset)
            .filter(|lexeme| lexeme.is_word())
            .map(|lexeme| lexeme.text.to_owned())
    }

    fn line(&self) -> usize {
        self.lexemes.get(self.at).map_or(0, |lexeme| lexeme.line)
    }

    fn items(&mut self) {
        let mut braces = 0;
        while self.at < self.lexemes.len() {
            let is_item = braces == self.inline.last().copied().unwrap_or(0);
            match self.text(0) {
                "{" => braces += 1,
                "}" => {
                    braces -= 1;
                    self.inline.retain(|depth| *depth <= braces);
                }
                "#" if self.is_test_attribute() => {
                    self.skip_test_item();
                    continue;
                }
                "pub" if self.text(1) == "(" => {
                    self.at += 1;
                    self.skip_group();
                    continue;
                }
                "use" if self.text(1) != "<" => {
                    self.at += 1;
                    self.use_tree(&mut Vec::new());
                    continue;
                }
                "mod" if self.text(2) == "{" => {
                    self.found.defined.extend(self.word(1));
                    braces += 1;
                    self.inline.push(braces);
                    self.at += 2;
                }
                "macro_rules" => self.found.defined.extend(self.word(2)),
                "struct" | "enum" | "trait" | "union" | "type" | "fn" | "const" | "static" if is_item => {
                    self.found.defined.extend(self.word(1));
                }
                "crate" | "self" | "super" if self.text(1) == "::" => {
                    self.inline_path();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Adds a path in an expression, a type or an attribute.
    fn inline_path(&mut self) {
        let (line, depth) = (self.line(), self.inline.len());
        let mut path: Vec<String> = self.word(0).into_iter().collect();
        self.at += 1;
        while let ("::", Some(part)) = (self.text(0), self.word(1)) {
            path.push(part);
            self.at += 2;
        }
        self.found.imports.push(ImportedPath { path, name: None, is_glob: false, depth, line });
    }

    /// Adds the paths of a tree such as `a::{b, c::*, d as e}`, after `prefix`.
    fn use_tree(&mut self, prefix: &mut Vec<String>) {
        let (start, line, depth) = (prefix.len(), self.line(), self.inline.len());
        let add = |found: &mut ModuleSource, path: &[String], name: Option<String>, is_glob: bool| {
            found.imports.push(ImportedPath { path: path.to_vec(), name, is_glob, depth, line });
        };
        while self.at < self.lexemes.len() {
            match self.text(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        self.use_tree(prefix);
                    }
                    self.at += 1;
                    prefix.truncate(start);
                }
                "*" => {
                    add(&mut self.found, prefix, None, true);
                    prefix.truncate(start);
                    self.at += 1;
                }
                "::" => self.at += 1,
                "as" => {
                    let name = self.word(1);
                    add(&mut self.found, prefix, name, false);
                    prefix.truncate(start);
                    self.at += 2;
                }
                ending @ ("," | ";" | "}") => {
                    let (is_inner, is_end) = (ending == "}", ending == ";");
                    if prefix.len() > start {
                        add(&mut self.found, prefix, prefix.last().cloned(), false);
                        prefix.truncate(start);
                    }
                    // The brace belongs to the group around this tree.
                    self.at += usize::from(!is_inner);
                    if is_inner || is_end || start > 0 {
                        return;
                    }
                }
                // `a::{self}` imports `a`.
                "self" if start > 0 => {
                    let name = if self.text(1) == "as" { self.word(2) } else { prefix.last().cloned() };
                    add(&mut self.found, prefix, name, false);
                    self.at += if self.text(1) == "as" { 3 } else { 1 };
                }
                _ => {
                    prefix.extend(self.word(0));
                    self.at += 1;
                }
            }
        }
    }

    /// Whether the position is at `#[cfg(test)]` or a condition that includes `test`.
    fn is_test_attribute(&self) -> bool {
        if self.text(1) != "[" || self.text(2) != "cfg" {
            return false;
        }
        let condition: Vec<&str> = self.lexemes[self.at..]
            .iter()
            .map(|lexeme| lexeme.text)
            .take_while(|text| *text != "]")
            .collect();
        condition.contains(&"test") && !condition.contains(&"not")
    }

    fn skip_test_item(&mut self) {
        while self.text(0) == "#" {
            self.at += 1;
            self.skip_group();
        }
        let is_use = self.text(0) == "use";
        while self.at < self.lexemes.len() {
            match self.text(0) {
                "mod" if self.text(2) == ";" => self.found.test_modules.extend(self.word(1)),
                ";" => {
                    self.at += 1;
                    return;
                }
                "(" | "[" => {
                    self.skip_group();
                    continue;
                }
                "{" => {
                    self.skip_group();
                    if is_use {
                        continue;
                    }
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Skips from an opening bracket to after its closing one.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.lexemes.len() {
            match self.text(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let show = |import: &ImportedPath| {
            let end = if import.is_glob { "::*" } else { "" };
            let path = format!("{}{end}", import.path.join("::"));
            match &import.name {
                Some(name) if import.path.last() != Some(name) => format!("{path} as {name}"),
                _ => path,
            }
        };
        read(text).imports.iter().map(show).collect()
    }

    #[test]
    fn imports_are_read_from_use_items_and_expressions() {
        let cases: [(&str, &[&str]); 9] = [
            ("use crate::a::B;", &["crate::a::B"]),
            (
                "pub use a::{self, B, c::{D, E as F}, g::*};",
                &["a", "a::B", "a::c::D", "a::c::E as F", "a::g::*"],
            ),
            ("use {crate::a, super::b::C,};", &["crate::a", "super::b::C"]),
            ("use crate::{a::B, c};\nuse d::E;", &["crate::a::B", "crate::c", "d::E"]),
            ("fn f() { crate::a::b(super::c::D::<u8>::new()) }", &["crate::a::b", "super::c::D"]),
            ("fn f() { use crate::a::B; other::c() }", &["crate::a::B"]),
            ("pub(in crate::a) fn f() -> impl Sized + use<'_> {}", &[]),
            ("#[arg(value_parser = crate::a::parse)] x: u8", &["crate::a::parse"]),
            ("// crate::a::B\nconst C: &str = \"crate::a\";", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(imports(text), expected, "{text}");
        }
    }

    #[test]
    fn items_for_tests_are_skipped() {
        let text = "#[cfg(test)]\nmod tests { use crate::a; }\n#[cfg(test)]\n#[path = \"b.rs\"]\nmod cases;\n\
                    #[cfg(test)]\nuse crate::{c, d};\n#[cfg(test)]\nimpl E { fn f() { crate::g() } }\nuse crate::h;";
        assert_eq!(imports(text), ["crate::h"]);
        assert_eq!(read(text).test_modules.into_iter().collect::<Vec<_>>(), ["cases"]);
        assert_eq!(imports("#[cfg(not(test))]\nuse crate::a;"), ["crate::a"]);
    }

    #[test]
    fn definitions_are_items_outside_functions_and_implementations() {
        let text = "pub struct A { b: u8 }\npub(crate) fn c() { const D: u8 = 1; }\nimpl A { fn e() {} }\n\
                    macro_rules! f { () => {} }\nmod g { pub enum H {} }\nstatic I: u8 = 1;";
        let found = read(text);
        assert_eq!(found.defined.into_iter().collect::<Vec<_>>(), ["A", "H", "I", "c", "f", "g"]);
    }

    #[test]
    fn inline_modules_are_counted() {
        let found = read("mod a { use super::b; mod c { use super::d; } }\nuse super::e;");
        let depths: Vec<usize> = found.imports.iter().map(|import| import.depth).collect();
        assert_eq!(depths, [1, 2, 0]);
    }
}
