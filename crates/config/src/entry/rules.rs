//! Which tools of a server enter the catalog.

use super::file::ToolsField;
use super::normalise::Desk;
use crate::checks::GLOB_HINT;
use crate::fields::OneOrMany;
use crate::finding::Severity;
use crate::manifest::overrides;
use toolbooth_core::server::ToolRules;

/// The fields that choose tools.
pub(super) struct Written {
    pub tools: Option<ToolsField>,
    pub allow_tools: Option<OneOrMany<String>>,
    pub deny_tools: Option<OneOrMany<String>>,
    pub require_approval: Option<Vec<String>>,
}

/// The rules that these fields mean.
pub(super) fn choose(desk: &mut Desk<'_>, written: Written) -> ToolRules {
    let Written { tools, allow_tools, deny_tools, require_approval } = written;
    let ToolsField { allow, deny, require_approval: more, overrides } = tools.unwrap_or_default();
    let all = |first: Option<OneOrMany<String>>, second: Vec<String>| -> Vec<String> {
        first.into_iter().flat_map(|field| field.0).chain(second).collect()
    };
    let listed = |field: Option<OneOrMany<String>>| field.map(|field| field.0).unwrap_or_default();
    let overrides = overrides.into_keys().map(|tool| overriding(desk, tool)).collect();
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
                let sentence = format!("`{glob}` is not a pattern for tool names");
                desk.note_with(
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

/// What is said of one tool, as it is meant; what is wrong with it breaks the entry.
fn overriding(desk: &mut Desk<'_>, tool: String) -> (String, serde_json::Value) {
    let Some(node) = desk.node.at(&["tools", "overrides"]).and_then(|node| node.get(&tool)) else {
        return (tool, serde_json::Value::Null);
    };
    let subject = format!("server `{}`, override of `{tool}`", desk.name);
    let (fields, findings) = overrides::read(desk.context.texts, node, &tool, subject);
    for mut finding in findings {
        let inside = finding.key.take().unwrap_or_default().replace('/', ".");
        finding.key = Some(format!("servers.{}.tools.overrides.{tool}{inside}", desk.name));
        desk.findings.push(finding);
    }
    (tool, fields)
}
