//! `cargo xtask cycles`: finds top-level modules of a crate that import each other.
//!
//! A top-level module is a file or folder directly below `src`. In an import cycle no module can be read, tested or
//! moved without the others. A parent module and its children may import each other, so the root of a crate does not
//! count. `--files` shows the same for the files and folders inside each top-level module.
//!
//! `cargo xtask test` fails if it finds a cycle of either kind. To break one, move the shared type or function into a
//! file of its own, or make one file a child module of the other.

mod lexeme;
mod source;
mod tree;

use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tree::{ModuleImport, ModulePath, ModuleTree};

/// The number of top-level modules that may be in cycles.
const MAX_MODULES: usize = 0;

/// The number of files and folders inside top-level modules that may be in cycles.
const MAX_FILES: usize = 0;

/// Files and folders of one folder that import each other.
#[derive(Debug)]
struct ImportCycle {
    /// The folder `src` of the crate.
    src: PathBuf,
    folder: ModulePath,
    members: BTreeSet<String>,
    imports: Vec<ModuleImport>,
}

impl ImportCycle {
    /// Whether its members are top-level modules.
    fn is_top_level(&self) -> bool {
        self.folder.is_empty()
    }
}

/// Prints the cycles of top-level modules, or with `--files` those inside them. Other arguments are folders of crates,
/// to search instead of the workspace.
pub fn run(root: &Path, arguments: impl Iterator<Item = String>) -> Result<()> {
    let (mut files, mut crates) = (false, Vec::new());
    for argument in arguments {
        match argument.as_str() {
            "--files" => files = true,
            _ if argument.starts_with('-') => bail!("unknown option `{argument}`"),
            _ => crates.push(PathBuf::from(argument)),
        }
    }
    if crates.is_empty() {
        crates = workspace(root)?;
    }
    let found = search(root, &crates)?;
    let shown = found.iter().filter(|cycle| cycle.is_top_level() != files);
    shown.for_each(|cycle| print!("{}", render(cycle)));
    let (modules, inner) = (members(&found, true), members(&found, false));
    println!("{modules} top-level modules are in import cycles, and {inner} files inside modules");
    ensure!(files || modules == 0, "top-level modules must not import each other");
    Ok(())
}

/// Fails if more modules or files are in cycles than the baselines allow, and prints the cycles.
pub fn check(root: &Path) -> Result<()> {
    let found = search(root, &workspace(root)?)?;
    for (top_level, what, name, max) in [
        (true, "top-level modules", "MAX_MODULES", MAX_MODULES),
        (false, "files inside modules", "MAX_FILES", MAX_FILES),
    ] {
        let count = members(&found, top_level);
        if count > max {
            let shown = found.iter().filter(|cycle| cycle.is_top_level() == top_level);
            shown.for_each(|cycle| print!("{}", render(cycle)));
            bail!("{count} {what} are in import cycles, at most {max} may be");
        }
        if count < max {
            println!("notice: `{name}` in xtask/src/cycles.rs can be lowered to {count}");
        }
    }
    Ok(())
}

/// The number of members of cycles of top-level modules, or inside them.
fn members(cycles: &[ImportCycle], top_level: bool) -> usize {
    let counted = cycles.iter().filter(|cycle| cycle.is_top_level() == top_level);
    counted.map(|cycle| cycle.members.len()).sum()
}

/// The folders of the crates of this repository.
fn workspace(root: &Path) -> Result<Vec<PathBuf>> {
    let mut crates = vec![root.join("xtask"), root.join("bench")];
    for entry in root.join("crates").read_dir()? {
        crates.push(entry?.path());
    }
    crates.retain(|folder| folder.join("src").is_dir());
    crates.sort();
    Ok(crates)
}

fn search(root: &Path, crates: &[PathBuf]) -> Result<Vec<ImportCycle>> {
    let mut found = Vec::new();
    for folder in crates {
        let src = folder.join("src");
        let imports = ModuleTree::load(&src)?.imports();
        found.extend(cycles(src.strip_prefix(root).unwrap_or(&src), imports));
    }
    Ok(found)
}

/// Finds the cycles in each folder of a crate.
fn cycles(src: &Path, imports: Vec<ModuleImport>) -> Vec<ImportCycle> {
    let mut folders: BTreeMap<ModulePath, Vec<ModuleImport>> = BTreeMap::new();
    for import in imports {
        let shared = shared(&import);
        // A parent and its child may import each other.
        if import.from.len() > shared && import.to.len() > shared {
            folders.entry(import.from[..shared].to_vec()).or_default().push(import);
        }
    }
    let mut found = Vec::new();
    for (folder, imports) in folders {
        for members in components(&imports) {
            let is_inside = |import: &&ModuleImport| {
                let (from, to) = ends(import);
                from != to && members.contains(from) && members.contains(to)
            };
            let mut imports: Vec<ModuleImport> = imports.iter().filter(is_inside).cloned().collect();
            imports.sort_by(|one, other| ends(one).cmp(&ends(other)));
            found.push(ImportCycle { src: src.to_path_buf(), folder: folder.clone(), members, imports });
        }
    }
    found
}

