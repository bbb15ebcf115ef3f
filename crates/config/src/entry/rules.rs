//! Which tools of a server enter the catalog.

use super::file::ToolsField;
use super::normalise::Desk;
use crate::fields::OneOrMany;
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
                desk.error("config.bad-glob", &["tools", key], &sentence);
            }
        }
    }
    for (tool, fields) in &rules.overrides {
        if !fields.is_object() {
            let sentence = "an override is a map of manifest fields";
            desk.error("config.wrong-type", &["tools", "overrides", tool], sentence);
        }
    }
    rules
}
