//! Connects a client to the gateway: the new text of its file.

use super::document::ClientDocument;
use super::name_lists::NameList;
use super::place::GATEWAY_NAME;
use super::spec::{ClientId, EntryPlace, GatewayEntry, ServerLayout};
use serde_json::Value as Json;
use std::path::Path;

/// The text of a client's file with the gateway's entry, and without the entries that it replaces. The error describes
/// why the file cannot be edited.
pub fn rewire(
    client: ClientId,
    text: &str,
    entry: &GatewayEntry,
    replaced: &[EntryPlace],
) -> Result<String, String> {
    let spec = client.spec();
    let Some(words) = spec.entry(GATEWAY_NAME, entry) else {
        return Err("it does not support URLs".to_owned());
    };
    let (mark, body) = split_mark(text);
    let mut document = ClientDocument::parse(client, body)?;
    let mut expected = document.value()?;
    for place in replaced {
        document.remove(&place.section, &place.name)?;
        take_out(&mut expected, spec.layout, &place.section, &place.name);
    }
    let section = document.section();
    document.put(GATEWAY_NAME, &words)?;
    admit(&mut document, &mut expected, &spec.own_lists(), &words);
    put_in(&mut expected, spec.layout, &section, GATEWAY_NAME, words);
    let edited = document.text();
    // The editors are careful, but a user's file must not be damaged by an unusual notation.
    let result = ClientDocument::parse(client, &edited).and_then(|edited| edited.value());
    match result {
        Ok(value) if value == expected => Ok(format!("{mark}{edited}")),
        _ => Err("its notation is not supported; edit it by hand".to_owned()),
    }
}

/// The text of a file in the folder of servers without the entries that the gateway has.
pub fn take_from_file(
    client: ClientId,
    path: &Path,
    text: &str,
    replaced: &[EntryPlace],
) -> Result<String, String> {
    let (mark, body) = split_mark(text);
    let mut document = ClientDocument::parse_file(client, path, body)?;
    let mut expected = document.value()?;
    for place in replaced {
        document.remove(&place.section, &place.name)?;
        take_out(&mut expected, document.layout(), &place.section, &place.name);
    }
    document.close_empty_list();
    let edited = document.text();
    match ClientDocument::parse_file(client, path, &edited).and_then(|edited| edited.value()) {
        Ok(value) if value == expected => Ok(format!("{mark}{edited}")),
        _ => Err("its notation is not supported; edit it by hand".to_owned()),
    }
}

impl ClientDocument {
    /// Adds or replaces the gateway's entry, and makes the client use it if a list in the same file does not name it.
    pub fn connect(&mut self, words: &Json) -> Result<(), String> {
        self.put(GATEWAY_NAME, words)?;
        let mut value = self.value()?;
        let lists = self.client().spec().own_lists();
        admit(self, &mut value, &lists, words);
        Ok(())
    }
}

/// Makes the client use the gateway if its lists do not name it. Returns the names of the lists that were changed.
fn admit(
    document: &mut ClientDocument,
    value: &mut Json,
    lists: &[&'static NameList],
    words: &Json,
) -> Vec<String> {
    let mut changed = Vec::new();
    for list in lists.iter().filter(|list| !list.is_per_project()) {
        let Some((found, _)) = list.find(value).into_iter().next() else { continue };
        let edits = list.admission(found, words);
        let target = list.keys.iter().try_fold(&mut *value, |value, key| value.get_mut(key));
        let (Some(target), false) = (target, edits.is_empty()) else { continue };
        for edit in edits {
            document.edit_list(list, &edit);
            edit.apply(target);
        }
        changed.push(list.shown());
    }
    changed
}

/// The lists in the file of a client's servers that have to be changed so that the client uses the gateway.
pub fn closed_lists(client: ClientId, text: &str, entry: &GatewayEntry) -> Vec<String> {
    let spec = client.spec();
    let parsed = ClientDocument::parse(client, text.trim_start_matches('\u{feff}'));
    let (Some(words), Ok(mut document)) = (spec.entry(GATEWAY_NAME, entry), parsed) else {
        return Vec::new();
    };
    let Ok(mut value) = document.value() else { return Vec::new() };
    admit(&mut document, &mut value, &spec.own_lists(), &words)
}

/// The text of a file with lists of servers after which the client uses the gateway, and the names of the lists that were
/// changed; `None` if it uses the gateway already. `words` is the gateway's entry as the client has it.
pub fn admit_in_file(
    client: ClientId,
    path: &Path,
    text: &str,
    words: &Json,
) -> Result<Option<(String, Vec<String>)>, String> {
    let (mark, body) = split_mark(text);
    let mut document = ClientDocument::parse(client, body)?;
    let mut expected = document.value()?;
    let lists = admit(&mut document, &mut expected, &client.spec().lists_in(path), words);
    if lists.is_empty() {
        return Ok(None);
    }
    let edited = document.text();
    match ClientDocument::parse(client, &edited).and_then(|edited| edited.value()) {
        Ok(value) if value == expected => Ok(Some((format!("{mark}{edited}"), lists))),
        _ => Err("its notation is not supported; edit it by hand".to_owned()),
    }
}

/// The text of a file with lists of servers without the gateway in its lists of allowed servers; `None` if it is not in
/// them, or was before.
pub fn withdraw_from_file(
    client: ClientId,
    path: &Path,
    text: &str,
    earlier: Option<&str>,
) -> Result<Option<String>, String> {
    let (mark, body) = split_mark(text);
    let mut document = ClientDocument::parse(client, body)?;
    let earlier = earlier.and_then(|earlier| ClientDocument::parse(client, split_mark(earlier).1).ok());
    let is_changed = document.withdraw(&client.spec().lists_in(path), earlier.as_ref());
    Ok(is_changed.then(|| format!("{mark}{}", document.text())))
}

/// A text without its byte order mark, and the mark.
fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    }
}

