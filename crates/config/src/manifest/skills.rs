//! Gathers the skills of all folders: folders with a `SKILL.md`, and files with lists of skills.

use super::check::{is_json_schema, read_node, written};
use super::fields::{EntryReader, LocatedNode};
use super::folder::{self, ManifestFolder};
use super::gather::{ManifestInputs, is_of_project, note_kept, trust_or_report};
use super::preview::{ShownEntries, shown_tools};
use super::skill_entry::{self, SkillBody};
use super::skill_folder::{self, SkillFolder};
use super::{MAX_FILES, Pointer};
use crate::context::{LoadContext, UntrustedSettings};
use crate::digest;
use crate::expand::Variables;
use crate::finding::Finding;
use crate::node::Node;
use crate::ownership;
use crate::texts::file_of;
use crate::trust::Preview;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolbooth_core::manifest::ManifestScope;
use toolbooth_core::skill::{FileContent, Skill, SkillFile};

/// The maximum number of skills in all folders.
const MAX_SKILLS: usize = 1000;

/// Whether the skills that are read come into effect.
#[derive(Clone, Copy, PartialEq)]
enum SkillUse {
    /// They do, if they are trusted.
    InEffect,
    /// The file that names them waits for trust, so only their errors count.
    Waiting,
}

/// The gathered skills of a configuration.
#[derive(Default)]
pub(crate) struct GatheredSkills {
    pub skills: Vec<Arc<Skill>>,
    /// The skills, each with its file; an edit may break it.
    pub good: Vec<(PathBuf, Arc<Skill>)>,
    /// Files that are broken now, and whose last valid skills are in use.
    pub kept: Vec<PathBuf>,
}

/// The files of skills: which file defines a skill, and which skills come from memory.
#[derive(Default)]
struct SkillFiles {
    /// The files of skills, by name and persona.
    read: Vec<(PathBuf, String, Option<String>)>,
    /// Files whose last valid skills are in use.
    kept: Vec<PathBuf>,
}

/// Gathers the skills of all folders, each name once for each scope.
pub(crate) fn gather_skills(
    context: &mut LoadContext<'_>,
    inputs: &ManifestInputs<'_>,
    untrusted: &mut Vec<UntrustedSettings>,
) -> GatheredSkills {
    let manifests = &inputs.settings.manifests;
    let mut all = Vec::new();
    let mut files = SkillFiles::default();
    for folder in all_folders(context, &manifests.skills, &manifests.personas) {
        let (usage, files) = (SkillUse::InEffect, &mut files);
        let found = SkillReader { context, inputs, untrusted, usage, files }.folder(&folder);
        take(context, &mut all, found);
    }
    for named in inputs.waiting {
        for folder in all_folders(context, &named.skills, &named.personas) {
            let (usage, files) = (SkillUse::Waiting, &mut files);
            SkillReader { context, inputs, untrusted, usage, files }.folder(&folder);
        }
    }
    let skills: Vec<Arc<Skill>> = all.into_iter().map(Arc::new).collect();
    let file = |skill: &Skill| {
        // A later file replaces an earlier one.
        let same = |(_, name, persona): &&(PathBuf, String, Option<String>)| {
            *name == skill.name && *persona == skill.persona
        };
        files.read.iter().rev().find(same).map(|(file, _, _)| file.clone())
    };
    let good = skills.iter().filter_map(|skill| Some((file(skill)?, skill.clone()))).collect();
    GatheredSkills { good, skills, kept: files.kept }
}

/// The shared folders, and `skills` or `Skills` in the folder of each persona.
fn all_folders(
    context: &mut LoadContext<'_>,
    shared: &[PathBuf],
    personas: &[PathBuf],
) -> Vec<ManifestFolder> {
    context.files.extend_from_slice(personas);
    folder::with_personas(shared, personas, "skills")
}

/// Adds the skills of one folder. Of two in one folder the first is used; one of a later folder, which belongs to a
/// higher layer, replaces an earlier one.
fn take(context: &mut LoadContext<'_>, all: &mut Vec<Skill>, found: Vec<Skill>) {
    let mut new: Vec<Skill> = Vec::new();
    for skill in found {
        let is_same = |other: &&Skill| other.name == skill.name && other.persona == skill.persona;
        match new.iter().find(is_same) {
            None => new.push(skill),
            Some(first) => {
                let Skill { name, origin, .. } = &skill;
                let sentence =
                    format!("skill `{name}` at {origin} is defined twice; the first is at {}", first.origin);
                let finding = Finding::error("manifest.duplicate", sentence).in_file(file_of(origin));
                context.findings.push(finding.hint("rename or remove one"));
            }
        }
    }
    for skill in new {
        let same = all.iter().position(|other| other.name == skill.name && other.persona == skill.persona);
        match same {
            Some(place) => {
                let sentence = format!("skill `{}` replaces the one at {}", skill.name, all[place].origin);
                let finding = Finding::warning("manifest.replaced", sentence).in_file(file_of(&skill.origin));
                context.findings.push(finding);
                all[place] = skill;
            }
            None if all.len() < MAX_SKILLS => all.push(skill),
            None => {
                let sentence =
                    format!("there are more than {MAX_SKILLS} skills; `{}` is ignored", skill.name);
                let finding = Finding::error("manifest.too-many", sentence).in_file(file_of(&skill.origin));
                context.findings.push(finding);
            }
        }
    }
}

