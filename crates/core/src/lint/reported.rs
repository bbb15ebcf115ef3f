//! Findings that cost no points: oddities, and texts that give instructions to a model.

use super::characters::{find_hidden, pointer};
use super::{FindingCode, FindingSeverity, LintFinding, LintSubject};
use crate::effects::effect_above_label;
use crate::reference::target;
use regex::RegexSet;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Maximum length of a name that all clients accept, including the server's name as prefix.
const LONGEST_NAME: usize = 64;
/// Maximum number of reported findings of one kind.
const MAX_REPORTED: usize = 8;
/// Maximum number of values that are read of a definition.
const MAX_VALUES: usize = 100_000;

fn finding(
    code: FindingCode,
    severity: FindingSeverity,
    at: impl Into<String>,
    message: String,
    hint: &'static str,
) -> LintFinding {
    LintFinding { code, severity, pointer: at.into(), points: 0, message, hint }
}

/// Adds all findings of this kind except those that need other tools.
pub(super) fn add_findings(subject: &LintSubject<'_>, definition: &Value, findings: &mut Vec<LintFinding>) {
    let schema = &definition["inputSchema"];
    if schema["type"] != "object" {
        let message = match schema {
            Value::Object(schema) if !schema.contains_key("type") => {
                "the schema of the arguments does not say `\"type\": \"object\"`".to_owned()
            }
            _ => "the schema of the arguments is not that of an object".to_owned(),
        };
        let hint = "clients expect `\"inputSchema\": {\"type\": \"object\", …}`";
        findings.push(finding(
            FindingCode::SchemaNotObject,
            FindingSeverity::Warning,
            "/inputSchema",
            message,
            hint,
        ));
    }
    for key in ["inputSchema", "outputSchema"] {
        findings.extend(references(key, &definition[key]));
    }
    findings.extend(long_name(subject));
    findings.extend(deceiving_name(subject));
    findings.extend(low_label(subject));
    findings.extend(instructions(definition));
    findings.extend(find_hidden(subject.definition.as_str()).map(|hidden| {
        let hint = "remove them; until then the tool is quarantined";
        finding(
            FindingCode::HiddenCharacters,
            FindingSeverity::Error,
            hidden.pointer.clone(),
            hidden.to_string(),
            hint,
        )
    }));
}

/// Reports that another tool has the same description.
pub(super) fn same_description(other: &str) -> LintFinding {
    let message = format!("`{}` has the same description", super::visible(other));
    let hint = "describe how the two differ, so that a model can choose";
    finding(FindingCode::SameWording, FindingSeverity::Note, "/description", message, hint)
}

/// Reports that another tool's name looks the same.
pub(super) fn looks_like(other: &str) -> LintFinding {
    let message = format!("the name looks like `{}`, which is another tool", super::visible(other));
    finding(
        FindingCode::LookalikeName,
        FindingSeverity::Warning,
        "/name",
        message,
        "rename one, or allow only one of them",
    )
}

fn deceiving_name(subject: &LintSubject<'_>) -> Option<LintFinding> {
    let message = match super::reserved(subject.name) {
        Some(own) => format!("the name reads like `{own}`, one of the gateway's own tools"),
        None => format!("the name may be misleading: {}", super::misleading_letters(subject.name)?),
    };
    let hint = "rename the tool, or keep it out with `tools.deny` of its server";
    Some(finding(FindingCode::LookalikeName, FindingSeverity::Warning, "/name", message, hint))
}

fn low_label(subject: &LintSubject<'_>) -> Option<LintFinding> {
    let label = subject.label?;
    let named = effect_above_label(subject.server.unwrap_or_default(), subject.name, label)?;
    let message = format!(
        "it is labelled `{}`, but its name says `{named}`: policies and plan mode use the label",
        label.as_str()
    );
    let hint = "correct `side_effects` unless the tool really changes nothing";
    Some(finding(FindingCode::LabelBelowName, FindingSeverity::Warning, "/name", message, hint))
}

fn long_name(subject: &LintSubject<'_>) -> Option<LintFinding> {
    let prefix = subject.server.map_or(0, |server| server.chars().count() + 1);
    let length = prefix + subject.name.chars().count();
    (length > LONGEST_NAME).then(|| {
        let message =
            format!("the name has {length} characters, over the limit of {LONGEST_NAME} in clients");
        let hint = "a shorter name is shown in full, without a hash";
        finding(FindingCode::LongName, FindingSeverity::Warning, "/name", message, hint)
    })
}

fn references(key: &str, root: &Value) -> Vec<LintFinding> {
    let mut anchors: HashSet<&str> = HashSet::new();
    let mut found: Vec<(String, &str)> = Vec::new();
    let mut walk = SubschemaWalk { path: vec![Cow::Borrowed(key)], left: MAX_VALUES };
    walk.schema(root, &mut |path, schema| {
        anchors.extend(["$anchor", "$dynamicAnchor", "$id"].iter().filter_map(|key| schema[key].as_str()));
        let reference = ["$ref", "$dynamicRef", "$recursiveRef"].iter().find_map(|key| schema[key].as_str());
        // Most references resolve; only the others need their position.
        if let Some(reference) = reference.filter(|reference| target(root, reference).is_none()) {
            found.push((pointer(path), reference));
        }
    });
    let is_anchor = |reference: &str| anchors.contains(reference.strip_prefix('#').unwrap_or(reference));
    found
        .into_iter()
        .filter(|(_, reference)| !is_anchor(reference))
        .take(MAX_REPORTED)
        .map(|(at, reference)| {
            let shown: String = super::visible(reference).chars().take(80).collect();
            let message = match reference.starts_with('#') {
                true => format!("`{shown}` does not exist"),
                false => format!("`{shown}` is outside the definition"),
            };
            let hint = "define it in the schema's own `$defs`";
            finding(FindingCode::UnresolvableRef, FindingSeverity::Warning, at, message, hint)
        })
        .collect()
}

