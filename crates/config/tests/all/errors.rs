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
        expect![[r#"
            error[config.wrong-type]: server `fs`, `groups`: expected a list, found a text
             --> work/mcp.json:3:13
              |
            3 |   "groups": "staff",
              |             ^^^^^^^ expected a list

            error[config.unknown-key]: server `fs`: unknown key `autoconnect`
             --> work/mcp.json:4:3
              |
            4 |   "autoconnect": true,
              |   ^^^^^^^^^^^^^ did you mean `auto_connect`?

            error[config.wrong-value]: server `fs`, `timeout`: times are given in seconds, from 0 to 86400
             --> work/mcp.json:5:14
              |
            5 |   "timeout": 60000000,
              |              ^^^^^^^^

            error[config.unknown-word]: server `fs`, `share`: `everybody` is not understood here
             --> work/mcp.json:6:12
              |
            6 |   "share": "everybody",
              |            ^^^^^^^^^^^
            hint: known here: `auto`, `all`, `user`, `session`

            error[config.unknown-key]: server `fs`: unknown key `alow` in `tools`
             --> work/mcp.json:7:13
              |
            7 |   "tools": {"alow": ["x"]},
              |             ^^^^^^ did you mean `allow`?

            error[config.wrong-type]: server `fs`, `inject.identity`: expected a list, found a text
             --> work/mcp.json:8:26
              |
            8 |   "inject": {"identity": "username"},
              |                          ^^^^^^^^^^ expected a list

            error[config.wrong-type]: server `fs`, `enabled`: expected true or false, found a text
             --> work/mcp.json:9:14
              |
            9 |   "enabled": "yes"
              |              ^^^^^ expected true or false
        "#]],
    );
}

