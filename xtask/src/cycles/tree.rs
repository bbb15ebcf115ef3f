//! The modules of one crate, and the modules that their paths lead to.

use super::source::{ImportedPath, ModuleSource, read};
use crate::sources::files_below;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The names from the root of a crate to a module; empty for the root.
pub type ModulePath = Vec<String>;

/// More re-exports than a path passes in practice. It ends the search in modules that re-export each other.
const MAX_REEXPORTS: usize = 16;

/// An import of one module by another.
#[derive(Debug, Clone)]
pub struct ModuleImport {
    pub from: ModulePath,
    pub to: ModulePath,
    pub file: PathBuf,
    pub line: usize,
    /// As written in the file.
    pub path: String,
}

/// The files of one crate by module.
#[derive(Debug, Default)]
pub struct ModuleTree {
    modules: BTreeMap<ModulePath, (PathBuf, ModuleSource)>,
}

impl ModuleTree {
    /// Reads the files below `src`, without tests and further programs.
    pub fn load(src: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in files_below(src, "rs")? {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            files.push((path.strip_prefix(src).unwrap_or(&path).to_path_buf(), text));
        }
        Ok(Self::new(files.iter().map(|(path, text)| (path.as_path(), text.as_str()))))
    }

    /// Reads files given by their paths below `src`.
    pub fn new<'a>(files: impl Iterator<Item = (&'a Path, &'a str)>) -> Self {
        let mut tree = Self::default();
        let mut for_tests = BTreeSet::new();
        for (path, text) in files {
            let Some(module) = module_path(path) else { continue };
            let source = read(text);
            for_tests.extend(source.test_modules.iter().map(|name| child(&module, name)));
            tree.modules.insert(module, (path.to_path_buf(), source));
        }
        tree.modules.retain(|module, _| !(1..=module.len()).any(|end| for_tests.contains(&module[..end])));
        tree
    }

    /// The imports of each module from other modules of the crate.
    pub fn imports(&self) -> Vec<ModuleImport> {
        let mut found = Vec::new();
        for (from, (file, source)) in &self.modules {
            for import in &source.imports {
                let Some(to) = self.target(from, import, MAX_REEXPORTS).filter(|to| to != from) else {
                    continue;
                };
                let (file, path) = (file.clone(), import.path.join("::"));
                found.push(ModuleImport { from: from.clone(), to, file, line: import.line, path });
            }
        }
        found
    }

    /// The module that defines the target of a path. If the item is not found, this is the last module that the path
    /// names. None if the path leads out of the crate.
    fn target(&self, from: &[String], import: &ImportedPath, reexports: usize) -> Option<ModulePath> {
        let (mut module, mut inline) = (from.to_vec(), import.depth);
        let mut names = import.path.iter().peekable();
        let mut is_local = false;
        while let Some(name) = names.next_if(|name| matches!(name.as_str(), "crate" | "self" | "super")) {
            is_local = true;
            match name.as_str() {
                "crate" => (module, inline) = (Vec::new(), 0),
                "super" if inline > 0 => inline -= 1,
                "super" => {
                    module.pop();
                }
                _ => {}
            }
        }
        for name in names {
            match self.member(&module, name, reexports) {
                Some(PathMember::Module(found)) => module = found,
                Some(PathMember::Item(found)) => return Some(found),
                None => return is_local.then_some(module),
            }
            is_local = true;
        }
        Some(module)
    }

    /// Finds a name in a module: a module in it, an item, or something that it imports.
    fn member(&self, module: &[String], name: &str, reexports: usize) -> Option<PathMember> {
        let inner = child(module, name);
        if self.modules.contains_key(&inner) {
            return Some(PathMember::Module(inner));
        }
        let (_, source) = self.modules.get(module)?;
        if source.defined.contains(name) {
            return Some(PathMember::Item(module.to_vec()));
        }
        let reexports = reexports.checked_sub(1)?;
        let named = source.imports.iter().find(|import| import.name.as_deref() == Some(name));
        if let Some(import) = named {
            // `use name;` names a crate, not this import.
            if import.path.len() == 1 && import.path[0] == name {
                return None;
            }
            let found = self.target(module, import, reexports)?;
            let is_module = found.last() == import.path.last();
            return Some(if is_module { PathMember::Module(found) } else { PathMember::Item(found) });
        }
        let globs = source.imports.iter().filter(|import| import.is_glob);
        globs
            .filter_map(|import| self.target(module, import, reexports))
            .filter(|found| found != module)
            .find_map(|found| self.member(&found, name, reexports))
    }
}

