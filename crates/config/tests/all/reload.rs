//! Changes between two loads: a server with an equal hash is not restarted.

use crate::world::World;
use toolbooth_config::ServerChanges;

fn hash(name: &str, text: &str, env: &[(&str, &str)]) -> String {
    let world = World::config(name, text).env(env);
    let loaded = world.load().unwrap();
    let server = loaded.server("a").unwrap();
    assert_eq!(server.state.as_str(), "ready", "{:?}", server.state);
    server.hash.clone()
}

#[test]
fn equivalent_entries_have_equal_hashes() {
    let base = hash(
        "work/a.json",
        r#"{"servers": {"a": {"command": "x", "args": ["1"], "env": {"A": "1", "B": "2"}, "tools": {"overrides": {"t": {"cost_per_call": 1, "allow_parallel": true}}}}}}"#,
        &[],
    );
    let same = [
        (
            "work/a.json",
            r#"{"servers": {"a": {"env": {"B": "2", "A": "1"}, "tools": {"overrides": {"t": {"allow_parallel": true, "cost_per_call": 1}}}, "args": ["1"], "command": "x"}}}"#,
            &[][..],
        ),
        (
            "work/a.json",
            r#"{"mcpServers": {"a": {"command": ["x", "1"], "env": {"A": "1", "B": "2"}, "tools": {"overrides": {"t": {"cost_per_call": 1, "allow_parallel": true}}}, "enabled": true, "timeout": 30}}}"#,
            &[][..],
        ),
        (
            "work/a.yaml",
            "servers: {a: {command: x, args: ['1'], env: {A: 1, B: '2'}, tools: {overrides: {t: {cost_per_call: 1, allow_parallel: true}}}}}",
            &[][..],
        ),
        (
            "work/a.json",
            r#"{"servers": {"a": {"command": "x", "args": ["${ONE}"], "env": {"A": "1", "B": "2"}, "tools": {"overrides": {"t": {"cost_per_call": 1, "allow_parallel": true}}}}}}"#,
            &[("ONE", "1")][..],
        ),
    ];
    for (name, text, env) in same {
        assert_eq!(hash(name, text, env), base, "{text}");
    }
    let others = [
        r#"{"servers": {"a": {"command": "x", "args": ["2"], "env": {"A": "1", "B": "2"}}}}"#,
        r#"{"servers": {"a": {"command": "x", "args": ["1"], "env": {"A": "1", "B": "3"}}}}"#,
        r#"{"servers": {"a": {"command": "x", "args": ["1"], "env": {"A": "1", "B": "2"}, "groups": ["staff"]}}}"#,
    ];
    for text in others {
        assert_ne!(hash("work/a.json", text, &[]), base, "{text}");
    }
}

#[test]
fn a_changed_secret_changes_the_hash() {
    let text = r#"{"servers": {"a": {"command": "x", "env": {"T": "${T}"}}}}"#;
    assert_ne!(hash("work/a.json", text, &[("T", "1")]), hash("work/a.json", text, &[("T", "2")]));
    let written = r#"{"servers": {"a": {"command": "x", "env": {"TOKEN": "1"}}}}"#;
    assert_ne!(hash("work/a.json", written, &[]), hash("work/a.json", &written.replace('1', "2"), &[]));
}

#[test]
fn changes_list_added_removed_and_changed_servers() {
    let world = World::config(
        "work/a.json",
        r#"{"servers": {"same": {"command": "x"}, "other": {"command": "x"}, "gone": {"command": "x"}}}"#,
    );
    let before = world.load().unwrap();
    world.write(
        "work/a.json",
        r#"{"servers": {"new": {"command": "x"}, "other": {"command": "y"}, "same": {"command": "x", "enabled": true}}}"#,
    );
    let changes = ServerChanges::between(&before.servers, &world.load().unwrap().servers);
    let names =
        |list: &[toolbooth_core::names::ServerName]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&changes.added), ["new"]);
    assert_eq!(names(&changes.changed), ["other"]);
    assert_eq!(names(&changes.removed), ["gone"]);
    assert_eq!(names(&changes.unchanged), ["same"]);
}

#[test]
fn a_syntax_error_fails_the_load() {
    let world = World::config("work/a.json", r#"{"servers": {"a": {"command": "x"}}}"#);
    let good = world.load().unwrap();
    world.write("work/a.json", r#"{"servers": {"a": {"command": "x"}"#);
    let failure = world.load().unwrap_err();
    assert_eq!(failure.findings.len(), 1);
    assert!(good.files.starts_with(&failure.files), "manifests are looked for after the configuration");
}

/// Audit A2: a file that was reduced to comments counted as filled.
#[test]
fn a_file_with_only_comments_is_blank() {
    let cases = [
        ("work/a.toml", "# [auth]\n# mode = \"token\"\n", true),
        ("work/a.toml", "deny_tools = []\n", false),
        ("work/a.yaml", "# auth: {mode: token}\n", true),
        ("work/a.yaml", "auth: {mode: token}\n", false),
        ("work/a.json", "// one\n/* {\"auth\": {}} */\n", true),
        ("work/a.json", "{ /* nothing */ }", true),
        ("work/a.json", r#"{"$schema": "x"}"#, true),
        ("work/a.json", r#"{"servers": {}}"#, false),
        ("work/a.json", " \n", true),
    ];
    for (name, text, is_blank) in cases {
        let loaded = World::config(name, text).load().unwrap();
        assert_eq!(loaded.filled_files().is_empty(), is_blank, "{text}");
    }
}
