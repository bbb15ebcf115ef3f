//! `providers` of an entry: who serves the tool.

use super::auth;
use super::fields::{Extras, Reader, Spot};
use crate::expand::{expand, references};
use crate::finding::Finding;
use crate::node::Value;
use crate::secrets::{hide_in_address, hide_literal};
use std::time::Duration;
use toolbooth_core::manifest::{
    AuthHints, Credential, HttpMethod, HttpRequest, Mapping, Need, ProviderKind, ProviderSpec,
};
use toolbooth_core::names::ServerName;
use toolbooth_core::secret::SecretText;

/// The most providers of one tool.
const MAX_PROVIDERS: usize = 32;
/// How often a provider is looked at when its entry does not say.
const HEALTH_CHECK: Duration = Duration::from_secs(60);

/// The kinds that the gateway knows.
pub(super) const KINDS: [&str; 4] = ["mcp", "http", "openai", "builtin"];
const KNOWN: [&str; 8] =
    ["name", "priority", "config", "health_check_interval", "mappings", "arguments", "result", "auth"];

/// Reads the providers of an entry.
pub(super) fn read_all(reader: &mut Reader<'_>, spot: &Spot<'_>) -> Vec<ProviderSpec> {
    let Some(spot) = spot.member("providers").filter(|spot| !spot.is_null()) else { return Vec::new() };
    let written: Vec<Spot<'_>> = match &spot.node.value {
        Value::Map(_) => {
            reader.warn(&spot, "`providers` is read as a list of one");
            vec![spot.clone()]
        }
        Value::List(elements) => {
            elements.iter().enumerate().map(|(index, node)| spot.element(index, node)).collect()
        }
        _ => {
            reader.error(&spot, format_args!("`providers` must be a list, found {}", spot.node.kind()));
            return Vec::new();
        }
    };
    if written.len() > MAX_PROVIDERS {
        reader.error(&spot, format_args!("a tool has at most {MAX_PROVIDERS} providers"));
        return Vec::new();
    }
    let mut providers: Vec<ProviderSpec> = Vec::new();
    for spot in written {
        let Some(mut provider) = read(reader, &spot) else { continue };
        let same = providers.iter().filter(|other| base_id(&other.kind) == base_id(&provider.kind)).count();
        if same > 0 {
            provider.id = format!("{}:{}", provider.id, same + 1);
        }
        providers.push(provider);
    }
    providers
}

/// What tells a provider from those of other kinds and servers. Counting is left to those that are alike, so
/// that a change of one does not rename others.
fn base_id(kind: &ProviderKind) -> String {
    match kind {
        ProviderKind::Mcp { server, .. } => format!("mcp:{server}"),
        ProviderKind::Http(_) => "http".to_owned(),
        ProviderKind::Builtin(_) => "builtin".to_owned(),
        ProviderKind::OpenAi { .. } => "openai".to_owned(),
        ProviderKind::Unknown(name) => name.clone(),
    }
}