/// Where a name in a module leads.
enum PathMember {
    Module(ModulePath),
    /// An item, defined in this module.
    Item(ModulePath),
}

fn child(module: &[String], name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The module of a file below `src`; none for tests and further programs.
fn module_path(file: &Path) -> Option<ModulePath> {
    let mut module: ModulePath =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_test = |part: &String| part == "tests" || part.ends_with("_tests");
    if module.iter().any(is_test) || module.first().is_some_and(|first| first == "bin") {
        return None;
    }
    let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    Some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports between the modules of a made-up crate, as `from>to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let tree = ModuleTree::new(files.iter().map(|(path, text)| (Path::new(*path), *text)));
        let show = |import: &ModuleImport| format!("{}>{}", import.from.join("/"), import.to.join("/"));
        tree.imports().iter().map(show).collect()
    }

    #[test]
    fn paths_lead_to_the_file_that_defines_the_item() {
        let files = |text| {
            [
                ("lib.rs", "mod a; mod b; mod c; pub use b::{Pool, inner}; pub struct Root;"),
                ("a.rs", text),
                (
                    "b/mod.rs",
                    "mod pool; pub mod inner; mod glob; pub use pool::Pool; pub use glob::*; use crate::c::C;",
                ),
                ("b/pool.rs", "pub struct Pool;"),
                ("b/glob.rs", "pub fn everywhere() {}"),
                ("b/inner.rs", "pub use crate::c::C as D; pub enum E { F }"),
                ("c.rs", "pub struct C;"),
            ]
        };
        let cases = [
            ("use crate::b::Pool;", "a>b/pool"),
            ("use crate::Pool;", "a>b/pool"),
            ("use super::b::pool::Pool as Gate;", "a>b/pool"),
            ("use crate::b::everywhere;", "a>b/glob"),
            ("use crate::inner::E::F;", "a>b/inner"),
            ("fn f() { crate::b::inner::E::new() }", "a>b/inner"),
            ("use crate::b::inner::D;", "a>c"),
            ("use crate::b::missing;", "a>b"),
            ("use crate::b;", "a>b"),
            ("use crate::Root;", "a>"),
            ("use std::fmt; use serde::b::Pool; mod x { use super::y; }", ""),
        ];
        for (text, expected) in cases {
            let found: Vec<String> =
                imports(&files(text)).into_iter().filter(|import| import.starts_with("a>")).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn tests_and_programs_are_not_modules() {
        let files = [
            ("main.rs", "mod a; mod b; #[cfg(test)] mod fixture;"),
            ("a.rs", "struct A;"),
            ("b/tests.rs", "use crate::a::A;"),
            ("b/tests/more.rs", "use crate::a::A;"),
            ("b_tests.rs", "use crate::a::A;"),
            ("bin/other.rs", "use crate::a::A;"),
            ("fixture.rs", "use crate::a::A;"),
        ];
        assert_eq!(imports(&files), Vec::<String>::new());
    }

    #[test]
    fn modules_that_reexport_each_other_do_not_hang() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::*;"),
            ("b.rs", "pub use crate::a::*; use crate::a::X;"),
        ];
        assert_eq!(imports(&files), ["a>b", "b>a", "b>a"]);
    }
}
