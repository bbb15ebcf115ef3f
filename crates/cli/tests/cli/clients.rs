//! `toolbooth connect`: changes one entry of a client's file, with undo.

use crate::world::World;
use expect_test::expect;

#[test]
fn every_client_gets_an_entry_in_its_format() {
    let world = World::new(&[]);
    world.check(
        "connect claude-code --dry-run",
        expect![[r#"
        This would be written to ~/.claude.json:

          {
            "mcpServers": {
              "toolbooth": {
                "type": "stdio",
                "command": "/bin/toolbooth",
                "args": ["stdio"]
              }
            }
          }
    "#]],
    );
    world.check(
        "connect vscode --dry-run --config extra.toml",
        expect![[r#"
        This would be written to ~/.config/Code/User/mcp.json:

          {
            "servers": {
              "toolbooth": {
                "type": "stdio",
                "command": "/bin/toolbooth",
                "args": ["--config", "~/work/extra.toml", "stdio"]
              }
            }
          }
    "#]],
    );
    world.check(
        "connect codex --dry-run",
        expect![[r#"
        This would be written to ~/.codex/config.toml:

          [mcp_servers.toolbooth]
          command = "/bin/toolbooth"
          args = ["stdio"]
    "#]],
    );
    world.check(
        "connect claude-desktop --dry-run",
        expect![[r#"
        This would be written to ~/.config/Claude/claude_desktop_config.json:

          {
            "mcpServers": {
              "toolbooth": {
                "command": "/bin/toolbooth",
                "args": ["stdio"]
              }
            }
          }
    "#]],
    );
    world.check(
        "connect cursor --dry-run --url http://127.0.0.1:8665/",
        expect![[r#"
        This would be written to ~/.cursor/mcp.json:

          {
            "mcpServers": {
              "toolbooth": {
                "url": "http://127.0.0.1:PORT/mcp"
              }
            }
          }
    "#]],
    );
    world.check(
        "connect claude-desktop --url http://127.0.0.1:8665/",
        expect![[r#"
            --- on standard error
            error[connect.no-url]: the configuration file of Claude Desktop does not
              support URLs

            hint: leave out --url: the client then starts `toolbooth stdio`
            --- exit 2
        "#]],
    );
}

#[test]
fn the_entry_keeps_the_persona() {
    let world = World::new(&[]);
    assert!(world.run("connect cursor --persona reader").status.success());
    let written: serde_json::Value = serde_json::from_str(&world.read(".cursor/mcp.json")).unwrap();
    let entry = &written["mcpServers"]["toolbooth"];
    assert_eq!(entry["args"], serde_json::json!(["--persona", "reader", "stdio"]), "{entry}");
}

// A package manager replaces the file behind the link at an update.
#[test]
fn the_entry_has_the_path_that_the_user_started() {
    let world = World::new(&[]);
    let link = world.path("bin/toolbooth");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolbooth"), &link).unwrap();
    let path =
        std::env::join_paths([world.path("bin").as_path(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    for (started, client, file) in [
        (link.as_os_str(), "cursor", ".cursor/mcp.json"),
        ("toolbooth".as_ref(), "kiro", ".kiro/settings/mcp.json"),
    ] {
        let mut command = std::process::Command::new(started);
        command.args(["connect", client]).current_dir(world.path("work")).env_clear();
        let output = command.env("HOME", world.path("")).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let written: serde_json::Value = serde_json::from_str(&world.read(file)).unwrap();
        let entry = &written["mcpServers"]["toolbooth"];
        assert_eq!(entry["command"].as_str(), link.to_str(), "{started:?}: {entry}");
    }
}

#[test]
fn a_client_is_connected_and_disconnected_without_a_trace() {
    let cases = [
        (
            "cursor",
            ".cursor/mcp.json",
            "{\n  // mine\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"fs\"}\n  }\n}\n",
        ),
        ("claude-code", ".claude.json", "{\"numStartups\":3,\"projects\":{}}"),
        ("vscode", ".config/Code/User/mcp.json", "{\n\t\"servers\": {},\n\t\"inputs\": []\n}\n"),
        ("codex", ".codex/config.toml", "model = \"x\" # mine\n"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "{}"),
    ];
    for (client, path, before) in cases {
        let world = World::new(&[(path, before)]);
        let report = world.screen(&format!("connect {client}"));
        assert!(report.contains("is connected."), "{client}: {report}");
        assert!(world.read(path).contains("toolbooth"), "{client}");
        assert_eq!(world.read(&format!("{path}.before-toolbooth")), before, "{client}");
        let again = world.screen(&format!("connect {client}"));
        assert!(again.contains("is already connected"), "{client}: {again}");
        let undone = world.screen(&format!("connect {client} --undo"));
        assert!(undone.contains("is disconnected"), "{client}: {undone}");
        assert_eq!(world.read(path), before, "{client}");
        assert!(!world.path(&format!("{path}.before-toolbooth")).exists(), "{client}");
    }
}

#[test]
fn connect_and_undo_report_their_changes() {
    let world = World::new(&[(".cursor/mcp.json", "{\"mcpServers\": {}}")]);
    world.check(
        "connect cursor",
        expect![[r#"
        Cursor is connected. Restart it to see the tools.
          wrote   ~/.cursor/mcp.json
          backup  ~/.cursor/mcp.json.before-toolbooth

        `toolbooth connect cursor --undo` undoes the change.
    "#]],
    );
    world.check(
        "connect cursor",
        expect![[r#"
        Cursor is already connected: ~/.cursor/mcp.json
    "#]],
    );
    world.check(
        "connect cursor --undo --dry-run",
        expect![[r#"
        The entry `toolbooth` would be removed from ~/.cursor/mcp.json.
    "#]],
    );
    world.check(
        "connect cursor --undo",
        expect![[r#"
        Cursor is disconnected. Restart it.
          restored  ~/.cursor/mcp.json
    "#]],
    );
    world.check(
        "connect cursor --undo",
        expect![[r#"
        Cursor is not connected; there is nothing to undo in ~/.cursor/mcp.json.
    "#]],
    );
}

#[test]
fn undo_removes_a_file_that_connect_created() {
    let world = World::new(&[]);
    world.run("connect cursor");
    assert!(world.path(".cursor/mcp.json").exists());
    world.run("connect cursor --undo");
    assert!(!world.path(".cursor/mcp.json").exists());
    // An empty folder would look like an installed client to `toolbooth up`.
    assert!(!world.path(".cursor").exists());
}

#[test]
fn undo_keeps_a_folder_with_other_files() {
    let world = World::new(&[(".cursor/argv.json", "{}")]);
    world.run("connect cursor");
    world.run("connect cursor --undo");
    assert!(!world.path(".cursor/mcp.json").exists());
    assert!(world.path(".cursor/argv.json").exists());
}

#[test]
fn undo_keeps_later_changes_of_the_client() {
    let world =
        World::new(&[(".cursor/mcp.json", "{\"mcpServers\": {\"toolbooth\": {\"url\": \"http://old\"}}}")]);
    world.run("connect cursor");
    let text = world.read(".cursor/mcp.json");
    world.write(".cursor/mcp.json", &text.replacen('{', "{\"new\": true, ", 1));
    world.run("connect cursor --undo");
    let value: serde_json::Value = serde_json::from_str(&world.read(".cursor/mcp.json")).unwrap();
    assert_eq!(value, serde_json::json!({"new": true, "mcpServers": {"toolbooth": {"url": "http://old"}}}));
}

#[test]
fn a_file_with_a_syntax_error_is_not_changed() {
    let world = World::new(&[(".cursor/mcp.json", "{\"mcpServers\": ")]);
    world.check(
        "connect cursor",
        expect![[r#"
        --- on standard error
        error[connect.unreadable]: the configuration file of Cursor,
          ~/.cursor/mcp.json, cannot be read: it is not valid JSON (line 1, column 16)

        hint: correct the file first; it was not changed
        --- exit 1
    "#]],
    );
    assert_eq!(world.read(".cursor/mcp.json"), "{\"mcpServers\": ");
}

#[test]
fn lists_of_allowed_servers_are_changed_and_restored() {
    let cases = [
        (
            "gemini",
            ".gemini/settings.json",
            ".gemini/settings.json",
            "{\n  \"mcp\": {\"allowed\": [\"fs\"]}, // ours\n  \"mcpServers\": {}\n}\n",
        ),
        (
            "claude-code",
            ".claude.json",
            ".claude/settings.json",
            "{\n  // ours\n  \"allowedMcpServers\": [{\"serverName\": \"fs\"}]\n}\n",
        ),
    ];
    for (client, servers, lists, before) in cases {
        let world = World::new(&[(servers, "{\"mcpServers\": {}}\n"), (lists, before)]);
        let servers_before = world.read(servers);
        let dry = world.screen(&format!("connect {client} --dry-run"));
        assert!(dry.contains(&format!("in ~/{lists} would allow `toolbooth`, too.")), "{client}: {dry}");
        assert_eq!(world.read(lists), before, "{client}");
        let report = world.screen(&format!("connect {client} --persona reader"));
        assert!(report.contains(&format!("in ~/{lists} allows `toolbooth`, too.")), "{client}: {report}");
        assert!(world.read(lists).contains("\"toolbooth\""), "{client}");
        let again = world.screen(&format!("connect {client} --persona reader"));
        assert!(again.contains("is already connected"), "{client}: {again}");
        let undone = world.screen(&format!("connect {client} --undo"));
        assert!(undone.contains("is disconnected"), "{client}: {undone}");
        assert_eq!((world.read(lists), world.read(servers)), (before.to_owned(), servers_before), "{client}");
        assert!(!world.path(&format!("{lists}.before-toolbooth")).exists(), "{client}");
    }
}

// A client that the desktop starts does not have the variables of the shell.
#[test]
fn the_entry_and_the_service_keep_the_chosen_folders() {
    let world = World::new(&[]);
    let run = |line: &[&str], variables: &[(&str, &str)]| {
        let mut command = world.command(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        for (name, folder) in variables {
            command.env(name, world.path(folder));
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        world.short(&String::from_utf8(output.stdout).unwrap())
    };
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("TOOLBOOTH_DATA_DIR", "d")], "\"args\": [\"--data-dir\", \"~/d\", \"stdio\"]"),
        (&[("XDG_DATA_HOME", "x")], "\"args\": [\"--data-dir\", \"~/x/toolbooth\", \"stdio\"]"),
        (&[("XDG_CONFIG_HOME", "c")], "\"XDG_CONFIG_HOME\": \"~/c\""),
        (&[("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share")], "\"args\": [\"stdio\"]\n"),
    ];
    for (variables, expected) in cases {
        let shown = run(&["connect", "cursor", "--dry-run"], variables);
        assert!(shown.contains(expected), "{variables:?}: {shown}");
    }
    let unit = run(
        &["service", "install", "--dry-run", "--manager", "systemd"],
        &[("TOOLBOOTH_DATA_DIR", "d"), ("XDG_CONFIG_HOME", "c")],
    );
    for expected in ["ExecStart=/bin/toolbooth --data-dir ~/d serve", "Environment=XDG_CONFIG_HOME=~/c\n"] {
        assert!(unit.contains(expected), "{expected}: {unit}");
    }
}

#[test]
fn the_home_folder_of_the_account_counts_without_home() {
    let world = World::new(&[]);
    let words = ["connect", "cursor", "--dry-run", "--json"].map(str::to_owned);
    let output = world.command(&words).env_remove("HOME").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains(".cursor/mcp.json"), "{said}");
}
