//! Moves the secrets in other clients' files to variables of an env file.

use super::read_entry::variable_name;
use super::{MovedSecret, PlannedServer};
use crate::expand::references;
use crate::inputs::Sources;
use crate::sealed_values::open_value;
use crate::secrets::{looks_secret, sounds_secret};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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

    /// Replaces all literal secrets of an entry with variables.
    pub(super) fn take_from(&mut self, planned: &mut PlannedServer) {
        let PlannedServer { name, entry: Json::Object(entry), moved, .. } = planned else { return };
        for (key, value) in entry.iter_mut() {
            match (key.as_str(), value) {
                ("env", Json::Object(map)) => self.map(name, "env", map, moved),
                ("headers", Json::Object(map)) => self.map(name, "headers", map, moved),
                ("args", Json::Array(args)) => self.args(name, args, moved),
                ("url" | "uri" | "serverUrl" | "httpUrl", Json::String(url)) => self.url(name, url, moved),
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

    fn map(&mut self, server: &str, field: &str, map: &mut Map<String, Json>, moved: &mut Vec<MovedSecret>) {
        for (key, value) in map.iter_mut() {
            let Json::String(text) = value else { continue };
            if !(sounds_secret(key) || looks_secret(text)) {
                continue;
            }
            let wanted = match field {
                // The server itself reads the variable with this name.
                "env" => variable_name(key),
                _ => format!("{}_{}", variable_name(server), variable_name(key)),
            };
            self.text(&format!("{field}.{key}"), &wanted, text, moved);
        }
    }

    fn args(&mut self, server: &str, args: &mut [Json], moved: &mut Vec<MovedSecret>) {
        let mut flag: Option<String> = None;
        for (index, value) in args.iter_mut().enumerate() {
            let Json::String(text) = value else { continue };
            let field = format!("args.{index}");
            let before = flag.take();
            if let Some((name, secret)) = text.split_once('=').filter(|(name, _)| name.starts_with('-')) {
                if sounds_secret(name) || looks_secret(secret) {
                    let wanted = format!("{}_{}", variable_name(server), variable_name(name));
                    let mut secret = secret.to_owned();
                    let name = name.to_owned();
                    self.text(&field, &wanted, &mut secret, moved);
                    *text = format!("{name}={secret}");
                }
            } else if text.starts_with('-') {
                flag = Some(text.clone()).filter(|flag| sounds_secret(flag));
            } else if before.is_some() || looks_secret(text) {
                let label = before.as_deref().map_or_else(|| "SECRET".to_owned(), variable_name);
                self.text(&field, &format!("{}_{label}", variable_name(server)), text, moved);
            }
        }
    }

    /// Replaces secret parameters of a URL.
    fn url(&mut self, server: &str, url: &mut String, moved: &mut Vec<MovedSecret>) {
        let Some((base, query)) = url.split_once('?') else { return };
        let mut parts = Vec::new();
        for part in query.split('&') {
            let Some((name, secret)) =
                part.split_once('=').filter(|(name, value)| sounds_secret(name) || looks_secret(value))
            else {
                parts.push(part.to_owned());
                continue;
            };
            let mut secret = secret.to_owned();
            let wanted = format!("{}_{}", variable_name(server), variable_name(name));
            self.text(&format!("url?{name}"), &wanted, &mut secret, moved);
            parts.push(format!("{name}={secret}"));
        }
        *url = format!("{base}?{}", parts.join("&"));
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
