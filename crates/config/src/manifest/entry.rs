//! Reads one entry of a manifest.

use super::auth;
use super::fields::{EntryReader, Extras, LocatedNode};
use super::provider;
use crate::node::Value;
use toolbooth_core::effects::effect_above_label;
use toolbooth_core::json::RawJson;
use toolbooth_core::lint::{misleading_letters, reserved};
use toolbooth_core::manifest::{
    ApprovalBy, Cost, Manifest, ManifestScope, Overlay, SafetyLevel, Version, read_version,
};
use toolbooth_core::schema::{Coverage, Patterns, SchemaFault, survey};
use toolbooth_core::server::SideEffects;

/// The maximum size of the JSON Schema of the arguments.
const MAX_PARAMETERS: usize = 512 * 1024;
/// The maximum length of a name.
const MAX_NAME: usize = 256;

/// All fields with a meaning.
pub(crate) const KNOWN: [&str; 19] = [
    "name",
    "description",
    "parameters",
    "version",
    "side_effects",
    "default_timeout",
    "hedge_after",
    "auth",
    "allow_parallel",
    "requires_consent",
    "approval",
    "idempotency_key",
    "capabilities",
    "persona_allowlist",
    "groups",
    "safety_level",
    "cost_per_call",
    "cost_unit",
    "providers",
];

/// Fields for people and editors only.
const REMARKS: [&str; 5] = ["$schema", "examples", "notes", "returns", "title"];

/// Fields of other programs that the gateway does not act on; a finding reports them.
const UNUSED: [&str; 7] = [
    "requires_flags",
    "policy_flags",
    "quota_hints",
    "skill_bindings",
    "idempotency_guidance",
    "filesystem_root",
    "network_allowlist",
];

pub(crate) const SIDE_EFFECTS: [&str; 8] =
    ["none", "read_external_service", "network", "filesystem", "write", "database", "compute", "system"];
pub(crate) const APPROVALS: [&str; 3] = ["none", "caller", "approver"];
pub(crate) const SAFETY_LEVELS: [&str; 4] = ["low", "medium", "high", "critical"];

/// Reads an entry. Errors are added to the reader's findings.
pub(crate) fn read(
    reader: &mut EntryReader<'_>,
    spot: &LocatedNode<'_>,
    key: Option<&str>,
    scope: &ManifestScope,
) -> Option<Manifest> {
    if spot.node.members().is_none() {
        reader.error(spot, format_args!("an entry must be a map of fields, found {}", spot.node.kind()));
        return None;
    }
    let name = name(reader, spot, key)?;
    reader.subject = format!("tool `{name}`");
    reader.keys(spot, &KNOWN, Extras::These(&[REMARKS.as_slice(), UNUSED.as_slice()].concat()));
    warn_of_unused(reader, spot);
    let location = reader.texts.location(spot.node.mark);
    let overlay = overlay(reader, spot, &name);
    let description = reader.text(spot.member("description"));
    let parameters = parameters(reader, spot);
    let groups = reader.texts(spot.member("groups"));
    let providers = provider::read_all(reader, spot);
    let manifest = Manifest {
        name,
        scope: scope.clone(),
        origin: location.to_string(),
        overlay,
        description,
        parameters,
        groups,
        providers,
    };
    if manifest.takes_foreign_id() {
        let hint = "add that tool to the providers, remove `providers`, or rename the entry";
        let named = spot.member("name").unwrap_or_else(|| spot.clone());
        let sentence = format!(
            "`{}` is the ID of a server's tool, but none of the providers is that tool",
            manifest.name
        );
        reader.error_with(&named, sentence, hint);
    }
    (!reader.is_broken()).then_some(manifest)
}

/// Whether a field belongs to other programs, to people or to editors.
pub(super) fn is_extra(key: &str) -> bool {
    REMARKS.contains(&key) || UNUSED.contains(&key)
}

/// Warns of fields that restrict the tool in other programs and have no effect here.
pub(super) fn warn_of_unused(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) {
    for key in UNUSED {
        let Some(unused) = spot.member(key).filter(|unused| !unused.is_null()) else { continue };
        let hint = match key {
            "filesystem_root" | "network_allowlist" => {
                "restrict the server itself, for example with its arguments"
            }
            "requires_flags" | "policy_flags" => {
                "restrict the tool with `groups`, `persona_allowlist` or `policy.rules`"
            }
            "quota_hints" => "set `limits.calls_per_minute`",
            _ => "remove it, or keep it for another program",
        };
        reader.doubt(
            "manifest.unused-key",
            &unused,
            format_args!("`{}` has no effect", unused.field),
            Some(hint),
        );
    }
}

fn name(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>, key: Option<&str>) -> Option<String> {
    let written = spot.member("name").filter(|name| !name.is_null());
    let Some(name) = written.or_else(|| Some(spot.clone()).filter(|_| key.is_some())) else {
        reader.error_with(spot, "`name` is missing", "`name` is the only required field of an entry");
        return None;
    };
    let text = match (spot.member("name"), key) {
        (Some(written), _) if !written.is_null() => reader.text(Some(written))?,
        (_, Some(key)) => key.trim().to_owned(),
        _ => return None,
    };
    if text.is_empty() || text.chars().count() > MAX_NAME || text.chars().any(char::is_control) {
        reader.error(&name, format_args!("a name must have 1 to {MAX_NAME} printable characters"));
        return None;
    }
    if let Some(own) = reserved(&text) {
        let sentence =
            format!("`{own}` is a built-in tool of the gateway; an entry may not use or imitate its name");
        reader.error_with(&name, sentence, "rename the entry");
        return None;
    }
    if let Some(why) = misleading_letters(&text) {
        let hint = Some("use letters of one script only, unless this is intended");
        reader.doubt(
            "manifest.lookalike-name",
            &name,
            format_args!("the name may be misleading: {why}"),
            hint,
        );
    }
    Some(text)
}

