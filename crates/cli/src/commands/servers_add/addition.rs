//! What `toolbooth servers add` adds: the entry of a server, made from the command line.

use super::ServerAddArguments;
use crate::commands::server_entry;
use crate::failure::CommandFailure;
use crate::render;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use toolbooth_core::names::ServerName;

/// A server entry before it is written.
pub(super) struct PlannedServerEntry {
    /// The name of the server.
    pub name: String,
    /// The entry.
    pub entry: Value,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// Where the entry comes from, if the user did not type it.
    pub source: Option<String>,
}

/// What a target on the command line means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdditionKind<'a> {
    /// A local server with this name.
    Command(&'a str),
    /// A remote server at this URL.
    Url(&'a str),
    /// A server in the registry.
    Registry(&'a str),
    /// A `server.json` file.
    Description(&'a str),
    /// An OpenAPI document.
    OpenApi(&'a str),
}

impl<'a> AdditionKind<'a> {
    /// Determines from the form of the arguments what is added, and the name that the user gave for it.
    pub fn of(arguments: &'a ServerAddArguments) -> Result<(Self, Option<&'a str>), CommandFailure> {
        let ServerAddArguments { target, document, command, name, .. } = arguments;
        let name = name.as_deref();
        if !command.is_empty() {
            return match document {
                None => Ok((Self::Command(target), name)),
                Some(document) => Err(misuse(&format!("`{document}` and a command are both given"))),
            };
        }
        match (target.as_str(), document.as_deref()) {
            ("openapi", Some(document)) => Ok((Self::OpenApi(document), name)),
            ("openapi", None) => Err(misuse("`openapi` needs a file or URL")),
            // `servers add NAME URL`
            (given, Some(place)) => match Self::of_place(place) {
                Some(kind) => Ok((kind, name.or(Some(given)))),
                None => Err(not_a_place(place)),
            },
            (place, None) => match Self::of_place(place) {
                Some(kind) => Ok((kind, name)),
                None if place.contains("://") => Err(not_a_place(place)),
                None => Err(misuse(&format!("there is no command for `{place}`"))),
            },
        }
    }

    fn of_place(place: &'a str) -> Option<Self> {
        let is_url =
            ["http://", "https://", "ws://", "wss://"].iter().any(|scheme| place.starts_with(scheme));
        let is_file = place.ends_with("server.json");
        let mut parts = place.split('/');
        let is_registry_name = parts.clone().count() == 2 && parts.all(|part| !part.is_empty());
        match () {
            () if is_url => Some(Self::Url(place)),
            () if is_file => Some(Self::Description(place)),
            () if is_registry_name => Some(Self::Registry(place)),
            () => None,
        }
    }
}

fn not_a_place(place: &str) -> CommandFailure {
    match place.contains("://") {
        true => misuse(&format!(
            "the URL `{place}` does not begin with `https://`, `http://`, `wss://` or `ws://`"
        )),
        false => misuse(&format!("`{place}` is not a URL and not a name in a registry")),
    }
}

fn misuse(message: &str) -> CommandFailure {
    CommandFailure::misuse(
        "usage.servers-add",
        message,
        Some(
            "use `servers add NAME -- COMMAND`, `servers add URL`, `servers add REGISTRY/NAME` or `servers add openapi FILE`",
        ),
    )
}

/// The entry of a local server. With `run_in`, relative paths in its command start at that folder, wherever the
/// gateway is started.
pub(super) fn local(
    name: &str,
    arguments: &ServerAddArguments,
    run_in: Option<&Path>,
) -> Result<PlannedServerEntry, CommandFailure> {
    if let Some(option) = arguments.command.first().filter(|program| program.starts_with('-')) {
        return Err(CommandFailure::misuse(
            "usage.servers-add",
            format!("`{option}` is an option, not a program"),
            Some(&format!(
                "give the server a name first: `toolbooth servers add NAME -- {name} {option} ...`"
            )),
        ));
    }
    let mut notes = literal_notes(&arguments.env);
    let mut words = arguments.command.iter();
    let mut entry = Map::new();
    entry.insert("command".into(), json!(words.next()));
    let rest: Vec<&String> = words.collect();
    if !rest.is_empty() {
        entry.insert("args".into(), json!(rest));
    }
    if let Some(cwd) = &arguments.cwd {
        let cwd = std::path::absolute(cwd).unwrap_or_else(|_| cwd.clone());
        entry.insert("cwd".into(), json!(cwd));
    } else if let Some(folder) = run_in
        && let Some(word) = relative_path(&arguments.command, folder)
        // A file of the configuration is UTF-8.
        && let Some(written) = folder.to_str()
    {
        entry.insert("cwd".into(), json!(written));
        let shown = render::path(folder);
        notes.push(format!("`{word}` is a path in {shown}, so the server will run there (`cwd`)"));
    }
    let environment = variables(&arguments.env);
    if !environment.is_empty() {
        entry.insert("env".into(), json!(environment));
    }
    if !arguments.header.is_empty() {
        return Err(misuse("a local server takes no --header"));
    }
    Ok(PlannedServerEntry {
        name: checked(name)?,
        entry: Value::Object(with_common(entry, arguments)),
        notes,
        source: None,
    })
}

/// The first word of a command line that is an existing file or folder, relative to `folder`.
fn relative_path<'a>(command: &'a [String], folder: &Path) -> Option<&'a str> {
    let (program, rest) = command.split_first()?;
    // A program without a slash is looked up in `PATH`.
    let program = Some(program.as_str()).filter(|word| word.contains('/'));
    let rest = rest.iter().map(|word| match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => word.as_str(),
    });
    let is_there =
        |word: &&str| !word.is_empty() && Path::new(word).is_relative() && folder.join(word).exists();
    program.into_iter().chain(rest).find(is_there)
}

/// The entry of a remote server.
pub(super) fn remote(
    url: &str,
    name: Option<&str>,
    arguments: &ServerAddArguments,
) -> Result<PlannedServerEntry, CommandFailure> {
    if !arguments.env.is_empty() || arguments.cwd.is_some() {
        return Err(misuse("a remote server takes no --env and no --cwd"));
    }
    let mut entry = Map::new();
    entry.insert("url".into(), json!(url));
    if let Some(transport) = &arguments.transport {
        entry.insert("transport".into(), json!(transport));
    }
    let headers = pairs("--header", &arguments.header)?;
    if !headers.is_empty() {
        entry.insert("headers".into(), json!(headers));
    }
    let name = name.map_or_else(|| server_entry::name_of(url), str::to_owned);
    Ok(PlannedServerEntry {
        name: checked(&name)?,
        entry: Value::Object(with_common(entry, arguments)),
        notes: literal_notes(&arguments.header),
        source: None,
    })
}

/// Adds the options that every kind of server has.
pub(super) fn with_common(
    mut entry: Map<String, Value>,
    arguments: &ServerAddArguments,
) -> Map<String, Value> {
    if !arguments.group.is_empty() {
        entry.insert("groups".into(), json!(arguments.group));
    }
    entry
}

/// A valid server name.
pub(super) fn checked(name: &str) -> Result<String, CommandFailure> {
    match name.parse::<ServerName>() {
        Ok(name) if server_entry::is_addressable(name.as_str()) => Ok(name.to_string()),
        Ok(_) => Err(CommandFailure::misuse(
            "usage.server-name",
            format!("`{name}` is not a valid server name: browsers read it as a folder"),
            Some("give another one with --name"),
        )),
        Err(error) => Err(CommandFailure::misuse(
            "usage.server-name",
            format!("`{name}` is not a valid server name: {error}"),
            Some("give another one, such as `my-server`, before `--` or with --name"),
        )),
    }
}

/// Splits NAME=VALUE pairs.
pub(super) fn pairs(option: &str, given: &[String]) -> Result<BTreeMap<String, String>, CommandFailure> {
    let split = |pair: &String| match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(misuse(&format!("`{option} {pair}` is not NAME=VALUE"))),
    };
    given.iter().map(split).collect()
}

