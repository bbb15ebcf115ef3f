//! The clients' files, with golden files in `tests/golden/clients`: what is imported, and the file after `toolbooth up`.
//! `UPDATE_EXPECT=1` writes them, and the pages of the guide, again.

use crate::world::World;
use expect_test::{expect, expect_file};
use std::path::{Path, PathBuf};
use toolbooth_config::clients::{
    CLIENTS, ClientDocument, ClientId, GATEWAY_NAME, GatewayEntry, admit_in_file, client_page, clients_index,
    put_back, rewire, take_from_file, withdraw_from_file,
};
use toolbooth_config::import::{ImportFrom, ImportPlan, plan, plan_clients};
use toolbooth_config::parse::Syntax;

/// The variables that the clients' files name.
const VARIABLES: [&str; 15] = [
    "DATA_DIR",
    "DOCS_HOME",
    "FIGMA_KEY",
    "GH_KEY",
    "HARBOR_KEY",
    "HOME",
    "MAPS_KEY",
    "ORG",
    "REMOTE_TOKEN",
    "SPECS_KEY",
    "SQLITE_KEY",
    "TIDE_KEY",
    "TIDE_TOKEN",
    "TOOL_KEY",
    "WATCH_TOKEN",
];

fn golden(client: ClientId) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/clients").join(client.as_str())
}

fn extension(client: ClientId) -> &'static str {
    match client.spec().syntax {
        Syntax::Json => "json",
        Syntax::Toml => "toml",
        Syntax::Yaml => "yaml",
    }
}

fn stdio() -> GatewayEntry {
    GatewayEntry::stdio("/bin/toolbooth", vec!["stdio".into()])
}

/// The gateway's entry as a client has it.
fn words(client: ClientId) -> serde_json::Value {
    client.spec().entry(GATEWAY_NAME, &stdio()).unwrap()
}

/// A machine with the golden file of a client, and the text of that file.
fn machine(client: ClientId) -> (World, String) {
    let world = World::new(&[]).env(&VARIABLES.map(|name| (name, "value")));
    std::fs::create_dir_all(world.path("home/build")).unwrap();
    let before = golden(client).join(format!("before.{}", extension(client)));
    let before = std::fs::read_to_string(before).unwrap();
    let before = before.replace("PROJECT", world.path("work").to_str().unwrap());
    let file = client.default_file(&world.sources).unwrap();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, &before).unwrap();
    // The files that entries name in `envFile`.
    std::fs::write(world.path("home/build/.env"), "# mine\nBUILD_KEY=hunter2\nBUILD_MODE=\"fast\"\n")
        .unwrap();
    std::fs::write(file.with_file_name("keyed.env"), "export KEYED_PW='hunter2$x'\n").unwrap();
    (world, before)
}

fn planned(world: &World, client: ClientId) -> ImportPlan {
    let (plan, unreadable) = plan_clients(&world.sources, &[client]).unwrap();
    assert!(unreadable.is_empty(), "{client}: {unreadable:?}");
    plan
}

#[test]
fn the_servers_of_every_client_are_imported() {
    for client in ClientId::all() {
        let (world, _) = machine(client);
        let plan = planned(&world, client);
        let entries = serde_json::to_string_pretty(&plan.entries()).unwrap();
        let text = world.short(&format!("{plan}{entries}\n"));
        assert!(!text.contains("hunter2"), "{client}: {text}");
        expect_file![golden(client).join("imported.txt")].assert_eq(&text);
        plan.apply().unwrap();
        let loaded = world.load().unwrap();
        for server in &loaded.servers {
            let state = server.state.as_str();
            assert!(
                matches!(state, "ready" | "disabled"),
                "{client}: {} {state} {}",
                server.name,
                world.report()
            );
        }
    }
}