/// Reads the fields of an entry that describe the tool `name`.
pub(super) fn overlay(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>, name: &str) -> Overlay {
    let label = reader.word(spot.member("side_effects"), &SIDE_EFFECTS);
    warn_of_label(reader, spot, name, label.and_then(of_word::<SideEffects>));
    let approval = reader.word(spot.member("approval"), &APPROVALS);
    let level = reader.word(spot.member("safety_level"), &SAFETY_LEVELS);
    Overlay {
        version: version(reader, spot),
        side_effects: label.and_then(of_word::<SideEffects>),
        timeout: reader.seconds(spot.member("default_timeout"), 1.0),
        hedge_after: reader.seconds(spot.member("hedge_after"), 0.01),
        auth: auth::read(reader, spot.member("auth")),
        allow_parallel: reader.flag(spot.member("allow_parallel")),
        requires_consent: reader.flag(spot.member("requires_consent")),
        approval: approval.and_then(of_word::<ApprovalBy>),
        idempotency_key: idempotency_key(reader, spot),
        capabilities: reader.texts(spot.member("capabilities")),
        persona_allowlist: reader.texts(spot.member("persona_allowlist")),
        safety_level: level.and_then(of_word::<SafetyLevel>),
        cost: cost(reader, spot),
    }
}

/// Warns if the label claims weaker side effects than the name suggests, since policies and plan mode use the label.
fn warn_of_label(
    reader: &mut EntryReader<'_>,
    spot: &LocatedNode<'_>,
    name: &str,
    label: Option<SideEffects>,
) {
    let Some((label, spot)) = label.zip(spot.member("side_effects")) else { return };
    let Some(named) = effect_above_label("", name, label) else { return };
    let sentence = format!(
        "`side_effects` is `{}`, but the name `{name}` suggests `{named}`; policies and plan mode use the label",
        label.as_str()
    );
    let hint = Some("correct the label, unless the tool really changes nothing");
    reader.doubt("manifest.label-below-name", &spot, sentence, hint);
}

fn of_word<T: serde::de::DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::from(word)).ok()
}

fn version(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Option<Version> {
    let spot = spot.member("version").filter(|spot| !spot.is_null())?;
    let text = match &spot.node.value {
        Value::Number(number) => {
            reader.warn(&spot, format_args!("`version` is read as the string \"{number}\""));
            number.to_string()
        }
        _ => reader.text(Some(spot.clone()))?,
    };
    let version = read_version(&text);
    if version.is_none() {
        reader.error_with(
            &spot,
            format_args!("`{text}` is not a valid version"),
            "write it as 1.2.3; 1.2 means 1.2.0",
        );
    }
    version
}

fn idempotency_key(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Option<bool> {
    let spot = spot.member("idempotency_key")?;
    match spot.node.value {
        Value::Map(_) => {
            let required = spot.member("required");
            if required.is_none() {
                reader.error(&spot, "`idempotency_key` as a map needs `required`");
            }
            reader.flag(required)
        }
        _ => reader.flag(Some(spot)),
    }
}

fn cost(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Option<Cost> {
    let unit = reader.text(spot.member("cost_unit"));
    let spot = spot.member("cost_per_call").filter(|spot| !spot.is_null())?;
    let per_call = reader.number(&spot)?;
    if per_call < 0.0 {
        reader.error(&spot, "`cost_per_call` must not be negative");
        return None;
    }
    Some(Cost { per_call, unit: unit.unwrap_or_else(|| "USD".to_owned()) })
}

/// Reads the JSON Schema of the arguments. Variables in it are not expanded.
/// Reads the JSON Schema of the arguments.
pub(super) fn parameters(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Option<RawJson> {
    let spot = reader.map(spot.member("parameters"))?;
    if let Some(kind) = spot.member("type")
        && kind.node.text() != Some("object")
    {
        reader.error(&kind, "`parameters.type` must be \"object\": arguments have names");
    }
    reader.map(spot.member("properties"));
    if let Some(required) =
        spot.member("required").filter(|required| !matches!(required.node.value, Value::List(_)))
    {
        reader.error(
            &required,
            format_args!("`parameters.required` must be a list of names, found {}", required.node.kind()),
        );
    }
    let text = RawJson::from_value(&spot.node.shown());
    if text.as_bytes().len() > MAX_PARAMETERS {
        reader.error(&spot, format_args!("`parameters` has more than {MAX_PARAMETERS} bytes"));
        return None;
    }
    match survey(&text, &mut Patterns::default()) {
        Coverage::Whole => {}
        Coverage::Part(faults) => faults.iter().for_each(|fault| reader.warn(&spot, unchecked(fault))),
        Coverage::Nothing(fault) => reader.warn(&spot, unchecked(&fault)),
    }
    Some(text)
}

/// The warning about arguments that the gateway cannot validate; the provider validates them.
fn unchecked(fault: &SchemaFault) -> String {
    format!("not every argument is checked: {fault}")
}
