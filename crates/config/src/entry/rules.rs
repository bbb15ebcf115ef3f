//! The rules that decide which tools of a server enter the catalog.

use super::context::EntryContext;
use super::file::{ToolsField, ToolsMap};
use crate::fields::OneOrMany;
use crate::finding::{GLOB_HINT, Severity};
use crate::manifest::overrides;
use toolbooth_core::server::ToolRules;

/// The fields of an entry that select tools.
pub(super) struct ToolRuleFields {
    pub tools: Option<ToolsField>,
    pub allow_tools: Option<OneOrMany<String>>,
    pub deny_tools: Option<OneOrMany<String>>,
    pub require_approval: Option<Vec<String>>,
}

/// Combines the fields into rules.
pub(super) fn choose(context: &mut EntryContext<'_>, fields: ToolRuleFields) -> ToolRules {
    let ToolRuleFields { tools, allow_tools, deny_tools, require_approval } = fields;
    let ToolsField(ToolsMap { allow, deny, require_approval: more, overrides }) = tools.unwrap_or_default();
    let all = |first: Option<OneOrMany<String>>, second: Vec<String>| -> Vec<String> {
        first.into_iter().flat_map(|field| field.0).chain(second).collect()
    };
    let listed = |field: Option<OneOrMany<String>>| field.map(|field| field.0).unwrap_or_default();
    let overrides = overrides.into_keys().map(|tool| overriding(context, tool)).collect();
    let rules = ToolRules {
        allow: all(allow, listed(allow_tools)),
        deny: all(deny, listed(deny_tools)),
        require_approval: all(more, require_approval.unwrap_or_default()),
        overrides,
    };
    for (key, globs) in
        [("allow", &rules.allow), ("deny", &rules.deny), ("require_approval", &rules.require_approval)]
    {
        for glob in globs {
            if globset::Glob::new(glob).is_err() {
                let sentence = format!("`{glob}` is not a valid glob for tool names");
                context.note_with(
                    Severity::Error,
                    "config.bad-glob",
                    &["tools", key],
                    &sentence,
                    Some(GLOB_HINT),
                );
            }
        }
    }
    rules
}

/// Reads the override of one tool; an error in it makes the entry invalid.
fn overriding(context: &mut EntryContext<'_>, tool: String) -> (String, serde_json::Value) {
    let Some(node) = context.node.at(&["tools", "overrides"]).and_then(|node| node.get(&tool)) else {
        return (tool, serde_json::Value::Null);
    };
    let subject = format!("server `{}`, override of `{tool}`", context.name);
    let (fields, findings) = overrides::read(context.inputs.texts, node, &tool, subject);
    for mut finding in findings {
        let inside = finding.key.take().unwrap_or_default().replace('/', ".");
        finding.key = Some(format!("servers.{}.tools.overrides.{tool}{inside}", context.name));
        context.findings.push(finding);
    }
    (tool, fields)
}
