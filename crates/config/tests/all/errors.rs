//! Messages for invalid configurations.

use crate::world::World;
use expect_test::{Expect, expect};

fn check(name: &str, text: &str, expected: Expect) {
    expected.assert_eq(&World::config(name, text).report());
}

#[test]
fn an_unknown_key_is_reported_with_the_most_similar_key() {
    check(
        "work/mcp.json",
        "{\n  \"servers\": {\n    \"fs\": {\n      \"command\": \"npx\",\n      \"grops\": [\"staff\"]\n    }\n  }\n}",
        expect![[r#"
            error[config.unknown-key]: server `fs`: unknown key `grops`
             --> work/mcp.json:5:7
              |
            5 |       "grops": ["staff"]
              |       ^^^^^^^ did you mean `groups`?
        "#]],
    );
}

#[test]
fn all_errors_of_an_entry_are_reported_at_once() {
    check(
        "work/mcp.json",
        r#"{"servers": {"fs": {
  "command": "npx",
  "groups": "staff",
  "autoconnect": true,
  "timeout": 60000000,
  "share": "worldwide",
  "tools": {"alow": ["x"]},
  "inject": {"identity": "username"},
  "enabled": "yes"
}}}"#,
        expect![[r#"
            error[config.wrong-type]: server `fs`, `groups`: expected a list, found a string
             --> work/mcp.json:3:13
              |
            3 |   "groups": "staff",
              |             ^^^^^^^ expected a list

            error[config.unknown-key]: server `fs`: unknown key `autoconnect`
             --> work/mcp.json:4:3
              |
            4 |   "autoconnect": true,
              |   ^^^^^^^^^^^^^ did you mean `auto_connect`?

            error[config.wrong-value]: server `fs`, `timeout`: expected a number of seconds from 0 to 86400
             --> work/mcp.json:5:14
              |
            5 |   "timeout": 60000000,
              |              ^^^^^^^^

            error[config.unknown-word]: server `fs`, `share`: `worldwide` is not a valid value
             --> work/mcp.json:6:12
              |
            6 |   "share": "worldwide",
              |            ^^^^^^^^^^^
            hint: expected one of `auto`, `all`, `user`, `session`

            error[config.unknown-key]: server `fs`: unknown key `alow` in `tools`
             --> work/mcp.json:7:13
              |
            7 |   "tools": {"alow": ["x"]},
              |             ^^^^^^ did you mean `allow`?

            error[config.wrong-type]: server `fs`, `inject.identity`: expected a list, found a string
             --> work/mcp.json:8:26
              |
            8 |   "inject": {"identity": "username"},
              |                          ^^^^^^^^^^ expected a list

            error[config.wrong-type]: server `fs`, `enabled`: expected true or false, found a string
             --> work/mcp.json:9:14
              |
            9 |   "enabled": "yes"
              |              ^^^^^ expected true or false
        "#]],
    );
}

#[test]
fn a_duplicate_server_name_disables_only_that_server() {
    let world = World::config(
        "work/mcp.json",
        "{\"servers\": {\n  \"a\": {\"command\": \"x\"},\n  \"b\": {\"command\": \"y\"},\n  \"a\": {\"command\": \"z\"}\n}}",
    );
    expect![[r#"
        error[config.duplicate-name]: server `a` is defined twice in this file
         --> work/mcp.json:4:3
          |
        4 |   "a": {"command": "z"}
          |   ^^^
        hint: the other one is at 2:3; rename or remove one
    "#]]
    .assert_eq(&world.report());
    expect![[r#"
        a config_error
        b ready Stdio { command: "y", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
}

#[test]
fn an_invalid_server_name_is_reported() {
    check(
        "work/mcp.json",
        "{\"servers\": {\n  \"my server\": {\"command\": \"x\"},\n  \"ok\": {\"command\": \"y\"}\n}}",
        expect![[r#"
            error[config.bad-name]: `my server` is not a valid server name: a server name may contain A-Z a-z 0-9 _ - . but not ' '
             --> work/mcp.json:2:3
              |
            2 |   "my server": {"command": "x"},
              |   ^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn an_unset_variable_disables_only_its_server() {
    let world = World::config(
        "work/mcp.json",
        "{\"servers\": {\n  \"a\": {\"command\": \"x\", \"env\": {\n    \"TOKEN\": \"${MISSING_TOKEN}\"\n  }},\n  \"b\": {\"command\": \"y\"}\n}}",
    );
    expect![[r#"
        error[config.variable]: server `a`: the variable `MISSING_TOKEN` is not set
         --> work/mcp.json:3:14
          |
        3 |     "TOKEN": "${MISSING_TOKEN}"
          |              ^^^^^^^^^^^^^^^^^^
        hint: store it with `toolbooth secrets set MISSING_TOKEN`, or set it, name a file with --env-file, or give a default: `${MISSING_TOKEN:-...}`
    "#]]
    .assert_eq(&world.report());
    expect![[r#"
        a config_error
        b ready Stdio { command: "y", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
}

#[test]
fn invalid_entries_are_reported_with_a_reason() {
    check(
        "work/mcp.json",
        r#"{"servers": {
  "nothing": {"description": "x"},
  "no_url": {"transport": "http", "command": "x"},
  "no_command": {"transport": "stdio", "url": "http://x/"},
  "bad_url": {"url": "http://"},
  "bad_scheme": {"url": "ftp://x/y"},
  "no_folder": {"command": "x", "cwd": "nowhere"},
  "own_keys": {"url": "http://x/", "auth_type": "bearer"},
  "empty": {"command": []},
  "text_args": {"command": "npx", "args": "-y 'server"},
  "bad_header": {"url": "http://x/", "headers": {"a b": "c"}},
  "bad_glob": {"command": "x", "tools": {"allow": ["[a"]}},
  "a_list": [1, 2]
}}"#,
        expect![[r#"
            error[config.no-transport]: server `nothing`: neither `command` nor `url` is given
             --> work/mcp.json:2:14
              |
            2 |   "nothing": {"description": "x"},
              |              ^^^^^^^^^^^^^^^^^^^^
            hint: give `command` (a local process) or `url` (a remote server)

            error[config.no-transport]: server `no_url`: a remote server needs `url`
             --> work/mcp.json:3:13
              |
            3 |   "no_url": {"transport": "http", "command": "x"},
              |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error[config.no-transport]: server `no_command`: a `stdio` server needs `command`
             --> work/mcp.json:4:17
              |
            4 |   "no_command": {"transport": "stdio", "url": "http://x/"},
              |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error[config.bad-url]: server `bad_url`: `url` is not a valid URL
             --> work/mcp.json:5:22
              |
            5 |   "bad_url": {"url": "http://"},
              |                      ^^^^^^^^^

            error[config.bad-url]: server `bad_scheme`: this transport does not support `ftp:` URLs
             --> work/mcp.json:6:25
              |
            6 |   "bad_scheme": {"url": "ftp://x/y"},
              |                         ^^^^^^^^^^^
            hint: use http://, https://, ws:// or wss://

            error[config.no-folder]: server `no_folder`: the folder `nowhere` of `cwd` does not exist
             --> work/mcp.json:7:40
              |
            7 |   "no_folder": {"command": "x", "cwd": "nowhere"},
              |                                        ^^^^^^^^^
            hint: looked for `work/nowhere`

            error[config.no-transport]: server `empty`: `command` is empty
             --> work/mcp.json:9:24
              |
            9 |   "empty": {"command": []},
              |                        ^^

            error[config.wrong-value]: server `text_args`: `args` has a quote that is not closed
              --> work/mcp.json:10:43
               |
            10 |   "text_args": {"command": "npx", "args": "-y 'server"},
               |                                           ^^^^^^^^^^^^
            hint: close it, or write a list: ["-y", "server"]

            error[config.bad-header]: server `bad_header`: `a b` is not a valid header name
              --> work/mcp.json:11:50
               |
            11 |   "bad_header": {"url": "http://x/", "headers": {"a b": "c"}},
               |                                                  ^^^^^
            hint: a header name consists of letters, digits and dashes, such as `X-Api-Key`

            error[config.bad-glob]: server `bad_glob`: `[a` is not a valid glob for tool names
              --> work/mcp.json:12:51
               |
            12 |   "bad_glob": {"command": "x", "tools": {"allow": ["[a"]}},
               |                                                   ^^^^^^
            hint: `*` matches any characters, `?` one character, `[ab]` and `{a,b}` one of several

            error[config.wrong-type]: server `a_list` must be a map of fields, found a list
              --> work/mcp.json:13:13
               |
            13 |   "a_list": [1, 2]
               |             ^^^^^^
        "#]],
    );
}

#[test]
fn suspicious_entries_cause_warnings() {
    check(
        "work/mcp.json",
        r#"{"servers": {
  "vacant": {"command": "x", "groups": []},
  "both": {"command": "x", "url": "http://x/"},
  "spaces": {"command": "npx -y server"},
  "no_scheme": {"url": "localhost:9000/mcp"},
  "stdio_auth": {"command": "x", "auth_type": "bearer", "auth_token": "abc"},
  "unasked": {"command": "x", "alwaysAllow": ["a"]}
}}"#,
        expect![[r#"
            warning[config.no-groups]: server `vacant`: `groups` is empty, so no caller may use the server
             --> work/mcp.json:2:40
              |
            2 |   "vacant": {"command": "x", "groups": []},
              |                                        ^^
            hint: leave `groups` out to admit every authenticated caller

            warning[config.two-transports]: server `both`: `command` and `url` are both given; `command` is used
             --> work/mcp.json:3:35
              |
            3 |   "both": {"command": "x", "url": "http://x/"},
              |                                   ^^^^^^^^^^^

            warning[config.command-with-spaces]: server `spaces`: `command` contains spaces, but is used as the name of one program
             --> work/mcp.json:4:25
              |
            4 |   "spaces": {"command": "npx -y server"},
              |                         ^^^^^^^^^^^^^^^
            hint: write only the program here, and its arguments as a list in `args`

            warning[config.no-scheme]: server `no_scheme`: `url` has no scheme; `http://` is assumed
             --> work/mcp.json:5:24
              |
            5 |   "no_scheme": {"url": "localhost:9000/mcp"},
              |                        ^^^^^^^^^^^^^^^^^^^^

            warning[config.auth-on-stdio]: server `stdio_auth`: `auth` is for remote servers and has no effect here
             --> work/mcp.json:6:47
              |
            6 |   "stdio_auth": {"command": "x", "auth_type": "bearer", "auth_token": "abc"},
              |                                               ^^^^^^^^
            hint: give a local process its credentials in `env`

            warning[config.literal-secret]: server `stdio_auth`: `auth_token` is written in the file in plain text
             --> work/mcp.json:6:71
            hint: use a variable, "${NAME}", and define it in the file named in `env_file`

            warning[config.ignored-key]: server `unasked`: `alwaysAllow` is ignored
             --> work/mcp.json:7:31
              |
            7 |   "unasked": {"command": "x", "alwaysAllow": ["a"]}
              |                               ^^^^^^^^^^^^^
            hint: `policy` and `tools.require_approval` decide which calls need approval
        "#]],
    );
}

#[test]
fn invalid_settings_are_reported() {
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
        expect![[r#"
            error[config.unknown-key]: unknown key `lisen`
             --> work/toolbooth.toml:1:1
              |
            1 | lisen = 9000
              | ^^^^^ did you mean `listen`?

            error[config.wrong-type]: `drain_seconds`: expected a number of seconds, found a string
             --> work/toolbooth.toml:2:17
              |
            2 | drain_seconds = "soon"
              |                 ^^^^^^ expected a number of seconds

            error[config.unknown-word]: `exposure.mode`: `everything` is not a valid value
             --> work/toolbooth.toml:4:8
              |
            4 | mode = "everything"
              |        ^^^^^^^^^^^^
            hint: expected one of `auto`, `full`, `summary`, `search`

            error[config.unknown-key]: unknown key `max_tools_per_serch` in `exposure`
             --> work/toolbooth.toml:5:1
              |
            5 | max_tools_per_serch = 3
              | ^^^^^^^^^^^^^^^^^^^ did you mean `max_tools_per_search`?

            error[config.out-of-range]: `retry.attempts` must be from 1 to 20, not 0
             --> work/toolbooth.toml:7:12
              |
            7 | attempts = 0
              |            ^

            error[config.wrong-type]: `limits.body_bytes`: expected a non-negative integer, found -1
             --> work/toolbooth.toml:9:14
              |
            9 | body_bytes = -1
              |              ^^ expected a non-negative integer

            error[config.unknown-word]: `naming.style`: `server.tool` is not a valid value
              --> work/toolbooth.toml:11:9
               |
            11 | style = "server.tool"
               |         ^^^^^^^^^^^^^ did you mean `server_tool`?

            error[config.bad-url]: `llm.base_url` is not an http or https URL
              --> work/toolbooth.toml:13:12
               |
            13 | base_url = "not an address"
               |            ^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn personas_that_differ_in_case_only_are_reported() {
    let text = "[personas.Atlas]\ninherit = \"shared\"\n[personas.atlas]\ninherit = \"shared\"\n";
    let report = World::config("work/toolbooth.toml", text).report();
    let expected = "error[config.bad-persona]: the personas `Atlas` and `atlas` differ in case only";
    assert!(report.contains(expected), "{report}");
}

#[test]
fn prompts_that_cannot_be_offered_are_reported() {
    let cases = [
        ("[prompts.\"a b\"]\ntext = \"x\"\n", "`a b` is not a valid name of a prompt"),
        ("[prompts.weekly]\ntext = \" \"\n", "`prompts.weekly.text` is empty"),
        ("[personas.clerk]\nprompt = \"\"\n", "`personas.clerk.prompt` is empty"),
        (
            "[personas.clerk]\nprompt = \"x\"\n[prompts.persona_clerk]\ntext = \"y\"\n",
            "the prompt of the persona `clerk` is also called `persona_clerk`",
        ),
    ];
    for (text, expected) in cases {
        let report = World::config("work/toolbooth.toml", text).report();
        assert!(report.contains(&format!("error[config.bad-prompt]: {expected}")), "{report}");
    }
}

#[test]
fn a_server_at_the_top_level_is_reported_with_a_hint() {
    check(
        "work/toolbooth.json",
        "{\n  \"listen\": 9000,\n  \"fs\": {\"command\": \"npx\"}\n}",
        expect![[r#"
        error[config.unknown-key]: unknown key `fs`
         --> work/toolbooth.json:3:3
          |
        3 |   "fs": {"command": "npx"}
          |   ^^^^ this looks like a server
        hint: put it under `servers`
    "#]],
    );
}

#[test]
fn missing_files_of_the_command_line_stop_the_load() {
    let mut world = World::new(&[]);
    world.sources.config_files = vec!["gone.json".into()];
    world.sources.env_file = Some("gone.env".into());
    world.sources.config_dir = Some("gone".into());
    assert!(world.load().is_err());
    expect![[r#"
        error[config.no-folder]: the folder given with --config-dir does not exist
         --> work/gone

        error[config.no-file]: the env file does not exist
         --> work/gone.env

        error[config.no-file]: the configuration file does not exist
         --> work/gone.json
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn an_invalid_line_of_an_env_file_is_reported_but_not_quoted() {
    let mut world = World::new(&[("work/x.env", "A=1\nexport B='two'\nhunter2\n")]);
    world.sources.env_file = Some("x.env".into());
    expect![[r#"
        error[config.env-file]: this line has no `=`
         --> work/x.env:3:1
        hint: write one NAME=value per line
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn control_characters_of_a_file_are_not_printed() {
    let world =
        World::config("work/mcp.json", "{\"servers\": {\"a\u{1b}[2J\": {\"command\": \"\u{202e}x\"}}}");
    let report = world.report();
    assert!(!report.contains('\u{1b}') && !report.contains('\u{202e}'), "{report:?}");
}

// The line of the file would show the password.
#[test]
fn a_url_with_a_password_is_reported_without_it() {
    check(
        "work/mcp.json",
        r#"{"servers": {
  "a": {"url": "https://ann:hunter2@a.example/mcp"},
  "b": {"url": "wss://ann@b.example/mcp", "enabled": false},
  "c": {"url": "https://c.example/@ann:x"}
}}"#,
        expect![[r#"
            error[config.user-info]: server `a`: `url` contains a user name or a password, which is not allowed
             --> work/mcp.json:2:16
            hint: put the credential into `headers`, such as `Authorization`, with its value in a variable

            error[config.user-info]: server `b`: `url` contains a user name or a password, which is not allowed
             --> work/mcp.json:3:16
            hint: put the credential into `headers`, such as `Authorization`, with its value in a variable
        "#]],
    );
}

#[test]
fn scopes_that_cannot_be_sent_are_refused() {
    for scope in ["a b", "", "a\\\"b", "ü"] {
        let jwt = format!(
            "auth:\n  mode: jwt\n  jwt: {{issuer: \"https://id.example\", audience: x, scopes: [\"{scope}\"]}}\n"
        );
        let report = World::config("work/toolbooth.yaml", &jwt).report();
        assert!(report.contains("error[config.bad-scope]: `auth.jwt.scopes` has"), "{scope}: {report}");
    }
    let jwt = "auth:\n  mode: jwt\n  jwt: {issuer: \"https://id.example\", audience: x, scopes: [\"api://x/.default\"]}\n";
    let report = World::config("work/toolbooth.yaml", jwt).report();
    assert!(!report.contains("config.bad-scope"), "{report}");
}
