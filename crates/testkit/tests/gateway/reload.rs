//! Reload: only what changed starts anew, and a slip of the pen changes nothing.

use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Client, Gateway, Home, PATIENCE, eyes, poll, token};

/// A server that can be found by its token.
fn server(token: &str) -> Value {
    hostile(&["echo", token])
}

async fn works(gateway: &Gateway, name: &str) {
    let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
    let told = client.call(&format!("{name}_ok"), json!({})).await;
    assert_eq!(told.text(), "ok", "{name}");
}

#[tokio::test]
async fn an_edit_restarts_only_what_it_changed() {
    let [kept, changed, new, third] = ["kept", "changed", "new", "third"].map(token);
    let home = Home::new(&[("kept", server(&kept)), ("changed", server(&changed))]);
    let gateway = home.start().await;
    gateway.connected(&["kept", "changed"]).await;
    let (before, old) = (eyes::marked(&kept), eyes::marked(&changed));
    assert!(!before.is_empty() && !old.is_empty());
    let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
    let mut changes = client.listen(&[]).await;

    // The file is watched: nobody has to say anything.
    home.configure(
        json!({}),
        &[("kept", server(&kept)), ("changed", server(&new)), ("third", server(&third))],
    );
    eyes::marked_reach(&new, 2).await;
    eyes::marked_vanish(&changed, Duration::from_secs(10)).await;
    gateway.connected(&["kept", "changed", "third"]).await;
    assert_eq!(eyes::marked(&kept), before, "what did not change keeps its process");
    changes.wait_for("notifications/tools/list_changed", PATIENCE).await.expect("a notice of the third");
    for name in ["kept", "changed", "third"] {
        works(&gateway, name).await;
    }

    // The same entry in other words is the same entry.
    let spelled = format!(
        r#"// a comment
        {{ "mcpServers": {{
            "third": {third}, "changed": {changed},
            "kept": {kept},
        }} }}"#,
        third = server(&third),
        changed = server(&new),
        kept = server(&kept),
    );
    home.write_config(&spelled);
    let (status, report) = gateway.http().post_json("/servers/reload", "").await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(report["applied"]["restarted"], json!([]), "{report}");
    assert_eq!(eyes::marked(&kept), before);

    // A server that is taken out is gone, its tools with it.
    home.configure(json!({}), &[("kept", server(&kept))]);
    eyes::marked_vanish(&new, Duration::from_secs(10)).await;
    eyes::marked_vanish(&third, Duration::from_secs(10)).await;
    assert_eq!(eyes::marked(&kept), before);
    let names = poll(PATIENCE, || async {
        let names = client.names("tools/list", "tools").await;
        (names == ["kept_echo", "kept_ok"]).then_some(names)
    });
    assert!(names.await.is_some(), "{:?}", client.names("tools/list", "tools").await);
    let told = client.call("third_ok", json!({})).await;
    assert_eq!(told.code(), Some(-32602), "{}", told.answer);
}

#[tokio::test]
async fn a_typo_keeps_the_last_good_configuration() {
    let [one, two, three] = ["one", "two", "three"].map(token);
    let good = [("one", server(&one)), ("two", server(&two))];
    let home = Home::new(&good);
    let gateway = home.start().await;
    gateway.connected(&["one", "two"]).await;
    let before = (eyes::marked(&one), eyes::marked(&two));

    home.write_config("{ \"servers\": { \"one\": { \"command\": \"sh\" ");
    let (status, problem) = gateway.http().post_json("/servers/reload", "").await;
    assert!(status >= 400, "{problem}");
    assert!(problem["title"].as_str().unwrap().len() > 10 && problem["code"].is_string(), "{problem}");
    let logged = poll(PATIENCE, || async { gateway.log().contains("the last good one stays").then_some(()) });
    assert!(logged.await.is_some(), "the watcher saw it too: {}", gateway.log());
    assert_eq!((eyes::marked(&one), eyes::marked(&two)), before);
    works(&gateway, "one").await;
    works(&gateway, "two").await;

    // One entry with a slip harms only itself.
    let mut slipped = server(&two);
    slipped["comand"] = json!("x");
    home.configure(json!({}), &[("one", server(&one)), ("two", slipped), ("three", server(&three))]);
    gateway.connected(&["three"]).await;
    gateway.reaches("two", "config_error").await;
    let shown = gateway.server("two").await;
    assert!(shown["reason"].as_str().unwrap().contains("comand"), "{shown}");
    assert_eq!(eyes::marked(&one), before.0);
    works(&gateway, "one").await;

    home.configure(json!({}), &good);
    gateway.connected(&["one", "two"]).await;
    assert_eq!(eyes::marked(&one), before.0);
    works(&gateway, "two").await;
}
