//! Messages for syntax errors and typos.

use crate::world::World;
use expect_test::expect;

#[test]
fn json_syntax_errors_are_reported_with_their_location() {
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
    expect![[r#"
        --- a missing comma
        error[config.syntax]: invalid JSON: a comma is missing after this value
         --> work/mcp.json:2:24
          |
        2 |   "a": {"command": "x"}
          |                        ^
        --- single quotes
        error[config.syntax]: invalid JSON: a value cannot start with `'`
         --> work/mcp.json:2:20
          |
        2 |   "a": {"command": 'x'}
          |                    ^
        hint: write strings in double quotes
        --- a missing brace
        error[config.syntax]: invalid JSON: the file ends before the `{` of line 1 is closed
         --> work/mcp.json:2:23
          |
        2 |   "a": {"command": "x"}
          |                       ^
        hint: add the missing `}`
        --- a bare backslash
        error[config.syntax]: invalid JSON: unknown escape sequence
         --> work/mcp.json:2:23
          |
        2 |   "a": {"command": "C:\Users\x"}
          |                       ^^
        hint: write a backslash as `\\`, as in `C:\\Users`
        --- a bare key
        error[config.syntax]: invalid JSON: expected a key in double quotes, or `}`
         --> work/mcp.json:2:3
          |
        2 |   a: {}
          |   ^
        --- a Python word
        error[config.syntax]: invalid JSON: expected a value, found `True`
         --> work/mcp.json:2:20
          |
        2 |   "a": {"enabled": True}
          |                    ^^^^
        hint: write true, false or null in lowercase
        --- two commas
        error[config.syntax]: invalid JSON: expected a value, found `,`
         --> work/mcp.json:2:22
          |
        2 |   "a": {"args": ["x",, "y"]}
          |                      ^
        hint: one comma too many?
        --- an open text
        error[config.syntax]: invalid JSON: this string has no closing quote
         --> work/mcp.json:2:8
          |
        2 |   "a": "unclosed
          |        ^
        --- two values
        error[config.syntax]: invalid JSON: unexpected text after the end of the value
         --> work/mcp.json:1:4
          |
        1 | {} {}
          |    ^
        --- an open comment
        error[config.syntax]: invalid JSON: this comment is not closed
         --> work/mcp.json:1:1
          |
        1 | /* open
          | ^
        hint: close it with `*/`
        --- a bad number
        error[config.syntax]: invalid JSON: `01` is not a number
         --> work/mcp.json:1:7
          |
        1 | {"a": 01}
          |       ^^
    "#]]
    .assert_eq(&all);
}

#[test]
fn toml_and_yaml_syntax_errors_are_reported_with_their_location() {
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
    expect![[r#"
        error[config.syntax]: invalid TOML: unclosed table, expected `]`
         --> work/toolbooth.toml:2:12
          |
        2 | [servers.fs
          |            ^
        error[config.syntax]: invalid TOML: duplicate key
         --> work/toolbooth.toml:2:1
          |
        2 | listen = 9001
          | ^^^^^^
        error[config.syntax]: invalid YAML: while parsing a node, did not find expected node content
         --> work/toolbooth.yaml:3:7
          |
        3 |   fs: [
          |       ^
        error[config.syntax]: invalid YAML: tabs disallowed within this context (block indentation)
         --> work/toolbooth.yaml:2:2
          |
        2 |  fs: {}
          |  ^
        error[config.syntax]: invalid YAML: a file may contain only one document
         --> work/toolbooth.yaml:3:1
          |
        3 | listen: 2
          | ^
    "#]]
    .assert_eq(&all);
}

#[test]
fn an_error_on_the_command_line_stops_the_load() {
    let cases = [
        ("naming.style", "zz"),
        ("foo", "bar"),
        ("retry.attempts", "99"),
        ("servers.gone.timeout", "5"),
        ("servers.a.colour", "red"),
        ("servers.a.tools.overrides.t.requires_consent", "maybe"),
    ];
    for (key, value) in cases {
        let mut world = World::config("work/mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
        world.sources.overrides.push((key.to_owned(), value.to_owned()));
        let failure = world.load().map(|loaded| loaded.findings).expect_err(key);
        assert!(failure.findings.iter().any(|finding| finding.is_error()), "{key}");
    }
    let mut world = World::config("work/mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    for (key, value) in [("naming.style", "tool"), ("servers.a.tools.overrides.t.requires_consent", "false")]
    {
        world.sources.overrides.push((key.to_owned(), value.to_owned()));
    }
    assert_eq!(world.report(), "");
}

#[test]
fn overrides_are_checked_like_manifests() {
    let world = World::config(
        "work/mcp.json",
        r#"{"mcpServers": {
  "good": {"command": "x", "tools": {"overrides": {"t": {
    "version": 1.5, "requires_consent": "yes", "default_timeout": 2.5, "side_effects": "write", "notes": "mine",
    "capabilities": ["Web Search"], "idempotency_key": {"required": true}, "cost_per_call": 1, "auth": {"scopes": ["a"]}}}}},
  "bad": {"command": "x", "tools": {"overrides": {
    "t": {"requires_consnt": true, "default_timeout": "soon"},
    "u": {"description": "better", "side_effects": "explodes"},
    "v": true}}}
}}"#,
    );
    expect![[r#"
        warning[manifest.loosely-written]: server `good`, override of `t`: `version` is read as the string "1.5"
         --> work/mcp.json:3:16
          |
        3 |     "version": 1.5, "requires_consent": "yes", "default_timeout": 2.5, "side_effects": "write", "notes": "mine",
          |                ^^^

        warning[manifest.loosely-written]: server `good`, override of `t`: `requires_consent` is read as true
         --> work/mcp.json:3:41
          |
        3 |     "version": 1.5, "requires_consent": "yes", "default_timeout": 2.5, "side_effects": "write", "notes": "mine",
          |                                         ^^^^^

        error[config.unknown-key]: server `bad`, override of `t`: unknown key `requires_consnt`
         --> work/mcp.json:6:11
          |
        6 |     "t": {"requires_consnt": true, "default_timeout": "soon"},
          |           ^^^^^^^^^^^^^^^^^ did you mean `requires_consent`?

        error[config.bad-override]: server `bad`, override of `t`: `default_timeout` must be a number, found a string
         --> work/mcp.json:6:55
          |
        6 |     "t": {"requires_consnt": true, "default_timeout": "soon"},
          |                                                       ^^^^^^

        error[config.bad-override]: server `bad`, override of `u`: `description` cannot be overridden here
         --> work/mcp.json:7:11
          |
        7 |     "u": {"description": "better", "side_effects": "explodes"},
          |           ^^^^^^^^^^^^^
        hint: set `description` in a tool manifest; `toolbooth manifest check` validates one

        error[config.bad-override]: server `bad`, override of `u`: `explodes` is not a valid value of `side_effects`
         --> work/mcp.json:7:52
          |
        7 |     "u": {"description": "better", "side_effects": "explodes"},
          |                                                    ^^^^^^^^^^
        hint: expected one of `none`, `read_external_service`, `network`, `filesystem`, `write`, `database`, `compute`, `system`

        error[config.bad-override]: server `bad`, override of `v`: an override must be a map of manifest fields, found a boolean
         --> work/mcp.json:8:10
          |
        8 |     "v": true}}}
          |          ^^^^
    "#]].assert_eq(&world.report());
    let loaded = world.load().unwrap();
    assert_eq!(loaded.server("bad").unwrap().state.as_str(), "config_error");
    let good = loaded.server("good").unwrap().state.entry().unwrap();
    expect![[r#"{"version":"1.5.0","side_effects":"write","default_timeout":2.5,"auth":{"scopes":["a"]},"requires_consent":true,"idempotency_key":true,"capabilities":["Web Search"],"cost_per_call":1.0,"cost_unit":"USD"}"#]].assert_eq(&serde_json::to_string(&good.tools.overrides["t"]).unwrap());
}

#[test]
fn invalid_storage_urls_are_reported_with_their_line() {
    let cases = [
        ("[store]\nurl = \"mysql://x\"\n", "store.bad-url"),
        ("[store]\nurl = \"sqlite:x.db?mode=ro\"\n", "store.bad-url"),
        ("[store]\nurl = \"sqlite:\"\n", "store.bad-url"),
        ("[blobs]\nurl = \"ftp://x\"\n", "blobs.bad-url"),
        ("[blobs]\nurl = \"s3://\"\n", "blobs.bad-url"),
    ];
    for (text, code) in cases {
        let world = World::config("work/toolbooth.toml", text);
        let failure = world.load().map(|loaded| loaded.findings).expect_err(text);
        let finding = &failure.findings[0];
        assert_eq!((finding.code, finding.line, failure.findings.len()), (code, 2, 1), "{text}");
        assert!(finding.hint.is_some() && !finding.message.contains("hunter2"), "{text}");
    }
    for url in ["memory:", "sqlite:x.db", "sqlite:///srv/x.db", "postgres://u:hunter2@db/x"] {
        let world = World::config("work/toolbooth.toml", &format!("[store]\nurl = \"{url}\"\n"));
        assert_eq!(world.report(), "", "{url}");
    }
    for url in ["memory:", "file:blobs", "s3://bucket/prefix"] {
        let world = World::config("work/toolbooth.toml", &format!("[blobs]\nurl = \"{url}\"\n"));
        assert_eq!(world.report(), "", "{url}");
    }
}

#[test]
fn unknown_variables_are_reported() {
    let world = World::new(&[]).env(&[
        ("TOOLBOOTH_CONFIG_FILE", "x"),
        ("TOOLBOOTH_CONFG_DIR", "x"),
        ("TOOLBOOTH_CONFIG_DIR", "read by the command"),
        ("TOOLBOOTH_JSON", "1"),
    ]);
    expect![[r#"
        warning[config.unknown-variable]: `TOOLBOOTH_CONFG_DIR` is not a setting
         --> variable `TOOLBOOTH_CONFG_DIR`
        hint: did you mean `TOOLBOOTH_CONFIG_DIR`?

        warning[config.unknown-variable]: `TOOLBOOTH_CONFIG_FILE` is not a setting
         --> variable `TOOLBOOTH_CONFIG_FILE`
        hint: did you mean `TOOLBOOTH_CONFIG_DIR`?
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn typos_are_reported_with_suggestions() {
    let cases = [
        r#"{"mcpserver": {"a": {"command": "x"}}}"#,
        r#"{"mcpServers": {"a": {"url": "http://h/mcp", "transport": "carrier-pigeon"}}}"#,
        r#"{"mcpServers": {"a": {"url": "http://h/mcp", "headers": {"X Key": "v"}}}}"#,
        r#"{"mcpServers": {"a": {"command": "x", "tools": {"allow": ["[a"]}}}}"#,
    ];
    let reports: Vec<String> =
        cases.iter().map(|text| World::config("work/mcp.json", text).report()).collect();
    expect![[r#"
        warning[config.unknown-key]: unknown key `mcpserver`
         --> work/mcp.json:1:2
          |
        1 | {"mcpserver": {"a": {"command": "x"}}}
          |  ^^^^^^^^^^^ did you mean `mcpServers`?

        error[config.unknown-word]: server `a`, `transport`: `carrier-pigeon` is not a valid value
         --> work/mcp.json:1:59
          |
        1 | {"mcpServers": {"a": {"url": "http://h/mcp", "transport": "carrier-pigeon"}}}
          |                                                           ^^^^^^^^^^^^^^^^
        hint: expected one of `local`, `stdio`, `http`, `https`, `remote`, `streamable-http`, `sse`, `websocket`, `ws`, `wss`

        error[config.bad-header]: server `a`: `X Key` is not a valid header name
         --> work/mcp.json:1:58
          |
        1 | {"mcpServers": {"a": {"url": "http://h/mcp", "headers": {"X Key": "v"}}}}
          |                                                          ^^^^^^^
        hint: a header name consists of letters, digits and dashes, such as `X-Api-Key`

        error[config.bad-glob]: server `a`: `[a` is not a valid glob for tool names
         --> work/mcp.json:1:58
          |
        1 | {"mcpServers": {"a": {"command": "x", "tools": {"allow": ["[a"]}}}}
          |                                                          ^^^^^^
        hint: `*` matches any characters, `?` one character, `[ab]` and `{a,b}` one of several
    "#]].assert_eq(&reports.join("\n"));
}

#[test]
fn headers_that_cannot_be_forwarded_are_reported() {
    let cases = [
        (r#""url": "http://h/mcp", "forward_headers": {"x-tenant": "X-Team"}"#, ""),
        (r#""url": "http://h/mcp", "forward_headers": {"Authorization": "X-Who"}"#, "config.bad-header"),
        (r#""url": "http://h/mcp", "forward_headers": {"x-a": "Mcp-Session-Id"}"#, "config.bad-header"),
        (r#""url": "http://h/mcp", "forward_headers": {"x a": "x-a"}"#, "config.bad-header"),
        (r#""command": "x", "forward_headers": {"x-tenant": "X-Team"}"#, "config.not-yet"),
        (r#""url": "ws://h/mcp", "wormhole": true"#, "config.not-yet"),
    ];
    for (entry, code) in cases {
        let text = format!(r#"{{"mcpServers": {{"a": {{{entry}}}}}}}"#);
        let report = World::config("work/mcp.json", &text).report();
        assert!(if code.is_empty() { report.is_empty() } else { report.contains(code) }, "{entry}: {report}");
    }
}