/// The variables of a local server; a name without a value refers to the user's own variable.
pub(super) fn variables(given: &[String]) -> BTreeMap<String, String> {
    let read = |pair: &String| match pair.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (pair.clone(), format!("${{{pair}}}")),
    };
    given.iter().map(read).collect()
}

/// Remarks about secrets that are written to the file.
fn literal_notes(given: &[String]) -> Vec<String> {
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["token", "key", "secret", "password", "authorization"].iter().any(|part| name.contains(part))
    };
    let literal = given.iter().filter_map(|pair| pair.split_once('='));
    let literal = literal.filter(|(name, value)| is_secret(name) && !value.contains("${"));
    literal
        .map(|(name, _)| {
            format!("the value of {name} is in the file; `${{VARIABLE}}` would refer to a variable")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_relative_paths_of_a_command_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("notes.py"), "").expect("written");
        let absolute = folder.path().join("notes.py").display().to_string();
        let cases: [(&[&str], Option<&str>); 9] = [
            (&["python3", "notes.py"], Some("notes.py")),
            (&["python3", "./notes.py", "."], Some("./notes.py")),
            (&["npx", "-y", "server-filesystem", "."], Some(".")),
            (&["uv", "run", "--script=notes.py"], Some("notes.py")),
            (&["./notes.py"], Some("./notes.py")),
            // Programs are looked up in `PATH`.
            (&["notes.py"], None),
            (&["python3", &absolute], None),
            (&["python3", "other.py", ""], None),
            (&[], None),
        ];
        for (command, expected) in cases {
            let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(relative_path(&words, folder.path()), expected, "{command:?}");
        }
    }

    #[test]
    fn places_are_distinguished() {
        let cases = [
            ("https://a.example/mcp", Some(AdditionKind::Url("https://a.example/mcp"))),
            ("io.github.ann/weather", Some(AdditionKind::Registry("io.github.ann/weather"))),
            ("./dist/server.json", Some(AdditionKind::Description("./dist/server.json"))),
            ("weather", None),
            ("a/b/c", None),
            ("/weather", None),
        ];
        for (place, expected) in cases {
            assert_eq!(AdditionKind::of_place(place), expected, "{place}");
        }
    }
}
