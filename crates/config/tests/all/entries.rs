//! All fields of a server entry and their aliases.

use crate::world::World;
use expect_test::expect;
use toolbooth_config::{ShowMode, show};

#[test]
fn every_field_of_an_entry_is_read() {
    let world = World::config(
        "work/mcp.json",
        r#"{"servers": {"all": {
            "url": "https://h/mcp", "headers": {"X-A": "1", "X-N": 2}, "transport": "http",
            "auth": {"type": "api_key", "token": "${T}", "header": "X-Key", "required": true,
                     "envs": {"T": {"required": true}}, "scopes": ["r"], "docs": "set T"},
            "forward_headers": {"x-tenant": "X-Tenant"}, "wormhole": true,
            "groups": ["staff"], "persona": "dev", "personas": ["ops"],
            "description": "d", "short_description": "s", "author": "a", "help_email": "h@x",
            "enabled": true, "autoConnect": false, "lazy": true, "share": "session",
            "tools": {"allow": ["a*"], "deny": ["ab"], "require_approval": ["ac"], "overrides": {"ad": {"version": "2.0.0"}}},
            "require_approval": ["ae"],
            "side_effects": "write", "default_timeout": 5, "allow_parallel": true, "requires_consent": false,
            "idempotency_key": {"required": true}, "trust_annotations": true, "version": "1.2.3",
            "inject": {"identity": [], "mcp_data": false, "files": ["f"]},
            "timeout": 10, "connect_timeout": "500ms", "health_check_interval": 0, "restart": "never",
            "compliance_level": "HIPAA"
        }}}"#,
    )
    .env(&[("T", "secret")]);
    let loaded = world.load().unwrap();
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    let shown = show(&loaded, ShowMode::Resolved);
    let text = world.short(&serde_json::to_string_pretty(&shown["servers"]["all"]).unwrap());
    expect![[r#"
        {
          "transport": "http",
          "url": "https://h/mcp",
          "headers": {
            "X-A": "1",
            "X-N": "2"
          },
          "auth": {
            "type": "api_key",
            "header": "X-Key",
            "token": "${T}"
          },
          "auth_hints": {
            "required": true,
            "type": "api_key",
            "envs": {
              "T": {
                "required": true
              }
            },
            "scopes": [
              "r"
            ],
            "docs": "set T"
          },
          "forward_headers": {
            "x-subtoken": "X-Token",
            "x-tenant": "X-Tenant"
          },
          "groups": [
            "staff"
          ],
          "personas": [
            "dev",
            "ops"
          ],
          "description": "d",
          "short_description": "s",
          "author": "a",
          "help_email": "h@x",
          "enabled": true,
          "auto_connect": false,
          "lazy": true,
          "share": "session",
          "tools": {
            "allow": [
              "a*"
            ],
            "deny": [
              "ab"
            ],
            "require_approval": [
              "ac",
              "ae"
            ],
            "overrides": {
              "ad": {
                "version": "2.0.0"
              }
            }
          },
          "side_effects": "write",
          "default_timeout": 5,
          "allow_parallel": true,
          "requires_consent": false,
          "idempotency_key": true,
          "trust_annotations": true,
          "version": "1.2.3",
          "inject": {
            "identity": [],
            "mcp_data": false,
            "files": [
              "f"
            ]
          },
          "timeout": 10,
          "connect_timeout": 0.5,
          "health_check_interval": 0,
          "discovery_interval": 0,
          "restart": "never",
          "era": "auto",
          "compliance_level": "HIPAA",
          "state": "ready",
          "origin": "work/mcp.json:1:14 (command line)"
        }"#]]
    .assert_eq(&text);
}

#[test]
fn every_form_of_credentials_is_read() {
    let cases = [
        (r#""auth_token": "${T}""#, r#"Bearer("${T}")"#),
        (r#""auth_type": "bearer", "auth_token": "${T}""#, r#"Bearer("${T}")"#),
        (r#""auth_type": "jwt", "auth_token": "${T}""#, r#"Bearer("${T}")"#),
        (r#""auth_type": "api_key", "auth_token": "${T}""#, r#"ApiKey { header: "X-API-Key", key: "${T}" }"#),
        (
            r#""auth_type": "api_key", "auth_token": "${T}", "auth_header": "X-K""#,
            r#"ApiKey { header: "X-K", key: "${T}" }"#,
        ),
        (r#""auth": {"type": "bearer", "token": "${T}"}"#, r#"Bearer("${T}")"#),
        (r#""auth": "oauth""#, "OAuth(OAuthEntry { client_id: None, client_secret: None, scopes: [] })"),
        (r#""oauth": true"#, "OAuth(OAuthEntry { client_id: None, client_secret: None, scopes: [] })"),
        (
            r#""oauth": {"clientId": "me", "scopes": "a b"}"#,
            r#"OAuth(OAuthEntry { client_id: Some("me"), client_secret: None, scopes: ["a", "b"] })"#,
        ),
        (r#""auth_type": "none""#, "None"),
        // Without a token, each user gives a key of their own.
        (r#""auth_type": "bearer""#, "UserKey(UserKeyEntry { header: None, holders: KeyHolders(0) })"),
        (
            r#""auth_type": "api_key""#,
            r#"UserKey(UserKeyEntry { header: Some("X-API-Key"), holders: KeyHolders(0) })"#,
        ),
        (
            r#""auth": {"type": "api_key", "header": "X-K"}"#,
            r#"UserKey(UserKeyEntry { header: Some("X-K"), holders: KeyHolders(0) })"#,
        ),
        (r#""auth_token": "written-out""#, r#"Bearer("(hidden)")"#),
    ];
    for (fields, expected) in cases {
        let text = format!(r#"{{"servers": {{"a": {{"url": "https://h/", {fields}}}}}}}"#);
        let world = World::config("work/mcp.json", &text).env(&[("T", "secret")]);
        let loaded = world.load().unwrap();
        let state = &loaded.server("a").unwrap().state;
        let entry = state.entry().unwrap_or_else(|| panic!("{fields}: {state:?}"));
        assert_eq!(format!("{:?}", entry.auth), expected, "{fields}");
    }
}

#[test]
fn disabled_servers_need_neither_variables_nor_folders() {
    let world = World::config(
        "work/mcp.json",
        r#"{"servers": {
            "a": {"command": "x", "env": {"T": "${UNSET}"}, "cwd": "gone", "enabled": false},
            "b": {"command": "x", "disabled": true}
        }}"#,
    );
    expect![[r#"
        a disabled Stdio { command: "x", args: [], cwd: Some("work/gone"), env: {"T": "${UNSET}"} }
        b disabled Stdio { command: "x", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    expect![""].assert_eq(&world.report());
}

#[test]
fn a_relative_cwd_starts_at_the_folder_of_its_file() {
    let world = World::new(&[("user/toolbooth.toml", "[servers.a]\ncommand = \"x\"\ncwd = \"sub\"\n")]);
    std::fs::create_dir_all(world.path("user/sub")).unwrap();
    expect![[r#"
        a ready Stdio { command: "x", args: [], cwd: Some("user/toolbooth/sub"), env: {} }
    "#]]
    .assert_eq(&world.servers());
}

#[test]
fn numbers_and_booleans_in_env_become_strings() {
    let world = World::config(
        "work/a.yaml",
        "servers:\n  a:\n    command: x\n    env: {PORT: 3000, ON: true, N: 1.5}\n",
    );
    expect![[r#"
        a ready Stdio { command: "x", args: [], cwd: None, env: {"N": "1.5", "ON": "true", "PORT": "3000"} }
    "#]]
    .assert_eq(&world.servers());
}

#[test]
fn comment_keys_of_other_programs_are_ignored() {
    let world = World::config(
        "work/mcp.json",
        r#"{"$schema": "x", "//": "note", "servers": {"_comment": "y", "a": {"command": "x", "_comment": "z", "//x": 1}}}"#,
    );
    expect![[r#"
        a ready Stdio { command: "x", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    expect![""].assert_eq(&world.report());
}

#[test]
fn annotations_of_a_bundled_server_are_trusted_unless_its_entry_says_otherwise() {
    let cases = [
        (r#"{"bundled": "demo"}"#, Some(true)),
        (r#"{"bundled": "demo", "trust_annotations": false}"#, Some(false)),
        (r#"{"command": "demo"}"#, None),
    ];
    for (entry, expected) in cases {
        let world = World::new(&[("user/mcp.json", &format!(r#"{{"servers": {{"demo": {entry}}}}}"#))]);
        let loaded = world.load().unwrap();
        let state = &loaded.server("demo").unwrap().state;
        assert_eq!(state.entry().unwrap().defaults.trust_annotations, expected, "{entry}");
    }
}