static INSTRUCTIONS: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    RegexSet::new([
        r"(?i)\b(?:ignore|disregard|forget|override|bypass)\b[^.!?]{0,40}\b(?:previous|prior|earlier|preceding|above|other|all|any|your|system)\b[^.!?]{0,20}\b(?:instructions?|prompts?|rules|guidelines|directives|tools)\b",
        r"(?i)\bignore (?:the |all |any )?(?:previous|above|prior)\b",
        r"(?i)\b(?:do not|don't|never|without)\s+(?:tell|telling|mention|mentioning|inform|informing|notify|notifying|alert|alerting|reveal|revealing|disclose|disclosing)\b[^.!?]{0,30}\buser",
        r"(?i)<\s*(?:important|system|secret|hidden|instructions?|assistant|admin|priority)\s*>",
        r"(?i)\bbefore (?:using|calling|invoking|running) (?:any|all|every|each)(?: of the)?(?: other)? tools?\b",
        r"(?i)\b(?:your|reveal|repeat|print|show|output|change|replace)\b[^.!?]{0,20}\b(?:system|developer) prompt\b",
        r"(?i)\byou are now\b|\bnew instructions?:|\bact as (?:an?|the) (?:admin|system|root|different)\b",
        r"(?i)(?:~|\$home|/home/\w+|/root)/\.(?:ssh|aws|gnupg|kube|netrc|config/gcloud)\b|\bid_(?:rsa|ed25519)\b|/etc/(?:passwd|shadow)\b|\.cursor/mcp\.json",
        r"(?i)\b(?:read|send|include|attach|append|forward|upload|share|paste|copy|pass|reveal|output|exfiltrate)\b[^.!?]{0,40}\b(?:the user'?s|their|all|any|stored|saved|environment)\b[^.!?]{0,20}\b(?:passwords?|credentials?|secrets?|private keys?|ssh keys?|api[ _-]?keys?|access tokens?|environment variables|conversation|chat history|message history)\b",
    ])
    .ok()
});

/// Finds texts that address the model instead of describing the tool.
fn instructions(definition: &Value) -> Vec<LintFinding> {
    let Some(patterns) = INSTRUCTIONS.as_ref() else { return Vec::new() };
    let mut findings = Vec::new();
    let mut check = |path: &[Cow<'_, str>], value: &Value| {
        for key in ["description", "title"] {
            let Some(text) = value[key].as_str().filter(|text| patterns.is_match(text)) else { continue };
            if findings.len() < MAX_REPORTED {
                let at = pointer(&[path, &[Cow::Borrowed(key)]].concat());
                let quoted = quoted(text, patterns);
                let message = format!("the text seems to give instructions to a model: “{quoted}”");
                let hint = "a description should describe the tool; instructions to a model may be an attack";
                findings.push(finding(
                    FindingCode::AddressesModel,
                    FindingSeverity::Warning,
                    at,
                    message,
                    hint,
                ));
            }
        }
    };
    check(&[], definition);
    for key in ["inputSchema", "outputSchema"] {
        SubschemaWalk { path: vec![Cow::Borrowed(key)], left: MAX_VALUES }
            .schema(&definition[key], &mut check);
    }
    findings
}

/// The sentence that matches a pattern, cut to a reasonable length and safe to display.
fn quoted(text: &str, patterns: &RegexSet) -> String {
    let sentences = text.split_inclusive(['.', '!', '?', '\n']).map(str::trim);
    let sentence = sentences.clone().find(|sentence| patterns.is_match(sentence)).unwrap_or(text);
    let line = super::visible(sentence).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(120) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// Walks through the subschemas of a schema. Argument names are not keywords, and values are not schemas.
struct SubschemaWalk<'a> {
    path: Vec<Cow<'a, str>>,
    left: usize,
}

impl<'a> SubschemaWalk<'a> {
    fn schema(&mut self, schema: &'a Value, visit: &mut impl FnMut(&[Cow<'a, str>], &'a Value)) {
        let Some(members) = schema.as_object() else { return };
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        visit(&self.path, schema);
        for (key, value) in members {
            self.path.push(Cow::Borrowed(key));
            match (key.as_str(), value) {
                ("enum" | "const" | "default" | "examples" | "example" | "required", _) => {}
                (
                    "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                    | "dependencies",
                    Value::Object(named),
                ) => {
                    for (name, schema) in named {
                        self.part(Cow::Borrowed(name), schema, visit);
                    }
                }
                (_, Value::Array(schemas)) => {
                    // Most lists hold words: only schemas need an index.
                    for (index, schema) in schemas.iter().enumerate().filter(|(_, schema)| schema.is_object())
                    {
                        self.part(Cow::Owned(index.to_string()), schema, visit);
                    }
                }
                (_, schema) => self.schema(schema, visit),
            }
            self.path.pop();
        }
    }

    fn part(
        &mut self,
        step: Cow<'a, str>,
        schema: &'a Value,
        visit: &mut impl FnMut(&[Cow<'a, str>], &'a Value),
    ) {
        self.path.push(step);
        self.schema(schema, visit);
        self.path.pop();
    }
}
