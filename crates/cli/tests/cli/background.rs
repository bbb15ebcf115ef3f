//! The gateway in the background, as a service, and its upgrade.

use crate::world::{World, words};
use expect_test::expect;
use std::os::unix::fs::PermissionsExt;

/// A home whose gateway is stopped at the end of the test.
struct StartedWorld(World);

impl Drop for StartedWorld {
    fn drop(&mut self) {
        let _ = self.0.run("stop --force");
    }
}

#[test]
fn an_address_for_one_run_comes_with_the_setting_that_keeps_it() {
    let world = StartedWorld(World::new(&[]));
    let world = &world.0;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let started = world.run(&format!("start --listen {free}"));
    let printed = String::from_utf8(started.stdout).unwrap();
    assert!(printed.contains(&format!("http://127.0.0.1:{free}/mcp")), "{printed}");
    assert!(printed.contains(&format!("`listen = {free}`")), "{printed}");
    let plain = world.screen("start");
    assert!(!plain.contains("`listen = "), "{plain}");
    let other = world.screen("start --listen 1");
    assert!(other.contains("warning: `--listen 1` was not used, because a gateway is running"), "{other}");
    assert!(world.run("stop").status.success());
}

#[test]
fn start_says_what_clients_will_see() {
    let world = StartedWorld(World::with_server());
    let world = &world.0;
    world.check(
        "start",
        expect![[r#"
            Toolbooth 0.1.0 is running in the background: http://127.0.0.1:PORT (process PID)

              Console       http://127.0.0.1:PORT/console/
              MCP endpoint  http://127.0.0.1:PORT/mcp
              Log           ~/.local/share/toolbooth/gateway.log

            Clients will see:
              claude-code, codex, cursor, vscode: all 2 tools (the client defers tools on
                its own)
              claude-desktop, gemini, other clients: all 2 tools (all definitions fit into
                `exposure.tool_tokens` (10000))

            `toolbooth connect CLIENT` connects a client, `toolbooth servers add` adds
            a server, `toolbooth stop` stops the gateway.
        "#]],
    );
    let again = world.screen("start");
    assert!(
        again.starts_with("Toolbooth 0.1.0 was already running: http://127.0.0.1:PORT (process PID)\n"),
        "{again}"
    );
    let status = world.screen("status");
    for part in [
        "Toolbooth 0.1.0 is running: http://127.0.0.1:PORT\n",
        "servers   1 connected\n",
        "log       ~/.local/share/toolbooth/gateway.log\n",
        "Clients will see:",
    ] {
        assert!(status.contains(part), "{part} is missing in {status}");
    }
    let stopped = world.screen("stop");
    assert!(
        stopped.starts_with("Stopped the gateway at http://127.0.0.1:PORT (process PID) after "),
        "{stopped}"
    );
    world.assert_nothing_runs();
    world.check(
        "stop",
        expect![[r#"
            No gateway is running.
        "#]],
    );
    world.check(
        "status",
        expect![[r#"
            No gateway is running. `toolbooth start` starts one.
            The log of the last gateway in the background is ~/.local/share/toolbooth/gateway.log.
            --- exit 5
        "#]],
    );
    let gateway = world.serve();
    let status = world.screen("status");
    assert!(!status.contains("gateway.log"), "a gateway in the foreground logs elsewhere: {status}");
    assert!(gateway.stop());
}

/// Writes a program that records its arguments into `calls.txt`.
fn fake_program(world: &World, name: &str, script: &str) {
    world.write(
        &format!("bin/{name}"),
        &format!("#!/bin/sh\necho \"{name} $*\" >> \"$HOME/calls.txt\"\n{script}"),
    );
    std::fs::set_permissions(world.path(&format!("bin/{name}")), std::fs::Permissions::from_mode(0o755))
        .unwrap();
}

fn with_bin(world: &World, line: &str) -> String {
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let output = world.command(&words(line)).env("PATH", path).output().unwrap();
    world.shown(&output)
}

#[test]
fn the_doctor_does_not_report_variables_that_only_the_gateway_has() {
    let servers = r#"{"mcpServers": {
        "sh": {"command": "/bin/sh", "args": ["SERVER"], "env": {"KEY": "${ONLY_THERE_KEY}"}}
    }}"#;
    let world = StartedWorld(World::new(&[(".config/toolbooth/mcp.json", servers)]));
    let world = &world.0;
    let started = world.command(&words("start")).env("ONLY_THERE_KEY", "k").output().unwrap();
    assert!(started.status.success(), "{}", world.shown(&started));
    let connected = world.screen("servers connect sh");
    assert!(connected.starts_with("sh: connected"), "{connected}");
    let shown = world.screen("doctor");
    assert!(!shown.contains("ONLY_THERE_KEY") && shown.contains("sh: connected"), "{shown}");
}

#[test]
fn a_service_is_a_file_of_the_user() {
    let world = World::new(&[]);
    world.check(
        "service install --dry-run --manager systemd",
        expect![[r#"
            This would be written to ~/.config/systemd/user/toolbooth.service:

            # Written by `toolbooth service install`; `toolbooth service uninstall` removes it.
            [Unit]
            Description=Toolbooth, a gateway for the tools of AI agents
            StartLimitIntervalSec=120
            StartLimitBurst=5

            [Service]
            ExecStart=/bin/toolbooth serve
            ExecReload=/bin/kill -HUP $MAINPID
            WorkingDirectory=~/
            Environment=PATH=/usr/bin:/bin
            Restart=on-failure
            RestartSec=5
            RestartPreventExitStatus=2
            KillMode=mixed
            TimeoutStopSec=25

            [Install]
            WantedBy=default.target
        "#]],
    );
    fake_program(&world, "systemctl", "exit 0\n");
    let installed = with_bin(&world, "service install --no-start --manager systemd");
    assert!(
        installed.starts_with("Wrote ~/.config/systemd/user/toolbooth.service.\nStart it with:\n"),
        "{installed}"
    );
    assert!(!world.path("calls.txt").exists(), "nothing was started");
    let removed = with_bin(&world, "service uninstall --manager systemd");
    assert_eq!(
        removed,
        "The service was stopped, and ~/.config/systemd/user/toolbooth.service was removed.\n"
    );
    assert!(world.read("calls.txt").starts_with("systemctl --user disable --now toolbooth.service\n"));
    assert!(!world.path(".config/systemd/user/toolbooth.service").exists());
    let twice = with_bin(&world, "service uninstall --manager systemd");
    assert!(twice.starts_with("No service is installed"), "{twice}");
}

#[test]
fn a_service_that_cannot_be_started_is_reported() {
    let world = World::new(&[]);
    fake_program(&world, "systemctl", "echo 'Failed to connect to bus' >&2\nexit 1\n");
    let failed = with_bin(&world, "service install --manager systemd");
    assert!(
        failed.contains("The service was not started: `systemctl --user daemon-reload` failed"),
        "{failed}"
    );
    assert!(failed.contains("Failed to connect to bus") && failed.ends_with("--- exit 1\n"), "{failed}");
}

#[test]
fn a_service_file_of_others_is_not_changed() {
    let world = World::new(&[(".config/systemd/user/toolbooth.service", "[Service]\nExecStart=/bin/true\n")]);
    for line in ["service install --no-start --manager systemd", "service uninstall --manager systemd"] {
        let refused = world.screen(line);
        assert!(
            refused.contains("error[service.not-ours]") && refused.ends_with("--- exit 2\n"),
            "{refused}"
        );
    }
    assert_eq!(world.read(".config/systemd/user/toolbooth.service"), "[Service]\nExecStart=/bin/true\n");
}

#[test]
fn upgrade_names_the_command() {
    let world = World::new(&[]);
    let screen = world.screen("upgrade");
    assert!(screen.contains("It was installed ") && screen.contains("To upgrade it:\n\n  "), "{screen}");
}

/// A second project's servers were silently ignored while a gateway ran from elsewhere.
#[test]
fn servers_of_another_folder_are_mentioned() {
    let world = World::with_server();
    world.write("other/.mcp.json", r#"{"mcpServers": {"mine": {"command": "/bin/sh", "args": ["SERVER"]}}}"#);
    let gateway = world.serve();
    let notice =
        "The servers in .mcp.json of this folder (mine) are for clients that run `toolbooth stdio` here";
    for line in ["servers", "status"] {
        let here = world.screen(line);
        assert!(!here.contains("of this folder"), "{here}");
        let output = world.command(&words(line)).current_dir(world.path("other")).output().unwrap();
        let there = world.shown(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(there.contains(notice), "{line}: {there}");
    }
    assert!(gateway.stop());
}
