//! Findings that cost points, and those that earn some back.

use super::characters::pointer;
use super::siblings::words;
use super::{FindingCode, FindingSeverity, LintFinding, LintSubject};
use crate::reference::target;
use regex::Regex;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Minimum length of a description in characters.
const SHORT: usize = 20;
/// A description with this many words counts as saying more than the name.
const OWN_WORDS: usize = 5;
/// Number of arguments without description that cost points; the others are only reported.
const COUNTED: usize = 4;
/// Maximum number of arguments without description that are reported.
const MAX_REPORTED: usize = 16;
/// Maximum number of references followed in search of a description.
const HOPS: usize = 8;

fn finding(code: FindingCode, points: i8, at: String, message: String, hint: &'static str) -> LintFinding {
    let severity =
        if code == FindingCode::NoDescription { FindingSeverity::Error } else { FindingSeverity::Warning };
    LintFinding { code, severity, pointer: at, points, message, hint }
}

/// All findings that cost points.
pub(super) fn findings(subject: &LintSubject<'_>, definition: &Value) -> Vec<LintFinding> {
    let mut findings = Vec::new();
    findings.extend(description(subject.name, definition["description"].as_str().unwrap_or_default().trim()));
    let schema = &definition["inputSchema"];
    if let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) {
        arguments(schema, properties, &mut findings);
        if !schema["required"].is_array() {
            findings.push(finding(
                FindingCode::NoRequired,
                -10,
                "/inputSchema".into(),
                "the schema does not say which arguments are required".into(),
                "add `required`, even if the list is empty",
            ));
        }
    }
    if !is_snake_case(subject.name) && !is_prefixed(subject) {
        findings.push(finding(
            FindingCode::OddName,
            -5,
            "/name".into(),
            "the name is neither in snake_case nor prefixed".into(),
            "name it like `read_file`, or put the server's name in front",
        ));
    }
    findings
}

fn description(name: &str, text: &str) -> Vec<LintFinding> {
    let at = || "/description".to_owned();
    if text.is_empty() {
        let message = "the description is missing".to_owned();
        let hint = "describe what the tool does, when to use it and what it returns";
        return vec![finding(FindingCode::NoDescription, -40, at(), message, hint)];
    }
    let mut findings = Vec::new();
    let length = text.chars().take(SHORT).count();
    if length < SHORT {
        let message = format!("the description has {length} characters, fewer than {SHORT}");
        let hint = "describe what the tool does, when to use it and what it returns";
        findings.push(finding(FindingCode::ShortDescription, -20, at(), message, hint));
    }
    if restates(name, text) {
        let message = "the description says no more than the name".to_owned();
        let hint = "add what the name does not say";
        findings.push(finding(FindingCode::RestatesName, -15, at(), message, hint));
    }
    findings
}

/// Whether a description has all the words of the name and hardly any others.
fn restates(name: &str, text: &str) -> bool {
    let described: Vec<String> = words(text).take(OWN_WORDS).collect();
    let of_name: Vec<String> = words(&spaced(name)).collect();
    let same = |a: &str, b: &str| a == b || a.strip_suffix('s') == Some(b) || b.strip_suffix('s') == Some(a);
    described.len() < OWN_WORDS
        && !of_name.is_empty()
        && of_name.iter().all(|word| described.iter().any(|other| same(word, other)))
}

/// A name with a space before each capital that begins a word.
fn spaced(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    let mut was_small = false;
    for c in name.chars() {
        if c.is_uppercase() && was_small {
            out.push(' ');
        }
        was_small = c.is_lowercase() || c.is_numeric();
        out.push(c);
    }
    out
}

fn arguments(schema: &Value, properties: &Map<String, Value>, findings: &mut Vec<LintFinding>) {
    let silent = properties.iter().filter(|(_, property)| !is_described(schema, property));
    for (index, (name, _)) in silent.take(MAX_REPORTED).enumerate() {
        findings.push(finding(
            FindingCode::UndescribedArgument,
            if index < COUNTED { -5 } else { 0 },
            pointer(&["inputSchema", "properties", name]),
            "this argument has no description".into(),
            "describe its meaning, its format and its default",
        ));
    }
}

/// Whether a property has a description, its own or that of its reference's target.
fn is_described(schema: &Value, property: &Value) -> bool {
    let mut here = property;
    for _ in 0..HOPS {
        if here["description"].as_str().is_some_and(|text| !text.trim().is_empty()) {
            return true;
        }
        let target = here["$ref"].as_str().and_then(|reference| target(schema, reference));
        match target {
            Some(target) => here = target,
            None => return false,
        }
    }
    false
}

fn is_snake_case(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.split('_').all(|word| !word.is_empty() && word.chars().all(fits))
}

/// Whether the name begins with `mcp_` or with the name of its server.
fn is_prefixed(subject: &LintSubject<'_>) -> bool {
    let behind = |prefix: &str| {
        let rest = subject.name.get(..prefix.len()).filter(|head| head.eq_ignore_ascii_case(prefix));
        rest.and_then(|_| subject.name.get(prefix.len()..))
    };
    let is_apart =
        |rest: &str| rest.starts_with(['_', '-', '.', '/', ':']) && rest.contains(char::is_alphanumeric);
    ["mcp"].into_iter().chain(subject.server).any(|prefix| behind(prefix).is_some_and(is_apart))
}

static USAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"(?i)\b(?:usage:|when to use|how to use|use (?:this|it|when|for|to|if|after|before|only)\b|(?:call|run) (?:this|it) (?:when|to|if|after|before|first))";
    Regex::new(pattern).ok()
});

static EXAMPLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\b(?:examples?\b|e\.g\.|for instance\b|such as\b)").ok());

/// Findings that earn points back, at most `room` points.
pub(super) fn bonus(definition: &Value, mut room: i32) -> Vec<LintFinding> {
    let text = definition["description"].as_str().unwrap_or_default();
    let says = |pattern: &Option<Regex>| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
    let mut findings = Vec::new();
    let mut earn = |code: FindingCode, points: i8, at: &str, message: &str| {
        let points = points.min(i8::try_from(room).unwrap_or(0));
        if points > 0 {
            room -= i32::from(points);
            findings.push(LintFinding {
                code,
                severity: FindingSeverity::Note,
                pointer: at.to_owned(),
                points,
                message: message.to_owned(),
                hint: "keep it",
            });
        }
    };
    if says(&USAGE) {
        earn(FindingCode::SaysUsage, 3, "/description", "the description says when or how to use the tool");
    }
    if says(&EXAMPLE) {
        earn(FindingCode::HasExamples, 2, "/description", "the description has examples");
    } else if has_examples(&definition["inputSchema"]) {
        earn(FindingCode::HasExamples, 2, "/inputSchema", "the schema has examples");
    }
    findings
}

fn has_examples(schema: &Value) -> bool {
    let own = |schema: &Value| {
        schema["examples"].as_array().is_some_and(|examples| !examples.is_empty())
            || !schema["example"].is_null()
    };
    own(schema) || schema["properties"].as_object().is_some_and(|properties| properties.values().any(own))
}
