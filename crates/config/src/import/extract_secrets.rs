//! Moves the secrets in other clients' files to variables of an env file.

use super::read_entry::variable_name;
use super::{MovedSecret, PlannedServer};
use crate::expand::references;
use crate::inputs::Sources;
use crate::parse::dotenv::is_variable_name;
use crate::sealed_values::open_value;
use crate::secrets::{looks_secret, sounds_secret};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The length from which a user name alone in a URL counts as a token.
const MIN_TOKEN: usize = 20;

/// The part of an argument that is a secret.
enum ArgumentSecret {
    None,
    Whole,
    /// The text from a position on, and its name.
    After(usize, String),
}

impl ArgumentSecret {
    /// The secret in the value of an option, or in an argument without one.
    fn of(option: Option<&str>, text: &str) -> Self {
        let is_secret = |name: &str, value: &str| sounds_secret(name) || looks_secret(value.trim());
        // For example `--header "Authorization: Bearer x"`.
        let is_header = option.is_some_and(|option| matches!(option, "-H" | "--header" | "--headers"));
        if is_header && let Some((name, value)) = text.split_once(':') {
            let space = value.len() - value.trim_start().len();
            return match is_secret(name, value) {
                true => Self::After(name.len() + 1 + space, name.trim().to_owned()),
                false => Self::None,
            };
        }
        if option.is_some_and(sounds_secret) || looks_secret(text) || is_secret_json(text) {
            return Self::Whole;
        }
        // For example `docker run -e TOKEN=x`.
        match text.split_once('=') {
            Some((name, value)) if is_variable_name(name) && is_secret(name, value) => {
                Self::After(name.len() + 1, name.to_owned())
            }
            _ => Self::None,
        }
    }
}

/// Whether a text is a JSON object with a secret.
fn is_secret_json(text: &str) -> bool {
    let has_secret = |(name, value): (&String, &Json)| {
        value.as_str().is_some_and(|value| !value.is_empty() && (sounds_secret(name) || looks_secret(value)))
    };
    let parsed = || serde_json::from_str::<Map<String, Json>>(text).ok();
    text.starts_with('{') && parsed().is_some_and(|map| map.iter().any(has_secret))
}

/// Replaces literal secrets with variables.
pub(super) struct SecretExtractor {
    pub variables: BTreeMap<String, String>,
    /// The variables of earlier imports.
    earlier: BTreeMap<String, String>,
    /// The variables of this process and the user's stored secrets, which override those of the env file.
    overriding: BTreeMap<String, String>,
    /// The variables that other entries refer to: they must not get the secret of this import.
    referenced: BTreeSet<String>,
}

impl SecretExtractor {
    pub(super) fn new(sources: &Sources) -> Self {
        let earlier = stored_in(sources, sources.imported_secrets_file());
        let mut overriding = stored_in(sources, sources.secrets_file());
        overriding.extend(sources.env.clone());
        Self { variables: BTreeMap::new(), earlier, overriding, referenced: BTreeSet::new() }
    }

    /// Reserves the variables that an entry refers to.
    pub(super) fn reserve(&mut self, entry: &Map<String, Json>) {
        entry.values().for_each(|value| self.reserve_in(value));
    }

    fn reserve_in(&mut self, value: &Json) {
        match value {
            Json::String(text) => self.referenced.extend(references(text)),
            Json::Array(elements) => elements.iter().for_each(|element| self.reserve_in(element)),
            Json::Object(members) => members.values().for_each(|member| self.reserve_in(member)),
            _ => {}
        }
    }

