//! Checks manifest files: reads their entries and reports all errors.

use super::claims::ToolClaim;
use super::fields::{EntryReader, LocatedNode};
use super::{Pointer, entry};
use crate::bounded_file::{read_bounded, unreadable};
use crate::expand::Variables;
use crate::finding::Finding;
use crate::node::{Node, Value};
use crate::parse;
use crate::texts::SourceTexts;
use std::path::Path;
use toolbooth_core::manifest::{Manifest, ManifestScope};

/// The maximum number of entries in one file.
const MAX_ENTRIES: usize = 2000;
/// The keys under which a file may have its list of entries.
pub(super) const ENTRY_LISTS: [&str; 2] = ["tools", "functions"];

/// The result of checking manifest files.
#[derive(Debug, Clone, Default)]
pub struct CheckedManifests {
    /// The valid entries.
    pub entries: Vec<Manifest>,
    /// The number of valid jobs and tasks.
    pub workflows: usize,
    /// The number of invalid entries.
    pub set_aside: usize,
    /// Errors and warnings.
    pub findings: Vec<Finding>,
}

/// Sets the location of a finding to an entry.
pub(super) fn at_entry(finding: Finding, entry: &Manifest) -> Finding {
    let mut parts = entry.origin.rsplitn(3, ':');
    let column = parts.next().and_then(|text| text.parse().ok());
    let line = parts.next().and_then(|text| text.parse().ok());
    match (parts.next(), line, column) {
        (Some(file), Some(line), Some(column)) => Finding { line, column, ..finding.in_file(file) },
        _ => finding.in_file(&entry.origin),
    }
}

/// The finding for an entry that describes the same tool as an earlier one.
pub(super) fn duplicate(entry: &Manifest, earlier: &ToolClaim) -> Finding {
    let ToolClaim { name, origin } = earlier;
    let sentence = match *name == entry.name {
        true => format!("tool `{name}` is defined twice; the first definition is at {origin}"),
        false => format!("tool `{}` is already defined by `{name}` at {origin}", entry.name),
    };
    at_entry(Finding::error("manifest.duplicate", sentence), entry).hint("rename or remove one")
}

/// Whether a file is a JSON Schema, such as the schema of manifests itself, and not a manifest.
pub(super) fn is_json_schema(node: &Node) -> bool {
    let declared = node.get("$schema").and_then(Node::text);
    declared.is_some_and(|schema| {
        let rest = schema.strip_prefix("https://").or_else(|| schema.strip_prefix("http://"));
        rest.is_some_and(|rest| rest.starts_with("json-schema.org/"))
    })
}

/// Parses a manifest file.
pub(super) fn read_node(texts: &mut SourceTexts, path: &Path) -> Result<Node, Box<Finding>> {
    match read_bounded(path) {
        Ok(bytes) => parse::parse(texts, path, &bytes).map_err(|finding| {
            let code = if finding.code == "config.syntax" { "manifest.syntax" } else { finding.code };
            Box::new(Finding { code, ..*finding })
        }),
        Err(error) => Err(Box::new(unreadable(path, &error, "the manifest"))),
    }
}

/// Reads the entries of a file: one entry, a list of entries, or a map from names to entries.
pub(super) fn entries(
    texts: &SourceTexts,
    root: &Node,
    scope: &ManifestScope,
    variables: &Variables,
) -> CheckedManifests {
    let mut checked = CheckedManifests::default();
    let written = written(root, &ENTRY_LISTS);
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
        let mut reader = EntryReader { texts, variables, subject, findings: Vec::new() };
        if number >= MAX_ENTRIES {
            reader.error(
                &spot,
                format_args!("a file may contain at most {MAX_ENTRIES} entries; this one and the following ones are ignored"),
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

/// The entries of a file as written, with their keys if the file is a map.
pub(super) type WrittenEntries<'n> = Vec<(Option<&'n str>, LocatedNode<'n>)>;

/// The entries of a file: one entry, a list, a list under one of the keys in `lists`, or a map from names to entries.
pub(super) fn written<'n>(root: &'n Node, lists: &[&str]) -> Result<WrittenEntries<'n>, String> {
    let top = LocatedNode { node: root, pointer: Pointer::default(), field: String::new() };
    match &root.value {
        Value::List(elements) => Ok(listed(&top.pointer, elements)),
        Value::Map(_) if root.get("name").is_some_and(|name| name.members().is_none()) => {
            Ok(vec![(None, top)])
        }
        Value::Map(members) => {
            // TOML has no top-level list, so a list under one of these keys is accepted.
            for key in lists {
                if let Some(elements) = root.get(key).and_then(Node::elements) {
                    return Ok(listed(&top.pointer.key(key), elements));
                }
            }
            let named = members.iter().filter(|(key, _)| key.text != "$schema");
            let spot =
                |key: &str, node| LocatedNode { node, pointer: top.pointer.key(key), field: String::new() };
            Ok(named.map(|(key, node)| (Some(key.text.as_str()), spot(&key.text, node))).collect())
        }
        Value::Null => Ok(Vec::new()),
        _ => {
            let kinds = "an entry, a list of entries or a map from names to entries";
            Err(format!("a manifest must be {kinds}, found {}", root.kind()))
        }
    }
}

fn listed<'n>(pointer: &Pointer, elements: &'n [Node]) -> WrittenEntries<'n> {
    let spots = elements.iter().enumerate();
    spots
        .map(|(index, node)| {
            (None, LocatedNode { node, pointer: pointer.index(index), field: String::new() })
        })
        .collect()
}
