//! The precedence of layers.

use crate::world::World;
use expect_test::expect;
use toolbooth_config::{FileDiscovery, Layer, TrustBook, explain};

#[test]
fn higher_layers_override_single_settings() {
    let mut world = World::new(&[
        (
            "etc/toolbooth.toml",
            "listen = 1001\ndrain_seconds = 1\n[exposure]\nmode = \"full\"\ntool_tokens = 1\n",
        ),
        ("user/toolbooth.yaml", "listen: 1002\nexposure: {max_tools_per_search: 9}\n"),
        ("work/toolbooth.json", r#"{"listen": 1003, "exposure": {"mode": "summary"}}"#),
    ])
    .env(&[("TOOLBOOTH_LISTEN", "1004"), ("TOOLBOOTH_EXPOSURE_TOOL_TOKENS", "77")]);
    world.sources.trust = TrustBook::default().trusting_everything();
    world.sources.config_files = vec!["extra.toml".into()];
    world.write("work/extra.toml", "listen = 1005\n");
    let listen = |world: &World| world.load().unwrap().settings.listen.0.port();
    assert_eq!(listen(&world), 1005);
    world.sources.overrides = vec![("listen".into(), "1006".into())];
    assert_eq!(listen(&world), 1006);
    let exposure = world.load().unwrap().settings.exposure;
    assert_eq!((exposure.max_tools_per_search, exposure.tool_tokens), (9, 77));
    assert_eq!(format!("{:?}", exposure.mode), "Summary");
    world.sources.overrides.clear();
    world.sources.config_files.clear();
    assert_eq!(listen(&world), 1004);
    world.sources.env.clear();
    assert_eq!(listen(&world), 1003);
}

#[test]
fn an_entry_of_a_higher_layer_replaces_the_lower_one_completely() {
    let world = World::new(&[
        ("etc/mcp.json", r#"{"servers": {"fs": {"command": "old", "env": {"TOKEN": "${SYSTEM_SECRET}"}}}}"#),
        ("user/mcp.json", r#"{"servers": {"fs": {"command": "new"}, "other": {"command": "x"}}}"#),
    ]);
    expect![[r#"
        fs ready Stdio { command: "new", args: [], cwd: None, env: {} }
        other ready Stdio { command: "x", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    expect![[r#"
        warning[config.replaced]: server `fs` replaces the entry at etc/mcp.json:1:14 completely
         --> user/toolbooth/mcp.json:1:14
          |
        1 | {"servers": {"fs": {"command": "new"}, "other": {"command": "x"}}}
          |              ^^^^
        hint: add "merge": true here to merge the two entries field by field
    "#]]
    .assert_eq(&world.report());
    let loaded = world.load().unwrap();
    let server = loaded.server("fs").unwrap();
    assert_eq!((server.origin.layer, server.shadowed[0].layer), (Layer::User, Layer::System));
}

#[test]
fn merge_combines_two_entries() {
    let world = World::new(&[
        (
            "etc/mcp.json",
            r#"{"servers": {"fs": {"command": "old", "args": ["a"], "env": {"A": "1", "B": "1"}}}}"#,
        ),
        ("user/mcp.json", r#"{"servers": {"fs": {"merge": true, "args": ["b"], "env": {"B": "2"}}}}"#),
    ]);
    expect![[r#"
        fs ready Stdio { command: "old", args: ["b"], cwd: None, env: {"A": "1", "B": "2"} }
    "#]]
    .assert_eq(&world.servers());
    expect![""].assert_eq(&world.report());
}

#[test]
fn a_project_may_not_merge_into_a_lower_layer() {
    let world = World::new(&[
        ("user/mcp.json", r#"{"servers": {"fs": {"command": "mine", "env": {"TOKEN": "x"}}}}"#),
        ("work/.mcp.json", r#"{"servers": {"fs": {"merge": true, "command": "steal"}}}"#),
    ]);
    expect![[r#"
        fs ready Stdio { command: "mine", args: [], cwd: None, env: {"TOKEN": "(hidden)"} }
    "#]]
    .assert_eq(&world.servers());
    expect![[r#"
        error[config.merge-refused]: a project file may not merge into server `fs` of the user layer
         --> work/.mcp.json:1:14
          |
        1 | {"servers": {"fs": {"merge": true, "command": "steal"}}}
          |              ^^^^
        hint: the entry at user/toolbooth/mcp.json:1:14 remains in effect
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn a_project_may_not_change_enforced_settings() {
    let mut world = World::new(&[
        (
            "etc/toolbooth.toml",
            "[exposure]\nenforced = true\nmode = \"search\"\n[servers.scan]\ncommand = \"scan\"\nenforced = true\n",
        ),
        (
            "work/toolbooth.toml",
            "[exposure]\nmode = \"full\"\n[servers.scan]\ncommand = \"true\"\nenabled = false\n",
        ),
    ]);
    world.sources.trust = TrustBook::default().trusting_everything();
    expect![[r#"
        scan ready Stdio { command: "scan", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    expect![[r#"
        error[config.enforced]: a project file may not change `exposure`: it is enforced
         --> work/toolbooth.toml:1:2
          |
        1 | [exposure]
          |  ^^^^^^^^
        hint: enforced at etc/toolbooth.toml:1:1

        error[config.enforced]: a project file may not change server `scan`: it is enforced
         --> work/toolbooth.toml:3:10
          |
        3 | [servers.scan]
          |          ^^^^
        hint: the entry at etc/toolbooth.toml:4:10 remains in effect
    "#]]
    .assert_eq(&world.report());
    assert_eq!(format!("{:?}", world.load().unwrap().settings.exposure.mode), "Search");
}

#[test]
fn the_user_may_change_enforced_settings() {
    let world = World::new(&[("etc/toolbooth.toml", "[exposure]\nenforced = true\nmode = \"search\"\n")])
        .env(&[("TOOLBOOTH_EXPOSURE__MODE", "full")]);
    assert_eq!(format!("{:?}", world.load().unwrap().settings.exposure.mode), "Full");
}

#[test]
fn rules_and_denied_tools_of_all_layers_are_combined() {
    let world = World::new(&[
        (
            "etc/toolbooth.toml",
            "deny_tools = [\"rm\"]\n[[policy.rules]]\neffect = \"deny\"\ntools = \"shell.*\"\n",
        ),
        (
            "user/toolbooth.toml",
            "deny_tools = [\"mv\"]\n[[policy.rules]]\nsubject = \"user:ann\"\neffect = \"allow\"\ntools = { side_effects = \"read\" }\n",
        ),
    ]);
    let settings = world.load().unwrap().settings;
    assert_eq!(settings.deny_tools, ["rm", "mv"]);
    expect![[r#"
        [
            RuleLayer {
                layer: System,
                rules: [
                    RuleSettings {
                        subject: AllCallers,
                        tools: ToolMatchSettings {
                            names: [
                                "shell.*",
                            ],
                            capability: [],
                            side_effects: [],
                        },
                        arguments: {},
                        effect: Deny,
                        approval: None,
                        reason: None,
                    },
                ],
            },
            RuleLayer {
                layer: User,
                rules: [
                    RuleSettings {
                        subject: User(
                            "ann",
                        ),
                        tools: ToolMatchSettings {
                            names: [],
                            capability: [],
                            side_effects: [
                                "read",
                            ],
                        },
                        arguments: {},
                        effect: Allow,
                        approval: None,
                        reason: None,
                    },
                ],
            },
        ]
    "#]]
    .assert_debug_eq(&settings.policy.layers);
}

#[test]
fn a_project_file_named_on_the_command_line_is_read_once_and_trusted() {
    let mut world = World::new(&[("work/.mcp.json", r#"{"servers": {"a": {"command": "x"}}}"#)]);
    world.sources.config_files = vec![".mcp.json".into()];
    expect![[r#"
        a ready Stdio { command: "x", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    expect![""].assert_eq(&world.report());
}

#[test]
fn discovery_can_be_limited_to_named_files() {
    let mut world = World::config("work/one.json", r#"{"servers": {"a": {"command": "x"}}}"#);
    world.write("user/mcp.json", "not json");
    world.sources.discovery = FileDiscovery::NamedOnly;
    assert_eq!(world.load().unwrap().servers.len(), 1);
}

#[test]
fn arguments_can_set_fields_of_servers() {
    let mut world = World::config("work/one.json", r#"{"servers": {"a.b": {"command": "x"}}}"#);
    world.sources.overrides =
        vec![("servers.a.b.enabled".into(), "false".into()), ("servers.a.b.args".into(), "-v,-x".into())];
    expect![[r#"
        a.b disabled Stdio { command: "x", args: ["-v", "-x"], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    world.sources.overrides.push(("servers.zzz.enabled".into(), "true".into()));
    expect![[r#"
        error[config.no-server]: there is no server `zzz`
         --> `servers.zzz.enabled` on the command line
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn variables_can_set_settings_of_any_type() {
    let world = World::new(&[]).env(&[
        ("TOOLBOOTH_AUTH_ADMIN_GROUP", "root"),
        ("TOOLBOOTH_ENVIRONMENT", "PATH, HOME"),
        ("TOOLBOOTH_FILES_SINGLE_USE", "yes"),
        ("TOOLBOOTH_APPROVAL_EXPIRES_SECONDS", "12.5"),
        ("TOOLBOOTH_LLM_API_KEY", "hunter2"),
        ("TOOLBOOTH_LLM_MODLE", "x"),
        ("TOOLBOOTH_TOKEN", "not a setting"),
    ]);
    let loaded = world.load().unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.auth.admin_group, "root");
    assert_eq!(settings.environment, ["PATH", "HOME"]);
    assert!(settings.files.single_use);
    assert_eq!(settings.approval.expires_seconds.as_millis(), 12_500);
    assert_eq!(settings.llm.api_key.as_ref().unwrap().expose(), "hunter2");
    expect![[r#"
        warning[config.unknown-variable]: `TOOLBOOTH_LLM_MODLE` is not a setting
         --> variable `TOOLBOOTH_LLM_MODLE`
        hint: did you mean `TOOLBOOTH_LLM_MODEL`?
    "#]]
    .assert_eq(&world.report());
    expect![[r#"
        llm.api_key = "${TOOLBOOTH_LLM_API_KEY}"
          from variable `TOOLBOOTH_LLM_API_KEY` (environment)
    "#]]
    .assert_eq(&explain(&loaded, "llm.api_key").to_string());
    // The value of the variable is shown, not its name.
    expect![[r#"
        auth.admin_group = "root"
          from variable `TOOLBOOTH_AUTH_ADMIN_GROUP` (environment)
        files.single_use = true
          from variable `TOOLBOOTH_FILES_SINGLE_USE` (environment)
        environment = ["PATH","HOME"]
          from variable `TOOLBOOTH_ENVIRONMENT` (environment)
    "#]]
    .assert_eq(
        &["auth.admin_group", "files.single_use", "environment"]
            .map(|key| explain(&loaded, key).to_string())
            .concat(),
    );
}

#[test]
fn an_empty_configuration_loads_without_findings() {
    let loaded = World::new(&[]).load().unwrap();
    assert!(loaded.is_empty_of_servers() && loaded.findings.is_empty());
    assert_eq!(loaded.settings.listen.0.to_string(), "127.0.0.1:8665");
    assert!(!World::config("work/a.json", r#"{"servers": {"a": {}}}"#).load().unwrap().is_empty_of_servers());
}

#[test]
fn files_that_do_not_exist_yet_are_watched() {
    let world = World::new(&[]);
    let files = crate::world::file_names(&world.load().unwrap().files);
    for name in [".mcp.json", "toolbooth.toml", "toolbooth.yaml", "toolbooth.json", "mcp.json"] {
        assert!(files.iter().any(|file| file == name), "{name}");
    }
}

/// The user's folders of manifests need no configuration file beside them.
#[test]
fn manifests_of_the_user_are_found_without_a_configuration_file() {
    let skill = "---\nname: brief\ndescription: Writes.\n---\nWrite it.\n";
    let world = World::new(&[("user/skills/brief/SKILL.md", skill)]);
    let loaded = world.load().unwrap();
    assert_eq!(loaded.skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["brief"]);
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    let files = crate::world::file_names(&loaded.files);
    assert!(files.iter().any(|file| file == "jobs"), "a folder that may be added is watched");
}

#[test]
fn two_toolbooth_files_in_one_folder_cause_a_warning() {
    let world =
        World::new(&[("user/toolbooth.toml", "listen = 1\n"), ("user/toolbooth.yaml", "listen: 2\n")]);
    expect![[r#"
        warning[config.two-files]: `toolbooth.toml` is in the same folder; both files are read, and this one takes precedence
         --> user/toolbooth/toolbooth.yaml
    "#]]
    .assert_eq(&world.report());
}

#[test]
fn the_users_folder_as_working_folder_stays_trusted() {
    let mut world =
        World::new(&[("user/toolbooth.toml", "data_dir = \"d\"\n[servers.a]\ncommand = \"x\"\n")]);
    world.sources.cwd = world.path("user/").canonicalize().unwrap();
    let loaded = world.load().unwrap();
    assert_eq!(loaded.server("a").unwrap().state.as_str(), "ready");
    assert!(loaded.untrusted.is_empty());
}

/// Parity, Atlas UI 4.
#[test]
fn the_folders_of_atlas_ui_are_project_files() {
    let mut world = World::new(&[
        ("work/config/defaults/mcp.json", r#"{"a": {"command": ["old"]}, "b": {"command": ["x"]}}"#),
        ("work/config/overrides/mcp.json", r#"{"a": {"command": ["new"], "cwd": "backend"}}"#),
        ("work/config/overrides/llmconfig.yml", "models:\n  m:\n    model_url: https://llm.example/v1\n"),
        ("work/config/overrides/rag-sources.json", "{}"),
        ("work/backend/main.py", ""),
    ]);
    assert_eq!(world.servers(), "a needs_trust\nb needs_trust\n");
    assert!(world.report().contains("`rag-sources.json` is not used"), "{}", world.report());
    let mut book = world.sources.trust.clone();
    world.load().unwrap().trust_into(&mut book, None);
    world.sources.trust = book;
    expect![[r#"
        a ready Stdio { command: "new", args: [], cwd: Some("work/backend"), env: {} }
        b ready Stdio { command: "x", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    assert_eq!(world.load().unwrap().settings.llm.model.as_deref(), Some("m"));
    // A folder that appears beside the file would change what runs, so it needs trust again.
    world.write("work/config/overrides/backend/main.py", "");
    assert!(world.servers().starts_with("a needs_trust"), "{}", world.servers());
}

/// Parity, Atlas UI 4.
#[test]
fn a_cwd_that_exists_nowhere_names_both_folders() {
    let world = World::config("work/config/mcp.json", r#"{"a": {"command": ["x"], "cwd": "gone"}}"#);
    let report = world.report();
    assert!(report.contains("`work/config/gone`") && report.contains("`work/gone`"), "{report}");
    // A project folder does not decide what an entry of the user runs.
    let world =
        World::new(&[("user/mcp.json", r#"{"a": {"command": ["x"], "cwd": "b"}}"#), ("work/b/x", "")]);
    assert_eq!(world.servers(), "a config_error\n");
}

/// Parity, Atlas UI 12.
#[test]
fn an_unknown_compliance_level_is_warned_about_with_its_place() {
    let world = World::config(
        "work/a.yaml",
        "compliance: {levels: [{name: Internal, aliases: [House]}]}\nservers:\n  a: {command: x, compliance_level: Intrenal}\n  b: {command: x, compliance_level: House}\n",
    );
    let findings = world.load().unwrap().findings;
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.code, finding.line), ("config.unknown-level", 3));
    assert_eq!(finding.hint.as_deref(), Some("did you mean `Internal`?"));
}
