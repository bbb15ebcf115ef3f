//! The settings of a configuration for `GET /config`: values with their origins, without secrets.

use serde_json::Value;
use toolbooth_config::{LoadedConfig, explain};
use toolbooth_server::rest::{OverriddenView, SettingView};

/// The maximum number of settings in the list.
const MAX_SETTINGS: usize = 2_000;
/// The maximum size of a value, in bytes of JSON.
const MAX_VALUE: usize = 4_096;
/// The maximum number of sources that are named for one value.
const MAX_ORIGINS: usize = 8;
/// What is shown instead of a value that may be a secret.
const HIDDEN: &str = "(hidden)";

/// The settings that are set, in the order of their keys. Servers are listed without values.
pub fn shown_settings(loaded: &LoadedConfig) -> Vec<SettingView> {
    let mut shown: Vec<SettingView> =
        loaded.origins().into_iter().take(MAX_SETTINGS).map(|(key, _)| setting(loaded, key)).collect();
    shown.extend(loaded.servers.iter().take(MAX_SETTINGS).map(|server| SettingView {
        key: format!("servers.{}", server.name),
        value: None,
        origin: server.origin.to_string(),
        overrides: Vec::new(),
    }));
    shown.sort_by(|one, other| one.key.cmp(&other.key));
    shown.truncate(MAX_SETTINGS);
    shown
}

fn setting(loaded: &LoadedConfig, key: String) -> SettingView {
    let explanation = explain(loaded, &key);
    let overrides = explanation
        .over
        .into_iter()
        .map(|over| OverriddenView { origin: over.origin.to_string(), value: shown(&key, over.value) });
    SettingView {
        overrides: overrides.collect(),
        value: explanation.value.map(|value| shown(&key, value)),
        origin: match explanation.origin {
            Some(origin) => {
                let all = std::iter::once(&origin).chain(&explanation.also).take(MAX_ORIGINS);
                all.map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
            None => "built in".to_owned(),
        },
        key,
    }
}

/// A value that may leave the machine: no literal header, which may be a credential under any name, and no long list.
fn shown(key: &str, value: Value) -> Value {
    let is_header = key.split('.').any(|part| part == "headers" || part == "env");
    match &value {
        Value::String(text) if is_header && !text.contains("${") => HIDDEN.into(),
        _ if value.to_string().len() > MAX_VALUE => match &value {
            Value::Array(items) => format!("({} items)", items.len()).into(),
            _ => "(long value)".into(),
        },
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literal_headers_and_long_values_are_not_shown() {
        let cases = [
            ("llm.headers.x-team", json!("abc"), json!("(hidden)")),
            ("llm.headers.x-team", json!("${TEAM}"), json!("${TEAM}")),
            ("exposure.mode", json!("search"), json!("search")),
            ("groups.staff", json!(vec!["ann"; 2_000]), json!("(2000 items)")),
        ];
        for (key, value, expected) in cases {
            assert_eq!(shown(key, value), expected, "{key}");
        }
    }
}
