//! Servers of a project folder run only after the user has trusted their current definition.

use crate::world::World;
use expect_test::expect;

const PROJECT: &str =
    r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["SERVER"], "env": {"MODE": "fast"}}}}"#;

#[test]
fn trust_is_given_shown_and_removed() {
    let world = World::new(&[("work/.mcp.json", PROJECT)]);
    world.check(
        "servers",
        expect![[r#"
            SERVER  STATE        TOOLS  TRANSPORT  WHERE
            sh      needs_trust

            sh: run `toolbooth trust` to review and trust it

            No running gateway was used: the servers were started for this command only.
        "#]],
    );
    world.check(
        "servers connect sh",
        expect![[r#"
            --- on standard error
            error[server.not-running]: server `sh` is not running: it is not trusted yet

            hint: run `toolbooth trust` to review and trust it
            --- exit 1
        "#]],
    );
    world.check(
        "call sh_probe n=1",
        expect![[r#"
            --- on standard error
            error[tool.unknown]: there is no tool `sh_probe`

            hint: it may belong to sh (needs_trust); `toolbooth servers` shows what is wrong
                  there
            --- exit 1
        "#]],
    );
    world.check(
        "doctor",
        expect![[r#"
            ok    config   1 file read, 1 server
            warn  trust    sh is not trusted yet; it would run with command /bin/sh, args
                           ["~/server.sh"], env.MODE fast
                           fix: `toolbooth trust` shows it and asks for confirmation
            ok    gateway  not running; 127.0.0.1:PORT is available
            ok    store    can be opened (in ~/.local/share/toolbooth)

            No errors, 1 warning.
        "#]],
    );
    world.check(
        "trust",
        expect![[r#"
        Not trusted yet:

        ~/work/.mcp.json
          server sh
            command   /bin/sh
            args      ["~/server.sh"]
            env.MODE  fast
        --- on standard error
        error[trust.unattended]: cannot ask for confirmation without a terminal: sh

        hint: check the entries, then run `toolbooth trust --yes`
        --- exit 2
    "#]],
    );
    world.check(
        "trust --yes",
        expect![[r#"
        Trusted in the current version:

        ~/work/.mcp.json
          server sh
            command   /bin/sh
            args      ["~/server.sh"]
            env.MODE  fast
    "#]],
    );
    world.check(
        "trust",
        expect![[r#"
        There is nothing to trust in ~/work.
    "#]],
    );
    world.check(
        "servers",
        expect![[r#"
            SERVER  STATE      TOOLS  TRANSPORT  WHERE
            sh      connected      2  stdio      /bin/sh ~/server.sh

            sh: 1 definition set aside: paint; `toolbooth servers show sh` shows why

            No running gateway was used: the servers were started for this command only.
        "#]],
    );

    world.write("work/.mcp.json", &PROJECT.replace("fast", "slow"));
    world.check(
        "servers",
        expect![[r#"
            SERVER  STATE        TOOLS  TRANSPORT  WHERE
            sh      needs_trust

            sh: run `toolbooth trust` to review and trust it

            No running gateway was used: the servers were started for this command only.
        "#]],
    );
    world.check(
        "servers show sh",
        expect![[r#"
            sh: needs_trust
              hint       run `toolbooth trust` to review and trust it
              would run, as defined in ~/work/.mcp.json
              - env.MODE  fast
              + env.MODE  slow
        "#]],
    );
    world.check(
        "doctor",
        expect![[r#"
        ok    config   1 file read, 1 server
        warn  trust    sh is not trusted yet; it would run with env.MODE slow instead of
                       fast
                       fix: `toolbooth trust` shows it and asks for confirmation
        ok    gateway  not running; 127.0.0.1:PORT is available
        ok    store    can be opened (in ~/.local/share/toolbooth)

        No errors, 1 warning.
    "#]],
    );
    world.check(
        "trust .mcp.json --yes",
        expect![[r#"
        Trusted in the current version:

        ~/work/.mcp.json
          server sh
          - env.MODE  fast
          + env.MODE  slow
    "#]],
    );
    world.check(
        "trust --forget",
        expect![[r#"
        No longer trusted: ~/work/.mcp.json
    "#]],
    );
    world.check(
        "trust --forget",
        expect![[r#"
        Nothing is trusted in ~/work.
    "#]],
    );
    world.check(
        "servers show sh",
        expect![[r#"
            sh: needs_trust
              hint       run `toolbooth trust` to review and trust it
              would run, as defined in ~/work/.mcp.json
                command   /bin/sh
                args      ["~/server.sh"]
                env.MODE  slow
        "#]],
    );
}

#[test]
fn a_running_gateway_reloads_when_trust_changes() {
    let world = World::new(&[("work/.mcp.json", PROJECT)]);
    let _gateway = world.serve();
    world.check(
        "servers show sh",
        expect![[r#"
            sh: needs_trust
              hint       run `toolbooth trust` to review and trust it
              would run, as defined in ~/work/.mcp.json
                command   /bin/sh
                args      ["~/server.sh"]
                env.MODE  fast
        "#]],
    );
    world.check(
        "trust --yes",
        expect![[r#"
        Trusted in the current version:

        ~/work/.mcp.json
          server sh
            command   /bin/sh
            args      ["~/server.sh"]
            env.MODE  fast

        The running gateway has reloaded its configuration.
        restarted  sh
    "#]],
    );
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
}

#[test]
fn untrusted_servers_are_reported_by_config_check_and_serve() {
    let world = World::new(&[("work/.mcp.json", PROJECT)]);
    world.check(
        "config check",
        expect![[r#"
        No problems: 1 server in 1 file.
          ~/work/.mcp.json
        1 server needs `toolbooth trust`: sh
    "#]],
    );
    let gateway = world.serve();
    let last: Vec<&str> = gateway.greeting.lines().rev().take(2).collect();
    expect!["1 server: sh; 1 needs `toolbooth trust`: sh"].assert_eq(last[1]);
}

#[test]
fn trust_survives_a_project_that_sets_the_data_directory() {
    let config = "data_dir = \"state\"\n[servers.sh]\ncommand = \"/bin/sh\"\nargs = [\"SERVER\"]\n";
    let world = World::new(&[("work/toolbooth.toml", config)]);
    assert_eq!(world.run("trust --yes").status.code(), Some(0));
    world.check(
        "trust",
        expect![[r#"
            There is nothing to trust in ~/work.
        "#]],
    );
    assert!(world.path(".local/share/toolbooth/trust.json").exists());
    assert!(!world.path("work/state/trust.json").exists());
    // The gateway keeps its state there, and is found there.
    let gateway = world.serve();
    assert!(world.path("work/state/gateway.json").exists());
    assert!(world.screen("servers").contains("answered"));
    world.check(
        "trust --forget",
        expect![[r#"
            No longer trusted: ~/work/toolbooth.toml
        "#]],
    );
    drop(gateway);
}
