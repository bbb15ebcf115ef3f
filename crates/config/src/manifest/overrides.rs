//! `tools.overrides` of a server entry: what a manifest says of a tool, said where its server stands.

use super::Pointer;
use super::entry::{self, EXTRAS};
use super::fields::{Reader, Spot};
use crate::expand::{self, Variables};
use crate::finding::Finding;
use crate::node::{Node, Text, Typing, Value};
use crate::suggest::nearest;
use crate::texts::Texts;
use serde_json::{Map, Value as Json};

/// The fields that are read here.
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

/// The override of one tool as it is meant, and what is wrong with it. Places are pointers inside the override.
pub(crate) fn read(texts: &Texts, node: &Node, tool: &str, subject: String) -> (Json, Vec<Finding>) {
    let Some(settled) = settled(node) else {
        // It waits for trust, and its variables with it.
        return (node.shown(), Vec::new());
    };
    let variables = Variables::default();
    let mut reader = Reader { texts, variables: &variables, subject, findings: Vec::new() };
    let spot = Spot { node: &settled, pointer: Pointer::default(), field: String::new() };
    let fields = match settled.members() {
        Some(_) => fields(&mut reader, &spot, tool),
        None => {
            reader.error(
                &spot,
                format_args!("an override is a map of manifest fields, found {}", settled.kind()),
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

fn fields(reader: &mut Reader<'_>, spot: &Spot<'_>, tool: &str) -> Map<String, Json> {
    strangers(reader, spot);
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
    let said = [
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
    said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Fields that are not read here, and those that nothing reads: both were meant to do something.
fn strangers(reader: &mut Reader<'_>, spot: &Spot<'_>) {
    let members = spot.node.members().unwrap_or_default();
    for (key, _) in members {
        let text = key.text.as_str();
        if KNOWN.contains(&text) || EXTRAS.contains(&text) {
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
                .hint(format!("a tool manifest can say `{text}`; `toolbooth manifest check` reads one")),
            Some(near) => {
                finding.label(format!("did you mean `{near}`?")).hint(format!("did you mean `{near}`?"))
            }
            None => finding.hint(format!("known here: `{}`", KNOWN.join("`, `"))),
        });
    }
}

/// The same with every text as it is used, and what came from the command line as what it means. Nothing where
/// a variable has not been looked up.
fn settled(node: &Node) -> Option<Node> {
    let value = match &node.value {
        Value::Text(text) if !text.is_expanded() && !expand::references(text.shown()).is_empty() => {
            return None;
        }
        Value::Text(text) if text.typing() == Typing::Loose => match text.used().parse::<Json>() {
            Ok(Json::Bool(truth)) => Value::Bool(truth),
            Ok(Json::Number(number)) => Value::Number(number),
            _ => Value::Text(Text::written(text.used())),
        },
        Value::Text(text) => Value::Text(Text::written(text.used())),
        Value::List(elements) => Value::List(elements.iter().map(settled).collect::<Option<_>>()?),
        Value::Map(members) => Value::Map(
            members.iter().map(|(key, node)| Some((key.clone(), settled(node)?))).collect::<Option<_>>()?,
        ),
        other => other.clone(),
    };
    Some(Node { value, mark: node.mark })
}
