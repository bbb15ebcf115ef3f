//! Servers to which each user gives a key of their own.

use crate::token_users::{bearer, make_token};
use hyper::Method;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use toolbooth_testkit::fixture::{LEGACY, MODERN, TestEra};
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::terminal::Terminal;
use toolbooth_testkit::world::{
    Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, binaries, poll,
};

const ANN: &str = "ann-key-1111";
const ANN_LATER: &str = "ann-key-3333";
const BOB: &str = "bob-key-2222";

/// A gateway with a server that takes keys of users, and the tokens of three callers.
struct KeyUsers {
    home: Home,
    gateway: Gateway,
    server: ScriptedServer,
    ann: String,
    bob: String,
    root: String,
}

impl KeyUsers {
    async fn gather(era: TestEra, auth: Value) -> Self {
        let server = ScriptedServer::start(era).await;
        server.opens_sessions();
        let mut entry = server.entry();
        entry.as_object_mut().unwrap().extend(auth.as_object().unwrap().clone());
        let open = ScriptedServer::start(era).await;
        let settings = json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" } });
        let home = Home::with_settings(settings, &[("shop", entry), ("open", open.entry())]);
        let root = make_token(&home, None, "root", &["--groups", "admin"]).0;
        let ann = make_token(&home, None, "ann", &[]).0;
        let bob = make_token(&home, None, "bob", &[]).0;
        let gateway = start(&home, &root).await;
        Self { home, gateway, server, ann, bob, root }
    }

    fn http(&self, token: &str) -> Http {
        Http::new(self.gateway.address).sending(&bearer(token))
    }

    async fn key(&self, token: &str, method: Method, body: &str) -> (u16, Value) {
        self.key_of("shop", token, method, body).await
    }

    async fn key_of(&self, server: &str, token: &str, method: Method, body: &str) -> (u16, Value) {
        let headers: &[(&str, &str)] =
            if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
        let path = format!("/servers/{server}/key");
        let reply = self.http(token).send(method, &path, headers, body.to_owned()).await;
        (reply.status, reply.json().await)
    }

    async fn give(&self, token: &str, key: &str) {
        let (status, view) = self.key(token, Method::PUT, &json!({ "key": key }).to_string()).await;
        assert_eq!((status, &view["set"]), (200, &json!(true)), "{view}");
        assert!(view["set_at_ms"].as_i64().is_some_and(|at| at > 0), "{view}");
        assert!(!view.to_string().contains(key), "{view}");
    }

    async fn call(&self, token: &str, note: &str) -> (u16, Value) {
        let body = json!({ "arguments": { "note": note } }).to_string();
        self.http(token).post_json("/tools/shop_take/call", &body).await
    }

    /// Calls until it works: the first key makes the gateway connect and list the tools.
    async fn call_when_listed(&self, token: &str) {
        let called =
            poll(TEST_TIMEOUT, || async { (self.call(token, "first").await.0 == 200).then_some(()) });
        if called.await.is_none() {
            panic!("{:?}\n{}", self.call(token, "first").await, self.gateway.log());
        }
    }

    async fn state(&self, token: &str) -> Value {
        self.http(token).get_json("/servers/shop").await
    }

    async fn tools(&self, token: &str) -> String {
        self.http(token).get_json("/tools").await.to_string()
    }

    async fn is_without_key(&self, token: &str) {
        let state = self.state(token).await;
        assert_eq!((&state["state"], &state["code"]), (&json!("needs_auth"), &json!("server.needs-key")));
        assert!(state["hint"].as_str().unwrap().contains("toolbooth servers key set shop"), "{state}");
        assert_eq!(self.key(token, Method::GET, "").await.1, json!({ "set": false }));
        assert!(!self.tools(token).await.contains("shop_take"));
        let (status, problem) = self.call(token, "without a key").await;
        assert_eq!((status, &problem["code"]), (400, &json!("server.needs-key")), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("toolbooth servers key set shop"), "{problem}");
    }

    /// The key that the server received with the last call.
    fn last_key(&self) -> String {
        key_in(&self.server.seen("tools/call").last().expect("a call").headers)
    }

    /// A command of this caller.
    fn command(&self, token: &str, words: &[&str]) -> Command {
        let mut command = Command::new(binaries::toolbooth());
        command.args(words).arg("--config").arg(self.home.config()).arg("--data-dir").arg(self.home.data());
        command.env_clear().current_dir(self.home.path("")).env("HOME", self.home.path(""));
        command.env("TOOLBOOTH_TOKEN", token);
        command
    }

