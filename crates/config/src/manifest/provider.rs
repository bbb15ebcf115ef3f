//! `providers` of a manifest entry: the servers and services that execute the tool.

use super::auth;
use super::fields::{EntryReader, Extras, LocatedNode};
use crate::expand::{ExpandError, expand, references};
use crate::finding::Finding;
use crate::node::Value;
use crate::secrets::{hide_in_address, hide_literal};
use std::time::Duration;
use toolbooth_core::manifest::{
    AuthHints, CredentialNeed, CredentialVariable, HttpMethod, HttpRequest, Mapping, ProviderKind,
    ProviderSpec,
};
use toolbooth_core::names::ServerName;
use toolbooth_core::secret::SecretText;

/// The maximum number of providers of one tool.
const MAX_PROVIDERS: usize = 32;
/// The default interval between health checks of a provider.
const HEALTH_CHECK: Duration = Duration::from_secs(60);

/// The supported kinds of providers.
pub(super) const KINDS: [&str; 4] = ["mcp", "http", "openai", "builtin"];
const KNOWN: [&str; 9] = [
    "name",
    "kind",
    "priority",
    "config",
    "health_check_interval",
    "mappings",
    "arguments",
    "result",
    "auth",
];
/// The maximum length of a provider's name.
const MAX_NAME: usize = 100;

/// Reads the providers of an entry.
pub(super) fn read_all(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Vec<ProviderSpec> {
    let Some(spot) = spot.member("providers").filter(|spot| !spot.is_null()) else { return Vec::new() };
    let written: Vec<LocatedNode<'_>> = match &spot.node.value {
        Value::Map(_) => {
            reader.warn(&spot, "`providers` is read as a list with one element");
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
        reader.error(&spot, format_args!("a tool may have at most {MAX_PROVIDERS} providers"));
        return Vec::new();
    }
    let mut providers: Vec<ProviderSpec> = Vec::new();
    let mut bases: Vec<String> = Vec::new();
    for spot in written {
        let Some(mut provider) = read(reader, &spot) else { continue };
        let base = provider.id.clone();
        let same = bases.iter().filter(|other| **other == base).count();
        if same > 0 {
            provider.id = format!("{base}:{}", same + 1);
        }
        bases.push(base);
        providers.push(provider);
    }
    providers
}

/// The kind that a name means without a `kind`.
fn kind_word(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "mcp" => Some("mcp"),
        "http" => Some("http"),
        "openai" | "llm" => Some("openai"),
        "builtin" => Some("builtin"),
        _ => None,
    }
}

/// The kind of a provider with a name of its own, by the keys of its `config`.
fn inferred_kind(config: Option<&LocatedNode<'_>>) -> Option<&'static str> {
    let has = |key: &str| config.is_some_and(|config| config.member(key).is_some());
    let kinds =
        [("url", "http"), ("builtin", "builtin"), ("server", "mcp"), ("tool", "mcp"), ("model", "openai")];
    kinds.into_iter().find_map(|(key, kind)| has(key).then_some(kind))
}

/// The ID of a provider: its own name, or derived from its kind and server if the name is that of the kind. Only
/// providers with equal IDs are numbered, so that a change of one does not rename the others.
fn base_id(name: &str, kind: &ProviderKind) -> String {
    if kind_word(name).is_none() {
        return name.to_owned();
    }
    match kind {
        ProviderKind::Mcp { server, .. } => format!("mcp:{server}"),
        ProviderKind::Http(_) => "http".to_owned(),
        ProviderKind::Builtin(_) => "builtin".to_owned(),
        ProviderKind::OpenAi { .. } => "openai".to_owned(),
        ProviderKind::Skill(skill) => format!("skill:{}", skill.name),
        ProviderKind::Unknown(name) => name.clone(),
    }
}

fn read(reader: &mut EntryReader<'_>, spot: &LocatedNode<'_>) -> Option<ProviderSpec> {
    let spot = &reader.map(Some(spot.clone()))?;
    if spot.member("name").is_none() {
        reader.error(spot, format_args!("`{}` has no `name`", spot.field));
        return None;
    }
    let name = reader.text(spot.member("name"))?;
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        reader.error(
            spot,
            format_args!("`{}.name` must have 1 to {MAX_NAME} printable characters", spot.field),
        );
        return None;
    }
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
    let given = reader.word(spot.member("kind").filter(|kind| !kind.is_null()), &KINDS);
    let kind = match given
        .or_else(|| kind_word(&name))
        .or_else(|| inferred_kind(config.as_ref()))
        .unwrap_or_default()
    {
        "mcp" => mcp(reader, spot, config)?,
        "http" => {
            let config = needed(reader, spot, config, "url")?;
            result = result.or_else(|| config.member("result").map(|result| Mapping(result.node.shown())));
            let (request, variables) = http(reader, &config)?;
            // The request needs the values of its variables.
            if !variables.is_empty() {
                let hints = auth.get_or_insert_with(AuthHints::default);
                hints.required = true;
                for name in variables
                    .into_iter()
                    .filter(|name| hints.envs.iter().all(|env| env.name != *name))
                    .collect::<Vec<_>>()
                {
                    hints.envs.push(CredentialVariable { name, need: CredentialNeed::Required });
                }
            }
            ProviderKind::Http(Box::new(request))
        }
        "openai" => {
            let member = |key| config.as_ref().and_then(|config| config.member(key));
            ProviderKind::OpenAi {
                model: reader.text(member("model")),
                prompt: reader.text(member("prompt")),
            }
        }
        "builtin" => {
            let own = config.as_ref().and_then(|config| config.member("builtin"));
            let tool = match own {
                Some(own) => Some(own),
                None => needed(reader, spot, config, "tool")?.member("tool"),
            };
            ProviderKind::Builtin(reader.text(tool)?)
        }
        _ => {
            let known = KINDS.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
            let sentence =
                format!("the provider `{name}` is not supported and is never used (supported: {known})");
            let hint = "give its `kind`, or a `config` with `url`, `server` and `tool`, `model` or `builtin`";
            reader.doubt("manifest.loosely-written", spot, sentence, Some(hint));
            ProviderKind::Unknown(name.clone())
        }
    };
    let health_check_interval = interval.unwrap_or(HEALTH_CHECK);
    Some(ProviderSpec {
        id: base_id(&name, &kind),
        kind,
        priority,
        health_check_interval,
        auth,
        arguments,
        result,
    })
}