    /// Replaces all literal secrets of an entry with variables. The variables of a file of the user count as secrets.
    pub(super) fn take_from(&mut self, planned: &mut PlannedServer, file_variables: &BTreeSet<String>) {
        let PlannedServer { name, entry: Json::Object(entry), moved, .. } = planned else { return };
        for (key, value) in entry.iter_mut() {
            match (key.as_str(), value) {
                ("env", Json::Object(map)) => self.map(name, "env", map, file_variables, moved),
                ("headers", Json::Object(map)) => self.map(name, "headers", map, &BTreeSet::new(), moved),
                ("args", Json::Array(args)) => self.args(name, args, moved),
                ("url" | "uri" | "serverUrl" | "httpUrl", Json::String(url)) => {
                    self.urls(name, "url", url, moved)
                }
                ("oauth", Json::Object(map)) => {
                    for key in ["clientSecret", "client_secret"] {
                        if let Some(Json::String(text)) = map.get_mut(key) {
                            let wanted = format!("{}_CLIENT_SECRET", variable_name(name));
                            self.text(&format!("oauth.{key}"), &wanted, text, moved);
                        }
                    }
                }
                ("auth_token", Json::String(text)) => {
                    let wanted = format!("{}_TOKEN", variable_name(name));
                    self.text("auth_token", &wanted, text, moved);
                }
                _ => {}
            }
        }
    }

    fn map(
        &mut self,
        server: &str,
        field: &str,
        map: &mut Map<String, Json>,
        always: &BTreeSet<String>,
        moved: &mut Vec<MovedSecret>,
    ) {
        for (key, value) in map.iter_mut() {
            let Json::String(text) = value else { continue };
            let place = format!("{field}.{key}");
            if !(sounds_secret(key) || looks_secret(text) || always.contains(key)) {
                self.urls(server, &place, text, moved);
                continue;
            }
            let wanted = match field {
                // The server itself reads the variable with this name.
                "env" => variable_name(key),
                _ => format!("{}_{}", variable_name(server), variable_name(key)),
            };
            self.text(&place, &wanted, text, moved);
        }
    }

    fn args(&mut self, server: &str, args: &mut [Json], moved: &mut Vec<MovedSecret>) {
        let prefix = variable_name(server);
        let mut flag: Option<String> = None;
        for (index, value) in args.iter_mut().enumerate() {
            let Json::String(text) = value else { continue };
            let field = format!("args.{index}");
            let before = flag.take();
            let (option, content) = match text.split_once('=').filter(|_| text.starts_with('-')) {
                Some((option, content)) => (Some(option.to_owned()), content.to_owned()),
                None if text.starts_with('-') => {
                    flag = Some(text.clone());
                    continue;
                }
                None => (None, text.clone()),
            };
            let named = option.as_deref().or(before.as_deref());
            let mut content = content;
            match ArgumentSecret::of(named, &content) {
                ArgumentSecret::Whole => {
                    let before = before.as_deref().filter(|flag| sounds_secret(flag));
                    let label = option.as_deref().or(before).map_or("SECRET".to_owned(), variable_name);
                    self.text(&field, &format!("{prefix}_{label}"), &mut content, moved);
                }
                ArgumentSecret::After(at, name) => {
                    let (head, tail) = content.split_at(at);
                    let wanted = match head.ends_with('=') {
                        true => variable_name(&name),
                        false => format!("{prefix}_{}", variable_name(&name)),
                    };
                    let (head, mut secret) = (head.to_owned(), tail.to_owned());
                    self.text(&field, &wanted, &mut secret, moved);
                    content = format!("{head}{secret}");
                }
                ArgumentSecret::None => self.urls(server, &field, &mut content, moved),
            }
            *text = match option {
                Some(option) => format!("{option}={content}"),
                None => content,
            };
        }
    }

    /// Replaces the passwords and the secret parameters of all URLs in a text.
    fn urls(&mut self, server: &str, field: &str, text: &mut String, moved: &mut Vec<MovedSecret>) {
        // The default value of a variable cannot contain another variable.
        if text.contains(":-") {
            return;
        }
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((scheme, after)) = rest.split_once("://") {
            let is_end = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
            let (url, tail) = after.split_at(after.find(is_end).unwrap_or(after.len()));
            out.push_str(&format!("{scheme}://{}", self.url(server, field, url, moved)));
            rest = tail;
        }
        out.push_str(rest);
        *text = out;
    }

