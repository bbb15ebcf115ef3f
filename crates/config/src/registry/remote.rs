//! Entries for remote servers.

use super::inputs::{InputFallback, InputReader, MAX_INPUTS, literal};
use serde_json::{Map, Value as Json, json};

/// Makes an entry for the first remote server that can be used. Adds the reasons for the others.
pub(super) fn choose(
    remotes: &[Json],
    reader: &mut InputReader<'_>,
    reasons: &mut Vec<String>,
) -> Option<Map<String, Json>> {
    // Streamable HTTP comes before the older transport.
    let of_kind = |kind: &'static str| remotes.iter().filter(move |remote| remote["type"] == kind);
    for remote in of_kind("streamable-http").chain(of_kind("sse")) {
        match usable_url(remote) {
            Ok(url) => return Some(entry(remote, url, reader)),
            Err(reason) => reasons.push(reason),
        }
    }
    None
}

fn usable_url(remote: &Json) -> Result<&str, String> {
    let url = remote["url"].as_str().unwrap_or_default();
    let shown: String = url.chars().take(200).collect();
    let host =
        url.strip_prefix("https://").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        // A value in the host could send credentials to another server.
        Some(host) if !host.is_empty() && !host.contains(['{', '}', '@', '$']) => Ok(url),
        _ => Err(format!("the URL `{shown}` is not an https URL with a fixed host")),
    }
}

fn entry(remote: &Json, url: &str, reader: &mut InputReader<'_>) -> Map<String, Json> {
    let mut entry = Map::new();
    let template = json!({ "value": url, "variables": remote["variables"] });
    let url = reader.value(&template, "url", InputFallback::Missing).unwrap_or_else(|| literal(url));
    entry.insert("url".into(), Json::from(url));
    if remote["type"] == "sse" {
        entry.insert("transport".into(), json!("sse"));
    }
    let mut headers = Map::new();
    for header in remote["headers"].as_array().into_iter().flatten().take(MAX_INPUTS) {
        let token = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let name = header["name"].as_str().filter(|name| !name.is_empty() && name.chars().all(token));
        let Some(name) = name else { continue };
        let variable = reader.own_variable(name);
        if let Some(value) = reader.value(header, name, InputFallback::Variable(&variable)) {
            headers.insert(name.to_owned(), Json::from(value));
        }
    }
    if !headers.is_empty() {
        entry.insert("headers".into(), Json::Object(headers));
    }
    entry
}
