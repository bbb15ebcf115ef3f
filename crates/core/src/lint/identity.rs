//! Identity arguments that the gateway does not supply: a caller of such a tool may name any user.

use super::{FindingCode, FindingSeverity, LintFinding};
use crate::json::RawJson;

/// Names of arguments that identify the calling user.
const NAMES: [&str; 8] = [
    "username",
    "user_name",
    "user_id",
    "userId",
    "user_email",
    "acting_user",
    "on_behalf_of",
    "_atlas_user",
];

/// The arguments in a definition that name a user and that its callers supply. Arguments that the gateway supplies are not in
/// the schema that callers see.
pub fn unsupplied_identity(definition: &RawJson) -> Vec<&'static str> {
    let text = definition.as_bytes();
    let is_written = |name: &&&str| {
        let quoted = format!("\"{name}\"");
        text.windows(quoted.len()).any(|window| window == quoted.as_bytes())
    };
    let written: Vec<&'static str> = NAMES.iter().filter(is_written).copied().collect();
    if written.is_empty() {
        return written;
    }
    let Some(properties) = definition.at(&["inputSchema", "properties"]) else { return Vec::new() };
    written.into_iter().filter(|name| properties.member(name).is_some()).collect()
}

/// The lint finding for such an argument.
pub fn identity_finding(argument: &str) -> LintFinding {
    LintFinding {
        code: FindingCode::UnsuppliedIdentity,
        severity: FindingSeverity::Warning,
        pointer: format!("/inputSchema/properties/{argument}"),
        points: 0,
        message: format!("callers may name any user in `{argument}`"),
        hint: "set `inject` of its server if it names the caller; otherwise ignore this finding",
    }
}
