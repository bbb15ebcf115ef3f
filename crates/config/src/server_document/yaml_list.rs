//! The servers of a configuration file in YAML: a map from names to entries, or a list of entries with names.

use super::{SERVER_KEYS, ServerSwitch};
use crate::yaml_edit;
use serde_json::{Map, Value};

/// The map or list of servers under a key.
fn servers(text: &str, key: &str) -> Option<Value> {
    let mut whole = yaml_edit::value(text).ok()?;
    whole.get_mut(key).map(Value::take)
}

fn entry_in(servers: Value, name: &str) -> Option<Value> {
    match servers {
        Value::Object(mut map) => map.shift_remove(name),
        Value::Array(list) => list.into_iter().find(|entry| entry["name"] == name),
        _ => None,
    }
}

/// The key of the servers that have an entry of this name.
pub(super) fn key_of(text: &str, name: &str) -> Option<&'static str> {
    SERVER_KEYS.into_iter().find(|key| servers(text, key).and_then(|all| entry_in(all, name)).is_some())
}

/// The entry of this name.
pub(super) fn entry(text: &str, name: &str) -> Option<Value> {
    entry_in(servers(text, key_of(text, name)?)?, name)
}

/// Whether the file has this key of servers, even without a value.
pub(super) fn has_key(text: &str, key: &str) -> bool {
    servers(text, key).is_some()
}

/// The text with a new entry.
pub(super) fn add(text: &str, key: &str, name: &str, entry: &Value) -> Result<String, String> {
    match servers(text, key) {
        None | Some(Value::Null | Value::Object(_)) => yaml_edit::set(text, &[key, name], entry),
        Some(_) => Err(format!("its `{key}` is not a map")),
    }
}

/// Adds an empty map of servers.
pub(super) fn add_key(text: &mut String, key: &str) {
    if !has_key(text, key)
        && let Ok(edited) = yaml_edit::set(text, &[key], &Value::Object(Map::new()))
    {
        *text = edited;
    }
}

/// Removes an entry, and with the last one the key of the servers, unless it has comments. Returns whether it was removed.
pub(super) fn remove(text: &mut String, name: &str) -> bool {
    let Some(key) = key_of(text, name) else { return false };
    let Ok(edited) = yaml_edit::remove(text, &[key, name]) else { return false };
    *text = edited;
    remove_empty(text, key);
    true
}

/// Removes the key of the servers if there are neither entries nor comments.
pub(super) fn remove_empty(text: &mut String, key: &str) {
    let is_empty = match servers(text, key) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Null) => true,
        _ => false,
    };
    if is_empty
        && !yaml_edit::has_comment(text, key)
        && let Ok(edited) = yaml_edit::remove(text, &[key])
    {
        *text = edited;
    }
}

/// Turns an entry on or off. Returns whether that was possible.
pub(super) fn switch(text: &mut String, name: &str, state: ServerSwitch) -> bool {
    let Some(members) = entry(text, name) else { return false };
    let on = state == ServerSwitch::On;
    let mut set = |member: &str, value: Option<bool>| {
        change(text, name, &[member.to_owned()], value.map(Value::Bool).as_ref())
    };
    match (members.get("enabled").is_some(), members.get("disabled").is_some()) {
        // Both keys in one entry would be an error.
        (true, true) => set("disabled", None) && set("enabled", Some(on)),
        (false, true) => set("disabled", Some(!on)),
        (true, false) => set("enabled", Some(on)),
        (false, false) => on || set("enabled", Some(false)),
    }
}

