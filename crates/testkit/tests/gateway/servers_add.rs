//! `toolbooth servers add`, `remove`, `enable` and `disable`, with a registry and an HTTP service of the test.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, binaries};

/// Starts an HTTP server with these documents by path; returns its URL and the requests it received.
async fn documents(pages: BTreeMap<String, Value>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let (journal, pages) = (seen.clone(), Arc::new(pages));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (journal, pages) = (journal.clone(), pages.clone());
            tokio::spawn(async move {
                let mut read = vec![0; 65536];
                while let Ok(length @ 1..) = stream.read(&mut read).await {
                    let asked = String::from_utf8_lossy(&read[..length]).into_owned();
                    let target = asked.split(' ').nth(1).unwrap_or_default();
                    let path = target.split('?').next().unwrap_or_default();
                    let (status, body) = match pages.get(path) {
                        // A health check.
                        _ if asked.starts_with("HEAD ") => (200, String::new()),
                        Some(page) => (200, page.to_string()),
                        None => (404, "{}".to_owned()),
                    };
                    journal.lock().unwrap().push(asked);
                    let head = "content-type: application/json";
                    let length = body.len();
                    let reply =
                        format!("HTTP/1.1 {status} Some\r\ncontent-length: {length}\r\n{head}\r\n\r\n{body}");
                    if stream.write_all(reply.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, seen)
}

/// The command `toolbooth servers …` for a home. Options of every command stand before `servers`.
fn servers_command(home: &Home, arguments: &[&str]) -> Command {
    let base = home.command("servers");
    let mut command = Command::new(base.get_program());
    command.args(base.get_args().skip(1)).arg("servers").args(arguments);
    command.env_clear().current_dir(home.path(""));
    command.envs(base.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Runs `toolbooth servers …` beside the gateway of a home.
async fn servers(home: &Home, arguments: &[&str]) -> Output {
    output(servers_command(home, arguments)).await
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn call(gateway: &Gateway, tool: &str, arguments: Value) -> (u16, Value) {
    let body = json!({ "arguments": arguments }).to_string();
    gateway.http().post_json(&format!("/tools/{tool}/call"), &body).await
}

#[tokio::test]
async fn a_running_gateway_uses_an_added_server_at_once() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let config = std::fs::read_to_string(home.config()).unwrap();
    home.write_config(&format!("// mine\n{config}"));
    let gateway = home.start().await;
    let program = binaries::hostile().display().to_string();
    let added = servers(&home, &["add", "second", "--env", "SHOWN=1", "--", &program, "echo"]).await;
    assert!(added.status.success(), "{}", printed(&added));
    assert!(printed(&added).contains("second: connected"), "{}", printed(&added));
    assert_eq!(call(&gateway, "second_ok", json!({})).await.0, 200);
    let text = std::fs::read_to_string(home.config()).unwrap();
    assert!(text.starts_with("// mine\n") && text.contains("\"SHOWN\": \"1\""), "{text}");

    let twice = servers(&home, &["add", "second", "--", &program, "echo"]).await;
    assert_eq!(twice.status.code(), Some(2), "{}", printed(&twice));
    assert!(printed(&twice).contains("servers.exists"), "{}", printed(&twice));

    let disabled = servers(&home, &["disable", "second"]).await;
    assert!(disabled.status.success(), "{}", printed(&disabled));
    assert_eq!(gateway.server("second").await["state"], "disabled");
    let enabled = servers(&home, &["enable", "second"]).await;
    assert!(enabled.status.success(), "{}", printed(&enabled));
    assert_eq!(gateway.server("second").await["state"], "connected");
    let removed = servers(&home, &["remove", "second"]).await;
    assert!(removed.status.success(), "{}", printed(&removed));
    assert_eq!(gateway.server("second").await["code"], "server.unknown");
    let text = std::fs::read_to_string(home.config()).unwrap();
    assert!(text.starts_with("// mine\n") && !text.contains("second"), "{text}");
    assert!(text.contains("\"echo\""), "{text}");
}

/// A faulty entry does not stay in the file.
#[tokio::test]
async fn an_entry_that_cannot_be_used_is_taken_back() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let before = std::fs::read_to_string(home.config()).unwrap();
    let refused = servers(&home, &["add", "bad", "https://"]).await;
    assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
    assert!(printed(&refused).contains("config.bad-url"), "{}", printed(&refused));
    assert_eq!(std::fs::read_to_string(home.config()).unwrap(), before);
    let refused = servers(&home, &["add", "bad name", "--", "x"]).await;
    assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
    assert!(printed(&refused).contains("usage.server-name"), "{}", printed(&refused));
}

fn described(status: &str) -> Value {
    json!({ "server": { "name": "io.github.ann/weather", "description": "Tells the weather.", "version": "1.0.0",
        "packages": [{ "registryType": "npm", "identifier": "@ann/weather", "version": "1.0.0",
            "transport": { "type": "stdio" },
            "packageArguments": [{ "type": "named", "name": "--city", "isRequired": true }],
            "environmentVariables": [{ "name": "REGISTRY_KEY", "isRequired": true, "isSecret": true }] }] },
        "_meta": { "io.modelcontextprotocol.registry/official": { "status": status } } })
}

#[tokio::test]
async fn a_server_is_added_from_a_registry_and_then_without_it() {
    let page = "/v0.1/servers/io.github.ann%2Fweather/versions/latest";
    let gone = "/v0.1/servers/io.github.ann%2Fgone/versions/latest";
    let pages = [(page.to_owned(), described("active")), (gone.to_owned(), described("deleted"))];
    let (registry, seen) = documents(pages.into()).await;
    let home =
        Home::with_settings(json!({ "registry": { "url": registry } }), &[("echo", hostile(&["echo"]))]);
    // A program named `npx` that runs the test's server and records its arguments.
    let bin = home.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let program = binaries::hostile().display().to_string();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$REGISTRY_KEY\" \"$@\" > \"$HOME/npx.txt\"\nexec '{program}' echo\n"
    );
    std::fs::write(bin.join("npx"), script).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(bin.join("npx"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let with_npx = async |arguments: &[&str]| {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = servers_command(&home, arguments);
        command.env("PATH", path).env("REGISTRY_KEY", "from-the-environment");
        output(command).await
    };

    let missing = with_npx(&["add", "io.github.ann/weather", "--yes"]).await;
    assert!(
        printed(&missing).contains("registry.missing-input") && printed(&missing).contains("`city`"),
        "{}",
        printed(&missing)
    );
    let unasked = with_npx(&["add", "io.github.ann/weather", "--input", "city=Ulm"]).await;
    assert_eq!(unasked.status.code(), Some(2), "{}", printed(&unasked));
    assert!(
        printed(&unasked).contains("servers.not-confirmed")
            && printed(&unasked).contains("@ann/weather@1.0.0")
    );
    let deleted = with_npx(&["add", "io.github.ann/gone", "--yes", "--input", "city=Ulm"]).await;
    assert!(printed(&deleted).contains("registry.deleted"), "{}", printed(&deleted));
    let unknown = with_npx(&["add", "io.github.ann/unknown", "--yes"]).await;
    assert!(printed(&unknown).contains("registry.not-found"), "{}", printed(&unknown));
    let added = with_npx(&["add", "io.github.ann/weather", "--yes", "--input", "city=Ulm"]).await;
    assert!(added.status.success(), "{}", printed(&added));
    let asked = seen.lock().unwrap().len();
    assert_eq!(asked, 5);
    let text = std::fs::read_to_string(home.config()).unwrap();
    assert!(text.contains("\"REGISTRY_KEY\": \"${REGISTRY_KEY}\""), "a secret is a reference: {text}");

    let mut command = home.command("serve");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).env("REGISTRY_KEY", "from-the-environment");
    let gateway = Gateway::start(command, &home.path("serve.log")).await;
    gateway.connected(&["weather"]).await;
    assert_eq!(call(&gateway, "weather_ok", json!({})).await.0, 200);
    let ran = std::fs::read_to_string(home.path("npx.txt")).unwrap();
    assert_eq!(ran, "from-the-environment\n-y\n@ann/weather@1.0.0\n--city\nUlm\n");

    // The stored answer serves without the registry.
    let offline = with_npx(&[
        "add",
        "io.github.ann/weather",
        "--name",
        "w2",
        "--offline",
        "--yes",
        "--input",
        "city=Bern",
    ]);
    let offline = offline.await;
    assert!(offline.status.success(), "{}", printed(&offline));
    let lost =
        ["add", "io.github.ann/weather", "--name", "w3", "--yes", "--input", "city=Bern", "--registry"];
    let nowhere = [&lost[..], &["http://127.0.0.1:1"]].concat();
    let nowhere = with_npx(&nowhere).await;
    assert!(
        printed(&nowhere).contains("download.failed"),
        "another registry has no stored answer: {}",
        printed(&nowhere)
    );
    assert_eq!(seen.lock().unwrap().len(), asked);
}

#[tokio::test]
async fn an_openapi_document_becomes_tools_that_policies_apply_to() {
    let document = json!({ "openapi": "3.1.0", "info": { "title": "Pets", "version": "1" }, "servers": [{ "url": "/v1" }],
        "paths": {
            "/pets/{id}": { "get": { "operationId": "getPet", "summary": "Shows a pet.", "parameters": [
                { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
                { "name": "verbose", "in": "query", "schema": { "type": "boolean" } } ] } },
            "/pets": { "post": { "operationId": "addPet", "requestBody": { "required": true, "content": {
                "application/json": { "schema": { "type": "object", "required": ["name"],
                    "properties": { "name": { "type": "string" } } } } } } } } } });
    let pages = [
        ("/openapi.json".to_owned(), document),
        ("/v1/pets/7".to_owned(), json!({ "name": "Rex" })),
        ("/v1/pets".to_owned(), json!({ "id": 8 })),
    ];
    let (url, seen) = documents(pages.into()).await;
    let rules = json!({ "policy": { "rules": [{ "tools": "pets_addPet", "effect": "deny" }] } });
    let home = Home::with_settings(rules, &[("echo", hostile(&["echo"]))]);
    // Manifests of a user stand in the user's folder.
    let gateway = home.start().await;
    let place = format!("{url}/openapi.json");
    let unasked = servers(&home, &["add", "openapi", &place, "--name", "pets"]).await;
    assert!(printed(&unasked).contains("servers.not-confirmed"), "{}", printed(&unasked));
    assert_eq!(call(&gateway, "pets_getPet", json!({ "id": "7" })).await.0, 404);
    let added = servers(&home, &["add", "openapi", &place, "--name", "pets", "--yes"]).await;
    assert!(added.status.success(), "{}", printed(&added));
    assert!(printed(&added).contains("2 tools of Pets"), "{}", printed(&added));
    let (status, answer) = call(&gateway, "pets_getPet", json!({ "id": "7", "verbose": true })).await;
    assert_eq!((status, &answer["result"]["structuredContent"]["name"]), (200, &json!("Rex")), "{answer}");
    let (status, answer) = call(&gateway, "pets_addPet", json!({ "name": "Ace" })).await;
    assert_eq!((status, &answer["code"]), (403, &json!("call.refused")), "the same rules apply: {answer}");
    let (status, answer) = call(&gateway, "pets_getPet", json!({ "verbose": true })).await;
    assert_eq!((status, &answer["code"]), (400, &json!("call.invalid-arguments")), "{answer}");
    {
        let seen = seen.lock().unwrap();
        assert!(seen.iter().any(|asked| asked.starts_with("GET /v1/pets/7?verbose=true ")), "{seen:?}");
        assert!(!seen.iter().any(|asked| asked.starts_with("POST")), "{seen:?}");
    }
    let removed = servers(&home, &["remove", "pets"]).await;
    assert!(removed.status.success(), "{}", printed(&removed));
    assert_eq!(call(&gateway, "pets_getPet", json!({ "id": "7" })).await.0, 404);
}