#[test]
fn the_file_of_every_client_is_rewired() {
    for client in ClientId::all() {
        let (world, before) = machine(client);
        let plan = planned(&world, client);
        let after =
            rewire(client, &before, &stdio(), &plan.covered).unwrap_or_else(|why| panic!("{client}: {why}"));
        expect_file![golden(client).join(format!("after.{}", extension(client)))]
            .assert_eq(&world.short(&after));
        let document = ClientDocument::parse(client, &after).unwrap();
        assert_eq!(document.get(GATEWAY_NAME), client.spec().entry(GATEWAY_NAME, &stdio()), "{client}");
        for place in plan.covered.iter().filter(|place| place.section == document.section()) {
            assert_eq!(document.get(&place.name), None, "{client}: {}", place.name);
        }
        // A second run finds nothing to import, and writes the same entry.
        std::fs::write(client.default_file(&world.sources).unwrap(), &after).unwrap();
        assert!(planned(&world, client).servers.is_empty(), "{client}");
        let again = rewire(client, &after, &stdio(), &[]).unwrap();
        let again = ClientDocument::parse(client, &again).unwrap().value().unwrap();
        assert_eq!(again, document.value().unwrap(), "{client}");
    }
}

#[test]
fn an_empty_file_of_every_client_can_be_connected() {
    for client in ClientId::all() {
        let text = rewire(client, "", &stdio(), &[]).unwrap_or_else(|why| panic!("{client}: {why}"));
        let mut document = ClientDocument::parse(client, &text).unwrap();
        assert_eq!(document.disconnect(None), Ok(true), "{client}");
        assert!(document.is_empty(), "{client}: {}", document.text());
    }
}

