//! The bundled servers, through the gateway and as processes.

use crate::world::{World, json, words};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

fn results(world: &World, line: &str) -> Value {
    let output = world.run(line);
    assert!(output.status.success(), "{line}: {}", world.shown(&output));
    let answer = json(&output);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let said: Value = serde_json::from_str(text).unwrap();
    said.get("results").unwrap_or(&said).clone()
}

#[test]
fn a_caller_cannot_act_as_another_user() {
    let world = World::new(&[]);
    let whoami = results(&world, "call identity_whoami --json");
    let me = &whoami["user"];
    assert!(me.as_str().is_some_and(|me| !me.is_empty()), "{whoami}");
    assert_eq!(&whoami["received"]["_atlas_user"], me);
    let known = &whoami["received"]["_mcp_data"];
    assert_eq!(
        known["identity"],
        json!(["identity_create_record", "identity_override_attempt", "identity_whoami"])
    );
    let line =
        r#"call identity_override_attempt --json --args '{"claimed_user":"mallory","username":"mallory"}'"#;
    let attempt = results(&world, line);
    assert_eq!(attempt["received"], json!({"claimed_user": "mallory", "username": me}));
    assert_eq!(attempt["override_occurred"], false);
    let record = results(&world, "call identity_create_record --json title=notes");
    assert_eq!(&record["record"]["owner"], me);
    let shown = world.screen("tools show identity_whoami");
    assert!(!shown.contains("username") && !shown.contains("_mcp_data"), "{shown}");
}

#[test]
fn without_a_model_the_planner_lists_the_tools() {
    let world = World::new(&[]);
    let listed = results(&world, "call planner_plan_task --json task='hash a word'");
    assert_eq!(listed["plan"], Value::Null);
    let reference = listed["reference"].as_str().unwrap();
    assert!(
        reference.contains("Tool: demo_hash\n")
            && reference.contains("- text (string, required): What to hash.")
    );
    assert!(!reference.contains("username") && !reference.contains("plan_task"), "{reference}");
}

/// A bundled server as a process, with a legacy client.
struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Process {
    fn start(world: &World, name: &str) -> Self {
        let mut command = world.command(&words(&format!("demo-server {name}")));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_planners_script_runs() {
    let world = World::new(&[("work/vars.env", "GREETING=hello\n")]);
    let tools = json(&world.run("tools list --json"));
    let tools: Vec<Value> = tools["tools"].as_array().unwrap().iter().map(|tool| {
        let shown = json(&world.run(&format!("tools show {} --json", tool["name"].as_str().unwrap())));
        json!({"name": shown["name"], "description": shown["description"], "parameters": shown["parameters"]})
    }).collect();
    let data = json!({"available_servers": [{"server_name": "all", "tools": tools}]});

    let mut planner = Process::start(&world, "planner");
    planner.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"sampling": {}}, "clientInfo": {"name": "t", "version": "1"}}}));
    planner.hear();
    let arguments = json!({"task": "Hash a word", "env_file": "vars.env", "_mcp_data": data});
    planner.say(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "plan_task", "arguments": arguments}}));
    let mut answer = |text: &str| {
        let question = planner.hear();
        assert_eq!(question["method"], "sampling/createMessage");
        planner.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {
            "role": "assistant", "model": "m", "content": {"type": "text", "text": text}}}));
        question["params"]["messages"].as_array().unwrap().len()
    };
    assert_eq!(answer(r#"{"steps": [{"tool": "demo_sha", "arguments": {}}]}"#), 1);
    let plan = r#"{"steps": [
        {"tool": "demo_hash", "arguments": {"text": "it's $HOME"}, "why": "hash it"},
        {"tool": "demo_slow", "arguments": {"milliseconds": 1}, "why": "rest"}]}"#;
    assert_eq!(answer(plan), 3, "the errors are sent to the model");
    let made = planner.hear()["result"]["structuredContent"].clone();
    let script = made["artifacts"][0]["b64"].as_str().unwrap();
    let script = base64::engine::general_purpose::STANDARD.decode(script).unwrap();
    std::fs::write(world.path("work/plan.sh"), script).unwrap();

    let mut bash = std::process::Command::new("bash");
    let toolbooth = world.command(&[]);
    bash.arg("plan.sh").current_dir(world.path("work")).env_clear();
    bash.envs(toolbooth.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = bash.env("TOOLBOOTH", toolbooth.get_program()).output().unwrap();
    // sha256("it's $HOME"): the shell has not expanded the variable.
    expect_test::expect![[r#"
        2a6de1196a83bbf35f3a71d0c0d1c221fec73be075d569983df50ff90aac6fc4
        waited 1 ms
    "#]]
    .assert_eq(&world.shown(&output));
}

#[test]
fn a_configuration_may_name_a_bundled_server() {
    let world = World::new(&[(
        ".config/toolbooth/toolbooth.json",
        r#"{"servers": {"who": {"bundled": "identity"}}}"#,
    )]);
    let whoami = results(&world, "call who_whoami --json");
    assert!(whoami["user"].is_string(), "it follows the contract: {whoami}");
    world.write(".config/toolbooth/toolbooth.json", r#"{"servers": {"who": {"bundled": "toaster"}}}"#);
    let shown = world.screen("servers show who");
    assert!(shown.contains("no server `toaster` is bundled"), "{shown}");
}

#[test]
fn a_file_is_read_by_its_name() {
    let world = World::new(&[("work/poem.txt", "hello")]);
    let gateway = world.serve();
    let put = world.run("files put poem.txt");
    assert!(put.status.success(), "{}", world.shown(&put));
    let size = results(&world, "call files_size --json filename=poem.txt");
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(
        (&size["filename"], &size["bytes"], &size["sha256"]),
        (&json!("poem.txt"), &json!(5), &json!(sha256))
    );
    let unknown = world.run("call files_size filename=prose.txt");
    assert!(!unknown.status.success(), "{}", world.shown(&unknown));
    // The bundled servers are tasks of the gateway, so it has no child processes.
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", gateway.id())).unwrap_or_default();
    assert_eq!(children.trim(), "");
    assert!(gateway.stop());
}
