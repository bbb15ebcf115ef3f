//! Reads one skill: an entry of a list of skills, or the front matter of a `SKILL.md`.

use super::entry::parameters;
use super::fields::{EntryReader, Extras, LocatedNode};
use crate::node::{Node, Value};
use std::sync::Arc;
use toolbooth_core::manifest::{ManifestScope, tags};
use toolbooth_core::own_prompt::{MAX_NAME, is_valid_name};
use toolbooth_core::skill::{MAX_DESCRIPTION_BYTES, Skill, SkillFile, StepPlan};

/// All fields with a meaning.
const KNOWN: [&str; 18] = [
    "name",
    "version",
    "summary",
    "description",
    "instruction_prompt",
    "instructions",
    "required_tools",
    "required_capabilities",
    "safety_notes",
    "category",
    "capability_tags",
    "collaboration",
    "groups",
    "parameters",
    "timeout",
    "plan",
    "execution_plan",
    "metadata",
];
/// Fields for people and editors only.
const REMARKS: [&str; 7] = ["$schema", "license", "compatibility", "author", "title", "notes", "examples"];
/// Fields of other programs that the gateway does not act on; a finding reports them.
const UNUSED: [&str; 2] = ["allowed-tools", "allowed_tools"];
/// The most bytes of `collaboration`, as JSON.
const MAX_COLLABORATION_BYTES: usize = 64 << 10;

/// The name of the file with the instructions of a skill.
pub(super) const INSTRUCTIONS: &str = "SKILL.md";

/// The part of a skill that is not in its fields.
#[derive(Default)]
pub(super) struct SkillBody {
    /// The text after the front matter.
    pub instructions: Option<String>,
    /// The name of its folder.
    pub folder: Option<String>,
    /// Its files.
    pub files: Vec<SkillFile>,
}

/// Reads a skill. Errors are added to the reader's findings.
pub(super) fn read(
    reader: &mut EntryReader<'_>,
    spot: &LocatedNode<'_>,
    key: Option<&str>,
    scope: &ManifestScope,
    body: SkillBody,
) -> Option<Skill> {
    if spot.node.members().is_none() {
        reader.error(spot, format_args!("a skill must be a map of fields, found {}", spot.node.kind()));
        return None;
    }
    let SkillBody { instructions, folder, files } = body;
    let name = name(reader, spot, key.or(folder.as_deref()))?;
    reader.subject = format!("skill `{name}`");
    reader.keys(spot, &KNOWN, Extras::These(&[REMARKS.as_slice(), UNUSED.as_slice()].concat()));
    for key in UNUSED {
        if let Some(unused) = spot.member(key).filter(|unused| !unused.is_null()) {
            let hint = "rules about tools belong in `policy.rules` and in personas";
            reader.doubt(
                "manifest.unused-key",
                &unused,
                format_args!("`{}` has no effect", unused.field),
                Some(hint),
            );
        }
    }
    let in_metadata = spot.member("metadata").and_then(|metadata| metadata.member("version"));
    let version = match spot.member("version").or(in_metadata) {
        Some(LocatedNode { node: Node { value: Value::Number(number), .. }, .. }) => Some(number.to_string()),
        written => reader.text(written),
    };
    let written = spot.member("instruction_prompt").or_else(|| spot.member("instructions"));
    let instructions = match (instructions, written) {
        (Some(body), _) => Some(body),
        (None, written) => reader.text(written),
    };
    let Some(instructions) = instructions else {
        if !reader.is_broken() {
            let hint = "write them as `instruction_prompt`, or after the front matter of SKILL.md";
            reader.error_with(spot, "the instructions are missing", hint);
        }
        return None;
    };
    let description = reader.text(spot.member("description"));
    if description.as_ref().is_some_and(|text| text.len() > MAX_DESCRIPTION_BYTES) {
        reader.error(spot, format_args!("`description` has more than {MAX_DESCRIPTION_BYTES} bytes"));
    }
    let listed = |texts: Option<Vec<String>>| tags(texts.unwrap_or_default().iter().map(String::as_str));
    let plan = plan(reader, spot);
    let parameters = parameters(reader, spot);
    if let (Some(plan), Some(schema)) = (&plan, &parameters) {
        for name in plan.argument_names() {
            if schema.at(&["properties", name]).is_none() {
                let sentence =
                    format!("the plan uses `${{arguments.{name}}}`, which `parameters` does not define");
                reader.error(spot, sentence);
            }
        }
    }
    let persona = match scope {
        ManifestScope::Shared => None,
        ManifestScope::Persona(persona) => Some(persona.clone()),
    };
    let summary = reader.text(spot.member("summary"));
    let files = match files.is_empty() {
        true => vec![instructions_file(&name, description.as_deref().or(summary.as_deref()), &instructions)],
        false => files,
    };
    let skill = Skill {
        origin: reader.texts.location(spot.node.mark).to_string(),
        persona,
        version,
        summary,
        description,
        instructions,
        required_tools: reader.texts(spot.member("required_tools")).unwrap_or_default(),
        required_capabilities: listed(reader.texts(spot.member("required_capabilities"))),
        safety_notes: reader.text(spot.member("safety_notes")),
        category: reader.text(spot.member("category")),
        capability_tags: listed(reader.texts(spot.member("capability_tags"))),
        collaboration: collaboration(reader, spot),
        groups: reader.texts(spot.member("groups")),
        parameters,
        timeout: reader.seconds(spot.member("timeout"), 1.0),
        plan: plan.map(Arc::new),
        files,
        name,
    };
    (!reader.is_broken()).then_some(skill)
}

