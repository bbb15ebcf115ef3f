//! Two gateways on one PostgreSQL database give a contested name of a tool to the same server, although its rival
//! answers one of them first.

use crate::shared_store::SharedDatabase;
use serde_json::json;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

const EMPTY: &str = "[]";

/// The list of a server with one tool.
fn tool(name: &str) -> String {
    json!([{ "name": name, "inputSchema": { "type": "object" } }]).to_string()
}

/// The servers `x` and `x_y` of one gateway: the tool `y_z` of the one and `z` of the other are both `x_y_z`.
async fn servers(x: &str, x_y: &str) -> [ScriptedServer; 2] {
    let servers =
        [ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Modern).await];
    servers[0].list(x);
    servers[1].list(x_y);
    servers
}

async fn start(database: &SharedDatabase, servers: &[ScriptedServer; 2]) -> (Home, Gateway) {
    let settings = json!({ "store": { "url": database.url } });
    let home = Home::with_settings(settings, &[("x", servers[0].entry()), ("x_y", servers[1].entry())]);
    let gateway = home.start().await;
    gateway.connected(&["x", "x_y"]).await;
    (home, gateway)
}

async fn names(gateway: &Gateway) -> Vec<String> {
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let mut names = client.names("tools/list", "tools").await;
    names.retain(|name| name.starts_with("x_y_z"));
    names
}

#[tokio::test]
async fn a_contested_name_belongs_to_one_server_on_both_gateways() {
    let Some(database) = SharedDatabase::create().await else { return };
    // Each server is the first one to list the tool on one of the gateways.
    let of_first = servers(&tool("y_z"), EMPTY).await;
    let of_second = servers(EMPTY, &tool("z")).await;
    let (_one, first) = start(&database, &of_first).await;
    assert_eq!(names(&first).await, ["x_y_z"]);
    let (_two, second) = start(&database, &of_second).await;
    let alone = names(&second).await;
    assert!(alone.len() == 1 && alone[0] != "x_y_z", "the name belongs to the other server: {alone:?}");

    of_first[1].list(tool("z"));
    of_second[0].list(tool("y_z"));
    first.act("x_y", "refresh").await;
    second.act("x", "refresh").await;
    let both = poll(TEST_TIMEOUT, || async {
        let (one, two) = (names(&first).await, names(&second).await);
        (one.len() == 2 && two.len() == 2).then_some((one, two))
    });
    let (one, two) = both.await.expect("both tools on both gateways");
    assert_eq!(one, two);
    assert!(one.contains(&"x_y_z".to_owned()) && one.contains(&alone[0]), "{one:?}");
    let (a, b) = (
        TestClient::of(TestEra::Modern, first.address).await,
        TestClient::of(TestEra::Modern, second.address).await,
    );
    assert_eq!(a.list_text("tools/list").await, b.list_text("tools/list").await);
}