/// The text of a client's file without the gateway, and with the entries of an earlier version of the file that it does
/// not have. All other changes since then stay.
pub fn put_back(client: ClientId, path: &Path, text: &str, earlier: &str) -> Result<String, String> {
    let (mark, text) = split_mark(text);
    let mut document = ClientDocument::parse_file(client, path, text)?;
    let before = ClientDocument::parse_file(client, path, split_mark(earlier).1)?;
    let layout = document.layout();
    document.withdraw(&client.spec().lists_in(path), Some(&before));
    let mut expected = document.value()?;
    let section = document.section();
    document.remove(&section, GATEWAY_NAME)?;
    take_out(&mut expected, layout, &section, GATEWAY_NAME);
    for (section, name, words) in entries(client, &before)? {
        if has_entry(&mut expected, &section, &name) {
            continue;
        }
        document.put_at(&section, &name, &words)?;
        put_in(&mut expected, layout, &section, &name, words);
    }
    let edited = document.text();
    match ClientDocument::parse_file(client, path, &edited).and_then(|edited| edited.value()) {
        Ok(value) if value == expected => Ok(format!("{mark}{edited}")),
        _ => Err("its notation is not supported; edit it by hand".to_owned()),
    }
}

/// An entry with the keys that lead to it, and its name.
type PlacedEntry = (Vec<String>, String, Json);

/// All entries of a file, with those of projects.
fn entries(client: ClientId, document: &ClientDocument) -> Result<Vec<PlacedEntry>, String> {
    let mut value = document.value()?;
    let mut sections = vec![document.section()];
    if client == ClientId::ClaudeCode {
        let projects = value.get("projects").and_then(Json::as_object);
        let servers = client.spec().section;
        let section = |path: &String| vec!["projects".to_owned(), path.clone(), servers.to_owned()];
        sections.extend(projects.into_iter().flatten().map(|(path, _)| section(path)));
    }
    let mut found = Vec::new();
    for section in sections {
        match at(&mut value, &section).map(Json::take) {
            Some(Json::Object(map)) => {
                found.extend(map.into_iter().map(|(name, words)| (section.clone(), name, words)));
            }
            Some(Json::Array(list)) => found.extend(list.into_iter().filter_map(|words| {
                Some((section.clone(), words.get("name")?.as_str()?.to_owned(), words.clone()))
            })),
            _ => {}
        }
    }
    Ok(found)
}

fn has_entry(value: &mut Json, section: &[String], name: &str) -> bool {
    match at(value, section) {
        Some(Json::Object(map)) => map.contains_key(name),
        Some(Json::Array(list)) => {
            list.iter().any(|entry| entry.get("name").and_then(Json::as_str) == Some(name))
        }
        _ => false,
    }
}

/// The text of a file with only the gateway's entry.
pub fn sample(client: ClientId, entry: &GatewayEntry) -> String {
    rewire(client, "", entry, &[]).unwrap_or_default()
}

fn at<'a>(value: &'a mut Json, section: &[String]) -> Option<&'a mut Json> {
    section.iter().try_fold(value, |value, key| value.get_mut(key))
}

fn take_out(value: &mut Json, layout: ServerLayout, section: &[String], name: &str) {
    match (at(value, section), layout) {
        (Some(Json::Object(map)), _) => drop(map.shift_remove(name)),
        (Some(Json::Array(list)), ServerLayout::NamedList) => {
            list.retain(|entry| entry.get("name").and_then(Json::as_str) != Some(name));
        }
        _ => {}
    }
}

