//! The credentials that the gateway sends to a server, and the caller's headers that it forwards.

use super::context::EntryContext;
use super::file::{AuthField, AuthMap, AuthWord, OAuthField, OAuthMap};
use crate::fields::{OneOrMany, SecretField};
use crate::finding::Severity;
use crate::secrets::hide;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use toolbooth_core::server::{OAuthEntry, OutboundAuth, Transport, UserKeyEntry};

/// The default header of API keys.
const KEY_HEADER: &str = "X-API-Key";

/// The fields of an entry that configure credentials.
pub(super) struct AuthFields {
    pub auth: Option<AuthField>,
    pub auth_type: Option<AuthWord>,
    pub auth_token: Option<SecretField>,
    pub auth_header: Option<String>,
    pub oauth: Option<OAuthField>,
    pub scopes: Option<OneOrMany<String>>,
}

/// Combines the fields into a credential, and into hints for the manifests of the server's tools.
pub(super) fn choose(
    context: &mut EntryContext<'_>,
    fields: AuthFields,
    transport: &Transport,
) -> Option<(OutboundAuth, Option<Json>)> {
    let AuthFields { auth, auth_type, auth_token, auth_header, oauth, scopes } = fields;
    let AuthField(AuthMap {
        kind,
        token,
        header,
        client_id,
        client_secret,
        scopes: more_scopes,
        required,
        env,
        envs,
        docs,
    }) = auth.unwrap_or_default();
    let scopes: Vec<String> = more_scopes.into_iter().chain(scopes).flat_map(|field| field.0).collect();
    // Some dialects write all scopes into one string.
    let scopes: Vec<String> =
        scopes.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    let word = kind.or(auth_type);
    let hints = hints(required, word, env, envs, docs, &scopes);
    let token = token.or(auth_token).map(|field| hide(field.0));
    let client = OAuthEntry {
        client_id: client_id.map(|field| field.0),
        client_secret: client_secret.map(|field| hide(field.0)),
        scopes,
    };
    let oauth = match oauth {
        None | Some(OAuthField::Switch(false)) => None,
        Some(OAuthField::Switch(true)) => Some(client.clone()),
        Some(OAuthField::Map(map)) => Some(with_client(context, client.clone(), map)),
    };
    literal_token(context);
    let word = word.unwrap_or(match (&oauth, &token) {
        (Some(_), _) => AuthWord::Oauth,
        (None, Some(_)) => AuthWord::Bearer,
        (None, None) => AuthWord::None,
    });
    if word != AuthWord::None && matches!(transport, Transport::Stdio { .. } | Transport::Bundled(_)) {
        let hint = "give a local process its credentials in `env`";
        let sentence = "`auth` is for remote servers and has no effect here";
        context.note_with(Severity::Warning, "config.auth-on-stdio", &["auth_type"], sentence, Some(hint));
        return Some((OutboundAuth::None, hints));
    }
    let chosen = match (word, token) {
        (AuthWord::None, None) => OutboundAuth::None,
        (AuthWord::None, Some(_)) => {
            context.warn(
                "config.unused-token",
                &["auth_token"],
                "`auth_token` is not used, because auth is `none`",
            );
            OutboundAuth::None
        }
        (AuthWord::Bearer | AuthWord::Jwt, Some(token)) => OutboundAuth::Bearer(token),
        (AuthWord::ApiKey, Some(key)) => {
            OutboundAuth::ApiKey { header: header.or(auth_header).unwrap_or_else(|| KEY_HEADER.into()), key }
        }
        (AuthWord::Oauth, _) => OutboundAuth::OAuth(oauth.unwrap_or(client)),
        // Without a token for all callers, each user gives their own.
        (AuthWord::Bearer | AuthWord::Jwt, None) => OutboundAuth::UserKey(UserKeyEntry::default()),
        (AuthWord::ApiKey, None) => {
            let header = Some(header.or(auth_header).unwrap_or_else(|| KEY_HEADER.into()));
            OutboundAuth::UserKey(UserKeyEntry { header, ..UserKeyEntry::default() })
        }
    };
    Some((chosen, hints))
}

/// Warns of a literal token, since every copy of the file contains it.
fn literal_token(context: &mut EntryContext<'_>) {
    for path in [["auth_token"].as_slice(), &["auth", "token"]] {
        let Some(Json::String(written)) = context.node.at(path).map(|node| node.shown()) else { continue };
        if !written.is_empty() && crate::expand::references(&written).is_empty() {
            let sentence = format!("`{}` is written in the file in plain text", path.join("."));
            let hint = r#"use a variable, "${NAME}", and define it in the file named in `env_file`"#;
            context.note_with(Severity::Warning, "config.literal-secret", path, &sentence, Some(hint));
            if let Some(finding) = context.findings.last_mut() {
                // The line contains the secret.
                finding.snippet = None;
            }
        }
    }
}

