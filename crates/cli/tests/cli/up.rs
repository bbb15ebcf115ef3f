//! `toolbooth up`: a home with all clients, set up and restored.

use crate::world::{World, json, mode};
use expect_test::expect;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// One file per client. All but the extra server of Cursor are the same server.
const FILES: [(&str, &str, &str); 20] = [
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}",
    ),
    (
        "claude-code",
        ".claude.json",
        "{\"numStartups\": 3, \"mcpServers\": {}, \"projects\": {\"/gone\": {\"mcpServers\": {\"old\": {\"command\": \"old\"}}}}}",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\n  // mine\n  \"mcpServers\": {\n    \"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]},\n    \"keyed\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\", \"--api-key\", \"hunter2hunter2\"]},\n  },\n}\n",
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n\t\"servers\": {\n\t\t\"sh\": { \"type\": \"stdio\", \"command\": \"/bin/sh\", \"args\": [\"SERVER\"] }\n\t},\n\t\"inputs\": []\n}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "model = \"x\" # mine\n\n[mcp_servers.sh]\ncommand = \"/bin/sh\"\nargs = [\"SERVER\"]\n",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\"theme\": \"x\", /* ours */ \"mcp\": {\"allowed\": [\"sh\"]}, \"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}\n",
    ),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"], \"disabled\": false}}}",
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// head\n{\n  \"context_servers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}},\n  \"vim_mode\": true, // yes\n}\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\"mcp\": {\"sh\": {\"type\": \"local\", \"command\": [\"/bin/sh\", \"SERVER\"], \"enabled\": true}} /* all */}",
    ),
    (
        "cline",
        ".cline/data/settings/cline_mcp_settings.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"], \"autoApprove\": []}}}",
    ),
    (
        "roo",
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}",
    ),
    (
        "copilot",
        ".copilot/mcp-config.json",
        "{\"mcpServers\": {\"sh\": {\"type\": \"local\", \"command\": \"/bin/sh\", \"args\": [\"SERVER\"], \"tools\": [\"*\"]}}}",
    ),
    (
        "continue",
        ".continue/config.yaml",
        "name: x\n# mine\nmcpServers:\n  - name: sh\n    command: /bin/sh\n    args:\n      - SERVER\nrules: []\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "extensions:\n  developer: {type: builtin, name: developer, enabled: true}\n  sh:\n    type: stdio\n    cmd: /bin/sh\n    args: [SERVER]\n    enabled: true\n# tail\nGOOSE_MODEL: x\n",
    ),
    (
        "lm-studio",
        ".lmstudio/mcp.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}",
    ),
    (
        "amazon-q",
        ".aws/amazonq/mcp.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"], \"env\": {}}}}",
    ),
    (
        "kiro",
        ".kiro/settings/mcp.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}",
    ),
    (
        "warp",
        ".warp/.mcp.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}",
    ),
    (
        "jetbrains",
        ".junie/mcp/mcp.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}",
    ),
    (
        "qwen",
        ".qwen/settings.json",
        "{\"mcpServers\": {\"sh\": {\"command\": \"/bin/sh\", \"args\": [\"SERVER\"]}}}\n",
    ),
];

/// A home with the files of these clients.
fn home(clients: &[&str]) -> World {
    let wanted = |client: &str| clients.is_empty() || clients.contains(&client);
    let files: Vec<(&str, &str)> =
        FILES.iter().filter(|(client, ..)| wanted(client)).map(|(_, path, text)| (*path, *text)).collect();
    World::new(&files)
}

fn contents(world: &World) -> Vec<(String, u32)> {
    FILES.iter().map(|(_, path, _)| (world.read(path), mode(&world.path(path)))).collect()
}

fn contents_of(world: &World, clients: &[&str]) -> Vec<String> {
    FILES
        .iter()
        .filter(|(client, ..)| clients.contains(client))
        .map(|(_, path, _)| world.read(path))
        .collect()
}

