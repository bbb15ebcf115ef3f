//! All dialects are read into the same servers.

use crate::world::World;
use expect_test::expect;
use toolbooth_core::server::{InjectionSettings, Share};

const ENTRY: &str = r#"{"command": "npx", "args": ["-y", "fs"]}"#;

#[test]
fn every_dialect_is_read() {
    let cases = [
        ("work/a.json", format!(r#"{{"servers": {{"fs": {ENTRY}}}}}"#)),
        ("work/a.json", format!(r#"{{"mcpServers": {{"fs": {ENTRY}}}}}"#)),
        ("work/a.json", format!(r#"{{"mcp_servers": {{"fs": {ENTRY}}}}}"#)),
        ("work/a.json", format!(r#"{{"mcp": {{"servers": {{"fs": {ENTRY}}}}}}}"#)),
        ("work/a.json", format!(r#"{{"tools": {{"mcp": {{"enabled": true, "servers": {{"fs": {ENTRY}}}}}}}}}"#)),
        ("work/a.json", format!(r#"{{"fs": {ENTRY}}}"#)),
        ("work/a.json", r#"{"servers": [{"name": "fs", "command": "npx", "args": ["-y", "fs"]}]}"#.to_owned()),
        ("work/a.json", r#"{"fs": {"command": ["npx", "-y", "fs"]}}"#.to_owned()),
        ("work/a.json", "{ // servers\n \"servers\": {\"fs\": {\"cmd\": \"npx\", \"command_args\": [\"-y\", \"fs\",],},},}".to_owned()),
        ("work/a.toml", "[servers.fs]\ncommand = \"npx\"\nargs = [\"-y\", \"fs\"]\n".to_owned()),
        ("work/a.toml", "[mcp_servers.fs]\ncommand = \"npx\"\nargs = [\"-y\", \"fs\"]\n".to_owned()),
        ("work/a.yaml", "servers:\n  fs:\n    command: npx\n    args: [-y, fs]\n".to_owned()),
        ("work/a.yaml", "x-base: &base\n  command: npx\nservers:\n  fs:\n    <<: *base\n    args: [-y, fs]\n".to_owned()),
    ];
    for (name, text) in cases {
        let world = World::config(name, &text);
        assert!(!world.report().contains("servers"), "{}", world.report());
        let expected = "fs ready Stdio { command: \"npx\", args: [\"-y\", \"fs\"], cwd: None, env: {} }\n";
        assert_eq!(world.servers(), expected, "{text}");
    }
}

#[test]
fn only_servers_of_a_flat_map_get_all_injected_arguments_by_default() {
    let inject = |text: &str| {
        let world = World::config("work/mcp.json", text);
        let loaded = world.load().unwrap();
        loaded.server("a").unwrap().state.entry().unwrap().inject.clone()
    };
    assert_eq!(inject(r#"{"a": {"command": ["x"]}}"#), InjectionSettings::all());
    assert_eq!(inject(r#"{"a": {"command": ["x"], "inject": false}}"#), InjectionSettings::none());
    assert_eq!(inject(r#"{"servers": {"a": {"command": "x"}}}"#), InjectionSettings::default());
    assert_eq!(inject(r#"{"servers": {"a": {"command": "x", "inject": true}}}"#), InjectionSettings::all());
    let chosen = inject(r#"{"servers": {"a": {"command": "x", "inject": {"identity": ["who"]}}}}"#);
    assert_eq!(chosen, InjectionSettings { identity: vec!["who".into()], ..InjectionSettings::default() });
}

#[test]
fn an_atlas_entry_loads() {
    let world = World::config(
        "work/mcp.json",
        r#"{
  "MyExampleServer": {
    "command": ["python", "mcp/MyExampleServer/main.py"],
    "cwd": "backend",
    "groups": ["users"],
    "description": "An example server with a simple tool."
  }
}"#,
    );
    std::fs::create_dir(world.path("work/backend")).unwrap();
    expect![[r#"
        MyExampleServer ready Stdio { command: "python", args: ["mcp/MyExampleServer/main.py"], cwd: Some("work/backend"), env: {} }
    "#]].assert_eq(&world.servers());
    expect![""].assert_eq(&world.report());
}

#[test]
fn a_flat_map_may_use_the_names_of_settings() {
    let world =
        World::config("work/mcp.json", r#"{"files": {"command": ["x"]}, "search": {"url": "http://s/mcp"}}"#);
    expect![[r#"
        files ready Stdio { command: "x", args: [], cwd: None, env: {} }
        search ready Http(RemoteEndpoint { url: "http://s/mcp", headers: {} })
    "#]]
    .assert_eq(&world.servers());
}

#[test]
fn a_flat_map_with_a_typo_is_still_a_flat_map() {
    let world = World::config("work/mcp.json", r#"{"a": {"comand": ["x"]}}"#);
    expect![[r#"
        error[config.unknown-key]: server `a`: unknown key `comand`
         --> work/mcp.json:1:8
          |
        1 | {"a": {"comand": ["x"]}}
          |        ^^^^^^^^ did you mean `command`?
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn the_transport_is_chosen_by_transport_then_command_then_url() {
    let cases = [
        (r#""command": "x""#, "Stdio"),
        (r#""command": "x", "url": "http://h/sse""#, "Stdio"),
        (r#""command": "x", "url": "http://h/", "transport": "http""#, "Http"),
        (r#""url": "https://h/mcp""#, "Http"),
        (r#""url": "https://h/sse""#, "Sse"),
        (r#""url": "https://h/sse/""#, "Http"),
        (r#""url": "https://h/sse", "transport": "http""#, "Http"),
        (r#""url": "https://h/mcp", "type": "sse""#, "Sse"),
        (r#""url": "https://h/mcp", "type": "streamable-http""#, "Http"),
        (r#""url": "wss://h/mcp""#, "WebSocket"),
        (r#""url": "ws://h/sse""#, "WebSocket"),
        (r#""serverUrl": "https://h/mcp""#, "Http"),
        (r#""endpoint": "https://h/mcp""#, "Http"),
    ];
    for (fields, expected) in cases {
        let world = World::config("work/mcp.json", &format!(r#"{{"servers": {{"a": {{{fields}}}}}}}"#));
        let loaded = world.load().unwrap();
        let state = &loaded.server("a").unwrap().state;
        let transport =
            format!("{:?}", state.entry().unwrap_or_else(|| panic!("{fields}: {state:?}")).transport);
        assert!(transport.starts_with(expected), "{fields}: {transport}");
    }
}

#[test]
fn attocode_options_become_exposure_settings() {
    let world = World::config(
        "work/mcp.json",
        r#"{"servers": {}, "lazyLoading": true, "alwaysLoadTools": ["search"], "maxToolsPerSearch": 7,
            "exposure": {"summaryDescriptionLimit": 80}}"#,
    );
    let loaded = world.load().unwrap();
    expect![[r#"
        ExposureSettings {
            mode: Search,
            clients: {},
            personas: {},
            always_load_tools: [
                "*search*",
            ],
            summary_description_limit: 80,
            max_tools_per_search: 7,
            tool_tokens: 10000,
            sdk_tokens: 100000,
        }
    "#]]
    .assert_debug_eq(&loaded.settings.exposure);
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
}

#[test]
fn defaults_in_tools_mcp_apply_to_its_servers() {
    let world = World::config(
        "work/a.yaml",
        "tools:\n  mcp:\n    enabled: true\n    timeout_seconds: 12\n    deny_tools: [rm]\n    servers:\n      a: {command: x}\n      b: {command: y, timeout: 3}\n",
    );
    let loaded = world.load().unwrap();
    let timeout = |name: &str| loaded.server(name).unwrap().state.entry().unwrap().timeout.as_secs();
    assert_eq!((timeout("a"), timeout("b")), (12, 3));
    assert_eq!(loaded.settings.deny_server_tools, ["rm"]);
    assert!(loaded.settings.deny_tools.is_empty());
}

#[test]
fn sharing_of_a_server_is_automatic_unless_configured() {
    let world = World::config(
        "work/mcp.json",
        r#"{"servers": {"a": {"command": "x"}, "b": {"url": "http://h/"}, "c": {"command": "x", "share": "all"}}}"#,
    );
    let loaded = world.load().unwrap();
    let share = |name: &str| loaded.server(name).unwrap().state.entry().unwrap().share;
    assert_eq!((share("a"), share("b"), share("c")), (Share::Auto, Share::Auto, Share::All));
}

#[test]
fn llm_files_of_other_programs_are_read() {
    let models = r#"
models:
  gpt:
    model_url: https://llm.example/v1/chat/completions
    model_name: gpt-x
    api_key: ${KEY}
    max_tokens: 700
    compliance_level: Internal
    extra_headers: {X-Title: "${KEY}"}
  second:
    model_url: https://other.example/v1
"#;
    let mut world = World::new(&[("work/llmconfig.yml", models)]).env(&[("KEY", "k1")]);
    world.sources.llm_config = Some("llmconfig.yml".into());
    let loaded = world.load().unwrap();
    let llm = &loaded.settings.llm;
    assert_eq!(llm.api_key.as_ref().unwrap().expose(), "k1");
    assert_eq!((llm.model.as_deref(), llm.max_tokens), (Some("gpt-x"), 700));
    assert_eq!(llm.headers["X-Title"].expose(), "k1");
    let shown: Vec<String> = llm.endpoints.iter().map(|(name, one)| format!("{name}: {one:?}")).collect();
    expect![[r#"
        gpt: LlmEndpointSettings { base_url: Some("https://llm.example/v1/chat/completions"), api_key: Some("${KEY}"), model: Some("gpt-x"), max_tokens: Some(700), temperature: None, headers: {"X-Title": "${KEY}"} }
        second: LlmEndpointSettings { base_url: Some("https://other.example/v1"), api_key: None, model: Some("second"), max_tokens: None, temperature: None, headers: {} }"#]]
    .assert_eq(&shown.join("\n"));
    let ignored: Vec<&str> = loaded.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(ignored, ["model `gpt`: `compliance_level` is ignored"]);
}

#[test]
fn config_overrides_take_precedence_over_the_config_folder() {
    let mut world = World::new(&[
        ("work/conf/mcp.json", r#"{"a": {"command": ["one"]}, "b": {"command": ["one"]}}"#),
        (
            "work/conf/compliance-levels.json",
            r#"{"version": 1, "levels": [{"name": "HIPAA", "allowed_with": ["SOC2"]}]}"#,
        ),
        ("work/over/mcp.json", r#"{"b": {"command": ["two"]}}"#),
        ("work/over/extra.json", r#"{"c": {"command": ["three"]}}"#),
    ]);
    world.sources.config_dir = Some("conf".into());
    world.sources.config_overrides = Some("over".into());
    world.sources.mcp_config = Some("extra.json".into());
    expect![[r#"
        a ready Stdio { command: "one", args: [], cwd: None, env: {} }
        b ready Stdio { command: "two", args: [], cwd: None, env: {} }
        c ready Stdio { command: "three", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    assert_eq!(world.load().unwrap().settings.compliance.levels[0].name, "HIPAA");
}

/// Parity, Attocode 1.
#[test]
fn top_level_options_of_attocode_are_defaults_of_the_entries() {
    let text = r#"{"autoConnect": false, "requestTimeout": 2000, "servers": {
        "a": {"command": "x"}, "b": {"command": "x", "autoConnect": true, "timeout": 5}}}"#;
    let loaded = World::config("work/options.mcp.json", text).load().unwrap();
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    let entry = |name: &str| loaded.server(name).unwrap().state.entry().unwrap().clone();
    assert_eq!((entry("a").auto_connect, entry("a").timeout.as_millis()), (false, 2000));
    assert_eq!((entry("b").auto_connect, entry("b").timeout.as_secs()), (true, 5));
    let wrong = World::config("work/mcp.json", r#"{"autoConnect": "no", "servers": {}}"#);
    assert!(wrong.report().contains("`autoConnect` must be true or false"), "{}", wrong.report());
}

/// Parity, Attocode 9.
#[test]
fn an_empty_map_of_servers_means_no_servers() {
    for (text, expected) in [(r#"{"servers": {}}"#, false), (r#"{"mcpServers": {}}"#, false), ("{}", true)] {
        let loaded = World::config("work/mcp.json", text).load().unwrap();
        assert_eq!(loaded.is_empty_of_servers(), expected, "{text}");
    }
}

/// Parity, Atlas UI 11 and 17.
#[test]
fn entries_of_atlas_ui_work_as_they_are() {
    let text = r#"{
  "prose": {"command": ["x"], "description": "prices in ${CURRENCY}", "is_exclusive": true},
  "old_type": {"url": "http://127.0.0.1:9/mcp", "type": "stdio", "is_exclusive": false},
  "one_string": {"command": "x", "args": "-m server --name 'two words' ${A}"}
}"#;
    let world = World::config("work/mcp.json", text).env(&[("A", "b c")]);
    let loaded = world.load().unwrap();
    let entry = |name: &str| loaded.server(name).unwrap().state.entry().unwrap().clone();
    assert_eq!(entry("prose").about.description.as_deref(), Some("prices in ${CURRENCY}"));
    assert!(format!("{:?}", entry("old_type").transport).starts_with("Http"));
    let toolbooth_core::server::Transport::Stdio { args, .. } = entry("one_string").transport else {
        panic!()
    };
    let args: Vec<&str> = args.iter().map(|arg| arg.expose()).collect();
    assert_eq!(args, ["-m", "server", "--name", "two words", "b c"]);
    let codes: Vec<&str> = loaded.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["config.ignored-key", "config.two-transports"], "{}", world.report());
}