/// Reads the skills of one folder.
struct SkillReader<'r, 'a> {
    context: &'r mut LoadContext<'a>,
    inputs: &'r ManifestInputs<'r>,
    untrusted: &'r mut Vec<UntrustedSettings>,
    usage: SkillUse,
    files: &'r mut SkillFiles,
}

impl SkillReader<'_, '_> {
    fn folder(&mut self, folder: &ManifestFolder) -> Vec<Skill> {
        self.context.files.push(folder.path.clone());
        let mut found = Vec::new();
        // A setting may name the folder of one skill.
        if let Some(file) = skill_folder::instructions_of(&folder.path) {
            found.extend(self.skill_md(&file, &folder.scope));
            return found;
        }
        for path in skill_folder::listed(&folder.path).into_iter().take(MAX_FILES) {
            if path.is_dir()
                && let Some(file) = skill_folder::instructions_of(&path)
            {
                found.extend(self.skill_md(&file, &folder.scope));
            } else if path.is_dir() {
                // A `SKILL.md` may be added.
                self.context.files.push(path);
            }
        }
        for file in folder::files(&folder.path).into_iter().take(MAX_FILES) {
            found.extend(self.list(&file, &folder.scope));
        }
        if let ManifestScope::Persona(name) = &folder.scope
            && !found.is_empty()
            && !self.inputs.settings.personas.keys().any(|known| known.eq_ignore_ascii_case(name))
        {
            let sentence = format!("there is no persona `{name}`, so no caller can use its skills");
            let finding = Finding::warning("manifest.no-persona", sentence).in_file(&folder.path);
            self.context.findings.push(finding.hint(format!("add it to the settings: [personas.{name}]")));
        }
        found
    }

    /// Whether a file is to be read: outside a project only if its owner is right.
    fn may_read(&mut self, file: &Path) -> bool {
        if self.usage == SkillUse::Waiting && !is_of_project(self.inputs.documents, file) {
            return false;
        }
        self.context.files.push(file.to_owned());
        if is_of_project(self.inputs.documents, file) {
            return true;
        }
        match ownership::refusal(self.context.sources, file) {
            Some(refusal) => {
                self.context.findings.push(refusal);
                false
            }
            None => true,
        }
    }

    /// Whether what was read from a file comes into effect.
    fn is_in_effect(&mut self, file: &Path, preview: Preview) -> bool {
        // A file that is named for skills and for tools is shown as both.
        if self.untrusted.iter().any(|one| one.file == file && one.preview == preview) {
            return false;
        }
        let needs_trust = is_of_project(self.inputs.documents, file);
        let is_trusted = !needs_trust || trust_or_report(self.context, file, preview, self.untrusted);
        is_trusted && self.usage == SkillUse::InEffect
    }

    /// The last valid version of the skills of a file, or of the one with a name, if an edit has broken it. The finding
    /// about the error, which is the first one after a place, says so.
    fn keep(&mut self, file: &Path, name: Option<&str>, start: usize) -> Vec<Skill> {
        if self.usage != SkillUse::InEffect {
            return Vec::new();
        }
        let good = self.context.sources.good_manifests.skills.iter();
        let good = good.filter(|(path, skill)| path == file && name.is_none_or(|name| skill.name == name));
        let kept: Vec<Skill> = good.map(|(_, skill)| Skill::clone(skill)).collect();
        if !kept.is_empty() {
            note_kept(&mut self.context.findings, start);
            self.files.kept.push(file.to_owned());
        }
        kept
    }

    /// Notes which skills a file defines.
    fn note(&mut self, file: &Path, skills: &[Skill]) {
        let names = skills.iter().map(|skill| (file.to_owned(), skill.name.clone(), skill.persona.clone()));
        self.files.read.extend(names);
    }

    fn skill_md(&mut self, file: &Path, scope: &ManifestScope) -> Vec<Skill> {
        if !self.may_read(file) {
            return Vec::new();
        }
        let start = self.context.findings.len();
        let mut found: Vec<Skill> = self.read_skill_md(file, scope).into_iter().collect();
        let is_broken = self.context.findings[start..].iter().any(Finding::is_error);
        if found.is_empty() && is_broken {
            found = self.keep(file, None, start);
        }
        self.note(file, &found);
        found
    }

