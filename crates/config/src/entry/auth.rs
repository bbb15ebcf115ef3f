//! What the gateway shows to a server, and what it passes on.

use super::file::{AuthField, AuthWord, OAuthField, OAuthMap};
use super::normalise::Desk;
use crate::fields::{OneOrMany, SecretField};
use crate::finding::Severity;
use crate::secrets::hide;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use toolbooth_core::server::{OAuthEntry, OutboundAuth, Transport};

/// The header that keys travel in when none is named.
const KEY_HEADER: &str = "X-API-Key";

/// The fields that say what the gateway shows to the server.
pub(super) struct Credentials {
    pub auth: Option<AuthField>,
    pub auth_type: Option<AuthWord>,
    pub auth_token: Option<SecretField>,
    pub auth_header: Option<String>,
    pub oauth: Option<OAuthField>,
    pub scopes: Option<OneOrMany<String>>,
}

/// The credential that these fields mean, and hints for the manifests of its tools.
pub(super) fn choose(
    desk: &mut Desk<'_>,
    credentials: Credentials,
    transport: &Transport,
) -> Option<(OutboundAuth, Option<Json>)> {
    let Credentials { auth, auth_type, auth_token, auth_header, oauth, scopes } = credentials;
    let AuthField {
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
    } = auth.unwrap_or_default();
    let scopes: Vec<String> = more_scopes.into_iter().chain(scopes).flat_map(|field| field.0).collect();
    // Some dialects write all scopes into one text.
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
        Some(OAuthField::Client(map)) => Some(with_client(desk, client.clone(), map)),
    };
    literal_token(desk);
    let word = word.unwrap_or(match (&oauth, &token) {
        (Some(_), _) => AuthWord::Oauth,
        (None, Some(_)) => AuthWord::Bearer,
        (None, None) => AuthWord::None,
    });
    if word != AuthWord::None && matches!(transport, Transport::Stdio { .. } | Transport::Bundled(_)) {
        let hint = "give a local process its credentials in `env`";
        let sentence = "`auth` is for remote servers and has no effect here";
        desk.note_with(Severity::Warning, "config.auth-on-stdio", &["auth_type"], sentence, Some(hint));
        return Some((OutboundAuth::None, hints));
    }
    let chosen = match (word, token) {
        (AuthWord::None, None) => OutboundAuth::None,
        (AuthWord::None, Some(_)) => {
            desk.warn(
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
        (AuthWord::Bearer | AuthWord::Jwt | AuthWord::ApiKey, None) => {
            let hint = r#"add "auth_token": "${NAME}""#;
            let sentence = "this kind of auth needs `auth_token`";
            desk.note_with(Severity::Error, "config.no-token", &["auth_type"], sentence, Some(hint));
            return None;
        }
    };
    Some((chosen, hints))
}

/// A token that stands in the file itself is in every copy of the file.
fn literal_token(desk: &mut Desk<'_>) {
    for path in [["auth_token"].as_slice(), &["auth", "token"]] {
        let Some(Json::String(written)) = desk.node.at(path).map(|node| node.shown()) else { continue };
        if !written.is_empty() && crate::expand::references(&written).is_empty() {
            let sentence = format!("`{}` stands in the file itself", path.join("."));
            let hint = r#"put it into a variable, "${NAME}", and the variable into a file of `env_file`"#;
            desk.note_with(Severity::Warning, "config.literal-secret", path, &sentence, Some(hint));
            if let Some(finding) = desk.findings.last_mut() {
                // The line holds what is not to be shown.
                finding.snippet = None;
            }
        }
    }
}

fn with_client(desk: &mut Desk<'_>, client: OAuthEntry, map: OAuthMap) -> OAuthEntry {
    let OAuthMap { client_id, client_secret, scopes, client_name, callback_port, auth_server_metadata_url } =
        map;
    let unread = [
        ("client_name", client_name.is_some()),
        ("callback_port", callback_port.is_some()),
        ("auth_server_metadata_url", auth_server_metadata_url.is_some()),
    ];
    for (key, _) in unread.into_iter().filter(|(_, is_set)| *is_set) {
        let sentence = format!("`oauth.{key}` does nothing here: the gateway finds it out by itself");
        desk.note_with(Severity::Warning, "config.not-yet", &["oauth"], &sentence, Some("take it away"));
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

/// What the manifests of discovered tools take over; nothing when the entry says nothing about it.
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

/// Headers of the caller's request that are passed on.
pub(super) fn forwarded(
    desk: &mut Desk<'_>,
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
                format!("`{from}` or `{to}` is no name of a header"),
                "letters, digits, `-`, `_` and `.` make one",
            )
        } else if is_of_the_caller(from) {
            let wrong = format!("`{from}` belongs to the connection with the caller and is not passed on");
            (wrong, "leave it out: the gateway shows a server its own, by `auth`")
        } else if is_of_the_server(to) {
            let wrong =
                format!("`{to}` belongs to the connection with the server and is not taken from callers");
            (wrong, "leave it out: the gateway writes it for each connection")
        } else {
            continue;
        };
        desk.note_with(Severity::Error, "config.bad-header", &["forward_headers", from], &wrong, Some(hint));
    }
    if !headers.is_empty() && !matches!(transport, Transport::Http(_)) {
        let key = if wormhole == Some(true) { "wormhole" } else { "forward_headers" };
        let sentence =
            format!("`{key}` does nothing here yet: headers reach servers over Streamable HTTP only");
        desk.note_with(Severity::Warning, "config.not-yet", &[key], &sentence, Some("take it away"));
    }
    headers
}

fn is_header(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

/// These would lend the caller's identity, or speak of another connection.
fn is_of_the_caller(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let connection = ["host", "content-length", "connection", "transfer-encoding"];
    let identity = ["authorization", "proxy-authorization", "cookie"];
    connection.contains(&&*name) || identity.contains(&&*name) || name.starts_with("toolbooth-")
}

/// These say what the gateway itself says to a server.
fn is_of_the_server(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = ["host", "content-length", "content-type", "accept", "connection", "transfer-encoding"];
    own.contains(&&*name) || name.starts_with("mcp-")
}