fn put_in(value: &mut Json, layout: ServerLayout, section: &[String], name: &str, words: Json) {
    if !value.is_object() {
        *value = Json::Object(serde_json::Map::new());
    }
    let mut inner = value;
    for key in section {
        let Json::Object(map) = inner else { return };
        inner = map.entry(key.clone()).or_insert(Json::Null);
    }
    match layout {
        ServerLayout::Map => {
            if inner.is_null() {
                *inner = Json::Object(serde_json::Map::new());
            }
            if let Json::Object(map) = inner {
                map.insert(name.to_owned(), words);
            }
        }
        ServerLayout::NamedList => {
            if inner.is_null() {
                *inner = Json::Array(Vec::new());
            }
            if let Json::Array(list) = inner {
                list.retain(|entry| entry.get("name").and_then(Json::as_str) != Some(name));
                list.push(words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn entry() -> GatewayEntry {
        GatewayEntry::stdio("/bin/toolbooth", vec!["stdio".into()])
    }

    fn check(client: ClientId, before: &str, expected: Expect) {
        let text = rewire(client, before, &entry(), &[]).expect("it can be edited");
        expected.assert_eq(&text);
        let again = rewire(client, &text, &entry(), &[]).expect("it can be edited");
        assert_eq!(ClientDocument::parse(client, &again).expect("it parses").value(), {
            ClientDocument::parse(client, &text).expect("it parses").value()
        });
        let mut document = ClientDocument::parse(client, &text).expect("it parses");
        let earlier = ClientDocument::parse(client, before).expect("it parses");
        assert_eq!(document.disconnect(Some(&earlier)), Ok(true));
        assert_eq!(document.get(GATEWAY_NAME), earlier.get(GATEWAY_NAME));
        assert!(!before.contains("//") || document.text() == before, "{}", document.text());
    }

    #[test]
    fn comments_and_order_stay() {
        let json = "{\n  // mine\n  \"zeta\": 1,\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"fs\"}, // keep\n  },\n}\n";
        check(
            ClientId::Cursor,
            json,
            expect![[r#"
            {
              // mine
              "zeta": 1,
              "mcpServers": {
                "fs": {"command": "fs"}, // keep
                "toolbooth": {
                  "command": "/bin/toolbooth",
                  "args": ["stdio"],
                },
              },
            }
        "#]],
        );
        check(
            ClientId::Vscode,
            "",
            expect![[r#"
            {
              "servers": {
                "toolbooth": {
                  "type": "stdio",
                  "command": "/bin/toolbooth",
                  "args": ["stdio"]
                }
              }
            }
        "#]],
        );
        check(
            ClientId::ClaudeCode,
            r#"{"mcpServers": {"toolbooth": {"command": "old"}}}"#,
            expect![[r#"
            {"mcpServers": {"toolbooth": {
                  "type": "stdio",
                  "command": "/bin/toolbooth",
                  "args": ["stdio"]
                }}}"#]],
        );
        let toml = "# mine\nmodel = \"x\"\n\n[mcp_servers.fs]\ncommand = \"fs\" # keep\n";
        check(
            ClientId::Codex,
            toml,
            expect![[r##"
            # mine
            model = "x"

            [mcp_servers.fs]
            command = "fs" # keep

            [mcp_servers.toolbooth]
            command = "/bin/toolbooth"
            args = ["stdio"]
        "##]],
        );
    }

    #[test]
    fn old_entries_are_put_back_and_later_changes_stay() {
        let earlier = r#"{"n": 1, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}, "projects": {"/p": {"mcpServers": {"c": {"command": "c"}}}}}"#;
        let now = r#"{"n": 2, "mcpServers": {"toolbooth": {"command": "t"}, "b": {"command": "new"}}, "projects": {"/p": {"mcpServers": {}, "x": 1}}}"#;
        let text = put_back(ClientId::ClaudeCode, Path::new(".claude.json"), now, earlier)
            .expect("it can be edited");
        let value = ClientDocument::parse(ClientId::ClaudeCode, &text).expect("it parses").value();
        let expected = serde_json::json!({
            "n": 2,
            "mcpServers": {"a": {"command": "a"}, "b": {"command": "new"}},
            "projects": {"/p": {"mcpServers": {"c": {"command": "c"}}, "x": 1}},
        });
        assert_eq!(value, Ok(expected));
        let earlier = "extensions:\n  a: {cmd: a}\nm: 1\n";
        let now = "extensions:\n  toolbooth: {cmd: t}\nm: 2\n";
        let text =
            put_back(ClientId::Goose, Path::new("config.yaml"), now, earlier).expect("it can be edited");
        assert_eq!(text, "extensions:\n  a:\n    cmd: a\nm: 2\n");
    }

    #[test]
    fn a_file_with_an_unexpected_structure_is_not_changed() {
        for (client, text) in [
            (ClientId::Cursor, "[1]"),
            (ClientId::Cursor, r#"{"mcpServers": 3}"#),
            (ClientId::Codex, "mcp_servers = 3\n"),
            (ClientId::Goose, "extensions: 3\n"),
            (ClientId::Goose, "- a\n"),
            (ClientId::Cursor, "{"),
            (ClientId::Codex, "a = "),
            (ClientId::Goose, "a: [\n"),
        ] {
            assert!(rewire(client, text, &entry(), &[]).is_err(), "{text}");
        }
    }
}