    /// Runs a command of this caller, with a text on its standard input.
    fn run(&self, token: &str, words: &[&str], input: &str) -> Output {
        let mut command = self.command(token, words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails before it reads has closed the pipe.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        child.wait_with_output().unwrap()
    }
}

async fn start(home: &Home, root: &str) -> Gateway {
    let mut gateway = home.start().await;
    gateway.headers = bearer(root);
    gateway.wait_for_state("open", "connected").await;
    gateway
}

fn key_in(headers: &str) -> String {
    let values = headers.lines().filter_map(|line| line.split_once(": "));
    values.filter(|(name, _)| *name == "x-shop-key").map(|(_, value)| value).collect()
}

/// The files below a folder that contain one of the keys.
fn files_with_keys(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with_keys(&entry.path()));
        } else if let Ok(bytes) = std::fs::read(entry.path()) {
            let text = String::from_utf8_lossy(&bytes);
            if [ANN, ANN_LATER, BOB].iter().any(|key| text.contains(key)) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

fn api_key() -> Value {
    json!({ "auth_type": "api_key", "auth_header": "X-Shop-Key" })
}

#[tokio::test]
async fn each_user_calls_with_their_own_key() {
    for era in [TestEra::Modern, TestEra::Legacy] {
        let users = KeyUsers::gather(era, api_key()).await;
        for token in [&users.ann, &users.bob, &users.root] {
            users.is_without_key(token).await;
        }
        for method in ["initialize", "server/discover", "tools/list", "tools/call"] {
            assert_eq!(users.server.seen(method).len(), 0, "nothing is sent without a key: {method}");
        }

        users.give(&users.ann, ANN).await;
        users.call_when_listed(&users.ann).await;
        assert_eq!(users.last_key(), ANN);
        assert_eq!(users.state(&users.ann).await["state"], "connected");
        assert!(users.tools(&users.ann).await.contains("shop_take"));
        // Neither another user nor an administrator gets the key, the tools or the connection.
        for token in [&users.bob, &users.root] {
            users.is_without_key(token).await;
        }

        users.give(&users.bob, BOB).await;
        let calls = (0..40).map(|n| {
            let (token, note) = if n % 2 == 0 { (&users.ann, "of-ann") } else { (&users.bob, "of-bob") };
            users.call(token, note)
        });
        for (status, answer) in futures_util::future::join_all(calls).await {
            assert_eq!(status, 200, "{answer}");
        }
        for call in users.server.seen("tools/call") {
            let expected = if call.body.contains("of-bob") { BOB } else { ANN };
            assert_eq!(key_in(&call.headers), expected, "{}", call.body);
        }
        assert!(users.server.seen("tools/call").len() > 40);
        assert_eq!(files_with_keys(&users.home.data()), Vec::<String>::new());
        assert!(!users.gateway.log().contains("-key-"), "{}", users.gateway.log());
    }
}

#[tokio::test]
async fn a_key_is_replaced_and_deleted_at_once_and_survives_a_kill() {
    for era in [TestEra::Modern, TestEra::Legacy] {
        let mut users = KeyUsers::gather(era, api_key()).await;
        users.give(&users.ann, ANN).await;
        users.call_when_listed(&users.ann).await;
        users.give(&users.bob, BOB).await;
        assert_eq!(users.call(&users.bob, "bob").await.0, 200);

        users.give(&users.ann, ANN_LATER).await;
        let (status, answer) = users.call(&users.ann, "replaced").await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(users.last_key(), ANN_LATER, "the next call uses the new key");

        let KeyUsers { home, gateway, root, .. } = users;
        gateway.kill().await;
        let gateway = start(&home, &root).await;
        users = KeyUsers { home, gateway, root, ..users };
        for (token, key) in [(&users.ann, ANN_LATER), (&users.bob, BOB)] {
            users.call_when_listed(token).await;
            assert_eq!(users.last_key(), key, "the key survives a kill");
        }

        let (status, view) = users.key(&users.ann, Method::DELETE, "").await;
        assert_eq!((status, view), (200, json!({ "set": false })));
        users.is_without_key(&users.ann).await;
        let again = users.key(&users.ann, Method::DELETE, "").await;
        assert_eq!(again, (200, json!({ "set": false })), "there is nothing left to delete");
        let before = users.server.seen("tools/call").len();
        assert_eq!(users.call(&users.bob, "still there").await.0, 200);
        assert_eq!((users.server.seen("tools/call").len(), users.last_key()), (before + 1, BOB.to_owned()));

        let rows = users.http(&users.root).get_json("/audit?kind=key").await;
        let rows: Vec<(&str, &str, &str)> = rows["rows"].as_array().unwrap().iter().map(of_row).collect();
        let expected = [("ann", "deleted"), ("ann", "set"), ("bob", "set"), ("ann", "set")]
            .map(|(by, did)| (by, did, "shop"));
        assert_eq!(rows, expected);
        assert_eq!(files_with_keys(&users.home.data()), Vec::<String>::new());

        // Without any key, the server waits for one.
        assert_eq!(users.key(&users.bob, Method::DELETE, "").await.0, 200);
        users.is_without_key(&users.bob).await;
        assert!(!users.home.data().join("oauth/shop.sealed").exists(), "no key is left on disk");
    }
}

#[tokio::test]
async fn mcp_clients_learn_that_a_key_is_missing_and_that_their_tools_changed() {
    const CHANGED: &str = "notifications/tools/list_changed";
    let users = KeyUsers::gather(TestEra::Modern, api_key()).await;
    users.give(&users.ann, ANN).await;
    users.call_when_listed(&users.ann).await;
    for revision in [MODERN, LEGACY] {
        let headers = bearer(&users.bob);
        let address = users.gateway.address;
        let client = TestClient::with_revision(revision, address, "/mcp", &headers, json!({})).await;
        assert!(!client.names("tools/list", "tools").await.contains(&"shop_take".to_owned()));
        let mut changes = client.listen(&[]).await;
        let answer = client.call("shop_take", json!({})).await;
        assert_eq!((answer.is_error(), answer.fault()), (true, "server.needs-key"), "{revision}");
        assert!(answer.text().contains("toolbooth servers key set shop"), "{}", answer.text());

        users.give(&users.bob, BOB).await;
        assert!(changes.wait_for(CHANGED, TEST_TIMEOUT).await.is_some(), "{revision}");
        assert!(client.names("tools/list", "tools").await.contains(&"shop_take".to_owned()), "{revision}");
        assert!(!client.call("shop_take", json!({})).await.is_error());
        assert_eq!(users.last_key(), BOB);

        assert_eq!(users.key(&users.bob, Method::DELETE, "").await.0, 200);
        assert!(changes.wait_for(CHANGED, TEST_TIMEOUT).await.is_some(), "{revision}");
        assert!(!client.names("tools/list", "tools").await.contains(&"shop_take".to_owned()), "{revision}");
        assert_eq!(client.call("shop_take", json!({})).await.fault(), "server.needs-key");
    }
}

fn of_row(row: &Value) -> (&str, &str, &str) {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    (text("by"), text("outcome"), text("server"))
}

#[tokio::test]
async fn a_refused_key_concerns_its_user_alone() {
    let users = KeyUsers::gather(TestEra::Modern, json!({ "auth_type": "bearer" })).await;
    let good = format!("Bearer {BOB}");
    users.server.admit_by(move |shown| (shown != Some(good.as_str())).then(|| "Bearer".to_owned()));
    users.give(&users.ann, ANN).await;
    let refused = poll(TEST_TIMEOUT, || async {
        let state = users.state(&users.ann).await;
        (state["code"] == "server.needs-auth").then_some(state)
    });
    let state = refused.await.unwrap_or_else(|| panic!("{}", users.gateway.log()));
    assert_eq!(state["state"], "needs_auth");
    assert!(state["hint"].as_str().unwrap().contains("refused your key"), "{state}");
    assert_eq!(users.key(&users.ann, Method::GET, "").await.1["refused"], true);

    users.give(&users.bob, BOB).await;
    users.call_when_listed(&users.bob).await;
    assert_eq!(users.state(&users.bob).await["state"], "connected");
    let (status, problem) = users.call(&users.ann, "refused").await;
    assert_eq!((status, &problem["code"]), (400, &json!("server.needs-auth")), "{problem}");
    assert_eq!(users.call(&users.bob, "accepted").await.0, 200);
    // The accepted key goes away: the refused one does not connect the server.
    assert_eq!(users.key(&users.bob, Method::DELETE, "").await.0, 200);
    users.is_without_key(&users.bob).await;
}

#[tokio::test]
async fn a_server_that_repeats_a_key_does_not_reveal_it() {
    let users = KeyUsers::gather(TestEra::Legacy, api_key()).await;
    users.give(&users.ann, ANN).await;
    users.call_when_listed(&users.ann).await;
    let content = json!({ "content": [{ "type": "text", "text": format!("your key is {ANN}") }] });
    users.server.answer(ScriptedAnswer::result(&content.to_string()));
    let (status, answer) = users.call(&users.ann, "repeat").await;
    assert_eq!(status, 200, "{answer}");
    let text = answer.to_string();
    assert!(text.contains("your key is [redacted]") && !text.contains(ANN), "{text}");
}

#[tokio::test]
async fn invalid_keys_and_servers_without_them_are_refused() {
    let users = KeyUsers::gather(TestEra::Modern, api_key()).await;
    let put = |server: &'static str, body: String| {
        let users = &users;
        async move {
            let (status, problem) = users.key_of(server, &users.ann, Method::PUT, &body).await;
            (status, problem["code"].as_str().unwrap_or_default().to_owned())
        }
    };
    let key = |text: &str| json!({ "key": text }).to_string();
    let cases = [
        ("shop", key(""), (400, "server.bad-key")),
        ("shop", key("Bearer abcdefgh"), (400, "server.bad-key")),
        ("shop", key("line\nbreak"), (400, "server.bad-key")),
        ("shop", key(&"k".repeat(4097)), (400, "server.bad-key")),
        ("shop", json!({ "key": ANN, "user": "bob" }).to_string(), (400, "request.bad-body")),
        ("shop", json!({ "key": 7 }).to_string(), (400, "request.bad-body")),
        ("open", key(ANN), (400, "server.no-user-keys")),
        ("nowhere", key(ANN), (404, "server.unknown")),
    ];
    for (server, body, (status, code)) in cases {
        assert_eq!(put(server, body.clone()).await, (status, code.to_owned()), "{server} {body:.40}");
    }
    users.is_without_key(&users.ann).await;
}

