//! One file of manifests: its entries, and everything that is wrong with it.

use super::claims::{Claim, Claims};
use super::fields::{Reader, Spot};
use super::gather::at_entry;
use super::{Pointer, entry, folder};
use crate::expand::Variables;
use crate::finding::Finding;
use crate::load::{read_bounded, unreadable};
use crate::node::{Node, Value};
use crate::parse;
use crate::texts::Texts;
use std::path::Path;
use toolbooth_core::manifest::{Manifest, Scope};

/// The most entries of one file.
const MAX_ENTRIES: usize = 2000;

/// What a file of manifests holds.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// The entries that can be used.
    pub entries: Vec<Manifest>,
    /// How many cannot.
    pub set_aside: usize,
    /// What is wrong, and what is only written loosely.
    pub findings: Vec<Finding>,
}

/// Checks a file by itself.
pub fn check(path: &Path, variables: &Variables) -> Checked {
    check_all(&[path], variables)
}

/// Checks files by themselves, and whether two of their entries speak of one tool.
pub fn check_all<P: AsRef<Path>>(paths: &[P], variables: &Variables) -> Checked {
    let mut all = Checked::default();
    let mut claims = Claims::default();
    for path in paths.iter().map(AsRef::as_ref) {
        let mut texts = Texts::default();
        let checked = match read_node(&mut texts, path) {
            Ok(node) => entries(&texts, &node, &folder::scope_of(path), variables),
            Err(finding) => Checked { findings: vec![*finding], ..Checked::default() },
        };
        all.findings.extend(checked.findings);
        all.set_aside += checked.set_aside;
        for entry in checked.entries {
            match claims.note(&entry) {
                Some(earlier) => {
                    all.findings.push(duplicate(&entry, &earlier));
                    all.set_aside += 1;
                }
                None => all.entries.push(entry),
            }
        }
    }
    all
}

/// That an entry speaks of a tool that another spoke of before.
pub(super) fn duplicate(entry: &Manifest, earlier: &Claim) -> Finding {
    let Claim { name, origin } = earlier;
    let sentence = match *name == entry.name {
        true => format!("tool `{name}` is described twice; the first stands at {origin}"),
        false => format!("tool `{}` is the tool that `{name}` at {origin} describes already", entry.name),
    };
    at_entry(Finding::error("manifest.duplicate", sentence), entry).hint("rename or remove one")
}

/// Reads a file into a tree.
pub(super) fn read_node(texts: &mut Texts, path: &Path) -> Result<Node, Box<Finding>> {
    match read_bounded(path) {
        Ok(bytes) => parse::parse(texts, path, &bytes).map_err(|finding| {
            let code = if finding.code == "config.syntax" { "manifest.syntax" } else { finding.code };
            Box::new(Finding { code, ..*finding })
        }),
        Err(error) => Err(Box::new(unreadable(path, &error, "the manifest"))),
    }
}

/// The entries of a tree: one object, a list of them, or a map from names to them.
pub(super) fn entries(texts: &Texts, root: &Node, scope: &Scope, variables: &Variables) -> Checked {
    let mut checked = Checked::default();
    let written = written(root);
    let spots = match written {
        Ok(spots) => spots,
        Err(sentence) => {
            checked.findings.push(Finding::error("manifest.bad-entry", sentence).at(texts, root.mark));
            return checked;
        }
    };
    for (number, (key, spot)) in spots.into_iter().enumerate() {
        let subject = match key {
            Some(key) => format!("entry `{key}`"),
            None => format!("entry {}", number + 1),
        };
        let mut reader = Reader { texts, variables, subject, findings: Vec::new() };
        if number >= MAX_ENTRIES {
            reader.error(
                &spot,
                format_args!("a file has at most {MAX_ENTRIES} entries; this and what follows is left out"),
            );
            checked.findings.append(&mut reader.findings);
            break;
        }
        match entry::read(&mut reader, &spot, key, scope) {
            Some(manifest) => checked.entries.push(manifest),
            None => checked.set_aside += 1,
        }
        checked.findings.append(&mut reader.findings);
    }
    checked
}

type Written<'n> = Vec<(Option<&'n str>, Spot<'n>)>;

fn written(root: &Node) -> Result<Written<'_>, String> {
    let top = Spot { node: root, pointer: Pointer::default(), field: String::new() };
    match &root.value {
        Value::List(elements) => Ok(listed(&top.pointer, elements)),
        Value::Map(_) if root.get("name").is_some_and(|name| name.members().is_none()) => {
            Ok(vec![(None, top)])
        }
        Value::Map(members) => {
            // TOML has no list at the top; one under such a key stands for it.
            for key in ["tools", "functions"] {
                if let Some(elements) = root.get(key).and_then(Node::elements) {
                    return Ok(listed(&top.pointer.key(key), elements));
                }
            }
            let named = members.iter().filter(|(key, _)| key.text != "$schema");
            let spot = |key: &str, node| Spot { node, pointer: top.pointer.key(key), field: String::new() };
            Ok(named.map(|(key, node)| (Some(key.text.as_str()), spot(&key.text, node))).collect())
        }
        Value::Null => Ok(Vec::new()),
        _ => {
            let kinds = "an entry, a list of entries or a map from names to entries";
            Err(format!("a manifest is {kinds}, found {}", root.kind()))
        }
    }
}

fn listed<'n>(pointer: &Pointer, elements: &'n [Node]) -> Written<'n> {
    let spots = elements.iter().enumerate();
    spots
        .map(|(index, node)| (None, Spot { node, pointer: pointer.index(index), field: String::new() }))
        .collect()
}
