//! Broken, checked, explained and imported configuration.

use crate::world::{World, mode};
use expect_test::expect;

const BROKEN: &str = r#"{"mcpServers": {
  "good": {"command": "/bin/sh", "args": ["SERVER"]},
  "typo": {"command": "x", "grops": ["staff"]},
  "gone": {"command": "no-such-program"},
  "token": {"url": "https://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${NO_SUCH_TOKEN}"}},
  "off": {"command": "x", "enabled": false}
}}"#;

#[test]
fn a_broken_server_does_not_affect_others() {
    let world = World::new(&[(".config/toolbooth/mcp.json", BROKEN)]);
    world.check(
        "servers",
        expect![[r#"
            SERVER  STATE         TOOLS  TRANSPORT  WHERE
            gone    error                stdio      no-such-program
            good    connected         2  stdio      /bin/sh ~/server.sh
            off     disabled
            token   config_error
            typo    config_error

            gone: `no-such-program` was not found [server.command-not-found]
              hint: install `no-such-program`, or give its full path in `command`; searched
                    /usr/bin:/bin

            good: 1 definition set aside: paint; `toolbooth servers show good` shows why

            token: ~/.config/toolbooth/mcp.json:5:76: server `token`: the variable
              `NO_SUCH_TOKEN` is not set [config.variable]
              hint: store it with `toolbooth secrets set NO_SUCH_TOKEN`, or set it, name a
                    file with --env-file, or give a default: `${NO_SUCH_TOKEN:-...}`

            typo: ~/.config/toolbooth/mcp.json:3:28: server `typo`: unknown key `grops`
              [config.unknown-key]
              hint: did you mean `groups`?

            No running gateway was used: the servers were started for this command only.
        "#]],
    );
    world.check(
        "tools list",
        expect![[r#"
            TOOL        QUALITY  TOKENS  DESCRIPTION
            good_fail        65      17  Fails.
            good_probe       80     107  Returns what it was given.
            --- on standard error

            Without the tools of gone (error), token (config_error), typo (config_error);
            `toolbooth servers` shows why.
        "#]],
    );
    world.check(
        "tools show typo_x",
        expect![[r#"
            --- on standard error
            error[tool.unknown]: there is no tool `typo_x`

            hint: it may belong to typo (config_error); `toolbooth servers` shows what is
                  wrong there
            --- exit 1
        "#]],
    );
    world.check(
        "servers show gone",
        expect![[r#"
        gone: error
          transport  stdio
          where      no-such-program
          reason     `no-such-program` was not found [server.command-not-found]
          hint       install `no-such-program`, or give its full path in `command`;
                     searched /usr/bin:/bin
    "#]],
    );
    world.check(
        "servers connect gone",
        expect![[r#"
        gone: error
          transport  stdio
          where      no-such-program
          reason     `no-such-program` was not found [server.command-not-found]
          hint       install `no-such-program`, or give its full path in `command`;
                     searched /usr/bin:/bin
        --- exit 1
    "#]],
    );
    world.check(
        "servers connect typo",
        expect![[r#"
        --- on standard error
        error[server.not-running]: server `typo` is not running:
          ~/.config/toolbooth/mcp.json:3:28: server `typo`: unknown key `grops`

        hint: did you mean `groups`?
        --- exit 1
    "#]],
    );
    world.check(
        "doctor",
        expect![[r#"
            ok    config   1 file read, 5 servers
            FAIL  config   ~/.config/toolbooth/mcp.json:3:28: server `typo`: unknown key
                           `grops`
                           fix: did you mean `groups`?
            FAIL  config   ~/.config/toolbooth/mcp.json:5:76: server `token`: the variable
                           `NO_SUCH_TOKEN` is not set
                           fix: store it with `toolbooth secrets set NO_SUCH_TOKEN`, or set
                                it, name a file with --env-file, or give a default:
                                `${NO_SUCH_TOKEN:-...}`
            ok    gateway  not running; 127.0.0.1:PORT is available
            ok    store    can be opened (in ~/.local/share/toolbooth)
            FAIL  server   gone: `no-such-program` was not found
                           fix: install `no-such-program`, or give its full path in
                                `command`; searched /usr/bin:/bin
            ok    server   good: connected, 2 tools
            warn  server   good: tool `paint` is in quarantine and not offered: hidden
                           characters: U+001B (control) in `/description`, and 2 more
                           fix: inspect it with `toolbooth tools show good_paint`;
                                `toolbooth tools release good_paint` releases it as it is
            ok    server   off: disabled

            3 errors, 1 warning.
            --- exit 1
        "#]],
    );
    world.check(
        "config check",
        expect![[r#"
        error[config.unknown-key]: server `typo`: unknown key `grops`
         --> ~/.config/toolbooth/mcp.json:3:28
          |
        3 |   "typo": {"command": "x", "grops": ["staff"]},
          |                            ^^^^^^^ did you mean `groups`?

        error[config.variable]: server `token`: the variable `NO_SUCH_TOKEN` is not set
         --> ~/.config/toolbooth/mcp.json:5:76
          |
        5 | l": "https://127.0.0.1:PORT/mcp", "headers": {"Authorization": "Bearer ${NO_SUCH_TOKEN}"}},
          |                                                             ^^^^^^^^^^^^^^^^^^^^^^^^^
        hint: store it with `toolbooth secrets set NO_SUCH_TOKEN`, or set it, name a file with --env-file, or give a default: `${NO_SUCH_TOKEN:-...}`

        2 errors in 1 file.
        --- exit 1
    "#]],
    );
}

#[test]
fn a_syntax_error_is_shown_with_its_line() {
    let world = World::new(&[(
        ".config/toolbooth/toolbooth.toml",
        "listen = \"127.0.0.1:9000\"\n[servers.a\ncommand = \"x\"\n",
    )]);
    world.check(
        "serve",
        expect![[r#"
        --- on standard error
        error[config.syntax]: invalid TOML: unclosed table, expected `]`
         --> ~/.config/toolbooth/toolbooth.toml:2:11
          |
        2 | [servers.a
          |           ^
        --- exit 2
    "#]],
    );
    world.check(
        "servers",
        expect![[r#"
        --- on standard error
        error[config.syntax]: invalid TOML: unclosed table, expected `]`
         --> ~/.config/toolbooth/toolbooth.toml:2:11
          |
        2 | [servers.a
          |           ^
        --- exit 2
    "#]],
    );
    world.check(
        "config check",
        expect![[r#"
        error[config.syntax]: invalid TOML: unclosed table, expected `]`
         --> ~/.config/toolbooth/toolbooth.toml:2:11
          |
        2 | [servers.a
          |           ^

        1 error in 1 file.
        --- exit 1
    "#]],
    );
    world.check(
        "doctor",
        expect![[r#"
        FAIL  config   ~/.config/toolbooth/toolbooth.toml:2:11: invalid TOML: unclosed
                       table, expected `]`

        1 error.
        --- exit 1
    "#]],
    );
}

#[test]
fn values_are_explained_with_their_files() {
    let world = World::new(&[
        (
            ".config/toolbooth/toolbooth.toml",
            "drain_seconds = 3\n[servers.fs]\ncommand = \"fs\"\nenv = {TOKEN = \"${FS_TOKEN:-none}\"}\n",
        ),
        ("work/extra.toml", "drain_seconds = 5\n"),
    ]);
    world.check(
        "config explain drain_seconds --config extra.toml",
        expect![[r#"
        drain_seconds = 5
          from ~/work/extra.toml:1:17 (command line)
          overrides 3 from ~/.config/toolbooth/toolbooth.toml:1:17 (user)
    "#]],
    );
    world.check(
        "config explain servers.fs.env.TOKEN",
        expect![[r#"
        servers.fs.env.TOKEN = "${FS_TOKEN:-none}"
          from ~/.config/toolbooth/toolbooth.toml:4:16 (user)
    "#]],
    );
    world.check(
        "config show",
        expect![[r#"
        {
          "drain_seconds": 3,
          "listen": "${TOOLBOOTH_LISTEN}",
          "servers": {
            "fs": {
              "command": "fs",
              "env": {
                "TOKEN": "${FS_TOKEN:-none}"
              }
            }
          }
        }
    "#]],
    );
    world.check(
        "config check extra.toml",
        expect![[r#"
        No problems in 1 file.
          ~/work/extra.toml
    "#]],
    );
    world.check(
        "config check",
        expect![[r#"
        No problems: 1 server in 1 file.
          ~/.config/toolbooth/toolbooth.toml
    "#]],
    );
}

#[test]
fn servers_of_other_clients_are_imported_and_the_import_undone() {
    let files = [
        (
            ".cursor/mcp.json",
            r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["SERVER"], "env": {"API_KEY": "hunter2hunter2"}}}}"#,
        ),
        (".codex/config.toml", "[mcp_servers.other]\ncommand = \"other\"\n"),
    ];
    let world = World::new(&files);
    world.check(
        "config import",
        expect![[r#"
        cursor          1 server: sh
        codex           1 server: other

        `toolbooth config import CLIENT` shows the changes; --apply writes them.
    "#]],
    );
    world.check(
        "config import cursor",
        expect![[r#"
        read ~/.cursor/mcp.json
        + sh: /bin/sh ~/server.sh
            `env.API_KEY` moves to ${API_KEY}
        would write ~/.config/toolbooth/imported.json
        would write ~/.config/toolbooth/imported.env

        Nothing was written. Add --apply to write the files.
    "#]],
    );
    world.check(
        "servers",
        expect![[r#"
            SERVER    STATE      TOOLS  TRANSPORT  WHERE
            demo      connected      5  bundled    toolbooth demo-server demo
            files     connected      2  bundled    toolbooth demo-server files
            identity  connected      3  bundled    toolbooth demo-server identity
            planner   connected      1  bundled    toolbooth demo-server planner

            No servers are configured yet, so the bundled ones are shown.
        "#]],
    );
    world.check(
        "config import cursor --apply",
        expect![[r#"
        Imported 1 server: sh.
          wrote ~/.config/toolbooth/imported.env
          wrote ~/.config/toolbooth/imported.json
        `toolbooth config import --undo` undoes the import.
        --- on standard error
        note: the key of your stored secrets is in ~/.local/share/toolbooth/secrets.key:
              no keyring was found
    "#]],
    );
    assert!(!world.read(".config/toolbooth/imported.env").contains("hunter2"));
    assert_eq!(mode(&world.path(".config/toolbooth/imported.env")), 0o600);
    world.check(
        "servers",
        expect![[r#"
            SERVER  STATE      TOOLS  TRANSPORT  WHERE
            sh      connected      2  stdio      /bin/sh ~/server.sh

            sh: 1 definition set aside: paint; `toolbooth servers show sh` shows why

            No running gateway was used: the servers were started for this command only.
        "#]],
    );
    world.check(
        "config import cursor --apply",
        expect![[r#"
        read ~/.cursor/mcp.json
        - sh: is already configured
        nothing to import
    "#]],
    );
    world.check(
        "config import --undo",
        expect![[r#"
        The last import was undone.
          removed ~/.config/toolbooth/imported.env
          removed ~/.config/toolbooth/imported.json
    "#]],
    );
    assert!(!world.path(".config/toolbooth/imported.env").exists());
}

#[test]
fn a_failed_call_shows_the_last_output_of_its_server() {
    let text = r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["-c",
        "if [ -e broken ]; then echo 'No module named mcp' >&2; exit 2; fi; exec /bin/sh SERVER"]}}}"#;
    let world = World::new(&[(".config/toolbooth/mcp.json", text)]);
    assert!(world.screen("tools list").contains("sh_probe"));
    world.write("work/broken", "");
    let failed = world.screen("call sh_probe n=1").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(failed.contains("its process ended (exited with code 2)"), "{failed}");
    assert!(failed.contains("hint: its last output was: No module named mcp;"), "{failed}");
    assert!(failed.contains("`toolbooth servers logs sh` shows more"), "{failed}");
    world.assert_nothing_runs();
}

#[test]
fn the_last_output_of_a_failed_server_is_shown() {
    let text = r#"{"mcpServers": {
        "crash": {"command": "/bin/sh", "args": ["-c", "echo 'No module named mcp' >&2; exit 3"]},
        "mute": {"command": "/bin/sleep", "args": ["60"], "connect_timeout": 1}
    }}"#;
    let world = World::new(&[(".config/toolbooth/mcp.json", text)]);
    for line in ["servers", "servers show crash", "doctor"] {
        let report = world.screen(line).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            report.contains("its last output was: No module named mcp; `toolbooth servers logs crash`"),
            "{report}"
        );
        assert!(line != "servers" || report.contains("mute error stdio /bin/sleep 60"), "{report}");
    }
    assert!(world.screen("servers logs crash").starts_with("No module named mcp\n"));
    world.assert_nothing_runs();
}

#[test]
fn a_mistake_on_the_command_line_stops_every_command() {
    let world = World::with_server();
    world.check(
        "tools list --set foo=bar",
        expect![[r#"
        --- on standard error
        error[config.unknown-key]: unknown key `foo`
         --> `foo` on the command line
        --- exit 2
    "#]],
    );
    world.check(
        "serve --set naming.style=zz",
        expect![[r#"
            --- on standard error
            error[config.unknown-word]: `naming.style`: `zz` is not a valid value
             --> `naming.style` on the command line
            hint: expected one of `server_tool`, `mcp_server_tool`, `mcp.server.tool`, `tool`
            --- exit 2
        "#]],
    );
    world.check(
        "doctor --set retry.attempts=99",
        expect![[r#"
        --- on standard error
        error[config.out-of-range]: `retry.attempts` must be from 1 to 20, not 99
         --> `retry.attempts` on the command line
        --- exit 2
    "#]],
    );
}

#[test]
fn environment_variables_set_options_of_every_command() {
    let world = World::new(&[(
        "elsewhere/a.toml",
        "[servers.sh]\ncommand = \"/bin/sh\"\nargs = [\"SERVER\"]\n[personas.narrow]\nallowed_tools = [\"sh_nothing\"]\n",
    )]);
    let run = |line: &str, variables: &[(&str, &str)]| {
        let mut command = world.command(&crate::world::words(line));
        for (name, value) in variables {
            command.env(name, value.replace('~', world.path("").to_str().unwrap()));
        }
        world.shown(&command.output().unwrap())
    };
    let file = ("TOOLBOOTH_CONFIG", "~/elsewhere/a.toml");
    assert!(run("tools list", &[file]).contains("sh_probe"));
    assert!(!run("tools list", &[file, ("TOOLBOOTH_PERSONA", "narrow")]).contains("sh_probe"));
    assert!(run("tools list --config ~/none.toml", &[file]).contains("config.no-file"));
    assert!(run("config check", &[file, ("TOOLBOOTH_JSON", "1")]).starts_with('{'));
    assert!(run("config check", &[file, ("TOOLBOOTH_JSON", "0")]).starts_with("No problems: 1 server"));
    assert!(
        run("config check", &[("TOOLBOOTH_CONFIG", ""), ("TOOLBOOTH_JSON", "")])
            .starts_with("No configuration")
    );
    assert!(run("config check", &[("TOOLBOOTH_CONFIG_DIR", "~/gone")]).contains("config.no-folder"));
    assert!(run("config check", &[("TOOLBOOTH_DEMO", "1")]).contains("`TOOLBOOTH_DEMO` is not a setting"));
}

#[test]
fn an_invalid_store_url_is_found_by_config_check() {
    let world = World::new(&[(".config/toolbooth/toolbooth.toml", "[store]\nurl = \"mysql://x\"\n")]);
    world.check(
        "config check",
        expect![[r#"
            error[store.bad-url]: `store.url` must begin with `sqlite:`, `postgres://` or `memory:`
             --> ~/.config/toolbooth/toolbooth.toml:2:7
              |
            2 | url = "mysql://x"
              |       ^^^^^^^^^^^
            hint: write `sqlite:PATH` for a file, `postgres://USER@HOST/DATABASE` for several gateways, or `memory:` for a store that is not persistent

            1 error in 1 file.
            --- exit 1
        "#]],
    );
    assert_eq!(world.run("serve").status.code(), Some(2));
}
