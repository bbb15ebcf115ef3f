//! Reads a skill from a folder with a `SKILL.md` (Agent Skills): YAML front matter, instructions, and further files.

use super::skill_entry::INSTRUCTIONS;
use crate::bounded_file::{read_bounded, unreadable};
use crate::finding::Finding;
use crate::node::Node;
use crate::parse::{self, Syntax};
use crate::texts::SourceTexts;
use std::path::{Path, PathBuf};
use toolbooth_core::skill::{MAX_INSTRUCTIONS_BYTES, SkillFile};

/// The maximum number of files of one skill.
const MAX_SKILL_FILES: usize = 64;
/// The maximum size of all files of one skill.
const MAX_SKILL_BYTES: usize = 2 << 20;
/// The maximum depth of folders in a skill.
const MAX_FOLDER_DEPTH: usize = 4;

/// The content of a skill's folder.
pub(super) struct SkillFolder {
    /// The front matter.
    pub front_matter: Node,
    /// The text after it.
    pub instructions: String,
    /// All files, `SKILL.md` first.
    pub files: Vec<SkillFile>,
    /// The paths that were read.
    pub paths: Vec<PathBuf>,
    /// The number of files that were left out.
    pub left_out: usize,
}

/// The `SKILL.md` of a folder, in any letter case.
pub(super) fn instructions_of(folder: &Path) -> Option<PathBuf> {
    let plain = folder.join(INSTRUCTIONS);
    if plain.is_file() {
        return Some(plain);
    }
    let is_named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.eq_ignore_ascii_case(INSTRUCTIONS)) && path.is_file()
    };
    listed(folder).into_iter().find(is_named)
}

/// Reads a folder.
pub(super) fn read(texts: &mut SourceTexts, file: &Path) -> Result<SkillFolder, Box<Finding>> {
    let bytes = read_bounded(file).map_err(|error| Box::new(unreadable(file, &error, "the skill")))?;
    if bytes.len() > MAX_INSTRUCTIONS_BYTES {
        let sentence = format!("the skill has more than {MAX_INSTRUCTIONS_BYTES} bytes");
        return Err(Box::new(Finding::error("manifest.bad-entry", sentence).in_file(file)));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        let finding = Finding::error("manifest.syntax", "the skill is not UTF-8 text").in_file(file);
        Box::new(finding.hint("save it as UTF-8"))
    })?;
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let Some((front_matter, instructions)) = split(&text) else {
        let finding = Finding::error("manifest.syntax", "the skill has no front matter").in_file(file);
        let hint = "begin the file with `---`, the fields `name` and `description`, and `---`";
        return Err(Box::new(finding.hint(hint)));
    };
    let node = parse::parse_as(texts, file, front_matter.as_bytes(), Syntax::Yaml).map_err(|finding| {
        let hint = Some("the front matter between the lines `---` must be YAML".to_owned());
        Box::new(Finding { code: "manifest.syntax", hint, ..*finding })
    })?;
    let instructions = instructions.trim().to_owned();
    let mut paths = vec![file.to_owned()];
    let mut files = vec![SkillFile::new(INSTRUCTIONS.to_owned(), text.clone().into_bytes())];
    let left_out = file.parent().map_or(0, |folder| further_files(folder, file, &mut files, &mut paths));
    Ok(SkillFolder { front_matter: node, instructions, files, paths, left_out })
}

/// Splits a file into the front matter, with the line before it, and the rest.
fn split(text: &str) -> Option<(&str, &str)> {
    let start = text.strip_prefix("---\n")?;
    if let Some(rest) = start.strip_prefix("---") {
        return Some(("---\n", rest.trim_start_matches('-')));
    }
    let end = start.find("\n---\n").or_else(|| start.strip_suffix("\n---").map(str::len))?;
    let front = &text[.."---\n".len() + end + 1];
    Some((front, start.get(end + "\n---".len()..).unwrap_or_default()))
}

/// Adds the other files of a folder, and returns the number of those that are left out.
fn further_files(
    folder: &Path,
    instructions: &Path,
    files: &mut Vec<SkillFile>,
    paths: &mut Vec<PathBuf>,
) -> usize {
    let (mut left_out, mut size) = (0, 0);
    let mut folders = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        paths.push(folder.clone());
        for path in listed(&folder) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if name.starts_with('.') || path == instructions {
                continue;
            }
            // A link could lead to any file of the machine.
            let Ok(about) = std::fs::symlink_metadata(&path) else { continue };
            let inner = format!("{prefix}{name}");
            if about.is_dir() && depth < MAX_FOLDER_DEPTH && folders.len() < MAX_SKILL_FILES {
                folders.push((path, format!("{inner}/"), depth + 1));
            } else if about.is_file() {
                let bytes = usize::try_from(about.len()).unwrap_or(usize::MAX);
                let fits = files.len() < MAX_SKILL_FILES && bytes <= MAX_SKILL_BYTES - size;
                match fits.then(|| read_bounded(&path)) {
                    Some(Ok(content)) if content.len() <= MAX_SKILL_BYTES - size => {
                        size += content.len();
                        files.push(SkillFile::new(inner, content));
                        paths.push(path);
                    }
                    _ => left_out += 1,
                }
            } else {
                left_out += 1;
            }
        }
    }
    let instructions = files.remove(0);
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files.insert(0, instructions);
    left_out
}

/// The paths in a folder, sorted.
pub(super) fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn front_matter_ends_at_a_line_of_its_own() {
        let cases = [
            ("---\nname: a\n---\nDo it.\n", Some(("---\nname: a\n", "\nDo it.\n"))),
            ("---\nname: a\n---", Some(("---\nname: a\n", ""))),
            ("---\n---\nDo it.", Some(("---\n", "\nDo it."))),
            ("---\nname: a\ntext: b --- c\n---\n", Some(("---\nname: a\ntext: b --- c\n", "\n"))),
            ("name: a\n", None),
            ("---\nname: a\n", None),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), expected, "{text:?}");
        }
    }
}
