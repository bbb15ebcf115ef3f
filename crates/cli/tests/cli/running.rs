//! Commands and a running gateway.

use crate::world::World;
use expect_test::expect;

#[test]
fn the_greeting_says_how_to_connect() {
    let world = World::new(&[]);
    let gateway = world.serve();
    expect![[r#"
        Toolbooth 0.1.0 is listening on http://127.0.0.1:PORT

          MCP endpoint  http://127.0.0.1:PORT/mcp

        Connect a client:
          toolbooth connect claude-code       or cursor, vscode, codex, claude-desktop
          claude mcp add --transport http toolbooth http://127.0.0.1:PORT/mcp
          {"mcpServers": {"toolbooth": {"url": "http://127.0.0.1:PORT/mcp"}}}
          {"mcpServers": {"toolbooth": {"command": "toolbooth", "args": ["stdio"]}}}

        No servers are configured yet, so the bundled ones are shown: demo, files, identity, planner.
        Put yours into .mcp.json here, or into ~/.config/toolbooth/toolbooth.toml.
        `toolbooth servers` shows how they do, `toolbooth tools list` what they offer.
    "#]]
    .assert_eq(&gateway.greeting);
    world.check(
        "serve",
        expect![[r#"
            --- on standard error
            error[serve.already-running]: a gateway is running already:
              http://127.0.0.1:PORT (process PID)

            hint: every command uses it; a second one needs --data-dir and --listen of its
                  own
            --- exit 1
        "#]],
    );
    assert!(gateway.stop());
    assert!(!world.path(".local/share/toolbooth/gateway.json").exists());
}

#[test]
fn commands_use_the_gateway_that_runs() {
    let world = World::with_server();
    let gateway = world.serve();
    expect![[r#"
        Toolbooth 0.1.0 is listening on http://127.0.0.1:PORT

          MCP endpoint  http://127.0.0.1:PORT/mcp

        Connect a client:
          toolbooth connect claude-code       or cursor, vscode, codex, claude-desktop
          claude mcp add --transport http toolbooth http://127.0.0.1:PORT/mcp
          {"mcpServers": {"toolbooth": {"url": "http://127.0.0.1:PORT/mcp"}}}
          {"mcpServers": {"toolbooth": {"command": "toolbooth", "args": ["stdio"]}}}

        1 server: sh
        `toolbooth servers` shows how they do, `toolbooth tools list` what they offer.
    "#]]
    .assert_eq(&gateway.greeting);
    world.check(
        "servers connect sh",
        expect![[r#"
            sh: connected
              transport  stdio
              where      /bin/sh ~/server.sh
              speaks     MCP 2025-11-25
              offers     2 tools
              set aside  quarantine `paint`: hidden characters: U+001B (control) in `/description`, and 2 more
        "#]],
    );
    world.check(
        "servers",
        expect![[r#"
            SERVER  STATE      TOOLS  TRANSPORT  WHERE
            sh      connected      2  stdio      /bin/sh ~/server.sh

            sh: 1 definition set aside: paint; `toolbooth servers show sh` tells why

            The gateway at http://127.0.0.1:PORT answered.
        "#]],
    );
    let serving = world.processes().len();
    world.check(
        "call sh_probe n=1",
        expect![[r#"
        {"n":1}
    "#]],
    );
    assert_eq!(world.processes().len(), serving, "the server that runs was used");
    world.check(
        "servers disconnect sh",
        expect![[r#"
            sh: disconnected
              transport  stdio
              where      /bin/sh ~/server.sh
              offers     2 tools
              set aside  quarantine `paint`: hidden characters: U+001B (control) in `/description`, and 2 more
        "#]],
    );
    world.check(
        "servers restart sh",
        expect![[r#"
            sh: connected
              transport  stdio
              where      /bin/sh ~/server.sh
              speaks     MCP 2025-11-25
              offers     2 tools
              set aside  quarantine `paint`: hidden characters: U+001B (control) in `/description`, and 2 more
        "#]],
    );
    let logs = world.screen("servers logs sh");
    assert!(logs.lines().count() > 1 && logs.lines().all(|line| line == r"up and \x1b[31mrunning"), "{logs}");
    world.check(
        "doctor",
        expect![[r#"
            ok    config   1 file read, 1 server
            ok    gateway  running at http://127.0.0.1:PORT (process PID)
            ok    server   sh: connected, 2 tools
            warn  server   sh: tool `paint` is in quarantine and offered to nobody: hidden
                           characters: U+001B (control) in `/description`, and 2 more
                           fix: look at it with `toolbooth tools show sh_paint`;
                                `toolbooth tools release sh_paint` lets it out as it is

            Nothing is broken; 1 warning.
        "#]],
    );
    world.check(
        "tools show prob",
        expect![[r#"
        --- on standard error
        error[tool.unknown]: there is no tool `prob`

        hint: did you mean `sh_probe`?
        --- exit 1
    "#]],
    );
    world.check(
        &format!("servers --url {}", gateway.url),
        expect![[r#"
            SERVER  STATE      TOOLS  TRANSPORT  WHERE
            sh      connected      2  stdio      /bin/sh ~/server.sh

            sh: 1 definition set aside: paint; `toolbooth servers show sh` tells why

            The gateway at http://127.0.0.1:PORT answered.
        "#]],
    );
    world.check(
        &format!("servers show sh --url {}/mcp", gateway.url.trim_start_matches("http://")),
        expect![[r#"
            sh: connected
              transport  stdio
              where      /bin/sh ~/server.sh
              speaks     MCP 2025-11-25
              offers     2 tools
              set aside  quarantine `paint`: hidden characters: U+001B (control) in `/description`, and 2 more
        "#]],
    );
    assert!(gateway.stop());
    world.assert_nothing_runs();
}

#[test]
fn a_reload_says_what_changed() {
    let world = World::with_server();
    let _gateway = world.serve();
    world.check(
        "reload",
        expect![[r#"
        Nothing changed: 1 server left alone.
    "#]],
    );
    let two = r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["SERVER"]}, "b": {"command": "b", "auto_connect": false}}}"#;
    world.write(".config/toolbooth/mcp.json", two);
    let report = world.screen("reload");
    // The watcher may have been quicker.
    assert!(
        report.contains("added      b\nleft alone 1 server\n")
            || report.contains("Nothing changed: 2 servers"),
        "{report}"
    );
    world.write(".config/toolbooth/mcp.json", "{\"mcpServers\": {,}}");
    world.check(
        "reload",
        expect![[r#"
        --- on standard error
        error[config.syntax]: the configuration was not applied, the last good one
          stays: ~/.config/toolbooth/mcp.json:1:17: this is not JSON: expected a key,
          found `,`

        hint: one comma too many?
        --- exit 1
    "#]],
    );
    assert!(world.screen("servers").contains("b       disconnected"), "the last good configuration stays");
}

#[test]
fn files_that_are_named_count_even_if_a_gateway_runs_on_others() {
    let world = World::with_server();
    let _gateway = world.serve();
    world
        .write("work/other.json", r#"{"mcpServers": {"other": {"command": "/bin/sh", "args": ["SERVER"]}}}"#);
    world.check(
        "servers --config other.json",
        expect![[r#"
            SERVER  STATE      TOOLS  TRANSPORT  WHERE
            other   connected      2  stdio      /bin/sh ~/server.sh
            sh      connected      2  stdio      /bin/sh ~/server.sh

            other: 1 definition set aside: paint; `toolbooth servers show other` tells why

            sh: 1 definition set aside: paint; `toolbooth servers show sh` tells why

            No gateway was asked: servers were started for this answer and stopped again.
        "#]],
    );
}