fn with_client(context: &mut EntryContext<'_>, client: OAuthEntry, map: OAuthMap) -> OAuthEntry {
    let OAuthMap { client_id, client_secret, scopes, client_name, callback_port, auth_server_metadata_url } =
        map;
    let unread = [
        ("client_name", client_name.is_some()),
        ("callback_port", callback_port.is_some()),
        ("auth_server_metadata_url", auth_server_metadata_url.is_some()),
    ];
    for (key, _) in unread.into_iter().filter(|(_, is_set)| *is_set) {
        let sentence = format!("`oauth.{key}` has no effect: the gateway determines it automatically");
        context.note_with(Severity::Warning, "config.not-yet", &["oauth"], &sentence, Some("remove it"));
    }
    let mut all = client.scopes;
    let more = scopes.into_iter().flat_map(|field| field.0);
    all.extend(more.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()));
    OAuthEntry {
        client_id: client_id.map(|field| field.0).or(client.client_id),
        client_secret: client_secret.map(|field| hide(field.0)).or(client.client_secret),
        scopes: all,
    }
}

/// Hints for the manifests of discovered tools, if the entry has any.
fn hints(
    required: Option<bool>,
    word: Option<AuthWord>,
    env: Option<Json>,
    envs: Option<Json>,
    docs: Option<String>,
    scopes: &[String],
) -> Option<Json> {
    let mut map = Map::new();
    if let Some(required) = required {
        map.insert("required".into(), required.into());
    }
    let words = word.filter(|word| *word != AuthWord::None).map(|word| match word {
        AuthWord::None => "none",
        AuthWord::Bearer => "bearer",
        AuthWord::ApiKey => "api_key",
        AuthWord::Jwt => "jwt",
        AuthWord::Oauth => "oauth",
    });
    if let Some(word) = words {
        map.insert("type".into(), word.into());
    }
    if let Some(envs) = envs.or(env) {
        map.insert("envs".into(), envs);
    }
    if !scopes.is_empty() {
        map.insert("scopes".into(), scopes.into());
    }
    if let Some(docs) = docs {
        map.insert("docs".into(), docs.into());
    }
    (!map.is_empty()).then_some(Json::Object(map))
}

/// The headers of the caller's request to forward.
pub(super) fn forwarded(
    context: &mut EntryContext<'_>,
    written: Option<BTreeMap<String, String>>,
    wormhole: Option<bool>,
    transport: &Transport,
) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = written.unwrap_or_default().into_iter().collect();
    if wormhole == Some(true) {
        headers.push(("x-subtoken".into(), "X-Token".into()));
    }
    for (from, to) in &headers {
        let (wrong, hint) = if !is_header(from) || !is_header(to) {
            (
                format!("`{from}` or `{to}` is not a valid header name"),
                "use letters, digits, `-`, `_` and `.`",
            )
        } else if is_of_the_caller(from) {
            let wrong = format!("`{from}` belongs to the connection with the caller and cannot be forwarded");
            (wrong, "remove it; the gateway sends its own credentials, as `auth` configures")
        } else if is_of_the_server(to) {
            let wrong =
                format!("`{to}` belongs to the connection with the server and cannot be set by callers");
            (wrong, "remove it; the gateway sets it for each connection")
        } else {
            continue;
        };
        context.note_with(
            Severity::Error,
            "config.bad-header",
            &["forward_headers", from],
            &wrong,
            Some(hint),
        );
    }
    if !headers.is_empty() && !matches!(transport, Transport::Http(_)) {
        let key = if wormhole == Some(true) { "wormhole" } else { "forward_headers" };
        let sentence =
            format!("`{key}` has no effect yet: headers are forwarded only to Streamable HTTP servers");
        context.note_with(Severity::Warning, "config.not-yet", &[key], &sentence, Some("remove it"));
    }
    headers
}

fn is_header(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

/// Whether a header must not be forwarded: it contains the caller's credentials, or belongs to the caller's connection.
fn is_of_the_caller(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let connection = ["host", "content-length", "connection", "transfer-encoding"];
    let identity = ["authorization", "proxy-authorization", "cookie"];
    connection.contains(&&*name) || identity.contains(&&*name) || name.starts_with("toolbooth-")
}

/// Whether the gateway itself sets a header on its connection to the server.
fn is_of_the_server(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = ["host", "content-length", "content-type", "accept", "connection", "transfer-encoding"];
    own.contains(&&*name) || name.starts_with("mcp-")
}
