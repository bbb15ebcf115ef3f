//! The credentials a tool needs: names of variables, never their values.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;

/// The maximum number of variables of one entry.
const MAX_ENVS: usize = 64;

/// A tool's `auth`: the credentials it needs before it can be called.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AuthHints {
    /// Whether the credentials are required.
    pub required: bool,
    /// The kind of credential, in the author's words.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The variables that hold the credentials.
    pub envs: Vec<CredentialVariable>,
    /// The scopes they must grant.
    pub scopes: Vec<String>,
    /// Documentation on how to obtain them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docs: Option<String>,
}

/// One variable that holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CredentialVariable {
    /// The variable's name.
    pub name: String,
    /// Whether it is required.
    pub need: CredentialNeed,
}

/// Whether a credential is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialNeed {
    /// The tool does not work without it.
    Required,
    /// The tool works without it.
    Optional,
}

impl AuthHints {
    /// Parses `auth` in any supported form: a boolean, or a map whose `env`/`envs` is a name, a list of names, or a map
    /// from names to `{required}`, `{optional}`, a name, or `{name}`.
    pub fn read(value: &Value) -> Self {
        let fields = match value {
            Value::Bool(required) => return Self { required: *required, ..Self::default() },
            Value::Object(fields) => fields,
            _ => return Self::default(),
        };
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut scopes: Vec<String> = match fields.get("scopes") {
            Some(Value::String(one)) => one.split_whitespace().map(str::to_owned).collect(),
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let mut seen = HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        let given = fields.get("required").and_then(Value::as_bool);
        let required = given.unwrap_or(!scopes.is_empty());
        let mut envs = Vec::new();
        for key in ["env", "envs"] {
            collect(fields.get(key), required, &mut envs);
        }
        envs.truncate(MAX_ENVS);
        Self { required, kind: text("type"), envs, scopes, docs: text("docs") }
    }

    /// Merges a tool's own hints with its server's: the scopes and variables of both; otherwise the tool's take
    /// precedence.
    pub fn over(&self, server: &Self) -> Self {
        let mut merged = self.clone();
        merged.required |= server.required;
        merged.kind = merged.kind.or_else(|| server.kind.clone());
        merged.docs = merged.docs.or_else(|| server.docs.clone());
        for scope in &server.scopes {
            if !merged.scopes.contains(scope) {
                merged.scopes.push(scope.clone());
            }
        }
        for env in &server.envs {
            if !merged.envs.iter().any(|own| own.name == env.name) {
                merged.envs.push(env.clone());
            }
        }
        merged
    }

    /// Whether all required credentials are set.
    pub fn is_met(&self, is_set: impl Fn(&str) -> bool) -> bool {
        let required = self.envs.iter().filter(|env| env.need == CredentialNeed::Required);
        required.into_iter().all(|env| is_set(&env.name))
    }
}

fn collect(value: Option<&Value>, required: bool, envs: &mut Vec<CredentialVariable>) {
    let inherited = if required { CredentialNeed::Required } else { CredentialNeed::Optional };
    let mut add = |name: &str, need: CredentialNeed| {
        if !name.is_empty() && !envs.iter().any(|env| env.name == name) {
            envs.push(CredentialVariable { name: name.to_owned(), need });
        }
    };
    match value {
        Some(Value::String(name)) => add(name, inherited),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).for_each(|name| add(name, inherited));
        }
        Some(Value::Object(map)) => {
            for (label, about) in map {
                let says = |key: &str| about.get(key).and_then(Value::as_bool);
                let need = match (says("required"), says("optional")) {
                    (_, Some(true)) | (Some(false), _) => CredentialNeed::Optional,
                    (Some(true), _) | (_, Some(false)) => CredentialNeed::Required,
                    (None, None) => inherited,
                };
                // A label may precede the variable's name.
                let named = about.as_str().or_else(|| about.get("name").and_then(Value::as_str));
                add(named.unwrap_or(label), need);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_form_of_envs_is_read() {
        let cases = [
            (json!({"required": true, "env": "A"}), "A:Required"),
            (json!({"required": true, "env": ["A", "B"]}), "A:Required B:Required"),
            (json!({"envs": ["A"]}), "A:Optional"),
            (
                json!({"required": true, "envs": {"A": {"required": true}, "B": {"optional": true}}}),
                "A:Required B:Optional",
            ),
            (
                json!({"required": true, "envs": {"label": "A", "other": {"name": "B"}}}),
                "A:Required B:Required",
            ),
            (json!({"required": true, "envs": {"A": {"required": false}}}), "A:Optional"),
            (json!(true), ""),
        ];
        for (value, expected) in cases {
            let hints = AuthHints::read(&value);
            let shown: Vec<String> =
                hints.envs.iter().map(|env| format!("{}:{:?}", env.name, env.need)).collect();
            assert_eq!(shown.join(" "), expected, "{value}");
        }
    }

    #[test]
    fn scopes_imply_required_and_are_merged() {
        let tool = AuthHints::read(&json!({"scopes": ["a", "a"], "type": "oauth"}));
        let server = AuthHints::read(&json!({"scopes": ["a", "b"], "type": "key", "env": "K"}));
        let merged = tool.over(&server);
        assert!(merged.required);
        assert_eq!((merged.scopes, merged.kind.as_deref()), (vec!["a".into(), "b".into()], Some("oauth")));
        assert_eq!(merged.envs.len(), 1);
    }
}