    /// A URL after its scheme, with variables in place of the password and of secret parameters.
    fn url(&mut self, server: &str, field: &str, url: &str, moved: &mut Vec<MovedSecret>) -> String {
        let prefix = variable_name(server);
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        let mut out = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let place = format!("{field} (password)");
                let user = match user.split_once(':') {
                    Some((user, password)) => {
                        let mut password = password.to_owned();
                        self.text(&place, &format!("{prefix}_PASSWORD"), &mut password, moved);
                        format!("{user}:{password}")
                    }
                    // A name alone is a token if it is long.
                    None if looks_secret(user) || user.len() >= MIN_TOKEN => {
                        let mut token = user.to_owned();
                        self.text(&place, &format!("{prefix}_TOKEN"), &mut token, moved);
                        token
                    }
                    None => user.to_owned(),
                };
                format!("{user}@{host}")
            }
            None => authority.to_owned(),
        };
        let (before_fragment, fragment) = path.split_at(path.find('#').unwrap_or(path.len()));
        let Some((base, query)) = before_fragment.split_once('?') else { return out + path };
        out.push_str(base);
        for (index, part) in query.split('&').enumerate() {
            out.push(if index == 0 { '?' } else { '&' });
            match part.split_once('=').filter(|(name, value)| sounds_secret(name) || looks_secret(value)) {
                Some((name, secret)) => {
                    let mut secret = secret.to_owned();
                    let wanted = format!("{prefix}_{}", variable_name(name));
                    self.text(&format!("{field}?{name}"), &wanted, &mut secret, moved);
                    out.push_str(&format!("{name}={secret}"));
                }
                None => out.push_str(part),
            }
        }
        out + fragment
    }

    /// Moves one secret to a variable; a scheme such as `Bearer` stays in the text.
    fn text(&mut self, field: &str, wanted: &str, text: &mut String, moved: &mut Vec<MovedSecret>) {
        if text.is_empty() || !references(text).is_empty() {
            return;
        }
        let (scheme, secret) = match text.split_once(' ') {
            Some((scheme @ ("Bearer" | "bearer" | "Basic" | "Token" | "token"), secret)) => {
                (format!("{scheme} "), secret)
            }
            _ => (String::new(), text.as_str()),
        };
        // Undo the escaping, since the value of a variable is not expanded again.
        let secret = secret.replace("$$", "$");
        let variable = self.free(wanted, &secret);
        *text = format!("{scheme}${{{variable}}}");
        self.variables.insert(variable.clone(), secret);
        moved.push(MovedSecret { field: field.to_owned(), variable });
    }

    /// The wanted variable name, or a numbered one if it already has another value.
    fn free(&self, wanted: &str, secret: &str) -> String {
        let fits = |name: &String| {
            // An earlier import of the same secret used this name; it must be recognised as the same server.
            if self.earlier.get(name).is_some_and(|held| held == secret) {
                return true;
            }
            let sources = [&self.variables, &self.earlier, &self.overriding];
            let has_other = sources.iter().filter_map(|held| held.get(name)).any(|held| held != secret);
            !has_other && !self.referenced.contains(name)
        };
        std::iter::once(wanted.to_owned())
            .chain((2..1000).map(|number| format!("{wanted}_{number}")))
            .find(fits)
            .unwrap_or_else(|| wanted.to_owned())
    }
}

/// The variables of an env file. A sealed value that cannot be opened stays sealed, so that it differs from every secret.
fn stored_in(sources: &Sources, file: Option<PathBuf>) -> BTreeMap<String, String> {
    let mut texts = crate::texts::SourceTexts::default();
    let Some(file) = file else { return BTreeMap::new() };
    let Ok(bytes) = std::fs::read(&file) else { return BTreeMap::new() };
    let written = crate::parse::dotenv::parse(&mut texts, &file, &bytes).unwrap_or_default();
    let opened = |(name, value): (String, String)| {
        let opened = open_value(sources.sealer.as_deref(), &name, value.clone());
        (name, opened.unwrap_or(value))
    };
    written.into_iter().map(opened).collect()
}
