//! What people read when something is wrong.

use crate::world::World;
use expect_test::{Expect, expect};

fn check(name: &str, text: &str, expected: Expect) {
    expected.assert_eq(&World::config(name, text).report());
}

#[test]
fn a_misspelt_key_is_named_with_the_nearest_known_one() {
    check(
        "work/mcp.json",
        "{\n  \"servers\": {\n    \"fs\": {\n      \"command\": \"npx\",\n      \"grops\": [\"staff\"]\n    }\n  }\n}",
        expect![[r#""#]],
    );
}

#[test]
fn all_problems_of_an_entry_are_found_in_one_go() {
    check(
        "work/mcp.json",
        r#"{"servers": {"fs": {
  "command": "npx",
  "groups": "staff",
  "autoconnect": true,
  "timeout": 60000000,
  "share": "everybody",
  "tools": {"alow": ["x"]},
  "inject": {"identity": "username"},
  "enabled": "yes"
}}}"#,
        expect![[r#""#]],
    );
}

#[test]
fn json_slips_are_pointed_at() {
    let cases = [
        ("{\"servers\": {\n  \"a\": {\"command\": \"x\"}\n  \"b\": {}\n}}", "a missing comma"),
        ("{\"servers\": {\n  \"a\": {\"command\": 'x'}\n}}", "single quotes"),
        ("{\"servers\": {\n  \"a\": {\"command\": \"x\"}\n", "a missing brace"),
        ("{\"servers\": {\n  \"a\": {\"command\": \"C:\\Users\\x\"}\n}}", "a bare backslash"),
        ("{\"servers\": {\n  a: {}\n}}", "a bare key"),
        ("{\"servers\": {\n  \"a\": {\"enabled\": True}\n}}", "a Python word"),
        ("{\"servers\": {\n  \"a\": {\"args\": [\"x\",, \"y\"]}\n}}", "two commas"),
        ("{\"servers\": {\n  \"a\": \"unclosed\n}}", "an open text"),
        ("{} {}", "two values"),
        ("/* open", "an open comment"),
        ("{\"a\": 01}", "a bad number"),
    ];
    let mut all = String::new();
    for (text, what) in cases {
        all.push_str(&format!("--- {what}\n{}", World::config("work/mcp.json", text).report()));
    }
    expect![[r#""#]].assert_eq(&all);
}

#[test]
fn toml_and_yaml_slips_are_pointed_at_too() {
    let cases = [
        ("work/toolbooth.toml", "listen = 9000\n[servers.fs\ncommand = \"x\"\n"),
        ("work/toolbooth.toml", "listen = 9000\nlisten = 9001\n"),
        ("work/toolbooth.yaml", "listen: 9000\nservers:\n  fs: [\n"),
        ("work/toolbooth.yaml", "servers:\n\tfs: {}\n"),
        ("work/toolbooth.yaml", "listen: 1\n---\nlisten: 2\n"),
    ];
    let mut all = String::new();
    for (name, text) in cases {
        all.push_str(&World::config(name, text).report());
    }
    expect![[r#""#]].assert_eq(&all);
}

#[test]
fn a_name_that_stands_twice_is_an_error_for_that_name_only() {
    let world = World::config(
        "work/mcp.json",
        "{\"servers\": {\n  \"a\": {\"command\": \"x\"},\n  \"b\": {\"command\": \"y\"},\n  \"a\": {\"command\": \"z\"}\n}}",
    );
    expect![[r#""#]].assert_eq(&world.report());
    expect![[r#""#]].assert_eq(&world.servers());
}

#[test]
fn names_are_short_and_plain() {
    check(
        "work/mcp.json",
        "{\"servers\": {\n  \"my server\": {\"command\": \"x\"},\n  \"ok\": {\"command\": \"y\"}\n}}",
        expect![[r#""#]],
    );
}

#[test]
fn an_unset_variable_breaks_its_server_only() {
    let world = World::config(
        "work/mcp.json",
        "{\"servers\": {\n  \"a\": {\"command\": \"x\", \"env\": {\n    \"TOKEN\": \"${MISSING_TOKEN}\"\n  }},\n  \"b\": {\"command\": \"y\"}\n}}",
    );
    expect![[r#""#]].assert_eq(&world.report());
    expect![[r#""#]].assert_eq(&world.servers());
}

#[test]
fn unreachable_servers_say_what_is_missing() {
    check(
        "work/mcp.json",
        r#"{"servers": {
  "nothing": {"description": "x"},
  "no_url": {"transport": "http", "command": "x"},
  "no_command": {"type": "stdio", "url": "http://x/"},
  "bad_url": {"url": "http://"},
  "bad_scheme": {"url": "ftp://x/y"},
  "no_folder": {"command": "x", "cwd": "nowhere"},
  "no_token": {"url": "http://x/", "auth_type": "bearer"},
  "empty": {"command": []},
  "text_args": {"command": "npx", "args": "-y server"},
  "bad_header": {"url": "http://x/", "headers": {"a b": "c"}},
  "bad_glob": {"command": "x", "tools": {"allow": ["[a"]}},
  "a_list": [1, 2]
}}"#,
        expect![[r#""#]],
    );
}

#[test]
fn doubtful_entries_are_warned_about() {
    check(
        "work/mcp.json",
        r#"{"servers": {
  "nobody": {"command": "x", "groups": []},
  "both": {"command": "x", "url": "http://x/"},
  "spaces": {"command": "npx -y server"},
  "no_scheme": {"url": "localhost:9000/mcp"},
  "stdio_auth": {"command": "x", "auth_type": "bearer", "auth_token": "abc"},
  "unasked": {"command": "x", "alwaysAllow": ["a"]}
}}"#,
        expect![[r#""#]],
    );
}

#[test]
fn settings_are_checked_too() {
    check(
        "work/toolbooth.toml",
        r#"lisen = 9000
drain_seconds = "soon"
[exposure]
mode = "everything"
max_tools_per_serch = 3
[retry]
attempts = 0
[limits]
body_bytes = -1
[naming]
style = "server.tool"
[llm]
base_url = "not an address"
[servers.fs]
command = "x"
"#,
        expect![[r#""#]],
    );
}

#[test]
fn a_server_at_the_top_is_told_where_it_belongs() {
    check("work/toolbooth.json", "{\n  \"listen\": 9000,\n  \"fs\": {\"command\": \"npx\"}\n}", expect![[r#""#]]);
}

#[test]
fn protective_settings_stop_the_load() {
    let cases = [
        "listen = \"0.0.0.0:9000\"\n",
        "[auth]\nmode = \"header\"\n",
        "[auth]\nmode = \"jwt\"\n",
        "[auth]\nmode = \"tokn\"\n",
        "[auht]\nmode = \"token\"\n",
        "[files]\nkey = \"short\"\n",
        "[files]\nkey = \"${UNSET_KEY}\"\n",
        "[[policy.rules]]\nsubject = \"everyone\"\neffect = \"deny\"\n",
        "[[policy.rules]]\ntools = \"x*\"\n",
        "[[policy.rules]]\neffect = \"ask\"\narguments = { path = \"(\" }\n",
        "deny_tools = \"everything\"\n",
    ];
    let mut all = String::new();
    for text in cases {
        let world = World::config("work/toolbooth.toml", text);
        assert!(world.load().is_err(), "{text}");
        all.push_str(&world.report());
    }
    expect![[r#""#]].assert_eq(&all);
}

#[test]
fn missing_files_that_were_named_stop_the_load() {
    let mut world = World::new(&[]);
    world.sources.config_files = vec!["gone.json".into()];
    world.sources.env_file = Some("gone.env".into());
    world.sources.config_dir = Some("gone".into());
    assert!(world.load().is_err());
    expect![[r#""#]].assert_eq(&world.report());
}

#[test]
fn an_env_file_says_which_line_is_wrong_but_not_what_it_holds() {
    let mut world = World::new(&[("work/x.env", "A=1\nexport B='two'\nhunter2\n")]);
    world.sources.env_file = Some("x.env".into());
    expect![[r#""#]].assert_eq(&world.report());
}

#[test]
fn a_file_cannot_move_the_cursor() {
    let world = World::config("work/mcp.json", "{\"servers\": {\"a\u{1b}[2J\": {\"command\": \"\u{202e}x\"}}}");
    let report = world.report();
    assert!(!report.contains('\u{1b}') && !report.contains('\u{202e}'), "{report:?}");
}