#[test]
fn every_client_has_its_own_form_of_a_url() {
    let entry = GatewayEntry::Http { url: "U".into() };
    let line = |client: ClientId| match client.spec().entry(GATEWAY_NAME, &entry) {
        Some(words) => format!("{client}: {words}\n"),
        None => format!("{client}: not supported\n"),
    };
    expect![[r#"
        claude-desktop: not supported
        claude-code: {"type":"http","url":"U"}
        cursor: {"url":"U"}
        vscode: {"type":"http","url":"U"}
        codex: {"url":"U"}
        gemini: {"type":"http","url":"U"}
        windsurf: {"serverUrl":"U"}
        zed: {"url":"U"}
        opencode: {"type":"remote","url":"U","enabled":true}
        cline: {"type":"streamableHttp","url":"U"}
        roo: {"type":"streamable-http","url":"U"}
        copilot: {"type":"http","url":"U","tools":["*"]}
        continue: {"name":"toolbooth","type":"streamable-http","url":"U"}
        goose: {"name":"toolbooth","type":"streamable_http","uri":"U","enabled":true,"timeout":300}
        lm-studio: {"url":"U"}
        amazon-q: {"type":"http","url":"U"}
        kiro: {"url":"U"}
        warp: {"url":"U"}
        jetbrains: not supported
        qwen: {"httpUrl":"U"}
    "#]]
    .assert_eq(&ClientId::all().map(line).collect::<String>());
}

#[test]
fn one_server_of_two_clients_is_imported_once() {
    let world = World::new(&[
        ("home/.cursor/mcp.json", r#"{"mcpServers": {"fs": {"command": "fs", "env": {"KEY": "hunter2"}}}}"#),
        (
            "home/.claude.json",
            r#"{"mcpServers": {"fs": {"type": "stdio", "command": "fs", "args": [], "env": {"KEY": "hunter2"}}}}"#,
        ),
        ("home/.gemini/settings.json", r#"{"mcpServers": {"fs": {"command": "other"}}}"#),
        ("home/.qwen/settings.json", "{"),
    ]);
    let clients: Vec<ClientId> = ClientId::all().collect();
    let (plan, unreadable) = plan_clients(&world.sources, &clients).unwrap();
    let names: Vec<&str> = plan.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["fs", "fs-2"]);
    assert_eq!(plan.covered.len(), 3, "the copy is replaced too: {:?}", plan.covered);
    assert_eq!(unreadable.len(), 1);
    assert_eq!(unreadable[0].client, ClientId::Qwen);
}

#[test]
fn an_entry_that_leads_to_the_running_gateway_is_not_imported() {
    let text = r#"{"mcpServers": {"gw": {"url": "http://localhost:18665/mcp"}, "fs": {"command": "fs"}}}"#;
    let mut world = World::new(&[("home/.cursor/mcp.json", text)]);
    let names = |world: &World| -> Vec<String> {
        planned(world, ClientId::Cursor).servers.into_iter().map(|server| server.name).collect()
    };
    assert_eq!(names(&world), ["gw", "fs"], "no gateway has this port");
    world.sources.gateway_url = Some("http://127.0.0.1:18665".to_owned());
    assert_eq!(names(&world), ["fs"]);
    world.sources.gateway_url = None;
    world.write("user/toolbooth.toml", "listen = 18665\n");
    assert_eq!(names(&world), ["fs"]);
}

#[test]
fn a_secret_does_not_become_the_variable_of_another_server() {
    let world = World::new(&[
        (
            "home/.cursor/mcp.json",
            r#"{"mcpServers": {"tide": {"command": "tide", "args": ["--token", "hunter2"]}, "set": {"command": "s", "env": {"SET_KEY": "hunter2b"}}}}"#,
        ),
        (
            "home/.codex/config.toml",
            "[mcp_servers.other]\nurl = \"https://o/mcp\"\nbearer_token_env_var = \"TIDE_TOKEN\"\n",
        ),
    ]);
    let world = world.env(&[("SET_KEY", "of the process")]);
    let (plan, _) = plan_clients(&world.sources, &[ClientId::Cursor, ClientId::Codex]).unwrap();
    let moved: Vec<&str> =
        plan.servers.iter().flat_map(|server| &server.moved).map(|moved| moved.variable.as_str()).collect();
    assert_eq!(moved, ["TIDE_TOKEN_2", "SET_KEY_2"]);
    assert_eq!(plan.entries()["other"]["auth_token"], "${TIDE_TOKEN}");
}

#[test]
fn a_large_file_of_a_client_is_imported() {
    let history: Vec<String> = (0..300_000).map(|number| format!("\"question {number}\"")).collect();
    let text = format!(
        r#"{{"history": [{}], "mcpServers": {{"a": {{"command": "a"}}}}, "projects": {{}}}}"#,
        history.join(",")
    );
    let world = World::new(&[("home/.claude.json", &text)]);
    let plan = planned(&world, ClientId::ClaudeCode);
    assert_eq!(plan.servers[0].name, "a");
    let after = rewire(ClientId::ClaudeCode, &text, &stdio(), &plan.covered).unwrap();
    assert!(after.contains("question 299999") && after.contains(GATEWAY_NAME));
}

#[test]
fn a_byte_order_mark_stays() {
    let text = "\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}";
    let after = rewire(ClientId::Cursor, text, &stdio(), &[]).unwrap();
    assert!(after.starts_with("\u{feff}{"), "{after}");
}

#[test]
fn nested_servers_of_opencode_are_found_and_rewired() {
    let text = r#"{"mcp": {"servers": {"a": {"type": "local", "command": ["a"]}}, "timeout": 5}}"#;
    let world = World::new(&[]);
    let file = ClientId::Opencode.default_file(&world.sources).unwrap();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    let plan = planned(&world, ClientId::Opencode);
    assert_eq!(plan.covered[0].section, ["mcp", "servers"]);
    let after = rewire(ClientId::Opencode, text, &stdio(), &plan.covered).unwrap();
    let value = ClientDocument::parse(ClientId::Opencode, &after).unwrap().value().unwrap();
    assert_eq!(value["mcp"]["servers"][GATEWAY_NAME]["type"], "local");
    assert_eq!(value["mcp"]["servers"].as_object().unwrap().len(), 1);
    assert_eq!(value["mcp"]["timeout"], 5);
}

/// A home with servers of a client, and a file with a list of servers.
fn with_list(client: ClientId, list: (&str, &str)) -> World {
    let world = World::new(&[list]);
    let file = client.default_file(&world.sources).unwrap();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = r#"{"mcpServers": {"fs": {"command": "fs", "args": ["--ro"]}, "Web": {"type": "http", "url": "https://web.example/mcp"}}}"#;
    std::fs::write(file, text).unwrap();
    world
}

#[test]
fn servers_that_a_list_turns_off_are_imported_as_disabled() {
    use ClientId::{ClaudeCode, Copilot, Gemini};
    let cases = [
        (ClaudeCode, "home/.claude/settings.json", r#"{"deniedMcpServers": [{"serverName": "fs"}]}"#, "fs"),
        (
            ClaudeCode,
            "home/.claude/settings.json",
            r#"{"deniedMcpServers": [{"serverUrl": "https://web.*"}]}"#,
            "Web",
        ),
        (
            ClaudeCode,
            "home/.claude/settings.json",
            r#"{"allowedMcpServers": [{"serverCommand": ["fs", "--ro"]}]}"#,
            "Web",
        ),
        (
            Gemini,
            "home/.gemini/mcp-server-enablement.json",
            r#"{"web": {"enabled": false}, "fs": {"enabled": true}}"#,
            "Web",
        ),
        (Copilot, "home/.copilot/settings.json", r#"{"disabledMcpServers": ["fs"]} // mine"#, "fs"),
    ];
    for (client, path, text, expected) in cases {
        let world = with_list(client, (path, text));
        let plan = planned(&world, client);
        let disabled: Vec<String> = plan
            .entries()
            .into_iter()
            .filter(|(_, entry)| entry.get("enabled").is_some_and(|enabled| enabled == false))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(disabled, [expected], "{text}");
        plan.apply().unwrap();
        let loaded = world.load().unwrap();
        assert_eq!(loaded.server(expected).unwrap().state.as_str(), "disabled", "{text}");
    }
}

#[test]
fn the_gateway_is_added_to_lists_of_allowed_servers() {
    use ClientId::{ClaudeCode, Copilot, Gemini};
    let cases = [
        (
            ClaudeCode,
            "settings.json",
            "{\n  // ours\n  \"allowedMcpServers\": [\n    {\"serverName\": \"fs\"}\n  ]\n}\n",
            Some(
                "{\n  // ours\n  \"allowedMcpServers\": [\n    {\"serverName\": \"fs\"},\n    {\n      \"serverName\": \"toolbooth\"\n    }\n  ]\n}\n",
            ),
        ),
        (ClaudeCode, "settings.json", r#"{"allowedMcpServers": [{"serverName": "toolbooth"}]}"#, None),
        (ClaudeCode, "settings.json", r#"{"model": "x"}"#, None),
        (
            Gemini,
            "mcp-server-enablement.json",
            r#"{"toolbooth": {"enabled": false}, "fs": {}}"#,
            Some(r#"{ "fs": {}}"#),
        ),
        (
            Copilot,
            "settings.json",
            r#"{"disabledMcpServers": ["a", "toolbooth"]}"#,
            Some(r#"{"disabledMcpServers": ["a"]}"#),
        ),
    ];
    for (client, name, before, expected) in cases {
        let admitted = admit_in_file(client, Path::new(name), before, &words(client)).unwrap();
        assert_eq!(admitted.as_ref().map(|(text, _)| text.as_str()), expected, "{before}");
        let Some((after, _)) = admitted.filter(|_| client == ClaudeCode) else { continue };
        let withdrawn = withdraw_from_file(client, Path::new(name), &after, Some(before)).unwrap();
        let value = |text: &str| ClientDocument::parse(client, text).unwrap().value().unwrap();
        assert_eq!(value(&withdrawn.unwrap()), value(before));
    }
}

#[test]
fn servers_of_a_project_file_that_claude_code_does_not_use_are_disabled() {
    let servers = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}}}"#;
    let world = World::new(&[
        ("work/.mcp.json", servers),
        (
            "work/.claude/settings.local.json",
            r#"{"disabledMcpjsonServers": ["a"], "enabledMcpjsonServers": ["c"]}"#,
        ),
    ]);
    let work = world.path("work");
    let text = format!(
        r#"{{"projects": {{"{}": {{"disabledMcpServers": ["b"]}}, "/x": {{"disabledMcpServers": ["c"]}}}}}}"#,
        work.display()
    );
    world.write("home/.claude.json", &text);
    let plan = plan(&world.sources, &ImportFrom::File(work.join(".mcp.json"))).unwrap();
    let disabled: Vec<String> = plan
        .entries()
        .into_iter()
        .filter(|(_, entry)| entry.get("enabled").is_some_and(|enabled| enabled == false))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(disabled, ["a", "b"]);
}

/// A home with a file of Continue in its folder of servers, in each syntax.
fn with_folder() -> (World, [(&'static str, &'static str); 3]) {
    let files = [
        (
            "home/.continue/mcpServers/one.yaml",
            "name: One\nversion: 0.0.1\nschema: v1\n# mine\nmcpServers:\n  # about it\n  - name: one\n    command: one\n    env:\n      KEY: ${{ secrets.ONE_KEY }}\n",
        ),
        (
            "home/.continue/mcpServers/two.json",
            "{\n  // mine\n  \"mcpServers\": {\"two\": {\"command\": \"two\"}}\n}\n",
        ),
        ("home/.continue/mcpServers/notes.md", "notes"),
    ];
    (World::new(&files), files)
}

#[test]
fn the_files_in_the_folder_of_a_client_are_imported_and_restored() {
    let (world, files) = with_folder();
    let plan = planned(&world, ClientId::Continue);
    let names: Vec<&str> = plan.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    let expected = [
        expect![[r#"
            name: One
            version: 0.0.1
            schema: v1
            # mine
            mcpServers: []
              # about it
        "#]],
        expect![[r#"
            {
              // mine
              "mcpServers": {}
            }
        "#]],
    ];
    for ((path, text), expected) in files.iter().zip(expected) {
        let path = world.path(path);
        let places: Vec<_> = plan.covered.iter().filter(|place| place.file == path).cloned().collect();
        let after = take_from_file(ClientId::Continue, &path, text, &places).unwrap();
        expected.assert_eq(&after);
        let restored = put_back(ClientId::Continue, &path, &after, text).unwrap();
        let value = |text: &str| ClientDocument::parse_file(ClientId::Continue, &path, text).unwrap().value();
        assert_eq!(value(&restored), value(text));
    }
}

#[test]
fn files_of_a_project_are_imported() {
    let world = World::new(&[
        ("work/.continue/mcpServers/p.yml", "mcpServers:\n  - name: p\n    command: p\n"),
        ("work/.github/mcp.json", r#"{"bare": {"type": "local", "command": "bare", "tools": ["*"]}}"#),
    ]);
    for (client, expected) in [(ClientId::Continue, "p"), (ClientId::Copilot, "bare")] {
        let plan = plan(&world.sources, &ImportFrom::Client(client)).unwrap();
        let names: Vec<&str> = plan.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, [expected]);
    }
}

#[test]
fn files_are_found_where_variables_name_them() {
    let variables = [
        ("CLAUDE_CONFIG_DIR", ClientId::ClaudeCode, ".claude.json"),
        ("CODEX_HOME", ClientId::Codex, "config.toml"),
        ("GEMINI_CLI_HOME", ClientId::Gemini, ".gemini/settings.json"),
        ("QWEN_HOME", ClientId::Qwen, "settings.json"),
        ("COPILOT_HOME", ClientId::Copilot, "mcp-config.json"),
        ("CONTINUE_GLOBAL_DIR", ClientId::Continue, "config.yaml"),
        ("OPENCODE_CONFIG_DIR", ClientId::Opencode, "opencode.json"),
        ("GOOSE_PATH_ROOT", ClientId::Goose, "config/config.yaml"),
        ("VSCODE_PORTABLE", ClientId::Vscode, "user-data/User/mcp.json"),
    ];
    for (variable, client, file) in variables {
        let world = World::new(&[]).env(&[(variable, "/elsewhere")]);
        let expected = Path::new("/elsewhere").join(file);
        assert_eq!(client.default_file(&world.sources), Some(expected.clone()), "{variable}");
        assert_eq!(ClientId::of_file_here(&expected, &world.sources), Some(client), "{variable}");
    }
}

#[test]
fn the_variables_of_the_gateway_are_written_in_the_field_of_each_client() {
    let env = [("XDG_CONFIG_HOME".to_owned(), "/c d".to_owned())].into();
    let entry = GatewayEntry::Stdio { command: "/bin/toolbooth".into(), args: vec!["stdio".into()], env };
    for client in ClientId::all() {
        let text = rewire(client, "", &entry, &[]).unwrap_or_else(|why| panic!("{client}: {why}"));
        let words = ClientDocument::parse(client, &text).unwrap().get(GATEWAY_NAME).unwrap();
        assert_eq!(words[client.spec().form.env_field]["XDG_CONFIG_HOME"], "/c d", "{client}: {text}");
    }
}

#[test]
fn the_pages_of_the_guide_are_generated_from_the_table() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/clients");
    for spec in &CLIENTS {
        expect_file![guide.join(format!("{}.md", spec.name))].assert_eq(&client_page(spec));
    }
    expect_file![guide.join("index.md")].assert_eq(&clients_index());
}
