//! Credentials that operations need: each becomes a header or a query parameter with a variable.

use super::OpenApiOptions;
use serde_json::Value as Json;

/// A variable that requests need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenApiVariable {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
}

/// Where the credential of a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestCredential {
    /// A header and its value.
    Header(String, String),
    /// A query parameter and its value.
    Query(String, String),
}

/// The credentials of an operation, with the variables in them. Empty if it needs none.
pub(super) fn of_operation(
    document: &Json,
    operation: &Json,
    options: &OpenApiOptions,
) -> Result<Vec<(RequestCredential, OpenApiVariable)>, String> {
    if !options.headers.is_empty() {
        return Ok(Vec::new());
    }
    let security = operation.get("security").unwrap_or(&document["security"]);
    let Some(choices) = security.as_array().filter(|choices| !choices.is_empty()) else {
        return Ok(Vec::new());
    };
    // An empty object means that the operation can be used without credentials.
    let mut reason = String::new();
    for choice in choices.iter().take(20) {
        let schemes = choice.as_object().into_iter().flatten().take(5).map(|(name, _)| name);
        let known = &document["components"]["securitySchemes"];
        let read: Result<Vec<_>, String> = schemes.map(|name| of_scheme(name, known, options)).collect();
        match read {
            Ok(found) => return Ok(found),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

fn of_scheme(
    name: &str,
    known: &Json,
    options: &OpenApiOptions,
) -> Result<(RequestCredential, OpenApiVariable), String> {
    let scheme = &known[name];
    let text = |key: &str| scheme[key].as_str().unwrap_or_default();
    let variable = |suffix: &str, about: &str| OpenApiVariable {
        name: variable_name(&options.name, suffix),
        about: about.to_owned(),
    };
    let authorization = |kind: &str, variable: OpenApiVariable| {
        let value = format!("{kind} ${{{}}}", variable.name);
        Ok((RequestCredential::Header("Authorization".into(), value), variable))
    };
    match (text("type"), text("in")) {
        ("http", _) if text("scheme").eq_ignore_ascii_case("basic") => {
            authorization("Basic", variable("BASIC", "user and password as base64 of `user:password`"))
        }
        ("http", _) if text("scheme").eq_ignore_ascii_case("bearer") => {
            authorization("Bearer", variable("TOKEN", "the token"))
        }
        ("oauth2" | "openIdConnect", _) => {
            authorization("Bearer", variable("TOKEN", "an access token of the service"))
        }
        ("apiKey", place @ ("header" | "query")) if is_parameter_name(text("name")) => {
            let needed = match has_several_keys(known) {
                true => variable(&format!("{}_KEY", super::cut(name, 60)), "the API key"),
                false => variable("KEY", "the API key"),
            };
            let value = format!("${{{}}}", needed.name);
            let name = text("name").to_owned();
            let credential = match place {
                "header" => RequestCredential::Header(name, value),
                _ => RequestCredential::Query(name, value),
            };
            Ok((credential, needed))
        }
        (kind, _) => {
            let kind = super::cut(kind, 30);
            Err(format!("its security scheme `{}` ({kind}) is not supported", super::cut(name, 60)))
        }
    }
}

/// Whether the service has several API keys, such as an id and a secret: then each needs a variable of its own.
fn has_several_keys(known: &Json) -> bool {
    let is_key = |scheme: &Json| scheme["type"] == "apiKey" && scheme["in"] != "cookie";
    known.as_object().into_iter().flatten().filter(|(_, scheme)| is_key(scheme)).count() > 1
}

fn is_parameter_name(name: &str) -> bool {
    (1..=100).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The name of a variable of a service.
fn variable_name(service: &str, suffix: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let [service, suffix] = [service, suffix].map(|part| part.chars().map(upper).collect::<String>());
    match service.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{service}_{suffix}"),
        false => format!("{service}_{suffix}"),
    }
}
