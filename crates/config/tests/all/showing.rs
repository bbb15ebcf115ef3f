//! `config show` and `config explain`.

use crate::world::World;
use expect_test::expect;
use toolbooth_config::{ShowMode, explain, show};

fn world() -> World {
    World::new(&[
        (
            "etc/toolbooth.toml",
            "listen = 9000\n[servers.fs]\ncommand = \"old\"\n[servers.fs.env]\nTOKEN = \"${SYSTEM_TOKEN}\"\n",
        ),
        (
            "user/mcp.json",
            "{\"listen\": 9001, \"llm\": {\"api_key\": \"sk-0123456789abcdef\"}, \"servers\": {\n \"fs\": {\"command\": \"new\", \"env\": {\n  \"TOKEN\": \"${USER_TOKEN}\",\n  \"API_KEY\": \"written-out\"}}}}",
        ),
        ("work/.mcp.json", r#"{"servers": {"mine": {"command": "x"}}}"#),
    ])
    .env(&[("USER_TOKEN", "hunter2"), ("SYSTEM_TOKEN", "hunter3")])
}

#[test]
fn an_explanation_lists_the_effective_and_the_overridden_values() {
    let world = world();
    let loaded = world.load().unwrap();
    let keys = [
        "servers.fs.env.TOKEN",
        "servers.fs.env.API_KEY",
        "servers.fs.timeout",
        "servers.fs",
        "servers.mine.command",
        "servers.fz.command",
        "listen",
        "llm.api_key",
        "exposure.mode",
        "exposure.mod",
    ];
    let text: String = keys.iter().map(|key| explain(&loaded, key).to_string()).collect();
    assert!(!text.contains("hunter") && !text.contains("written-out") && !text.contains("0123"), "{text}");
    expect![[r#"
        servers.fs.env.TOKEN = "${USER_TOKEN}"
          from user/toolbooth/mcp.json:3:12 (user)
          overrides "${SYSTEM_TOKEN}" from etc/toolbooth.toml:5:9 (system)
          note: the entry at user/toolbooth/mcp.json:2:2 replaces the other entries completely
        servers.fs.env.API_KEY = "(hidden)"
          from user/toolbooth/mcp.json:4:14 (user)
          note: the entry at user/toolbooth/mcp.json:2:2 replaces the other entries completely
        servers.fs.timeout = 30
          the default
          note: the entry at user/toolbooth/mcp.json:2:2 replaces the other entries completely
        servers.fs = {"command":"new","env":{"TOKEN":"${USER_TOKEN}","API_KEY":"(hidden)"}}
          from user/toolbooth/mcp.json:2:8 (user)
          overrides {"command":"old","env":{"TOKEN":"${SYSTEM_TOKEN}"}} from etc/toolbooth.toml:2:1 (system)
          note: the entry at user/toolbooth/mcp.json:2:2 replaces the other entries completely
        servers.mine.command = "x"
          from work/.mcp.json:1:34 (project)
          note: the server is `needs_trust`
        servers.fz.command is not set
          note: there is no server with that name; did you mean `fs`?
        listen = 9001
          from user/toolbooth/mcp.json:1:12 (user)
          overrides 9000 from etc/toolbooth.toml:1:10 (system)
        llm.api_key = "(hidden)"
          from user/toolbooth/mcp.json:1:37 (user)
        exposure.mode = "auto"
          the default
        exposure.mod is not set
          note: there is no such setting; did you mean `exposure.mode`?
    "#]]
    .assert_eq(&world.short(&text));
}

#[test]
fn the_shown_configuration_contains_no_secrets() {
    let world = world();
    let loaded = world.load().unwrap();
    let written = serde_json::to_string_pretty(&show(&loaded, ShowMode::Written)).unwrap();
    expect![[r#"
        {
          "listen": 9001,
          "llm": {
            "api_key": "(hidden)"
          },
          "servers": {
            "fs": {
              "command": "new",
              "env": {
                "TOKEN": "${USER_TOKEN}",
                "API_KEY": "(hidden)"
              }
            },
            "mine": {
              "command": "x"
            }
          }
        }"#]]
    .assert_eq(&world.short(&written));
    let resolved = show(&loaded, ShowMode::Resolved);
    assert_eq!(resolved["servers"]["fs"]["env"]["TOKEN"], "${USER_TOKEN}");
    assert_eq!(resolved["servers"]["fs"]["env"]["API_KEY"], "(hidden)");
    assert_eq!(resolved["servers"]["mine"]["state"], "needs_trust");
    assert_eq!(resolved["listen"], "127.0.0.1:9001");
    for text in [written, resolved.to_string()] {
        assert!(
            !text.contains("hunter") && !text.contains("written-out") && !text.contains("0123"),
            "{text}"
        );
    }
}

#[test]
fn every_configured_setting_has_an_origin() {
    let world = world();
    let origins = world.load().unwrap().origins();
    let lines: String = origins.iter().map(|(key, origin)| format!("{key}: {origin}\n")).collect();
    expect![[r#"
        listen: user/toolbooth/mcp.json:1:12 (user)
        llm.api_key: user/toolbooth/mcp.json:1:37 (user)
    "#]]
    .assert_eq(&world.short(&lines));
}

#[test]
fn combined_lists_are_shown_with_the_origins_of_their_elements() {
    let world = World::new(&[
        (
            "etc/toolbooth.toml",
            "deny_tools = [\"rm\"]\n[[policy.rules]]\neffect = \"deny\"\ntools = \"shell.*\"\n",
        ),
        (
            "user/toolbooth.toml",
            "deny_tools = [\"mv\"]\n[[policy.rules]]\neffect = \"ask\"\ntools = \"mail.*\"\n",
        ),
    ]);
    let loaded = world.load().unwrap();
    let keys = ["policy.rules", "deny_tools"];
    let text: String = keys.iter().map(|key| explain(&loaded, key).to_string()).collect();
    expect![[r#"
        policy.rules = [{"effect":"ask","tools":"mail.*"},{"effect":"deny","tools":"shell.*"}]
          from user/toolbooth/toolbooth.toml:2:1 (user)
          and from etc/toolbooth.toml:2:1 (system)
          note: the values of all layers are combined
        deny_tools = ["rm","mv"]
          from user/toolbooth/toolbooth.toml:1:14 (user)
          and from etc/toolbooth.toml:1:15 (system)
          note: the values of all layers are combined
    "#]]
    .assert_eq(&world.short(&text));
    let written = serde_json::to_string_pretty(&show(&loaded, ShowMode::Written)["policy"]).unwrap();
    expect![[r#"
        {
          "rules": [
            {
              "effect": "ask",
              "tools": "mail.*",
              "origin": "user/toolbooth/toolbooth.toml:2:1 (user)"
            },
            {
              "effect": "deny",
              "tools": "shell.*",
              "origin": "etc/toolbooth.toml:2:1 (system)"
            }
          ]
        }"#]]
    .assert_eq(&world.short(&written));
    let resolved = show(&loaded, ShowMode::Resolved);
    let rules = resolved["policy"]["rules"].as_array().unwrap();
    let effects: Vec<_> = rules.iter().map(|rule| rule["effect"].as_str().unwrap()).collect();
    assert_eq!(effects, ["ask", "deny"]);
    assert!(rules.iter().all(|rule| rule["origin"].is_string()) && resolved["policy"]["layers"].is_null());
    let keys: Vec<String> = loaded.origins().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["deny_tools", "policy.rules"]);
}