fn read(reader: &mut Reader<'_>, spot: &Spot<'_>) -> Option<ProviderSpec> {
    let spot = &reader.map(Some(spot.clone()))?;
    if spot.member("name").is_none() {
        reader.error(spot, format_args!("`{}` has no `name`", spot.field));
        return None;
    }
    let name = reader.text(spot.member("name"))?;
    reader.keys(spot, &KNOWN, Extras::All);
    let priority = priority(reader, spot.member("priority"));
    let interval = reader.seconds(spot.member("health_check_interval"), 0.0);
    let mut auth = auth::read(reader, spot.member("auth"));
    let mappings = reader.map(spot.member("mappings"));
    let mapping = |key: &str| {
        let inner =
            mappings.as_ref().and_then(|mappings| mappings.member(key)).or_else(|| spot.member(key))?;
        Some(Mapping(inner.node.shown()))
    };
    let arguments = mapping("arguments");
    let mut result = mapping("result");
    let config = reader.map(spot.member("config"));
    let kind = match name.to_ascii_lowercase().as_str() {
        "mcp" => mcp(reader, spot, config)?,
        "http" => {
            let config = needed(reader, spot, config, "url")?;
            result = result.or_else(|| config.member("result").map(|result| Mapping(result.node.shown())));
            let (request, variables) = http(reader, &config)?;
            // What the request is made with must be there before it can be made.
            if !variables.is_empty() {
                let hints = auth.get_or_insert_with(AuthHints::default);
                hints.required = true;
                for name in variables
                    .into_iter()
                    .filter(|name| hints.envs.iter().all(|env| env.name != *name))
                    .collect::<Vec<_>>()
                {
                    hints.envs.push(Credential { name, need: Need::Required });
                }
            }
            ProviderKind::Http(Box::new(request))
        }
        "openai" | "llm" => {
            let member = |key| config.as_ref().and_then(|config| config.member(key));
            ProviderKind::OpenAi {
                model: reader.text(member("model")),
                prompt: reader.text(member("prompt")),
            }
        }
        "builtin" => {
            let config = needed(reader, spot, config, "tool")?;
            ProviderKind::Builtin(reader.text(config.member("tool"))?)
        }
        _ => {
            let known = KINDS.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
            let sentence =
                format!("this gateway knows no provider `{name}`, so it serves nothing (known: {known})");
            reader.warn(spot, sentence);
            ProviderKind::Unknown(name)
        }
    };
    let health_check_interval = interval.unwrap_or(HEALTH_CHECK);
    Some(ProviderSpec { id: base_id(&kind), kind, priority, health_check_interval, auth, arguments, result })
}

fn priority(reader: &mut Reader<'_>, spot: Option<Spot<'_>>) -> i64 {
    let Some(spot) = spot.filter(|spot| !spot.is_null()) else { return 0 };
    let Some(number) = reader.number(&spot) else { return 0 };
    if number.fract() != 0.0 || number.abs() > 1e9 {
        reader.error(&spot, format_args!("`{}` is a whole number, lower goes first", spot.field));
        return 0;
    }
    // Whole and small, so nothing is lost.
    number as i64
}

/// The configuration of a provider that cannot do without a key of it.
fn needed<'n>(
    reader: &mut Reader<'_>,
    spot: &Spot<'n>,
    config: Option<Spot<'n>>,
    key: &str,
) -> Option<Spot<'n>> {
    let found = config.filter(|config| config.member(key).is_some());
    if found.is_none() {
        reader.error(spot, format_args!("`{}.config` needs `{key}`", spot.field));
    }
    found
}

fn mcp<'n>(reader: &mut Reader<'_>, spot: &Spot<'n>, config: Option<Spot<'n>>) -> Option<ProviderKind> {
    let config = needed(reader, spot, config, "server")?;
    reader.keys(&config, &["server", "tool"], Extras::All);
    let config = needed(reader, spot, Some(config), "tool")?;
    let written = config.member("server")?;
    let server = reader.text(Some(written.clone()))?;
    let tool = reader.text(config.member("tool"))?;
    match server.parse::<ServerName>() {
        Ok(server) => Some(ProviderKind::Mcp { server, tool }),
        Err(error) => {
            reader.error(&written, format_args!("`{server}` cannot name a server: {error}"));
            None
        }
    }
}