#[tokio::test]
async fn the_command_reads_the_key_from_standard_input_and_never_shows_it() {
    let users = KeyUsers::gather(TestEra::Modern, api_key()).await;
    let run = |words: &[&str], input: &str| {
        let output = users.run(&users.ann, words, input);
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains(ANN), "{text}");
        (output.status.success(), text)
    };
    let (done, text) = run(&["servers", "key"], "");
    assert!(done && text.contains("shop") && text.contains("missing"), "{text}");
    let (done, text) = run(&["servers", "key", "set", "shop"], "\n");
    assert!(!done && text.contains("usage.no-key"), "{text}");
    let (done, text) = run(&["servers", "key", "set", "shp"], ANN);
    assert!(!done && text.contains("did you mean `shop`?"), "{text}");
    let (done, text) = run(&["servers", "key", "set", "shop"], &format!("{ANN}\n"));
    assert!(done && text.contains("Your key for shop is stored"), "{text}");
    users.call_when_listed(&users.ann).await;
    assert_eq!(users.last_key(), ANN);
    let (done, text) = run(&["servers", "key", "list", "--json"], "");
    let listed: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    assert!(done);
    assert_eq!(
        (&listed["keys"][0]["name"], &listed["keys"][0]["key"]["set"]),
        (&json!("shop"), &json!(true))
    );
    users.is_without_key(&users.bob).await;
    let (done, text) = run(&["servers", "key", "delete", "shop"], "");
    assert!(done, "{text}");
    users.is_without_key(&users.ann).await;
    // The spelling of the migration guide.
    let (done, text) = run(&["servers", "key", "remove", "shop"], "");
    assert!(done, "{text}");
}

#[tokio::test]
async fn the_prompt_does_not_show_the_key() {
    let users = KeyUsers::gather(TestEra::Modern, api_key()).await;
    let words = ["servers", "key", "set", "shop"];
    let mut terminal = Terminal::run(users.command(&users.ann, &words)).unwrap();
    terminal.wait_for_text("Your key for shop: ").await;
    terminal.press(&format!("{ANN}\r"));
    terminal.wait_for_text("is stored").await;
    assert!(!terminal.shown().contains(ANN), "{}", terminal.shown());
    assert_eq!(terminal.wait_for_exit().await, Some(0));
    users.call_when_listed(&users.ann).await;
    assert_eq!(users.last_key(), ANN);

    let mut terminal = Terminal::run(users.command(&users.bob, &words)).unwrap();
    terminal.wait_for_text("Your key for shop: ").await;
    terminal.press("\u{4}");
    terminal.wait_for_text("usage.no-key").await;
    assert_eq!(terminal.wait_for_exit().await, Some(2), "Ctrl+D ends it");
    users.is_without_key(&users.bob).await;
}
