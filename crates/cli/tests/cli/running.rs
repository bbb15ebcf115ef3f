//! Commands and a running gateway.

use crate::world::{World, words};
use expect_test::expect;

#[test]
fn the_greeting_says_how_to_connect() {
    let world = World::new(&[]);
    let gateway = world.serve();
    expect![[r#"
        Toolbooth 0.1.0 is listening on http://127.0.0.1:PORT

          Console       http://127.0.0.1:PORT/console/
          MCP endpoint  http://127.0.0.1:PORT/mcp

        Connect a client:
          /bin/toolbooth connect claude-code       or cursor, vscode, codex, claude-desktop
          claude mcp add --scope user --transport http toolbooth http://127.0.0.1:PORT/mcp
          {"mcpServers": {"toolbooth": {"url": "http://127.0.0.1:PORT/mcp"}}}
          {"mcpServers": {"toolbooth": {"command": "/bin/toolbooth", "args": ["stdio"]}}}

        No servers are configured yet, so the bundled ones are running: demo, files, identity, planner.
        Define yours in .mcp.json here, or in ~/.config/toolbooth/toolbooth.toml.
        `/bin/toolbooth servers` shows their state, `/bin/toolbooth tools list` lists their tools.
    "#]]
    .assert_eq(&gateway.greeting);
    world.check(
        "serve",
        expect![[r#"
            --- on standard error
            error[serve.already-running]: a gateway is already running:
              http://127.0.0.1:PORT (process PID)

            hint: all commands use it; a second one needs its own --data-dir and --listen
            --- exit 1
        "#]],
    );
    assert!(gateway.stop());
    assert!(!world.path(".local/share/toolbooth/gateway.json").exists());
}

#[test]
fn commands_use_the_running_gateway() {
    let world = World::with_server();
    let gateway = world.serve();
    expect![[r#"
        Toolbooth 0.1.0 is listening on http://127.0.0.1:PORT

          Console       http://127.0.0.1:PORT/console/
          MCP endpoint  http://127.0.0.1:PORT/mcp

        Connect a client:
          /bin/toolbooth connect claude-code       or cursor, vscode, codex, claude-desktop
          claude mcp add --scope user --transport http toolbooth http://127.0.0.1:PORT/mcp
          {"mcpServers": {"toolbooth": {"url": "http://127.0.0.1:PORT/mcp"}}}
          {"mcpServers": {"toolbooth": {"command": "/bin/toolbooth", "args": ["stdio"]}}}

        1 server: sh
        `/bin/toolbooth servers` shows their state, `/bin/toolbooth tools list` lists their tools.
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

            sh: 1 definition set aside: paint; `toolbooth servers show sh` shows why

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
            warn  server   sh: tool `paint` is in quarantine and not offered: hidden
                           characters: U+001B (control) in `/description`, and 2 more
                           fix: inspect it with `toolbooth tools show sh_paint`;
                                `toolbooth tools release sh_paint` releases it as it is

            No errors, 1 warning.
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

            sh: 1 definition set aside: paint; `toolbooth servers show sh` shows why

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
fn a_reload_reports_what_changed() {
    let world = World::with_server();
    let _gateway = world.serve();
    world.check(
        "reload",
        expect![[r#"
        Nothing changed (1 server).
    "#]],
    );
    let two = r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["SERVER"]}, "b": {"command": "b", "auto_connect": false}}}"#;
    world.write(".config/toolbooth/mcp.json", two);
    let report = world.screen("reload");
    // The file watcher may have reloaded first.
    assert!(
        report.contains("added      b\nunchanged  1 server\n")
            || report.contains("Nothing changed (2 servers)"),
        "{report}"
    );
    world.write(".config/toolbooth/mcp.json", "{\"mcpServers\": {,}}");
    world.check(
        "reload",
        expect![[r#"
        --- on standard error
        error[config.syntax]: the configuration was not applied, the last good one
          stays in force: ~/.config/toolbooth/mcp.json:1:17: invalid JSON: expected a
          key, found `,`

        hint: one comma too many?
        --- exit 1
    "#]],
    );
    assert!(world.screen("servers").contains("b       disconnected"), "the last good configuration stays");
}

#[test]
fn a_reload_with_a_broken_server_fails_and_knows_the_variables_of_the_shell() {
    let world = World::new(&[(
        ".config/toolbooth/mcp.json",
        r#"{"mcpServers": {"keyed": {"command": "/bin/sh", "args": ["SERVER"], "env": {"A": "${NEEDED_TOKEN}"}}}}"#,
    )]);
    let _gateway = world.serve();
    let plain = world.screen("reload");
    assert!(plain.contains("the variable `NEEDED_TOKEN` is not set"), "{plain}");
    assert!(!plain.contains("in this shell") && plain.ends_with("--- exit 1\n"), "{plain}");
    let reload = |line: &str| world.command(&words(line)).env("NEEDED_TOKEN", "x").output().unwrap();
    let printed = world.shown(&reload("reload"));
    assert!(
        printed.contains("hint: `NEEDED_TOKEN` is set in this shell, but not for the running"),
        "{printed}"
    );
    assert_eq!(printed.matches("hint: ").count(), 1, "{printed}");
    assert!(printed.ends_with("--- exit 1\n"), "{printed}");
    assert_eq!(reload("reload --json").status.code(), Some(1));
}

#[test]
fn the_address_of_the_console_has_a_new_code_each_time() {
    let world = World::with_server();
    let _gateway = world.serve();
    let first = world.screen("console --no-browser");
    let start =
        "The console (this address works once, within 5 minutes):\n\n  http://127.0.0.1:PORT/console/#owner=";
    assert!(first.starts_with(start), "{first}");
    let code = first[start.len()..].trim_end();
    assert!(code.len() == 32 && code.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    assert_ne!(first, world.screen("console --no-browser"));
}

#[test]
fn a_running_gateway_offers_the_bundled_servers_after_the_last_one_was_removed() {
    let world = World::with_server();
    let _gateway = world.serve();
    let screen = world.screen("servers remove sh");
    assert!(screen.contains("the bundled servers are offered again"), "{screen}");
    let servers = world.screen("servers");
    assert!(servers.contains("demo-server demo") && !servers.contains("server.sh"), "{servers}");
}

#[test]
fn named_files_win_over_a_gateway_that_uses_others() {
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

            other: 1 definition set aside: paint; `toolbooth servers show other` shows why

            sh: 1 definition set aside: paint; `toolbooth servers show sh` shows why

            No running gateway was used: the servers were started for this command only.
        "#]],
    );
}

#[test]
fn the_doctor_checks_the_configuration_of_the_running_gateway() {
    let world = World::with_server();
    let file = ".config/toolbooth/mcp.json";
    let good = world.read(file);
    let gateway = world.serve();
    let printed = |line: &str| {
        let screen = world.screen(line);
        screen
            .lines()
            .filter(|line| line.contains("gateway"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    expect![[r#"
        ok    gateway  running at http://127.0.0.1:PORT (process PID)
    "#]]
    .assert_eq(&printed("doctor"));
    // A syntax error leaves the last good configuration in force, and the doctor reports it.
    world.write(file, "{\"mcpServers\": ");
    let started = std::time::Instant::now();
    while !world.screen("doctor").contains("could not reload its configuration") {
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{}", world.screen("doctor"));
    }
    expect![[r#"
        FAIL  config   ~/.config/toolbooth/mcp.json:1:14: invalid JSON: the file ends
                       where a value is expected
        ok    gateway  running at http://127.0.0.1:PORT
        FAIL  gateway  the gateway could not reload its configuration, the last good one
                       is in force: ~/.config/toolbooth/mcp.json:1:14: invalid JSON: the
                       file ends where a value is expected
                       fix: correct it; the gateway reloads it automatically

        2 errors.
        --- exit 1
    "#]]
    .assert_eq(&world.screen("doctor"));
    world.write(file, &good);
    let started = std::time::Instant::now();
    while world.screen("doctor").contains("could not reload its configuration") {
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{}", world.screen("doctor"));
    }
    // In another folder, the command reads other files than the gateway.
    std::fs::create_dir_all(world.path("other")).unwrap();
    world.write("other/toolbooth.toml", "[naming]\nstyle = \"tool\"\n");
    let mut command = world.command(&words("doctor"));
    let shown = world.shown(&command.current_dir(world.path("other")).output().unwrap());
    assert!(shown.contains("uses other files"), "{shown}");
    drop(gateway);
}

#[test]
fn variables_that_only_this_shell_has_are_reported() {
    let servers = r#"{"mcpServers": {
        "sh": {"command": "/bin/sh", "args": ["SERVER"], "env": {"KEY": "${ONLY_HERE_KEY}"}}
    }}"#;
    let world = World::new(&[(".config/toolbooth/mcp.json", servers)]);
    let _gateway = world.serve();
    for line in ["doctor", "servers", "servers show sh", "servers connect sh"] {
        let mut command = world.command(&words(line));
        let shown = world.shown(&command.env("ONLY_HERE_KEY", "k").output().unwrap());
        let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let hint = "`ONLY_HERE_KEY` is set in this shell, but not for the running gateway";
        assert!(text.contains(hint), "{line}: {shown}");
        assert!(line != "doctor" || text.contains("FAIL server sh:"), "{shown}");
    }
}

#[test]
fn the_greeting_can_be_copied() {
    let world = World::new(&[("own.toml", "[servers.sh]\ncommand = \"/bin/sh\"\nargs = [\"SERVER\"]\n")]);
    let gateway = world.serve_with("--config ../own.toml --data-dir state");
    expect![[r#"
        Toolbooth 0.1.0 is listening on http://127.0.0.1:PORT

          Console       http://127.0.0.1:PORT/console/
          MCP endpoint  http://127.0.0.1:PORT/mcp

        Connect a client:
          /bin/toolbooth --config ~/work/../own.toml --data-dir ~/work/state connect claude-code       or cursor, vscode, codex, claude-desktop
          claude mcp add --scope user --transport http toolbooth http://127.0.0.1:PORT/mcp
          {"mcpServers": {"toolbooth": {"url": "http://127.0.0.1:PORT/mcp"}}}
          {"mcpServers": {"toolbooth": {"command": "/bin/toolbooth", "args": ["--config", "~/work/../own.toml", "--data-dir", "~/work/state", "stdio"]}}}

        1 server: sh
        `/bin/toolbooth --config ~/work/../own.toml --data-dir ~/work/state servers` shows their state, `/bin/toolbooth --config ~/work/../own.toml --data-dir ~/work/state tools list` lists their tools.
    "#]].assert_eq(&gateway.greeting);
}

#[test]
fn stray_output_of_a_server_is_shown() {
    let world = World::new(&[(
        ".config/toolbooth/mcp.json",
        r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["-c", "echo Listening on 8080; printf '\\033[1mbold\\n'; exec /bin/sh SERVER"]}}}"#,
    )]);
    let screen = world.screen("servers show sh");
    let noise: Vec<&str> = screen.lines().filter(|line| line.contains("noise")).collect();
    expect!["  noise      2 lines on standard output that are not messages;"].assert_eq(&noise.join("\n"));
    let logs = world.screen("servers logs sh");
    for line in [
        "(standard output, not a message) Listening on 8080\n",
        "(standard output, not a message) \\x1b[1mbold\n",
        "up and",
    ] {
        assert!(logs.contains(line), "{line:?} in {logs}");
    }
}

#[test]
fn a_url_that_is_not_an_mcp_endpoint_is_explained() {
    use std::io::{Read, Write};
    let cases = [
        ("forbidden", "403 Forbidden", "", ""),
        ("lost", "404 Not Found", "", "<!DOCTYPE html><p>Not here</p>"),
        ("moved", "307 Temporary Redirect", "Location: https://elsewhere.example/mcp?token=hunter2\r\n", ""),
        ("page", "200 OK", "Content-Type: text/html\r\n", "<!DOCTYPE html><title>Welcome</title>"),
        ("down", "502 Bad Gateway", "", "oh"),
    ];
    for (name, status, headers, body) in cases {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        std::thread::spawn(move || {
            for stream in listener.incoming().take(64) {
                let Ok(mut stream) = stream else { return };
                let mut heard = [0; 8192];
                let _ = stream.read(&mut heard);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let config = format!(r#"{{"mcpServers": {{"{name}": {{"url": "http://127.0.0.1:{port}/x"}}}}}}"#);
        let world = World::new(&[(".config/toolbooth/mcp.json", &config)]);
        let expected = match name {
            "forbidden" => expect![[r#"
                forbidden: error
                  transport  http
                  where      http://127.0.0.1:PORT/x
                  reason     server `forbidden` sent an answer that is not an MCP message: the
                             handshake failed: HTTP 403 Forbidden and an empty body
                             [server.bad-answer]
                  hint       it rejects the gateway's credential: check `auth` and `headers` of
                             the server
            "#]],
            "lost" => expect![[r#"
                lost: error
                  transport  http
                  where      http://127.0.0.1:PORT/x
                  reason     server `lost` sent an answer that is not an MCP message: the
                             handshake failed: HTTP 404 Not Found with an HTML page
                             [server.bad-answer]
                  hint       there is no MCP endpoint at this URL: check the path of `url`,
                             which is often `/mcp`
            "#]],
            "moved" => expect![[r#"
                moved: error
                  transport  http
                  where      http://127.0.0.1:PORT/x
                  reason     server `moved` sent an answer that is not an MCP message: the
                             handshake failed: HTTP 307 Temporary Redirect, a redirect to
                             https://elsewhere.example/mcp [server.bad-answer]
                  hint       redirects are not followed: set `url` to the address it redirects
                             to
            "#]],
            "page" => expect![[r#"
                page: error
                  transport  http
                  where      http://127.0.0.1:PORT/x
                  reason     server `page` sent an answer that is not an MCP message: the
                             handshake failed: HTTP 200 OK with an HTML page [server.bad-answer]
                  hint       the URL is not an MCP endpoint: check the path of `url`, which is
                             often `/mcp`
            "#]],
            _ => expect![[r#"
                down: error
                  transport  http
                  where      http://127.0.0.1:PORT/x
                  reason     server `down` failed during start-up: it answered HTTP 502 Bad
                             Gateway [server.start-failed]
                  hint       the server's own log may show the reason; the gateway retries
            "#]],
        };
        expected.assert_eq(&world.screen(&format!("servers show {name}")));
    }
}