fn priority(reader: &mut EntryReader<'_>, spot: Option<LocatedNode<'_>>) -> i64 {
    let Some(spot) = spot.filter(|spot| !spot.is_null()) else { return 0 };
    let Some(number) = reader.number(&spot) else { return 0 };
    if number.fract() != 0.0 || number.abs() > 1e9 {
        reader.error(&spot, format_args!("`{}` must be an integer; lower values come first", spot.field));
        return 0;
    }
    // The number is an integer and small, so the cast is exact.
    number as i64
}

/// The `config` of a provider, or an error if the required key is missing.
fn needed<'n>(
    reader: &mut EntryReader<'_>,
    spot: &LocatedNode<'n>,
    config: Option<LocatedNode<'n>>,
    key: &str,
) -> Option<LocatedNode<'n>> {
    let found = config.filter(|config| config.member(key).is_some());
    if found.is_none() {
        reader.error(spot, format_args!("`{}.config` needs `{key}`", spot.field));
    }
    found
}

fn mcp<'n>(
    reader: &mut EntryReader<'_>,
    spot: &LocatedNode<'n>,
    config: Option<LocatedNode<'n>>,
) -> Option<ProviderKind> {
    let config = needed(reader, spot, config, "server")?;
    reader.keys(&config, &["server", "tool"], Extras::All);
    let config = needed(reader, spot, Some(config), "tool")?;
    let written = config.member("server")?;
    let server = reader.text(Some(written.clone()))?;
    let tool = reader.text(config.member("tool"))?;
    match server.parse::<ServerName>() {
        Ok(server) => Some(ProviderKind::Mcp { server, tool }),
        Err(error) => {
            reader.error(&written, format_args!("`{server}` is not a valid server name: {error}"));
            None
        }
    }
}

/// Reads an HTTP request, and the variables that it requires.
fn http(reader: &mut EntryReader<'_>, config: &LocatedNode<'_>) -> Option<(HttpRequest, Vec<String>)> {
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
        let spot = LocatedNode { pointer: config.pointer.key("headers").key(&key.text), ..spot };
        let Some(value) = scalar(reader, &spot, &mut variables) else { continue };
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let is_plain = !value.expose().chars().any(|c| c.is_control() && c != '\t');
        if key.text.is_empty() || !key.text.chars().all(token) || !is_plain {
            reader.error(&spot, format_args!("`{}` is not a valid header", key.text));
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
                    reader.error(
                        &spot,
                        format_args!("`{}` must be a string, found {}", spot.field, node.kind()),
                    );
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

/// Reads an HTTP method in any case.
fn method(reader: &mut EntryReader<'_>, spot: Option<LocatedNode<'_>>) -> Option<HttpMethod> {
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
            let sentence = format!("`{written}` is not a valid value of `{}`", spot.field);
            reader.error_with(&spot, sentence, "expected one of GET, HEAD, POST, PUT, PATCH, DELETE");
            return None;
        }
    })
}

fn url(
    reader: &mut EntryReader<'_>,
    spot: &LocatedNode<'_>,
    variables: &mut Vec<String>,
) -> Option<SecretText> {
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
            // An argument in the host could send the operator's headers to any server.
            if host.is_empty() || (!is_withheld && host.contains(['{', '}', ' '])) {
                reader.error(
                    spot,
                    format_args!("`{}` needs a fixed host; arguments may only appear after it", spot.field),
                );
                return None;
            }
        }
    }
    Some(hide_in_address(written))
}

/// Reads and expands a string. If a variable is not set, the string stays as written.
fn scalar(
    reader: &mut EntryReader<'_>,
    spot: &LocatedNode<'_>,
    variables: &mut Vec<String>,
) -> Option<SecretText> {
    let text = match &spot.node.value {
        Value::Text(text) => text.shown().to_owned(),
        Value::Bool(_) | Value::Number(_) => return Some(SecretText::plain(spot.node.shown().to_string())),
        _ => {
            reader.error(spot, format_args!("`{}` must be a string, found {}", spot.field, spot.node.kind()));
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
        Err(ExpandError::Unset(name) | ExpandError::Unopened(name)) => {
            let sentence = format!(
                "{}: `{}`: the variable `{name}` is not set, so this provider is not used",
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