/// The number of names that both ends of an import share.
fn shared(import: &ModuleImport) -> usize {
    import.from.iter().zip(&import.to).take_while(|(from, to)| from == to).count()
}

/// The file or folder that imports and the one that is imported, in their common folder. Neither is the other's parent.
fn ends(import: &ModuleImport) -> (&str, &str) {
    let shared = shared(import);
    (&import.from[shared], &import.to[shared])
}

/// Groups of names that reach each other through imports.
fn components(imports: &[ModuleImport]) -> Vec<BTreeSet<String>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        let (from, to) = ends(import);
        reached.entry(from).or_default().insert(to);
        reached.entry(to).or_default();
    }
    // Folders are small, so repeating until nothing changes is fast enough.
    loop {
        let mut grown = reached.clone();
        for names in grown.values_mut() {
            let further: Vec<&str> = names.iter().flat_map(|name| reached[name].iter().copied()).collect();
            names.extend(further);
        }
        if grown == reached {
            break;
        }
        reached = grown;
    }
    let mut groups: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (name, names) in &reached {
        let mutual = names.iter().filter(|other| reached[*other].contains(name));
        let group: BTreeSet<String> = mutual.map(|name| (*name).to_owned()).collect();
        groups.insert(group);
    }
    groups.retain(|group| group.len() > 1);
    groups.into_iter().collect()
}

/// A cycle with its imports, grouped by the members that they connect.
fn render(cycle: &ImportCycle) -> String {
    let members: Vec<&str> = cycle.members.iter().map(String::as_str).collect();
    let folder = cycle.folder.iter().fold(cycle.src.clone(), |folder, name| folder.join(name));
    let mut text =
        format!("{}: {} import each other: {}\n", folder.display(), members.len(), members.join(", "));
    let mut last = None;
    for import in &cycle.imports {
        let (from, to) = ends(import);
        if last != Some((from, to)) {
            text += &format!("  {from} imports {to}\n");
        }
        last = Some((from, to));
        let file = cycle.src.join(&import.file);
        text += &format!("    {}:{}: {}\n", file.display(), import.line, import.path);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cycles of a made-up crate.
    fn found(files: &[(&str, &str)]) -> Vec<ImportCycle> {
        let tree = ModuleTree::new(files.iter().map(|(path, text)| (Path::new(*path), *text)));
        cycles(Path::new("src"), tree.imports())
    }

    #[test]
    fn modules_that_import_each_other_are_shown_with_their_imports() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a/mod.rs", "mod x;"),
            ("a/x.rs", "use crate::b::B;\npub struct X;"),
            ("b.rs", "pub struct B;\nuse crate::c::C;"),
            ("c.rs", "pub struct C;\nfn f() { crate::a::x::X }\nuse crate::d::D;"),
            ("d.rs", "pub struct D;"),
        ];
        let found = found(&files);
        let text: String = found.iter().map(render).collect();
        assert_eq!(
            text,
            "src: 3 import each other: a, b, c\n  a imports b\n    src/a/x.rs:1: crate::b::B\n  b imports c\n    \
             src/b.rs:2: crate::c::C\n  c imports a\n    src/c.rs:2: crate::a::x::X\n"
        );
        assert_eq!((members(&found, true), members(&found, false)), (3, 0));
    }

    #[test]
    fn files_inside_a_module_are_counted_apart() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod x; mod y; mod z;"),
            ("a/x.rs", "use super::y::Y; pub struct X;"),
            ("a/y.rs", "use super::x::X; pub struct Y;"),
            ("a/z/mod.rs", "use super::x::X;"),
        ];
        let found = found(&files);
        assert_eq!((members(&found, true), members(&found, false)), (0, 2));
        assert_eq!(found[0].folder, ["a"]);
    }

    #[test]
    fn a_parent_and_its_children_may_import_each_other() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub struct Root;"),
            ("a.rs", "mod x; pub struct A; use x::X; use crate::Root;"),
            ("a/x.rs", "use super::A; pub struct X;"),
            ("b.rs", "use crate::A;"),
        ];
        assert_eq!(found(&files).len(), 0);
    }
}
