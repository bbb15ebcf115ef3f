//! Rights on open change streams: clients are notified only of visible changes, and revoked rights apply at once.

use crate::callers::ERAS;
use crate::token_users::{bearer, make_token};
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{ChangeFeed, Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// How long to wait for a notification that must not arrive.
const QUIET: Duration = Duration::from_millis(400);

struct RightsSetup {
    home: Home,
    gateway: Gateway,
    open: ScriptedServer,
    vault: ScriptedServer,
    tokens: [String; 2],
}

fn settings(ops: &[&str]) -> Value {
    json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" }, "groups": { "ops": ops } })
}

impl RightsSetup {
    async fn open() -> Self {
        let (open, vault) =
            (ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Legacy).await);
        let home = Home::new(&[]);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let tokens = ["bob", "cat"].map(|user| make_token(&home, None, user, &[]).0);
        let mut gateway = {
            Self::write(&home, &open, &vault, &["bob"]);
            home.start().await
        };
        gateway.headers = bearer(&root);
        gateway.connected(&["open", "vault"]).await;
        Self { home, gateway, open, vault, tokens }
    }

    fn write(home: &Home, open: &ScriptedServer, vault: &ScriptedServer, ops: &[&str]) {
        let mut guarded = vault.entry();
        guarded["groups"] = json!(["ops"]);
        home.configure(settings(ops), &[("open", open.entry()), ("vault", guarded)]);
    }

    /// Change streams in both eras: of Bob, who is in `ops`, and of Cat, who is not.
    async fn listeners(&self) -> Vec<(TestClient, ChangeFeed)> {
        let mut listeners = Vec::new();
        for token in &self.tokens {
            for era in ERAS {
                let client =
                    TestClient::with_headers(era, self.gateway.address, "/mcp", &bearer(token)).await;
                let changes = client.listen(&[]).await;
                listeners.push((client, changes));
            }
        }
        listeners
    }

    async fn change(&self, server: &str, upstream: &ScriptedServer, tool: &str) {
        upstream.list(format!(r#"[{{"name":"{tool}","inputSchema":{{"type":"object"}}}}]"#));
        let looked = upstream.seen("tools/list").len();
        self.gateway.act(server, "refresh").await;
        let listing =
            poll(TEST_TIMEOUT, || async { (upstream.seen("tools/list").len() > looked).then_some(()) });
        listing.await.expect("the list is read");
    }
}

#[tokio::test]
async fn clients_are_not_notified_of_hidden_changes() {
    let setup = RightsSetup::open().await;
    let mut listeners = setup.listeners().await;
    setup.change("vault", &setup.vault, "secret").await;
    for (client, changes) in &mut listeners[..2] {
        changes.wait_for(LIST_CHANGED, TEST_TIMEOUT).await.expect("clients that see the server are notified");
        assert!(client.names("tools/list", "tools").await.contains(&"vault_secret".to_owned()));
    }
    for (client, changes) in &mut listeners[2..] {
        assert_eq!(changes.gather(QUIET).await, Vec::<Value>::new(), "{:?}", client.era);
    }
    setup.change("open", &setup.open, "news").await;
    for (_, changes) in &mut listeners {
        changes
            .wait_for(LIST_CHANGED, TEST_TIMEOUT)
            .await
            .expect("all clients are notified of a shared server");
    }
}

#[tokio::test]
async fn revoked_rights_apply_to_open_streams() {
    let setup = RightsSetup::open().await;
    let mut listeners = setup.listeners().await;
    RightsSetup::write(&setup.home, &setup.open, &setup.vault, &[]);
    for (client, changes) in &mut listeners[..2] {
        changes.wait_for(LIST_CHANGED, TEST_TIMEOUT).await.expect("the client's list has changed");
        assert_eq!(client.names("tools/list", "tools").await, ["open_take"]);
    }
    setup.change("vault", &setup.vault, "secret").await;
    for (client, changes) in &mut listeners {
        assert_eq!(changes.gather(QUIET).await, Vec::<Value>::new(), "{:?}", client.era);
    }
    RightsSetup::write(&setup.home, &setup.open, &setup.vault, &["bob", "cat"]);
    for (client, changes) in &mut listeners {
        changes.wait_for(LIST_CHANGED, TEST_TIMEOUT).await.expect("the client is notified of granted rights");
        assert!(client.names("tools/list", "tools").await.contains(&"vault_secret".to_owned()));
    }
}