#[test]
fn all_clients_are_set_up_and_restored_byte_for_byte() {
    use std::os::unix::fs::PermissionsExt;
    let world = home(&[]);
    std::fs::set_permissions(world.path(".cursor/mcp.json"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = contents(&world);
    let dry = world.screen("up --dry-run");
    assert!(dry.contains("+ keyed  /bin/sh ~/server.sh --api-key ${KEYED_API_KEY}"), "{dry}");
    assert!(!dry.contains("hunter2"), "{dry}");
    assert_eq!(contents(&world), before);
    let done = json(&world.run("up --yes --json"));
    assert_eq!(done["clients"]["connected"].as_array().map(Vec::len), Some(20), "{done}");
    assert_eq!(done["clients"]["failed"], serde_json::json!([]));
    let servers: Vec<_> = done["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (&server["name"], &server["state"]))
        .collect();
    assert_eq!(servers.len(), 2, "{servers:?}");
    assert!(servers.iter().all(|(_, state)| *state == "connected"), "{servers:?}");
    let script = world.path("server.sh");
    for (client, path, _) in FILES {
        let text = world.read(path);
        assert!(text.contains("toolbooth"), "{client}: {text}");
        assert!(!text.contains(script.to_str().unwrap()), "{client}: {text}");
    }
    assert_eq!(mode(&world.path(".cursor/mcp.json")), 0o640);
    let secrets = world.read(".config/toolbooth/imported.env");
    assert!(secrets.starts_with("KEYED_API_KEY=sealed:v1:") && !secrets.contains("hunter2"), "{secrets}");
    assert_eq!(mode(&world.path(".config/toolbooth/imported.env")), 0o600);
    let again = json(&world.run("up --yes --json"));
    assert!(
        again["plan"]["files"].as_array().unwrap().iter().all(|file| file["change"] == "none"),
        "{again}"
    );
    let undone = world.run("up --undo");
    assert!(undone.status.success(), "{}", world.shown(&undone));
    assert_eq!(contents(&world), before);
    assert!(!world.path(".config/toolbooth").exists());
    assert!(!world.path(".local/share/toolbooth/gateway.json").exists());
    world.assert_nothing_runs();
    world.check(
        "up --undo",
        expect![[r#"
            --- on standard error
            error[up.nothing-to-undo]: there is nothing to undo
            --- exit 2
        "#]],
    );
}

/// The file that is created for opencode if it has none.
const OPENCODE_NEW: &str = ".config/opencode/opencode.json";

/// The bytes of all files, and whether they are symbolic links.
fn bytes(world: &World) -> Vec<(Option<Vec<u8>>, bool)> {
    let paths = FILES.iter().map(|(_, path, _)| world.path(path));
    paths.map(|path| (std::fs::read(&path).ok(), path.is_symlink())).collect()
}

/// Sets up the clients and undoes it. All files must be as before; a link must stay one in between.
fn assert_restored(world: &World, connected: usize) {
    let before = bytes(world);
    let done = json(&world.run("up --yes --json"));
    assert_eq!(done["clients"]["connected"].as_array().map(Vec::len), Some(connected), "{done}");
    let between = bytes(world);
    let changed = before.iter().zip(&between).filter(|(before, between)| before.0 != between.0).count();
    // opencode gets a file with another name if it has none.
    let created = usize::from(world.path(OPENCODE_NEW).exists());
    assert_eq!(changed + created, connected);
    assert!(before.iter().zip(&between).all(|(before, between)| before.1 == between.1), "links stay links");
    let undone = world.run("up --undo");
    assert!(undone.status.success(), "{}", world.shown(&undone));
    for ((client, ..), (before, after)) in FILES.iter().zip(before.iter().zip(&bytes(world))) {
        assert!(before == after, "{client}: {before:?} became {after:?}");
    }
    assert!(!world.path(OPENCODE_NEW).exists());
    world.assert_nothing_runs();
}

#[test]
fn files_with_other_line_ends_and_byte_order_marks_are_restored() {
    let world = home(&[]);
    for (number, (_, path, _)) in FILES.iter().enumerate() {
        let mark = if number % 2 == 0 { "\u{feff}" } else { "" };
        let text = format!("{mark}{}", world.read(path).replace('\n', "\r\n"));
        std::fs::write(world.path(path), text).unwrap();
    }
    assert_restored(&world, FILES.len());
}

#[test]
fn files_behind_links_are_changed_and_restored_in_place() {
    let world = home(&[]);
    let dotfiles = world.path("dotfiles");
    std::fs::create_dir(&dotfiles).unwrap();
    for (client, path, _) in FILES {
        let (path, target) = (world.path(path), dotfiles.join(client));
        std::fs::rename(&path, &target).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
    }
    assert_restored(&world, FILES.len());
}

#[test]
fn files_that_did_not_exist_are_removed_again() {
    let world = home(&[]);
    for (_, path, _) in FILES {
        std::fs::remove_file(world.path(path)).unwrap();
    }
    // Claude Code keeps its file in the home folder, so nothing shows that it is installed.
    assert_restored(&world, FILES.len() - 1);
}

#[test]
fn lists_and_folders_of_clients_are_changed_and_restored() {
    let world = home(&["claude-code", "gemini", "continue"]);
    let files = [
        (
            ".claude/settings.json",
            "{\n  // ours\n  \"allowedMcpServers\": [{\"serverCommand\": [\"/bin/sh\"]}]\n}\n",
        ),
        (
            ".gemini/mcp-server-enablement.json",
            "{\"toolbooth\": {\"enabled\": false}, \"other\": {\"enabled\": false}}\n",
        ),
        (
            ".continue/mcpServers/sh.yaml",
            "name: x\n# mine\nmcpServers:\n  - name: sh\n    command: /bin/sh\n    args: [SERVER]\n",
        ),
    ];
    for (path, text) in files {
        world.write(path, text);
    }
    let before: Vec<String> = files.iter().map(|(path, _)| world.read(path)).collect();
    let clients = contents_of(&world, &["claude-code", "gemini", "continue"]);
    let plan = world.screen("up --dry-run");
    for expected in [
        "change ~/.claude/settings.json: `allowedMcpServers` allows `toolbooth`",
        "change ~/.gemini/settings.json: `mcp.allowed` allows `toolbooth`",
        "change ~/.continue/mcpServers/sh.yaml: without sh",
    ] {
        assert!(plan.contains(expected), "{expected}: {plan}");
    }
    let done = json(&world.run("up --yes --json"));
    assert_eq!(done["clients"]["connected"].as_array().map(Vec::len), Some(3), "{done}");
    assert!(world.read(".gemini/settings.json").contains("\"allowed\": [\"sh\", \"toolbooth\"]"));
    let settings = world.read(".claude/settings.json");
    assert!(settings.contains("// ours") && settings.contains("\"stdio\""), "{settings}");
    assert!(!world.read(".gemini/mcp-server-enablement.json").contains("toolbooth"));
    assert_eq!(world.read(".continue/mcpServers/sh.yaml"), "name: x\n# mine\nmcpServers: []\n");
    let again = json(&world.run("up --yes --json"));
    let unchanged = again["plan"]["files"].as_array().unwrap().iter().all(|file| file["change"] == "none");
    assert!(unchanged, "{again}");
    assert!(world.run("up --undo").status.success());
    let after: Vec<String> = files.iter().map(|(path, _)| world.read(path)).collect();
    assert_eq!((before, clients), (after, contents_of(&world, &["claude-code", "gemini", "continue"])));
    world.assert_nothing_runs();
}

#[test]
fn a_server_that_the_user_has_turned_off_does_not_run() {
    let world = home(&[]);
    for (_, path, _) in FILES.iter().filter(|(client, ..)| *client != "gemini") {
        std::fs::remove_file(world.path(path)).unwrap();
    }
    let text = world.read(".gemini/settings.json").replace("[\"sh\"]}", "[\"sh\"], \"excluded\": [\"sh\"]}");
    std::fs::write(world.path(".gemini/settings.json"), &text).unwrap();
    let done = json(&world.run("up --yes --json --client gemini"));
    assert_eq!(done["servers"][0]["state"], "disabled", "{done}");
    assert!(world.run("up --undo").status.success());
    assert_eq!(world.read(".gemini/settings.json"), text);
    world.assert_nothing_runs();
}

#[test]
fn a_taken_port_is_explained_and_no_client_is_changed() {
    let world = home(&["cursor"]);
    let before = world.read(".cursor/mcp.json");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let output = world.run(&format!("up --yes --set listen={address}"));
    let reply = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{reply}");
    let parts = ["error[listen.in-use]", "the setting `listen`", "hint: no client was changed"];
    for part in parts {
        assert!(reply.contains(part), "{part} is missing in {reply}");
    }
    assert_eq!(world.read(".cursor/mcp.json"), before);
    assert!(world.run("up --undo").status.success());
    assert!(!world.path(".config/toolbooth/imported.json").exists());
}

#[test]
fn without_a_terminal_nothing_is_changed_unless_confirmed() {
    let world = home(&["cursor", "goose"]);
    world.write(".kiro/settings/other.json", "{}");
    world.check(
        "up",
        expect![[r#"
            Cursor  ~/.cursor/mcp.json
              + sh     /bin/sh ~/server.sh
              + keyed  /bin/sh ~/server.sh --api-key ${KEYED_API_KEY}
                       `args.2` moves to ${KEYED_API_KEY}
            goose  ~/.config/goose/config.yaml
              - developer  `builtin` is built into the client
              - sh         is the same server as above
            Kiro  ~/.kiro/settings/mcp.json
              no servers

              import 2 servers into ~/.config/toolbooth/imported.json
              move their secrets to ~/.config/toolbooth/imported.env, sealed
              start the gateway in the background, or reload it
              change ~/.cursor/mcp.json: `toolbooth` in place of sh, keyed
              change ~/.config/goose/config.yaml: `toolbooth` in place of sh
              create ~/.kiro/settings/mcp.json: `toolbooth`
            --- on standard error
            Nothing was changed: without a terminal, `toolbooth up --yes` confirms.
        "#]],
    );
    assert!(!world.path(".config/toolbooth").exists());
    assert!(!world.path(".local/share/toolbooth/up").exists());
    world.assert_nothing_runs();
}

#[test]
fn the_running_gateway_is_not_imported_into_itself() {
    let world = World::new(&[]);
    let gateway = world.serve();
    let port = gateway.url.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let text = format!(
        r#"{{"mcpServers": {{"one": {{"url": "http://localhost:{port}/mcp"}}, "two": {{"url": "http://127.0.0.1:{port}/mcp"}}}}}}"#
    );
    world.write(".cursor/mcp.json", &text);
    let plan = &json(&world.run("up --dry-run --json"))["plan"]["import"];
    assert_eq!(plan["servers"], serde_json::json!([]), "{plan}");
    let reasons: Vec<_> = plan["skipped"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["is this gateway", "is this gateway"]);
    let import = world.screen("config import cursor");
    assert!(import.contains("is this gateway"), "{import}");
    assert!(gateway.stop());
}

#[test]
fn the_report_says_what_works_and_what_to_do_about_the_rest() {
    let world = home(&["cursor"]);
    world.write(
        ".kiro/settings/mcp.json",
        "{\"mcpServers\": {\"lost\": {\"command\": \"no-such-program\"}, \"off\": {\"command\": \"x\", \"disabled\": true}}}",
    );
    world.write(".qwen/settings.json", "{");
    let screen = world.screen("up --yes");
    let report = screen.split("\nThe gateway runs").nth(1).unwrap_or_else(|| panic!("{screen}"));
    for expected in [
        "2 servers work, with 4 tools:",
        "Disabled: off",
        "1 server does not work yet:",
        "lost: ",
        "Connected clients: Cursor, Kiro. Restart them.",
        "Qwen Code is not connected: ~/.qwen/settings.json: invalid JSON",
        "`toolbooth up --undo` undoes everything.",
        "--- exit 1",
    ] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    assert_eq!(world.read(".qwen/settings.json"), "{");
    assert!(world.run("up --undo").status.success());
    world.assert_nothing_runs();
}

#[test]
fn an_undo_leaves_files_that_were_changed_since() {
    let world = home(&["cursor", "gemini"]);
    let before = (world.read(".cursor/mcp.json"), world.read(".gemini/settings.json"));
    assert!(world.run("up --yes").status.success());
    let changed = world.read(".cursor/mcp.json").replace("// mine", "// yours");
    world.write(".cursor/mcp.json", &changed);
    let refused = world.screen("up --undo");
    assert!(
        refused.contains("left      ~/.cursor/mcp.json: it was changed after `toolbooth up`"),
        "{refused}"
    );
    assert!(refused.contains("error[up.changed-since]: 1 file was not restored"), "{refused}");
    assert!(refused.contains("--undo --merge"), "{refused}");
    assert!(refused.ends_with("--- exit 1\n"), "{refused}");
    assert_eq!((world.read(".cursor/mcp.json"), world.read(".gemini/settings.json")), (changed, before.1));
    let forced = world.screen("up --undo --force");
    assert!(forced.contains("restored  ~/.cursor/mcp.json"), "{forced}");
    assert_eq!(world.read(".cursor/mcp.json"), before.0);
    world.assert_nothing_runs();
}

#[test]
fn an_undo_can_keep_later_changes() {
    let world = home(&["claude-desktop", "gemini"]);
    let before = world.read(".config/Claude/claude_desktop_config.json");
    assert!(world.run("up --yes").status.success());
    let changed = world.read(".config/Claude/claude_desktop_config.json").replacen('{', "{\"later\": 1, ", 1);
    world.write(".config/Claude/claude_desktop_config.json", &changed);
    let merged = world.screen("up --undo --merge");
    assert!(merged.contains("merged    ~/.config/Claude/claude_desktop_config.json"), "{merged}");
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let mut expected = value(&before);
    expected["later"] = 1.into();
    assert_eq!(value(&world.read(".config/Claude/claude_desktop_config.json")), expected);
    world.assert_nothing_runs();
}

#[test]
fn one_client_is_set_up_and_restored_alone() {
    let world = home(&["cursor", "gemini"]);
    let before = (world.read(".cursor/mcp.json"), world.read(".gemini/settings.json"));
    assert!(world.run("up --yes --client cursor").status.success());
    assert_eq!(world.read(".gemini/settings.json"), before.1);
    assert!(world.run("up --yes --client gemini").status.success());
    assert!(world.run("up --undo --client gemini").status.success());
    assert_eq!(world.read(".gemini/settings.json"), before.1);
    assert_ne!(world.read(".cursor/mcp.json"), before.0);
    assert!(world.run("up --undo").status.success());
    assert_eq!(world.read(".cursor/mcp.json"), before.0);
    assert!(!world.path(".config/toolbooth").exists());
    world.assert_nothing_runs();
}

#[test]
fn a_tool_is_called_through_the_entry_of_a_client() {
    let world = home(&["goose"]);
    let before = world.read(".config/goose/config.yaml");
    assert!(world.run("up --yes").status.success());
    let text = world.read(".config/goose/config.yaml");
    let program = text.lines().find_map(|line| line.trim().strip_prefix("cmd: ")).unwrap().to_owned();
    assert!(text.contains("- stdio\n"), "{text}");
    let mut client = world.command(&["stdio".to_owned()]);
    assert_eq!(program, client.get_program().to_str().unwrap());
    let child = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |message: &str, id: &str| {
        writeln!(input, "{message}").unwrap();
        lines.by_ref().map_while(Result::ok).find(|line| line.contains(id)).unwrap()
    };
    ask(
        r#"{"jsonrpc":"2.0","id":71,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"goose","version":"1"}}}"#,
        "\"id\":71",
    );
    let answer = ask(
        r#"{"jsonrpc":"2.0","id":72,"method":"tools/call","params":{"name":"sh_probe","arguments":{"n":5}}}"#,
        "\"id\":72",
    );
    assert!(answer.contains(r#"{\"n\":5}"#), "{answer}");
    drop(input);
    child.wait().unwrap();
    assert!(world.run("up --undo").status.success());
    assert_eq!(world.read(".config/goose/config.yaml"), before);
    world.assert_nothing_runs();
}