/// A request and the variables it cannot be made without.
fn http(reader: &mut Reader<'_>, config: &Spot<'_>) -> Option<(HttpRequest, Vec<String>)> {
    reader.keys(
        config,
        &["method", "url", "headers", "query", "body", "result", "allow_private"],
        Extras::All,
    );
    let mut variables = Vec::new();
    let body = config.member("body").filter(|body| !body.is_null()).map(|body| Mapping(body.node.shown()));
    let method = method(reader, config.member("method"));
    let usual = if body.is_some() { HttpMethod::Post } else { HttpMethod::Get };
    let method = method.unwrap_or(usual);
    let url = url(reader, &config.member("url")?, &mut variables)?;
    let mut headers = Vec::new();
    for (key, node) in
        reader.map(config.member("headers")).as_ref().and_then(|map| map.node.members()).unwrap_or_default()
    {
        let spot = config.inside(&format!("headers.{}", key.text), node);
        let spot = Spot { pointer: config.pointer.key("headers").key(&key.text), ..spot };
        let Some(value) = scalar(reader, &spot, &mut variables) else { continue };
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let is_plain = !value.expose().chars().any(|c| c.is_control() && c != '\t');
        if key.text.is_empty() || !key.text.chars().all(token) || !is_plain {
            reader.error(&spot, format_args!("`{}` is no header that can be sent", key.text));
            continue;
        }
        headers.push((key.text.clone(), hide_literal(&key.text, value)));
    }
    let query = reader.map(config.member("query")).map(|map| {
        let members = map.node.members().unwrap_or_default();
        let read = members.iter().filter_map(|(key, node)| {
            let spot = map.inside(&key.text, node);
            match &node.value {
                Value::Text(text) => Some((key.text.clone(), text.shown().to_owned())),
                Value::Bool(_) | Value::Number(_) => Some((key.text.clone(), node.shown().to_string())),
                _ => {
                    reader
                        .error(&spot, format_args!("`{}` must be a text, found {}", spot.field, node.kind()));
                    None
                }
            }
        });
        read.collect()
    });
    variables.sort();
    variables.dedup();
    let allow_private = reader.flag(config.member("allow_private")).unwrap_or(false);
    Some((HttpRequest { method, url, headers, query, body, allow_private }, variables))
}

/// Methods are written in capitals as often as not.
fn method(reader: &mut Reader<'_>, spot: Option<Spot<'_>>) -> Option<HttpMethod> {
    let spot = spot.filter(|spot| !spot.is_null())?;
    let written = reader.text(Some(spot.clone()))?;
    Some(match written.to_ascii_uppercase().as_str() {
        "GET" => HttpMethod::Get,
        "HEAD" => HttpMethod::Head,
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => {
            let sentence = format!("`{written}` is no value of `{}`", spot.field);
            reader.error_with(&spot, sentence, "it is one of GET, HEAD, POST, PUT, PATCH, DELETE");
            return None;
        }
    })
}

fn url(reader: &mut Reader<'_>, spot: &Spot<'_>, variables: &mut Vec<String>) -> Option<SecretText> {
    let written = scalar(reader, spot, variables)?;
    let is_withheld = written.expose().contains("${");
    let rest = written.expose().strip_prefix("http://").or_else(|| written.expose().strip_prefix("https://"));
    match rest {
        None if is_withheld => {}
        None => {
            reader.error(spot, format_args!("`{}` must begin with http:// or https://", spot.field));
            return None;
        }
        Some(rest) => {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            // An argument that could choose the host could send the operator's headers anywhere.
            if host.is_empty() || (!is_withheld && host.contains(['{', '}', ' '])) {
                reader.error(
                    spot,
                    format_args!("`{}` needs a host of its own; arguments may stand behind it", spot.field),
                );
                return None;
            }
        }
    }
    Some(hide_in_address(written))
}

/// A text with its variables; what has no value yet stays as it is written.
fn scalar(reader: &mut Reader<'_>, spot: &Spot<'_>, variables: &mut Vec<String>) -> Option<SecretText> {
    let text = match &spot.node.value {
        Value::Text(text) => text.shown().to_owned(),
        Value::Bool(_) | Value::Number(_) => return Some(SecretText::plain(spot.node.shown().to_string())),
        _ => {
            reader.error(spot, format_args!("`{}` must be a text, found {}", spot.field, spot.node.kind()));
            return None;
        }
    };
    match expand(&text, reader.variables) {
        Ok(None) => Some(SecretText::plain(text)),
        Ok(Some(value)) => {
            let needed = references(&text).into_iter().filter(|name| !text.contains(&format!("{name}:-")));
            variables.extend(needed);
            Some(SecretText::expanded(text, value))
        }
        Err(crate::expand::ExpandError::Unset(name)) => {
            let sentence = format!(
                "{}: `{}`: the variable `{name}` is not set, so this provider is left out",
                reader.subject, spot.field
            );
            let finding = Finding::warning("manifest.variable", sentence).at(reader.texts, spot.node.mark);
            reader.findings.push(finding.about(spot.pointer.as_str()));
            variables.push(name);
            Some(SecretText::plain(text))
        }
        Err(error) => {
            reader.error(spot, format_args!("`{}`: {error}", spot.field));
            None
        }
    }
}
