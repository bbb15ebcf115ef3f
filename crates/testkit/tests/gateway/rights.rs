//! Rights while a stream of changes is open: nobody hears of what they cannot see, and rights that go are gone.

use crate::callers::ERAS;
use crate::known::{bearer, make_token};
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::{Changes, Client, Gateway, Home, PATIENCE, Upstream, poll};

const TOLD: &str = "notifications/tools/list_changed";
/// Long enough for a notice that should not come.
const QUIET: Duration = Duration::from_millis(400);

struct Hall {
    home: Home,
    gateway: Gateway,
    open: Upstream,
    vault: Upstream,
    tokens: [String; 2],
}

fn settings(ops: &[&str]) -> Value {
    json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" }, "groups": { "ops": ops } })
}

impl Hall {
    async fn enter() -> Self {
        let (open, vault) = (Upstream::start(Era::Modern).await, Upstream::start(Era::Legacy).await);
        let home = Home::new(&[]);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let tokens = ["bob", "cat"].map(|user| make_token(&home, None, user, &[]).0);
        let mut gateway = {
            Self::write(&home, &open, &vault, &["bob"]);
            home.start().await
        };
        gateway.showing = bearer(&root);
        gateway.connected(&["open", "vault"]).await;
        Self { home, gateway, open, vault, tokens }
    }

    fn write(home: &Home, open: &Upstream, vault: &Upstream, ops: &[&str]) {
        let mut guarded = vault.entry();
        guarded["groups"] = json!(["ops"]);
        home.configure(settings(ops), &[("open", open.entry()), ("vault", guarded)]);
    }

    /// Streams of changes in both eras: of Bob, who is in `ops`, and of Cat, who is not.
    async fn listeners(&self) -> Vec<(Client, Changes)> {
        let mut listeners = Vec::new();
        for token in &self.tokens {
            for era in ERAS {
                let client = Client::known(era, self.gateway.address, "/mcp", &bearer(token)).await;
                let changes = client.listen(&[]).await;
                listeners.push((client, changes));
            }
        }
        listeners
    }

    async fn change(&self, server: &str, upstream: &Upstream, tool: &str) {
        upstream.list(format!(r#"[{{"name":"{tool}","inputSchema":{{"type":"object"}}}}]"#));
        let looked = upstream.seen("tools/list").len();
        self.gateway.act(server, "refresh").await;
        let look = poll(PATIENCE, || async { (upstream.seen("tools/list").len() > looked).then_some(()) });
        look.await.expect("a look at the list");
    }
}

#[tokio::test]
async fn nobody_is_told_of_changes_that_they_cannot_see() {
    let hall = Hall::enter().await;
    let mut listeners = hall.listeners().await;
    hall.change("vault", &hall.vault, "secret").await;
    for (client, changes) in &mut listeners[..2] {
        changes.wait_for(TOLD, PATIENCE).await.expect("who sees the server hears of it");
        assert!(client.names("tools/list", "tools").await.contains(&"vault_secret".to_owned()));
    }
    for (client, changes) in &mut listeners[2..] {
        assert_eq!(changes.gather(QUIET).await, Vec::<Value>::new(), "{:?}", client.era);
    }
    hall.change("open", &hall.open, "news").await;
    for (_, changes) in &mut listeners {
        changes.wait_for(TOLD, PATIENCE).await.expect("what all see, all hear of");
    }
}

#[tokio::test]
async fn rights_that_are_taken_away_are_gone_from_open_streams() {
    let hall = Hall::enter().await;
    let mut listeners = hall.listeners().await;
    Hall::write(&hall.home, &hall.open, &hall.vault, &[]);
    for (client, changes) in &mut listeners[..2] {
        changes.wait_for(TOLD, PATIENCE).await.expect("their own list is another");
        assert_eq!(client.names("tools/list", "tools").await, ["open_take"]);
    }
    hall.change("vault", &hall.vault, "secret").await;
    for (client, changes) in &mut listeners {
        assert_eq!(changes.gather(QUIET).await, Vec::<Value>::new(), "{:?}", client.era);
    }
    Hall::write(&hall.home, &hall.open, &hall.vault, &["bob", "cat"]);
    for (client, changes) in &mut listeners {
        changes.wait_for(TOLD, PATIENCE).await.expect("what is given is told");
        assert!(client.names("tools/list", "tools").await.contains(&"vault_secret".to_owned()));
    }
}