fn name(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>, default: Option<&str>) -> Option<String> {
    let written = spot.member("name").filter(|name| !name.is_null());
    let place = written.clone().unwrap_or_else(|| spot.clone());
    let name = match (written, default) {
        (Some(written), _) => reader.text(Some(written))?,
        (None, Some(default)) => default.trim().to_owned(),
        (None, None) => {
            reader.error(spot, "`name` is missing");
            return None;
        }
    };
    if !is_valid_name(&name) {
        let shown: String = name.chars().take(80).collect();
        let hint = format!("use 1 to {MAX_NAME} ASCII letters, digits, `_` and `-`");
        reader.error_with(&place, format_args!("`{shown}` is not a valid name of a skill"), hint);
        return None;
    }
    Some(name)
}

/// Reads how several models work on the skill together. Its strings stay as written: they are shown.
fn collaboration(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Option<serde_json::Value> {
    let written = spot.member("collaboration").filter(|written| !written.is_null())?;
    if written.node.members().is_none() {
        let kind = written.node.kind();
        reader.error(&written, format_args!("`collaboration` must be a map of fields, found {kind}"));
        return None;
    }
    let shown = written.node.shown();
    if shown.to_string().len() > MAX_COLLABORATION_BYTES {
        reader.error(&written, format_args!("`collaboration` has more than {MAX_COLLABORATION_BYTES} bytes"));
        return None;
    }
    Some(shown)
}

/// Reads the plan; each error is reported at its place.
fn plan(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Option<StepPlan> {
    let written = spot.member("plan").or_else(|| spot.member("execution_plan"));
    let written = written.filter(|plan| !plan.is_null())?;
    match StepPlan::read(&written.node.shown()) {
        Ok(plan) => Some(plan),
        Err(faults) => {
            for fault in faults {
                let place = at_pointer(&written, &fault.pointer);
                reader.error(&place, format_args!("`plan`: {}", fault.message));
            }
            None
        }
    }
}

/// The value at a JSON pointer, or the nearest one above it.
fn at_pointer<'n>(from: &LocatedNode<'n>, pointer: &str) -> LocatedNode<'n> {
    let mut at = from.clone();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match &at.node.value {
            Value::List(elements) => {
                let index = step.parse::<usize>().ok();
                index.and_then(|index| elements.get(index).map(|node| at.element(index, node)))
            }
            _ => at.member(&step),
        };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}

/// The file that clients read for a skill without a folder.
fn instructions_file(name: &str, about: Option<&str>, instructions: &str) -> SkillFile {
    let mut text = format!("---\nname: {name}\n");
    if let Some(about) = about {
        // A JSON string is a YAML string, too.
        text.push_str(&format!("description: {}\n", serde_json::Value::from(about)));
    }
    text.push_str(&format!("---\n\n{instructions}\n"));
    SkillFile::new(INSTRUCTIONS.to_owned(), text.into_bytes())
}