    fn read_skill_md(&mut self, file: &Path, scope: &ManifestScope) -> Option<Skill> {
        let read = match skill_folder::read(&mut self.context.texts, file) {
            Ok(read) => read,
            Err(finding) => {
                self.context.findings.push(*finding);
                return None;
            }
        };
        let SkillFolder { front_matter, instructions, files, paths, left_out } = read;
        self.context.files.extend(paths.into_iter().filter(|path| path != file));
        if left_out > 0 {
            let sentence =
                format!("{left_out} files of this skill are too large or too many, and are left out");
            self.context.findings.push(Finding::warning("manifest.too-many", sentence).in_file(file));
        }
        let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let fields = BTreeMap::from([shown(&front_matter, folder)]);
        let preview = Preview { fields, digest: digest_of(&files) };
        let in_effect = self.is_in_effect(file, preview);
        let body = SkillBody {
            instructions: Some(instructions).filter(|text| !text.is_empty()),
            folder: folder.map(str::to_owned),
            files,
        };
        let spot = LocatedNode { node: &front_matter, pointer: Pointer::default(), field: String::new() };
        self.entry(&spot, None, "the skill", scope, body).filter(|_| in_effect)
    }

    fn list(&mut self, file: &Path, scope: &ManifestScope) -> Vec<Skill> {
        if !self.may_read(file) {
            return Vec::new();
        }
        let node = match read_node(&mut self.context.texts, file) {
            Ok(node) if is_json_schema(&node) => return Vec::new(),
            Ok(node) => node,
            Err(finding) => {
                self.context.findings.push(*finding);
                return self.keep_all(file);
            }
        };
        let spots = match written(&node, &["skills"]) {
            Ok(spots) => spots,
            Err(sentence) => {
                let finding = Finding::error("manifest.bad-entry", sentence);
                self.context.findings.push(finding.at(&self.context.texts, node.mark));
                return self.keep_all(file);
            }
        };
        let mut entries = ShownEntries::default();
        for (key, spot) in spots.iter().take(MAX_SKILLS) {
            let (name, about) = shown(spot.node, *key);
            entries.add(&name, about);
        }
        let preview = Preview { fields: entries.into_fields(), digest: digest::of(&node.shown()) };
        let in_effect = self.is_in_effect(file, preview);
        let mut found = Vec::new();
        for (number, (key, spot)) in spots.into_iter().enumerate().take(MAX_SKILLS) {
            let subject = match key {
                Some(key) => format!("skill `{key}`"),
                None => format!("skill {}", number + 1),
            };
            let start = self.context.findings.len();
            match self.entry(&spot, key, &subject, scope, SkillBody::default()) {
                Some(skill) => found.push(skill),
                None if in_effect => {
                    let name = spot.node.get("name").and_then(Node::text).or(key).map(str::to_owned);
                    if let Some(name) = name {
                        found.extend(self.keep(file, Some(&name), start));
                    }
                }
                None => {}
            }
        }
        if !in_effect {
            return Vec::new();
        }
        self.note(file, &found);
        found
    }

    /// The last valid version of a file that cannot be read; the last finding is its error.
    fn keep_all(&mut self, file: &Path) -> Vec<Skill> {
        let last = self.context.findings.len().saturating_sub(1);
        let kept = self.keep(file, None, last);
        self.note(file, &kept);
        kept
    }

    fn entry(
        &mut self,
        spot: &LocatedNode<'_>,
        key: Option<&str>,
        subject: &str,
        scope: &ManifestScope,
        body: SkillBody,
    ) -> Option<Skill> {
        // References such as `${steps.a.results}` are not variables, so nothing is expanded.
        let variables = Variables::default();
        let mut reader = EntryReader {
            texts: &self.context.texts,
            variables: &variables,
            subject: subject.to_owned(),
            findings: Vec::new(),
        };
        let skill = skill_entry::read(&mut reader, spot, key, scope, body);
        let findings = reader.findings;
        self.context.findings.extend(findings);
        skill
    }
}

/// What a person sees before they trust a skill: its description and the tools that its plan calls.
fn shown(node: &Node, default: Option<&str>) -> (String, String) {
    let text = |key: &str| node.get(key).and_then(Node::text);
    let name = text("name").or(default).unwrap_or("a skill").to_owned();
    let about = text("description").or(text("summary")).unwrap_or_default();
    let mut about: String = about.chars().take(200).collect();
    let plan = node.get("plan").or_else(|| node.get("execution_plan"));
    about.extend(shown_tools(plan));
    (name, about)
}

/// The digest of all files of a skill. Trust is bound to it.
fn digest_of(files: &[SkillFile]) -> String {
    let mut all = Vec::new();
    for file in files {
        let content = match &file.content {
            FileContent::Text(text) => text.as_bytes(),
            FileContent::Binary(bytes) => bytes,
        };
        for part in [file.path.as_bytes(), content] {
            all.extend_from_slice(&(part.len() as u64).to_le_bytes());
            all.extend_from_slice(part);
        }
    }
    digest::of_bytes(&all)
}
