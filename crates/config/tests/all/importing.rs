//! Imports of other clients' servers: plan, apply, load and undo.

use crate::world::World;
use expect_test::{Expect, expect};
use toolbooth_config::clients::ClientId;
use toolbooth_config::import::{ImportFrom, plan, undo};

fn dry_run(world: &World, from: &str) -> String {
    let plan = plan(&world.sources, &from.parse().unwrap()).unwrap();
    let entries = serde_json::to_string_pretty(&plan.entries()).unwrap();
    assert!(!format!("{plan:?} {plan}").contains("hunter2"));
    world.short(&format!("{plan}{entries}\n"))
}

fn check(files: &[(&str, &str)], from: &str, expected: Expect) {
    expected.assert_eq(&dry_run(&World::new(files), from));
}

#[test]
fn claude_desktop() {
    let text = r#"{"mcpServers": {
        "github": {"command": "npx", "args": ["-y", "gh"], "env": {"GITHUB_TOKEN": "ghp_hunter2hunter2hunter2", "MODE": "ro"}},
        "my files": {"command": "fs", "args": ["/data/${literal}"]}
    }}"#;
    let path = "user/../Claude/claude_desktop_config.json";
    check(
        &[(path, text)],
        "claude-desktop",
        expect![[r#"
        read user/Claude/claude_desktop_config.json
        + github: npx -y gh
            `env.GITHUB_TOKEN` moves to ${GITHUB_TOKEN}
        + my-files: fs /data/$${literal}
            note: named `my files` in the client's file
        would write user/toolbooth/imported.json
        would write user/toolbooth/imported.env
        {
          "github": {
            "command": "npx",
            "args": [
              "-y",
              "gh"
            ],
            "env": {
              "GITHUB_TOKEN": "${GITHUB_TOKEN}",
              "MODE": "ro"
            }
          },
          "my-files": {
            "command": "fs",
            "args": [
              "/data/$${literal}"
            ]
          }
        }
    "#]],
    );
}

#[test]
fn claude_code() {
    let world = World::new(&[]);
    let text = format!(
        r#"{{"numStartups": 3, "mcpServers": {{"s": {{"type": "http", "url": "https://s/mcp", "headers": {{"Authorization": "Bearer hunter2"}}}}}},
            "projects": {{"{}": {{"mcpServers": {{"p": {{"type": "stdio", "command": "p", "args": [], "env": {{"K": "${{K:-d}}"}}}}}}}}, "/other": {{"mcpServers": {{"o": {{"command": "o"}}}}}}}}}}"#,
        world.path("work").display()
    );
    world.write("home/.claude.json", &text);
    expect![[r#"
        read home/.claude.json
        + s: https://s/mcp
            `headers.Authorization` moves to ${S_AUTHORIZATION}
        + p: p (in work)
            note: of the project `work`
        - o: its project `/other` does not exist
        would write user/toolbooth/imported.json
        would write user/toolbooth/imported.env
        {
          "s": {
            "type": "http",
            "url": "https://s/mcp",
            "headers": {
              "Authorization": "Bearer ${S_AUTHORIZATION}"
            }
          },
          "p": {
            "type": "stdio",
            "command": "p",
            "args": [],
            "env": {
              "K": "${K:-d}"
            },
            "cwd": "work"
          }
        }
    "#]]
    .assert_eq(&dry_run(&world, "claude-code"));
}

#[test]
fn cursor() {
    let text = r#"{"mcpServers": {"a": {"command": "${workspaceFolder}/run", "args": ["--api-key=hunter2", "--token", "hunter2b"], "env": {"X": "${env:X}"}, "envFile": ".env"}}}"#;
    check(
        &[("work/.cursor/mcp.json", text)],
        "cursor",
        expect![[r#"
            read work/.cursor/mcp.json
            + a: work/run --api-key=${A_API_KEY} --token ${A_TOKEN}
                `args.0` moves to ${A_API_KEY}
                `args.2` moves to ${A_TOKEN}
                note: its `envFile` `work/.env` is not imported: it does not exist
            would write user/toolbooth/imported.json
            would write user/toolbooth/imported.env
            {
              "a": {
                "command": "work/run",
                "args": [
                  "--api-key=${A_API_KEY}",
                  "--token",
                  "${A_TOKEN}"
                ],
                "env": {
                  "X": "${env:X}"
                }
              }
            }
        "#]],
    );
}

#[test]
fn vscode() {
    let text = r#"{
        // comment
        "inputs": [{"id": "gh-token", "type": "promptString", "password": true}],
        "servers": {
            "gh": {"type": "http", "url": "https://gh/mcp?api_key=hunter2&x=1", "headers": {"Authorization": "Bearer ${input:gh-token}"}, "gallery": true},
        }
    }"#;
    check(
        &[("work/.vscode/mcp.json", text)],
        "vscode",
        expect![[r#"
        read work/.vscode/mcp.json
        + gh: https://gh/mcp?api_key=${GH_API_KEY}&x=1
            `url?api_key` moves to ${GH_API_KEY}
            note: set `GH_TOKEN` yourself: the client prompts for it
        would write user/toolbooth/imported.json
        would write user/toolbooth/imported.env
        {
          "gh": {
            "type": "http",
            "url": "https://gh/mcp?api_key=${GH_API_KEY}&x=1",
            "headers": {
              "Authorization": "Bearer ${GH_TOKEN}"
            }
          }
        }
    "#]],
    );
}

#[test]
fn codex() {
    let text = r#"
model = "x"
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs"]
env_vars = ["DOCS_HOME"]
startup_timeout_sec = 20
tool_timeout_sec = 45
enabled_tools = ["search"]
supports_parallel_tool_calls = true
[mcp_servers.docs.env]
DOCS_KEY = "hunter2"
[mcp_servers.remote]
url = "https://r/mcp"
bearer_token_env_var = "R_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Org" = "R_ORG" }
"#;
    check(
        &[("home/.codex/config.toml", text)],
        "codex",
        expect![[r#"
            read home/.codex/config.toml
            + docs: npx -y docs
                `env.DOCS_KEY` moves to ${DOCS_KEY}
                note: `supports_parallel_tool_calls` is not imported
            + remote: https://r/mcp
            would write user/toolbooth/imported.json
            would write user/toolbooth/imported.env
            {
              "docs": {
                "command": "npx",
                "args": [
                  "-y",
                  "docs"
                ],
                "env": {
                  "DOCS_HOME": "${DOCS_HOME}",
                  "DOCS_KEY": "${DOCS_KEY}"
                },
                "connect_timeout": 20,
                "timeout": 45,
                "allow_tools": [
                  "search"
                ]
              },
              "remote": {
                "url": "https://r/mcp",
                "auth_token": "${R_TOKEN}",
                "headers": {
                  "X-Region": "eu",
                  "X-Org": "${R_ORG}"
                }
              }
            }
        "#]],
    );
}

#[test]
fn goose() {
    let text = "
GOOSE_PROVIDER: x
extensions:
  developer: {type: builtin, name: developer, enabled: true, bundled: true}
  git:
    type: stdio
    name: git
    cmd: uvx
    args: [mcp-git]
    envs: {GIT_TOKEN: hunter2}
    env_keys: [GH_KEY]
    timeout: 300
    enabled: true
    bundled: null
    available_tools: []
  web:
    enabled: true
    config: {type: streamable_http, name: web, uri: 'https://w/mcp', headers: {}, timeout: 30}
";
    check(
        &[("user/../goose/config.yaml", text)],
        "goose",
        expect![[r#"
            read user/goose/config.yaml
            + git: uvx mcp-git
                `env.GIT_TOKEN` moves to ${GIT_TOKEN}
                note: set GH_KEY yourself: the client keeps them in its key store
            + web: https://w/mcp
            - developer: `builtin` is built into the client
            would write user/toolbooth/imported.json
            would write user/toolbooth/imported.env
            {
              "git": {
                "command": "uvx",
                "args": [
                  "mcp-git"
                ],
                "env": {
                  "GIT_TOKEN": "${GIT_TOKEN}",
                  "GH_KEY": "${GH_KEY}"
                },
                "timeout": 300,
                "enabled": true
              },
              "web": {
                "enabled": true,
                "transport": "http",
                "url": "https://w/mcp",
                "timeout": 30
              }
            }
        "#]],
    );
}

#[test]
fn any_file() {
    check(
        &[("work/other.json", r#"{"a": {"command": ["x", "y"], "groups": ["users"]}}"#)],
        "other.json",
        expect![[r#"
            read work/other.json
            + a: x y
                note: `inject: true` is kept: the gateway supplies `username`, `_mcp_data` and file URLs to its tools
            would write user/toolbooth/imported.json
            {
              "a": {
                "command": [
                  "x",
                  "y"
                ],
                "groups": [
                  "users"
                ],
                "inject": true
              }
            }
        "#]],
    );
}

#[test]
fn an_applied_import_loads_and_can_be_undone() {
    let text = r#"{"mcpServers": {"gh": {"command": "gh", "env": {"GH_TOKEN": "hunter2$x\"y"}}}}"#;
    let world = World::new(&[("home/.cursor/mcp.json", text)]);
    let from: ImportFrom = "cursor".parse().unwrap();
    let applied = plan(&world.sources, &from).unwrap().apply().unwrap();
    assert_eq!(applied.servers, ["gh"]);
    assert_eq!(std::fs::read_to_string(world.path("home/.cursor/mcp.json")).unwrap(), text);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(world.path("user/imported.env")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let loaded = world.load().unwrap();
    assert!(loaded.findings.is_empty(), "{}", world.report());
    let entry = loaded.server("gh").unwrap().state.entry().unwrap().clone();
    let toolbooth_core::server::Transport::Stdio { env, .. } = &entry.transport else { panic!() };
    assert_eq!(env["GH_TOKEN"].expose(), "hunter2$x\"y");
    assert_eq!(env["GH_TOKEN"].shown(), "${GH_TOKEN}");
    let again = plan(&world.sources, &from).unwrap();
    assert_eq!(again.skipped[0].reason, "is already configured");
    let undone = undo(&world.sources).unwrap();
    assert_eq!((undone.restored.len(), undone.removed.len()), (0, 2));
    assert!(world.load().unwrap().servers.is_empty());
    assert_eq!(undo(&world.sources).unwrap_err().to_string(), "there is no import to undo");
}

#[test]
fn the_gateway_is_not_imported_as_its_own_server() {
    let text = r#"{"mcpServers": {
        "toolbooth": {"command": "/opt/bin/toolbooth", "args": ["--data-dir", "x", "stdio"]},
        "booth": {"url": "http://127.0.0.1:8665/mcp"},
        "other": {"command": "toolbooth", "args": ["demo"]},
        "elsewhere": {"url": "http://10.0.0.1:8665/mcp"}
    }}"#;
    let world = World::new(&[("home/.cursor/mcp.json", text)]);
    let plan = plan(&world.sources, &"cursor".parse().unwrap()).unwrap();
    let skipped: Vec<_> = plan.skipped.iter().map(|skipped| (&*skipped.name, &*skipped.reason)).collect();
    assert_eq!(skipped, [("toolbooth", "is this gateway"), ("booth", "is this gateway")]);
    let servers: Vec<_> = plan.servers.iter().map(|server| &*server.name).collect();
    assert_eq!(servers, ["other", "elsewhere"]);
}

#[test]
fn a_second_import_keeps_the_first_and_can_be_undone() {
    let world = World::new(&[
        ("work/one.json", r#"{"servers": {"a": {"command": "one", "env": {"TOKEN": "hunter2"}}}}"#),
        (
            "work/two.json",
            r#"{"servers": {"a": {"command": "two", "env": {"TOKEN": "other"}}, "b": {"command": "b"}}}"#,
        ),
    ]);
    plan(&world.sources, &"one.json".parse().unwrap()).unwrap().apply().unwrap();
    let first = std::fs::read_to_string(world.path("user/imported.json")).unwrap();
    let second = plan(&world.sources, &"two.json".parse().unwrap()).unwrap();
    expect![[r#"
        read work/two.json
        + a-2: two
            `env.TOKEN` moves to ${TOKEN_2}
            note: another server is already named `a`
        + b: b
        would write user/toolbooth/imported.json
        would write user/toolbooth/imported.env
    "#]]
    .assert_eq(&world.short(&second.to_string()));
    second.apply().unwrap();
    expect![[r#"
        a ready Stdio { command: "one", args: [], cwd: None, env: {"TOKEN": "${TOKEN}"} }
        a-2 ready Stdio { command: "two", args: [], cwd: None, env: {"TOKEN": "${TOKEN_2}"} }
        b ready Stdio { command: "b", args: [], cwd: None, env: {} }
    "#]]
    .assert_eq(&world.servers());
    undo(&world.sources).unwrap();
    assert_eq!(std::fs::read_to_string(world.path("user/imported.json")).unwrap(), first);
    undo(&world.sources).unwrap();
    assert!(!world.path("user/imported.json").exists(), "the first import is undone too");
}

#[test]
fn an_import_does_not_replace_a_file_that_cannot_be_read() {
    use toolbooth_core::fault::Fault;
    let text = r#"{"servers": {"a": {"command": "one", "env": {"TOKEN": "hunter2"}}}}"#;
    let world = World::new(&[("work/one.json", text)]);
    let plan = plan(&world.sources, &"one.json".parse().unwrap()).unwrap();
    std::fs::create_dir(world.path("user/imported.env")).unwrap();
    let error = plan.apply().unwrap_err();
    assert_eq!(error.code(), "import.unreadable");
    assert!(error.to_string().ends_with("the imported file is a folder"), "{error}");
    assert!(!world.path("user/imported.json").exists());
}

#[test]
fn an_undo_does_not_discard_later_edits() {
    let world = World::new(&[("work/one.json", r#"{"servers": {"a": {"command": "one"}}}"#)]);
    plan(&world.sources, &"one.json".parse().unwrap()).unwrap().apply().unwrap();
    world.write("user/imported.json", "{}");
    let error = undo(&world.sources).unwrap_err();
    assert_eq!(
        world.short(&error.to_string()),
        "`user/toolbooth/imported.json` was changed after the import"
    );
}

#[test]
fn a_client_without_files_is_reported_with_the_checked_paths() {
    use toolbooth_core::fault::Fault;
    let world = World::new(&[]);
    let error = plan(&world.sources, &ImportFrom::Client(ClientId::Codex)).unwrap_err();
    assert_eq!(error.to_string(), "no configuration file of codex was found");
    assert_eq!(
        world.short(&error.hint().unwrap()),
        "looked for `home/.codex/config.toml`, `work/.codex/config.toml`; specify a file instead"
    );
}

/// Parity, Atlas UI 1 and 4.
#[test]
fn an_import_tells_what_happens_to_injection_and_keeps_the_folder_of_cwd() {
    let entry = r#"{"a": {"command": ["x"], "cwd": "backend", "groups": ["users"]}}"#;
    let world = World::new(&[("work/config/overrides/mcp.json", entry), ("work/backend/x", "")]);
    world.write("work/wrapped.json", &format!(r#"{{"mcpServers": {entry}}}"#));
    let flat = plan(&world.sources, &"config/overrides/mcp.json".parse().unwrap()).unwrap();
    // The file is also a project file of this folder; its servers keep their names.
    assert_eq!((flat.servers[0].name.as_str(), &flat.servers[0].entry["inject"]), ("a", &true.into()));
    assert_eq!(flat.servers[0].entry["cwd"], world.path("work/backend").display().to_string());
    let wrapped = plan(&world.sources, &"wrapped.json".parse().unwrap()).unwrap();
    assert!(wrapped.servers[0].entry.get("inject").is_none());
    assert!(wrapped.to_string().contains("does not supply `username`"), "{wrapped}");
}

#[test]
fn a_missing_variable_of_an_imported_entry_may_be_supplied_beside_it() {
    let world = World::new(&[(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"gh": {"command": "gh", "env": {"GH_TOKEN": "${GH_TOKEN}"}}}}"#,
    )]);
    let from: ImportFrom = "cursor".parse().unwrap();
    plan(&world.sources, &from).unwrap().apply().unwrap();
    let variables = world.path("user/imported.env");
    let hint = world.load().unwrap().findings[0].hint.clone().unwrap();
    assert!(hint.starts_with("store it with `toolbooth secrets set GH_TOKEN`, or "), "{hint}");
    std::fs::write(&variables, "GH_TOKEN=hunter2\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&variables, std::fs::Permissions::from_mode(0o600)).unwrap();
    let loaded = world.load().unwrap();
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    let entry = loaded.server("gh").unwrap().state.entry().unwrap().clone();
    let toolbooth_core::server::Transport::Stdio { env, .. } = &entry.transport else { panic!() };
    assert_eq!(env["GH_TOKEN"].expose(), "hunter2");
}