#[test]
fn a_name_that_stands_twice_is_an_error_for_that_name_only() {
    let world = World::config(
        "work/mcp.json",
        "{\"servers\": {\n  \"a\": {\"command\": \"x\"},\n  \"b\": {\"command\": \"y\"},\n  \"a\": {\"command\": \"z\"}\n}}",
    );
    expect![[r#"
        error[config.duplicate-name]: server `a` stands in this file twice
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
fn names_are_short_and_plain() {
    check(
        "work/mcp.json",
        "{\"servers\": {\n  \"my server\": {\"command\": \"x\"},\n  \"ok\": {\"command\": \"y\"}\n}}",
        expect![[r#"
            error[config.bad-name]: `my server` cannot name a server: a server name may hold A-Z a-z 0-9 _ - . but not ' '
             --> work/mcp.json:2:3
              |
            2 |   "my server": {"command": "x"},
              |   ^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn an_unset_variable_breaks_its_server_only() {
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
        hint: set `MISSING_TOKEN`, name a file with --env-file, or give a default: `${MISSING_TOKEN:-...}`
    "#]]
    .assert_eq(&world.report());
    expect![[r#"
        a config_error
        b ready Stdio { command: "y", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
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
        expect![[r#"
            error[config.no-transport]: server `nothing`: nothing says how to reach it
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
            4 |   "no_command": {"type": "stdio", "url": "http://x/"},
              |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error[config.bad-url]: server `bad_url`: `url` is not an address
             --> work/mcp.json:5:22
              |
            5 |   "bad_url": {"url": "http://"},
              |                      ^^^^^^^^^

            error[config.bad-url]: server `bad_scheme`: `ftp:` is not an address that this transport can use
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
            hint: a relative `cwd` starts at the folder of the file it is written in

            error[config.no-token]: server `no_token`: this kind of auth needs `auth_token`
             --> work/mcp.json:8:49
              |
            8 |   "no_token": {"url": "http://x/", "auth_type": "bearer"},
              |                                                 ^^^^^^^^
            hint: add "auth_token": "${NAME}"

            error[config.no-transport]: server `empty`: `command` is empty
             --> work/mcp.json:9:24
              |
            9 |   "empty": {"command": []},
              |                        ^^

            error[config.wrong-type]: server `text_args`: `args` is a list
              --> work/mcp.json:10:43
               |
            10 |   "text_args": {"command": "npx", "args": "-y server"},
               |                                           ^^^^^^^^^^^
            hint: write a list: ["-y", "server"]

            error[config.bad-header]: server `bad_header`: `a b` is not the name of a header
              --> work/mcp.json:11:50
               |
            11 |   "bad_header": {"url": "http://x/", "headers": {"a b": "c"}},
               |                                                  ^^^^^
            hint: a header's name is of letters, digits and dashes, such as `X-Api-Key`

            error[config.bad-glob]: server `bad_glob`: `[a` is not a pattern for tool names
              --> work/mcp.json:12:51
               |
            12 |   "bad_glob": {"command": "x", "tools": {"allow": ["[a"]}},
               |                                                   ^^^^^^
            hint: `*` stands for any characters, `?` for one, `[ab]` and `{a,b}` for a choice

            error[config.wrong-type]: server `a_list` is a map of fields, found a list
              --> work/mcp.json:13:13
               |
            13 |   "a_list": [1, 2]
               |             ^^^^^^
        "#]],
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
        expect![[r#"
            warning[config.no-groups]: server `nobody`: `groups` is empty, so nobody may use it
             --> work/mcp.json:2:40
              |
            2 |   "nobody": {"command": "x", "groups": []},
              |                                        ^^
            hint: leave `groups` out to admit every authenticated caller

            warning[config.two-transports]: server `both`: `command` and `url` are both given; `command` is used
             --> work/mcp.json:3:35
              |
            3 |   "both": {"command": "x", "url": "http://x/"},
              |                                   ^^^^^^^^^^^

            warning[config.command-with-spaces]: server `spaces`: `command` holds spaces, but is taken as the name of one program
             --> work/mcp.json:4:25
              |
            4 |   "spaces": {"command": "npx -y server"},
              |                         ^^^^^^^^^^^^^^^
            hint: write the program alone, and its arguments as a list in `args`

            warning[config.no-scheme]: server `no_scheme`: `url` has no scheme; `http://` is taken
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

            warning[config.literal-secret]: server `stdio_auth`: `auth_token` stands in the file itself
             --> work/mcp.json:6:71
            hint: put it into a variable, "${NAME}", and the variable into a file of `env_file`

            warning[config.ignored-key]: server `unasked`: `alwaysAllow` is not taken over
             --> work/mcp.json:7:31
              |
            7 |   "unasked": {"command": "x", "alwaysAllow": ["a"]}
              |                               ^^^^^^^^^^^^^
            hint: who is asked before a call is decided by `policy` and `tools.require_approval`
        "#]],
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
        expect![[r#"
            error[config.unknown-key]: unknown key `lisen`
             --> work/toolbooth.toml:1:1
              |
            1 | lisen = 9000
              | ^^^^^ did you mean `listen`?

            error[config.wrong-type]: `drain_seconds`: expected a number of seconds, found a text
             --> work/toolbooth.toml:2:17
              |
            2 | drain_seconds = "soon"
              |                 ^^^^^^ expected a number of seconds

            error[config.unknown-word]: `exposure.mode`: `everything` is not understood here
             --> work/toolbooth.toml:4:8
              |
            4 | mode = "everything"
              |        ^^^^^^^^^^^^
            hint: known here: `auto`, `full`, `summary`, `search`

            error[config.unknown-key]: unknown key `max_tools_per_serch` in `exposure`
             --> work/toolbooth.toml:5:1
              |
            5 | max_tools_per_serch = 3
              | ^^^^^^^^^^^^^^^^^^^ did you mean `max_tools_per_search`?

            error[config.out-of-range]: `retry.attempts` is from 1 to 20, not 0
             --> work/toolbooth.toml:7:12
              |
            7 | attempts = 0
              |            ^

            error[config.wrong-type]: `limits.body_bytes`: expected a whole number that is not negative, found -1
             --> work/toolbooth.toml:9:14
              |
            9 | body_bytes = -1
              |              ^^ expected a whole number that is not negative

            error[config.unknown-word]: `naming.style`: `server.tool` is not understood here
              --> work/toolbooth.toml:11:9
               |
            11 | style = "server.tool"
               |         ^^^^^^^^^^^^^ did you mean `server_tool`?

            error[config.bad-url]: `llm.base_url` is not an http or https address
              --> work/toolbooth.toml:13:12
               |
            13 | base_url = "not an address"
               |            ^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn a_server_at_the_top_is_told_where_it_belongs() {
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
fn missing_files_that_were_named_stop_the_load() {
    let mut world = World::new(&[]);
    world.sources.config_files = vec!["gone.json".into()];
    world.sources.env_file = Some("gone.env".into());
    world.sources.config_dir = Some("gone".into());
    assert!(world.load().is_err());
    expect![[r#"
        error[config.no-folder]: the folder of --config-dir does not exist
         --> work/gone

        error[config.no-file]: the file of variables does not exist
         --> work/gone.env

        error[config.no-file]: the configuration file does not exist
         --> work/gone.json
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn an_env_file_says_which_line_is_wrong_but_not_what_it_holds() {
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
fn a_file_cannot_move_the_cursor() {
    let world =
        World::config("work/mcp.json", "{\"servers\": {\"a\u{1b}[2J\": {\"command\": \"\u{202e}x\"}}}");
    let report = world.report();
    assert!(!report.contains('\u{1b}') && !report.contains('\u{202e}'), "{report:?}");
}
