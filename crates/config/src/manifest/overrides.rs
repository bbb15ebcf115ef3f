//! `tools.overrides` of a server entry: manifest fields of a tool, written in the entry of its server.

use super::Pointer;
use super::entry;
use super::fields::{EntryReader, LocatedNode};
use crate::expand::{self, Variables};
use crate::finding::Finding;
use crate::node::{Node, TemplateText, Typing, Value};
use crate::suggest::nearest;
use crate::texts::SourceTexts;
use serde_json::{Map, Value as Json};

/// The fields that can be overridden.
pub(crate) const KNOWN: [&str; 13] = [
    "version",
    "side_effects",
    "default_timeout",
    "auth",
    "allow_parallel",
    "requires_consent",
    "approval",
    "idempotency_key",
    "capabilities",
    "persona_allowlist",
    "safety_level",
    "cost_per_call",
    "cost_unit",
];

/// Reads the override of one tool. The keys of the findings are JSON pointers inside the override.
pub(crate) fn read(texts: &SourceTexts, node: &Node, tool: &str, subject: String) -> (Json, Vec<Finding>) {
    let Some(settled) = settled(node) else {
        // The entry waits for trust, so its variables are not expanded.
        return (node.shown(), Vec::new());
    };
    let variables = Variables::default();
    let mut reader = EntryReader { texts, variables: &variables, subject, findings: Vec::new() };
    let spot = LocatedNode { node: &settled, pointer: Pointer::default(), field: String::new() };
    let fields = match settled.members() {
        Some(_) => fields(&mut reader, &spot, tool),
        None => {
            reader.error(
                &spot,
                format_args!("an override must be a map of manifest fields, found {}", settled.kind()),
            );
            Map::new()
        }
    };
    let mut findings = reader.findings;
    for finding in findings.iter_mut().filter(|finding| finding.code == "manifest.bad-entry") {
        finding.code = "config.bad-override";
    }
    (Json::Object(fields), findings)
}

fn fields(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>, tool: &str) -> Map<String, Json> {
    report_unknown_fields(reader, spot);
    entry::warn_of_unused(reader, spot);
    let overlay = entry::overlay(reader, spot, tool);
    let word = |key: &str| {
        let written = spot.member(key).and_then(|spot| spot.node.text().map(str::to_owned))?;
        Some(Json::from(written))
    };
    let seconds = overlay.timeout.map(|time| match time.subsec_nanos() {
        0 => Json::from(time.as_secs()),
        _ => Json::from(time.as_secs_f64()),
    });
    let cost = overlay.cost.as_ref();
    let overridden = [
        ("version", overlay.version.as_ref().map(|version| Json::from(version.to_string()))),
        ("side_effects", overlay.side_effects.and_then(|_| word("side_effects"))),
        ("default_timeout", seconds),
        ("auth", overlay.auth.as_ref().and_then(|_| Some(spot.member("auth")?.node.shown()))),
        ("allow_parallel", overlay.allow_parallel.map(Json::from)),
        ("requires_consent", overlay.requires_consent.map(Json::from)),
        ("approval", overlay.approval.and_then(|_| word("approval"))),
        ("idempotency_key", overlay.idempotency_key.map(Json::from)),
        ("capabilities", overlay.capabilities.clone().map(Json::from)),
        ("persona_allowlist", overlay.persona_allowlist.clone().map(Json::from)),
        ("safety_level", overlay.safety_level.and_then(|_| word("safety_level"))),
        ("cost_per_call", cost.map(|cost| Json::from(cost.per_call))),
        ("cost_unit", cost.map(|cost| Json::from(cost.unit.as_str()))),
    ];
    overridden.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Reports fields that cannot be overridden, and unknown fields.
fn report_unknown_fields(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) {
    let members = spot.node.members().unwrap_or_default();
    for (key, _) in members {
        let text = key.text.as_str();
        if KNOWN.contains(&text) || entry::is_extra(text) {
            continue;
        }
        let of_manifest = entry::KNOWN.contains(&text);
        let sentence = match of_manifest {
            true => format!("`{text}` cannot be overridden here"),
            false => format!("unknown key `{text}`"),
        };
        let code = if of_manifest { "config.bad-override" } else { "config.unknown-key" };
        let finding =
            Finding::error(code, format!("{}: {sentence}", reader.subject)).at(reader.texts, key.mark);
        let finding = finding.about(spot.pointer.key(text).as_str());
        reader.findings.push(match nearest(text, KNOWN) {
            _ if of_manifest => finding
                .hint(format!("set `{text}` in a tool manifest; `toolbooth manifest check` validates one")),
            Some(near) => {
                finding.label(format!("did you mean `{near}`?")).hint(format!("did you mean `{near}`?"))
            }
            None => finding.hint(format!("expected one of `{}`", KNOWN.join("`, `"))),
        });
    }
}

/// The tree with expanded strings, and with typed values from the command line. `None` if a variable is not expanded.
fn settled(node: &Node) -> Option<Node> {
    let value = match &node.value {
        Value::Text(text) if !text.is_expanded() && !expand::references(text.shown()).is_empty() => {
            return None;
        }
        Value::Text(text) if text.typing() == Typing::Loose => match text.used().parse::<Json>() {
            Ok(Json::Bool(truth)) => Value::Bool(truth),
            Ok(Json::Number(number)) => Value::Number(number),
            _ => Value::Text(TemplateText::written(text.used())),
        },
        Value::Text(text) => Value::Text(TemplateText::written(text.used())),
        Value::List(elements) => Value::List(elements.iter().map(settled).collect::<Option<_>>()?),
        Value::Map(members) => Value::Map(
            members.iter().map(|(key, node)| Some((key.clone(), settled(node)?))).collect::<Option<_>>()?,
        ),
        other => other.clone(),
    };
    Some(Node { value, mark: node.mark })
}