/// Changes a member of an entry, or of a map in it; without a value, it is removed. Returns whether that was possible.
pub(super) fn change(text: &mut String, name: &str, path: &[String], value: Option<&Value>) -> bool {
    let (Some(key), Some(members)) = (key_of(text, name), entry(text, name)) else { return false };
    let place: Vec<&str> = [key, name].into_iter().chain(path.iter().map(String::as_str)).collect();
    let is_there = path.iter().try_fold(&members, |value, key| value.get(key)).is_some();
    let edited = match value {
        Some(value) => yaml_edit::set(text, &place, value),
        None if is_there => yaml_edit::remove(text, &place),
        None => return true,
    };
    match edited {
        Ok(edited) => {
            *text = edited;
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MemberChange, ServerListDocument, ServerSwitch};
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};
    use std::path::Path;

    fn check(before: &str, change: impl FnOnce(&mut ServerListDocument), expected: Expect) {
        let mut document = ServerListDocument::parse(Path::new("toolbooth.yaml"), before).expect("it parses");
        change(&mut document);
        expected.assert_eq(&document.text());
    }

    const MAP: &str = "\
# mine
listen: 9000 # port

servers:
  # files
  fs:
    command: fs # keep
    enabled: true # for now
    env:
      OLD: x

  # the other one
  git: {command: git, disabled: true} # short

# rules
policy:
  consent: never
";

    #[test]
    fn an_entry_is_added_after_the_others() {
        let entry = json!({ "command": "npx", "args": ["-y", "a b"], "env": { "KEY": "${KEY}" } });
        check(
            MAP,
            |document| document.add("x", &entry).expect("added"),
            expect![[r##"
            # mine
            listen: 9000 # port

            servers:
              # files
              fs:
                command: fs # keep
                enabled: true # for now
                env:
                  OLD: x

              # the other one
              git: {command: git, disabled: true} # short
              x:
                command: npx
                args:
                  - "-y"
                  - "a b"
                env:
                  KEY: "${KEY}"

            # rules
            policy:
              consent: never
        "##]],
        );
        check(
            "",
            |document| document.add("x", &entry).expect("added"),
            expect![[r#"
            servers:
              x:
                command: npx
                args:
                  - "-y"
                  - "a b"
                env:
                  KEY: "${KEY}"
        "#]],
        );
        check(
            "listen: 1\nservers:\n  # none yet\n",
            |document| document.add("x", &json!({ "url": "u" })).expect("added"),
            expect![[r#"
                listen: 1
                servers:
                  # none yet
                  x:
                    url: u
            "#]],
        );
    }

    #[test]
    fn an_entry_is_removed_with_its_lines_only() {
        check(
            MAP,
            |document| assert!(document.remove("fs") && !document.remove("fs")),
            expect![[r#"
            # mine
            listen: 9000 # port

            servers:
              # files

              # the other one
              git: {command: git, disabled: true} # short

            # rules
            policy:
              consent: never
        "#]],
        );
        check(
            "a: 1\nservers:\n  x:\n    command: x\nb: 2\n",
            |document| assert!(document.remove("x")),
            expect![[r#"
                a: 1
                b: 2
            "#]],
        );
        check(
            "servers:\n  # about x\n  x:\n    command: x\n",
            |document| assert!(document.remove("x")),
            expect![[r#"
                servers: {}
                  # about x
            "#]],
        );
        check(
            "servers:\n  - name: x # first\n    command: x\n  # second\n  - command: y\n    name: y\n",
            |document| assert!(document.remove("x")),
            expect![[r#"
                servers:
                  # second
                  - command: y
                    name: y
            "#]],
        );
    }

    #[test]
    fn an_entry_is_turned_off_and_on() {
        check(
            MAP,
            |document| {
                assert!(document.switch("fs", ServerSwitch::Off));
                assert!(document.switch("git", ServerSwitch::On));
                assert!(!document.switch("gone", ServerSwitch::On));
            },
            expect![[r##"
                # mine
                listen: 9000 # port

                servers:
                  # files
                  fs:
                    command: fs # keep
                    enabled: false # for now
                    env:
                      OLD: x

                  # the other one
                  git: {command: git, disabled: false} # short

                # rules
                policy:
                  consent: never
            "##]],
        );
        let list = "servers:\n- name: x # first\n  command: x\n- name: y\n  command: y\n";
        check(
            list,
            |document| assert!(document.switch("x", ServerSwitch::Off)),
            expect![[r#"
            servers:
            - name: x # first
              command: x
              enabled: false
            - name: y
              command: y
        "#]],
        );
        for state in [ServerSwitch::Off, ServerSwitch::On] {
            let mut document = ServerListDocument::parse(Path::new("a.yml"), MAP).expect("it parses");
            assert!(document.switch("fs", state) && document.switch("git", state));
            let is = |name: &str, key: &str| {
                document.entry(name).expect("an entry").get(key) == Some(&json!(true))
            };
            let expected = (state == ServerSwitch::On, state == ServerSwitch::Off);
            assert_eq!((is("fs", "enabled"), is("git", "disabled")), expected);
        }
    }

    #[test]
    fn members_of_an_entry_are_changed_in_place() {
        let change = |path: &[&str], value: Option<Value>| MemberChange {
            path: path.iter().map(|step| (*step).to_owned()).collect(),
            value,
        };
        let changes = [
            change(&["command"], Some(json!("uvx"))),
            change(&["args"], Some(json!(["b"]))),
            change(&["env", "NEW"], Some(json!("${NEW}"))),
            change(&["env", "OLD"], None),
            change(&["cwd"], None),
        ];
        check(
            MAP,
            |document| assert!(document.edit("fs", &changes)),
            expect![[r##"
            # mine
            listen: 9000 # port

            servers:
              # files
              fs:
                command: uvx # keep
                enabled: true # for now
                env:
                  NEW: "${NEW}"
                args:
                  - b

              # the other one
              git: {command: git, disabled: true} # short

            # rules
            policy:
              consent: never
        "##]],
        );
        check(
            MAP,
            |document| assert!(document.edit("git", &changes[..1])),
            expect![[r##"
            # mine
            listen: 9000 # port

            servers:
              # files
              fs:
                command: fs # keep
                enabled: true # for now
                env:
                  OLD: x

              # the other one
              git: {command: uvx, disabled: true} # short

            # rules
            policy:
              consent: never
        "##]],
        );
        let removal = [change(&["env", "OLD"], None)];
        check(
            MAP,
            |document| assert!(document.edit("fs", &removal)),
            expect![[r#"
            # mine
            listen: 9000 # port

            servers:
              # files
              fs:
                command: fs # keep
                enabled: true # for now

              # the other one
              git: {command: git, disabled: true} # short

            # rules
            policy:
              consent: never
        "#]],
        );
    }

    #[test]
    fn an_unusual_notation_is_not_changed() {
        let aliased = "base: &b {command: x}\nservers:\n  x: *b\n";
        let mut document = ServerListDocument::parse(Path::new("a.yaml"), aliased).expect("it parses");
        assert!(!document.switch("x", ServerSwitch::Off));
        assert_eq!(document.text(), aliased);
        assert!(ServerListDocument::parse(Path::new("a.yaml"), "a: [").is_err());
    }
}
