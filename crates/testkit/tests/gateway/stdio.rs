//! `toolbooth stdio`: many clients, one gateway, one set of servers.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use toolbooth_testkit::fixture::{LEGACY, MODERN, TestEra};
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Home, TEST_TIMEOUT, client, poll, processes, token};

/// A client of `toolbooth stdio`.
struct LineClient {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: u64,
    /// The `_meta` of a modern client.
    stamp: Option<Value>,
    /// The ids of all answers so far.
    answered: Vec<Value>,
}

impl LineClient {
    fn start(home: &Home) -> Self {
        Self::start_with(home, &[])
    }

    fn start_with(home: &Home, arguments: &[&str]) -> Self {
        let mut command = Command::from(home.command("stdio"));
        command.args(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines, next_id: 1000, stamp: None, answered: Vec::new() }
    }

    async fn send(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(TEST_TIMEOUT, self.lines.next_line()).await;
        let message: Value =
            serde_json::from_str(&line.expect("a line in time").unwrap().expect("a line")).unwrap();
        if message.get("method").is_none() {
            self.answered.push(message["id"].clone());
        }
        message
    }

    /// Sends a request and reads until its answer.
    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Sends a request with a new id; returns the id.
    async fn start_asking(&mut self, method: &str, mut params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        for (key, value) in self.stamp.as_ref().and_then(Value::as_object).into_iter().flatten() {
            params["_meta"][key] = value.clone();
        }
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a request and answers questions; returns the answer and the notifications before it.
    async fn converse(&mut self, method: &str, params: Value) -> (Value, Vec<Value>) {
        let mut params = params;
        let mut before = Vec::new();
        loop {
            let id = self.start_asking(method, params.clone()).await;
            let answer = loop {
                let message = self.receive().await;
                match (message.get("method").and_then(Value::as_str), message.get("id")) {
                    (Some(asked), Some(question)) => {
                        let answer = client::default_answer(asked);
                        self.send(json!({ "jsonrpc": "2.0", "id": question, "result": answer })).await;
                    }
                    (Some(_), None) => before.push(message),
                    (None, given) => {
                        if given == Some(&json!(id)) {
                            break message;
                        }
                    }
                }
            };
            let result = &answer["result"];
            if result["resultType"] != "input_required" {
                return (answer, before);
            }
            let mut given = json!({});
            for (key, asked) in result["inputRequests"].as_object().unwrap() {
                given[key] = client::default_answer(asked["method"].as_str().unwrap());
            }
            params["inputResponses"] = given;
            params["requestState"] = result["requestState"].clone();
        }
    }

    async fn open_legacy(&mut self) {
        self.open_legacy_with(json!({})).await;
    }

    async fn open_legacy_with(&mut self, capabilities: Value) {
        let params = json!({ "protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": { "name": "a", "version": "1" } });
        let answer = self.ask(1, "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], LEGACY, "{answer}");
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    /// Closes its input, as clients do, and waits until the process exits.
    async fn leave(mut self) {
        drop(self.stdin);
        let left = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await;
        assert!(left.expect("it exits with its client").unwrap().success());
    }
}

fn modern_meta() -> Value {
    json!({ "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {} })
}

/// The background gateway of a home; dropping it ends the gateway, which would otherwise linger.
struct GatewayPresence(Value);

impl GatewayPresence {
    async fn of(home: &Home) -> Self {
        let file = home.data().join("gateway.json");
        let found = poll(TEST_TIMEOUT, || async { serde_json::from_slice(&std::fs::read(&file).ok()?).ok() });
        Self(found.await.expect("the gateway writes `gateway.json`"))
    }

    fn pid(&self) -> u32 {
        u32::try_from(self.0["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for GatewayPresence {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(i32::try_from(self.pid()).unwrap()), Signal::SIGKILL);
    }
}

#[tokio::test]
async fn clients_share_one_gateway_and_one_server() {
    let token = token("shared");
    let home = Home::new(&[("srv", hostile(&["echo", &token]))]);
    // Both at once: the second client must find the first one's gateway.
    let (mut ann, mut bob) = (LineClient::start(&home), LineClient::start(&home));
    ann.open_legacy().await;
    let discovered = bob.ask(1, "server/discover", json!({ "_meta": modern_meta() })).await;
    assert!(
        discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)),
        "{discovered}"
    );
    let presence = GatewayPresence::of(&home).await;

    // The server may still be starting; calls wait for it once it is known.
    let call = json!({ "name": "srv_echo", "arguments": { "who": "ann" } });
    let mut id = 10;
    let answer = loop {
        id += 1;
        let answer = ann.ask(id, "tools/call", call.clone()).await;
        if answer.get("result").is_some() {
            break answer;
        }
        assert!(id < 400, "{answer}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    };
    assert_eq!(answer["result"]["structuredContent"]["who"], "ann");
    let call = json!({ "name": "srv_echo", "arguments": { "who": "bob" }, "_meta": modern_meta() });
    let answer = bob.ask(2, "tools/call", call).await;
    assert_eq!(answer["result"]["structuredContent"]["who"], "bob");
    assert_eq!(answer["result"]["resultType"], "complete");

    let mut cleo = LineClient::start(&home);
    cleo.open_legacy().await;
    let listed = cleo.ask(2, "tools/list", json!({})).await;
    assert_eq!(
        listed["result"]["tools"].as_array().unwrap().len(),
        3,
        "including the gateway's own tool: {listed}"
    );
    assert_eq!(GatewayPresence::of(&home).await.pid_only(), presence.pid(), "one gateway");
    // The server and its reaper.
    assert_eq!(processes::marked(&token).len(), 2, "one server");
    // A second gateway may have been started at the same time; it finds the first one and exits.
    let alone =
        poll(Duration::from_secs(10), || async { (gateways(&home) == [presence.pid()]).then_some(()) });
    assert!(alone.await.is_some(), "{:?} instead of {}", gateways(&home), presence.pid());

    // A client that exits does not affect others.
    ann.leave().await;
    let call = json!({ "name": "srv_ok", "arguments": {}, "_meta": modern_meta() });
    assert_eq!(bob.ask(3, "tools/call", call).await["result"]["content"][0]["text"], "ok");
    bob.leave().await;
    cleo.leave().await;
    assert_eq!(gateways(&home), [presence.pid()], "it lingers after its last client");
    let mut dora = LineClient::start(&home);
    dora.open_legacy().await;
    assert_eq!(gateways(&home), [presence.pid()], "the next client joins it");
}

/// The linger time begins again whenever the last client disconnects.
#[tokio::test]
async fn gateway_exits_after_the_linger_time_of_its_last_client() {
    const LINGER: Duration = Duration::from_secs(3);
    let home = Home::new(&[("srv", hostile(&["echo"]))]);
    let mut ann = LineClient::start_with(&home, &["--linger", "3"]);
    ann.open_legacy().await;
    let presence = GatewayPresence::of(&home).await;
    ann.leave().await;
    tokio::time::sleep(LINGER / 2).await;
    let mut bob = LineClient::start(&home);
    bob.open_legacy().await;
    // Longer than the linger time of the first client, and not a whole number of seconds since the start.
    tokio::time::sleep(LINGER / 2 + Duration::from_millis(900)).await;
    assert_eq!(bob.ask(2, "ping", json!({})).await["result"], json!({}));
    bob.leave().await;
    let left = Instant::now();
    let gone = poll(TEST_TIMEOUT, || async { gateways(&home).is_empty().then_some(()) });
    assert!(gone.await.is_some(), "it exits after the linger time");
    let stayed = left.elapsed();
    assert!(stayed > LINGER - Duration::from_millis(200), "it stayed only {stayed:?}");
    presence.pid_only();
    assert!(!home.data().join("gateway.json").exists(), "it removes `gateway.json`");
}

impl GatewayPresence {
    /// The process id; the process is not ended.
    fn pid_only(self) -> u32 {
        let pid = self.pid();
        std::mem::forget(self);
        pid
    }
}

/// The `serve` processes of this configuration.
fn gateways(home: &Home) -> Vec<u32> {
    let config = home.config().display().to_string();
    let is_serving = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').nth(1) == Some("serve")
    };
    processes::marked(&config).into_iter().filter(is_serving).collect()
}

/// A client joins a gateway that was started with `serve`.
#[tokio::test]
async fn stdio_client_joins_a_running_gateway() {
    let home = Home::new(&[("srv", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let mut client = LineClient::start(&home);
    client.open_legacy().await;
    let answer = client.ask(2, "tools/call", json!({ "name": "srv_ok", "arguments": {} })).await;
    assert_eq!(answer["result"]["content"][0]["text"], "ok", "{answer}");
    assert_eq!(gateways(&home), [gateway.pid()]);
    // Invalid lines are answered with an error, and the next line is read.
    client
        .stdin
        .write_all(b"nonsense\n{\"jsonrpc\":\"2.0\",\"id\":3,\"id\":4,\"method\":\"ping\"}\n")
        .await
        .unwrap();
    assert_eq!(client.receive().await["error"]["code"], -32700);
    assert_eq!(client.receive().await["error"]["code"], -32600);
    assert_eq!(client.ask(5, "ping", json!({})).await["result"], json!({}));
    client.leave().await;
}

/// A client learns that its gateway has ended: the command ends with the code for it, not as if all was done.
#[tokio::test]
async fn stdio_reports_that_its_gateway_has_ended() {
    let home = Home::new(&[("srv", hostile(&["echo"]))]);
    let gateway = home.start().await;
    let mut client = LineClient::start(&home);
    client.open_legacy().await;
    gateway.kill().await;
    let status = tokio::time::timeout(TEST_TIMEOUT, client.child.wait()).await;
    assert_eq!(status.expect("it ends").unwrap().code(), Some(5));
}

/// Batches over stdio are accepted in one revision; lines that are not messages get a fixed error message.
#[tokio::test]
async fn batches_over_stdio_are_accepted_in_one_revision_only() {
    let home = Home::new(&[("srv", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": "a", "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        { "jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": { "name": "srv_ok", "arguments": {} } },
        { "jsonrpc": "2.0", "id": "c", "method": "tools/dance" },
    ]);
    for revision in [None, Some("2025-03-26"), Some(LEGACY)] {
        let mut client = LineClient::start(&home);
        if let Some(revision) = revision {
            let info = json!({ "name": "a", "version": "1" });
            let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": info });
            client.ask(1, "initialize", params).await;
        }
        client.send(batch.clone()).await;
        let answer = client.receive().await;
        if revision == Some("2025-03-26") {
            let ids: Vec<&Value> = answer.as_array().unwrap().iter().map(|one| &one["id"]).collect();
            assert_eq!(ids, ["a", "b", "c"]);
            assert_eq!(answer[1]["result"]["content"][0]["text"], "ok", "{answer}");
            assert_eq!(answer[2]["error"]["code"], -32601);
            client.send(json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }])).await;
        } else {
            assert_eq!(answer["error"]["code"], -32600, "{revision:?}: {answer}");
        }
        client.send(json!(7)).await;
        let expected = "Invalid Request: a message must be an object, not a number";
        let answer = client.receive().await;
        assert_eq!((&answer["error"]["message"], &answer["id"]), (&json!(expected), &Value::Null));
        client.leave().await;
    }
}

/// All features of both eras over HTTP are also available over stdio.
#[tokio::test]
async fn stdio_supports_all_features_in_both_eras() {
    let home = Home::new(&[("srv", fixture_on_stdio("modern")), ("old", fixture_on_stdio("legacy"))]);
    let gateway = home.start().await;
    gateway.connected(&["srv", "old"]).await;
    for server in ["srv", "old"] {
        for era in [TestEra::Legacy, TestEra::Modern] {
            let mut client = LineClient::start(&home);
            if era == TestEra::Legacy {
                client.open_legacy_with(client::all_capabilities()).await;
            }
            client.stamp = (era == TestEra::Modern).then(|| {
                let mut meta = modern_meta();
                meta["io.modelcontextprotocol/clientCapabilities"] = client::all_capabilities();
                meta
            });
            let what = format!("{era:?} client, {server}");
            assert_all_features(&mut client, server, era, &what).await;
            client.leave().await;
        }
    }
}

async fn assert_all_features(client: &mut LineClient, server: &str, era: TestEra, what: &str) {
    let tool = |name: &str| format!("{server}_{name}");
    let (answer, _) =
        client.converse("tools/call", json!({ "name": tool("add"), "arguments": { "a": 1, "b": 2 } })).await;
    assert_eq!(answer["result"]["structuredContent"]["sum"], 3, "{what}: {answer}");
    let (answer, _) =
        client.converse("tools/call", json!({ "name": tool("ask_name"), "arguments": {} })).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Hello, Ann!", "{what}: {answer}");
    let params = json!({ "name": tool("slow"), "arguments": { "ms": 60, "steps": 3 }, "_meta": { "progressToken": "p" } });
    let (answer, before) = client.converse("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Done in 3 steps.", "{what}");
    let steps = before.iter().filter(|message| message["params"]["progressToken"] == "p").count();
    assert_eq!(steps, 3, "{what}: {before:?}");

    // A cancelled call is never answered, and its server is notified.
    let count = async |client: &mut LineClient| {
        let (answer, _) =
            client.converse("tools/call", json!({ "name": tool("cancelled_calls"), "arguments": {} })).await;
        answer["result"]["structuredContent"]["count"].as_u64().unwrap()
    };
    let cancelled = count(client).await;
    let params = json!({ "name": tool("slow"), "arguments": { "ms": 60_000, "steps": 6000 }, "_meta": { "progressToken": "q" } });
    let id = client.start_asking("tools/call", params).await;
    while client.receive().await["params"]["progressToken"] != "q" {}
    client
        .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }))
        .await;
    let mut rounds = 0;
    while count(client).await == cancelled {
        rounds += 1;
        assert!(rounds < 200, "{what}: the server was not notified");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    assert!(!client.answered.contains(&json!(id)), "{what}: a cancelled call was answered");

    // Change notifications arrive on the same connection; modern clients subscribe to them.
    let tag = match era {
        TestEra::Legacy => Value::Null,
        TestEra::Modern => {
            let wanted = json!({ "notifications": { "toolsListChanged": true } });
            let id = client.start_asking("subscriptions/listen", wanted).await;
            let first = client.receive().await;
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{what}: {first}");
            json!(id)
        }
    };
    let extra = token("line").replace('-', "_");
    let changing = json!({ "name": tool("change_tools"), "arguments": { "tool": extra } });
    let (_, mut heard) = client.converse("tools/call", changing).await;
    while !heard.iter().any(|message| message["method"] == "notifications/tools/list_changed") {
        heard.push(client.receive().await);
    }
    let reply = heard.iter().find(|message| message["method"] == "notifications/tools/list_changed").unwrap();
    assert_eq!(reply["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], tag, "{what}: {reply}");
    let (answer, _) = client.converse("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|entry| entry["name"] == tool(&extra)), "{what}: the list has changed");
}
