//! Every setting, its default, and its types.

use crate::world::World;
use expect_test::expect;

#[test]
fn every_setting_of_the_documentation_is_read() {
    let text = r#"
listen: "127.0.0.1:9000"
public_url: https://tools.example
data_dir: state
store: {url: "postgres://u:${PW}@db/x"}
blobs: {url: "s3://bucket/prefix"}
auth:
  mode: jwt
  header: {name: X-User, secret_header: X-Secret, secret: "${PW}"}
  jwt: {issuer: "https://id.example", audience: toolbooth, jwks_url: "https://id.example/jwks", claims: {user: email}}
  admin_group: ops
groups: {staff: [ann, bo], service_url: "https://groups.example"}
personas: {dev: {allowed_tools: ["git_*"], inherit: shared, flags: {x: 1}, description: d, prompt: p}}
policy: {consent: gateway, plan: {reads: trusted}, on_change: block, rules: [{effect: ask, tools: [a, b]}]}
approval: {default: writes, expires_seconds: 60, wait_seconds: 5, approvers: lead}
exposure: {mode: auto, clients: {cursor: full}, always_load_tools: [x], summary_description_limit: 50, max_tools_per_search: 3, tool_tokens: 1000}
search: {embeddings: {url: "https://e.example", model: m, key: "${PW}"}, answer_tokens: 400}
naming: {style: mcp.server.tool, max_length: 60}
lint: {min_score: 50}
limits: {result_tokens: 1, max_call_seconds: 2, body_bytes: 3000, calls_per_minute: 4, runtime_seconds: 5, cost: 0.5}
files: {key: "0123456789012345678901234567890123456789", url_seconds: 1, grace_seconds: 2, max_upload_bytes: 3, unknown: pass_through}
display: {iframe_hosts: [dash.example]}
compliance: {levels: [{name: HIPAA, aliases: [hipaa], allowed_with: [SOC2]}]}
llm: {base_url: "https://llm.example/v1", api_key: "${PW}", model: m, allow: ["planner"]}
events: {webhooks: ["https://hook.example/x", {url: "https://hook.example/${PW}", types: ["server.*"]}]}
audit: {keep_days: 30, keep_bytes: 1000}
dead_letters: {max_replays: 1}
telemetry: {otlp_url: "https://otlp.example", headers: {k: "${PW}"}}
env_file: vars.env
allow_tools: ["a.*"]
deny_tools: ["b.*"]
environment: [PATH]
roots: [/srv]
allowed_hosts: [tools.example]
allowed_origins: ["https://tools.example"]
retry: {attempts: 2, base: 500ms, factor: 3, max: 1 s, jitter: none}
drain_seconds: 3
"#;
    let world = World::config("work/toolbooth.yaml", text).env(&[("PW", "0123456789hunter2")]);
    world.write("work/vars.env", "X=1\n");
    let loaded = world.load().map_err(|failure| failure.to_string()).unwrap();
    assert!(loaded.findings.is_empty(), "{}", world.report());
    let shown = serde_json::to_string_pretty(&loaded.settings).unwrap();
    assert!(!shown.contains("hunter2") && !shown.contains("0123456789"), "{shown}");
    expect![[r#""#]].assert_eq(&world.short(&shown));
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let world = World::new(&[]);
    let shown = serde_json::to_string_pretty(&world.load().unwrap().settings).unwrap();
    expect![[r#""#]].assert_eq(&world.short(&shown));
}

#[test]
fn addresses_to_listen_on() {
    let cases = [
        ("9000", "127.0.0.1:9000"),
        ("\":9000\"", "127.0.0.1:9000"),
        ("\"localhost:9000\"", "127.0.0.1:9000"),
        ("\"[::1]:9000\"", "[::1]:9000"),
        ("\"127.0.0.1\"", "127.0.0.1:8665"),
    ];
    for (written, expected) in cases {
        let world = World::config("work/toolbooth.toml", &format!("listen = {written}\n"));
        assert_eq!(world.load().unwrap().settings.listen.0.to_string(), expected, "{written}");
    }
    for bad in ["\"example.com:9000\"", "70000", "\"\"", "true"] {
        assert!(World::config("work/toolbooth.toml", &format!("listen = {bad}\n")).load().is_err(), "{bad}");
    }
}

#[test]
fn manifest_folders_stand_beside_the_file_that_names_them() {
    let world = World::new(&[
        ("user/toolbooth.toml", "[manifests]\ntools = [\"mine\", \"gone\"]\n"),
        ("etc/toolbooth.toml", "listen = 9000\n"),
        ("work/toolbooth.toml", "listen = 9001\n"),
    ]);
    std::fs::create_dir_all(world.path("user/mine")).unwrap();
    let manifests = world.load().unwrap().settings.manifests;
    expect![[r#""#]].assert_eq(&world.short(&format!("{manifests:#?}")));
    expect![[r#""#]].assert_eq(&world.report());
}

#[test]
fn the_store_stands_in_the_data_directory_or_beside_its_file() {
    let store = |text: &str| {
        let world = World::config("work/toolbooth.toml", text);
        let settings = world.load().unwrap().settings;
        world.short(&format!("{:?} {:?}", settings.store.url.unwrap(), settings.blobs.url.unwrap()))
    };
    expect![[r#""#]].assert_eq(&store(""));
    expect![[r#""#]].assert_eq(&store("data_dir = \"d\"\n[store]\nurl = \"memory:\"\n"));
    expect![[r#""#]].assert_eq(&store("[store]\nurl = \"sqlite:x.db\"\n[blobs]\nurl = \"file:~/b\"\n"));
}
