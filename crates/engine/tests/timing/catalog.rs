//! When the catalog keeper publishes the list of a server, and how long requests wait for a server that starts.

use crate::peer::{ScriptedPeer, text};
use crate::world::{Setup, World};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use toolbooth_core::names::ServerName;
use toolbooth_engine::CatalogReadiness;
use toolbooth_store::{MemoryStore, Retention, Store};

/// The debounce of a server's notifications, before its list is read.
const DEBOUNCE_MS: u64 = 150;
/// How long a changed list must be stable.
const STABLE_MS: u64 = 750;

fn working() -> Arc<ScriptedPeer> {
    ScriptedPeer::new("mail", async |_| text("done"))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The names and descriptions of the server's tools in the catalog.
fn tools(world: &World) -> Vec<String> {
    let catalog = world.engine.catalog().snapshot();
    let server: ServerName = "mail".parse().expect("a name");
    catalog.servers().get(&server).map_or_else(Vec::new, |part| {
        let tools = part.tools.iter();
        tools
            .map(|tool| {
                format!("{}: {}", tool.name, tool.definition.member("description").expect("text").as_str())
            })
            .collect()
    })
}

fn revision(world: &World) -> u64 {
    world.engine.catalog().load().revision
}

/// Waits until the catalog changes, and returns when it did; `None` if it did not within a minute.
async fn changed_after(world: &World, since: u64) -> Option<u128> {
    let began = Instant::now();
    while revision(world) == since {
        if began.elapsed() > Duration::from_secs(60) {
            return None;
        }
        sleep(millis(1)).await;
    }
    Some(began.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_published_when_it_was_stable_for_750_ms() {
    let peer = working();
    let world = Setup::with(&[&peer]).legacy().start().await;
    let before = revision(&world);
    peer.set_tools(&["other", "work"]).await;
    let after_ms = changed_after(&world, before).await.expect("published");
    let expected_ms = u128::from(DEBOUNCE_MS + STABLE_MS);
    assert!((expected_ms..=expected_ms + 1).contains(&after_ms), "{after_ms}");
    assert_eq!(tools(&world).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_reverted_in_time_is_not_published() {
    let peer = working();
    let world = Setup::with(&[&peer]).legacy().start().await;
    let before = revision(&world);
    for _ in 0..5 {
        peer.set_tools(&["other", "work"]).await;
        sleep(millis(DEBOUNCE_MS + STABLE_MS - 200)).await;
        peer.set_tools(&["work"]).await;
        sleep(millis(DEBOUNCE_MS + STABLE_MS - 200)).await;
    }
    assert_eq!(changed_after(&world, before).await, None);
    assert_eq!(tools(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_stable_is_published_after_ten_seconds() {
    let peer = working();
    let world = Setup::with(&[&peer]).legacy().start().await;
    let before = revision(&world);
    let changing = async {
        for number in 0_u32.. {
            peer.set_tools(&["work", &format!("extra{number}")]).await;
            sleep(millis(500)).await;
        }
    };
    let after_ms = tokio::select! {
        after_ms = changed_after(&world, before) => after_ms.expect("published"),
        () = changing => unreachable!(),
    };
    let expected_ms = u128::from(DEBOUNCE_MS) + 10_000;
    assert!((expected_ms..=expected_ms + 1).contains(&after_ms), "{after_ms}");
}

#[tokio::test(start_paused = true)]
async fn a_new_definition_of_a_used_tool_does_not_wait() {
    for (is_used, expected_ms) in [(false, DEBOUNCE_MS + STABLE_MS), (true, DEBOUNCE_MS)] {
        let peer = working();
        let world = Setup::with(&[&peer]).legacy().start().await;
        if is_used {
            assert_eq!(world.call("mcp.mail.work").await.0, "done");
        }
        let before = revision(&world);
        peer.describe(0, "Does other work").await;
        let after_ms = changed_after(&world, before).await.expect("published");
        let expected_ms = u128::from(expected_ms);
        assert!((expected_ms..=expected_ms + 1).contains(&after_ms), "{is_used}: {after_ms}");
        assert_eq!(tools(&world), [r#"work: "Does other work""#]);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_three_seconds_for_a_server_that_starts() {
    let cases = [
        (0, CatalogReadiness::Ready, 0),
        (2_900, CatalogReadiness::Ready, 2_900),
        (4_000, CatalogReadiness::Partial, 3_000),
    ];
    for (delay_ms, expected, expected_ms) in cases {
        let peer = working();
        *peer.start_delay.lock().unwrap() = millis(delay_ms);
        let setup = Setup::with(&[&peer]).legacy();
        let began = Instant::now();
        // The start of a world waits like a request of a client.
        let world = setup.start().await;
        assert_eq!(began.elapsed().as_millis(), expected_ms, "{delay_ms}");
        assert_eq!(world.engine.catalog().wait_for_servers(&world.caller).await, expected, "{delay_ms}");
        let (outcome, took_ms) = world.call("mcp.mail.work").await;
        match expected {
            CatalogReadiness::Ready => assert_eq!((outcome.as_str(), took_ms), ("done", 0)),
            // The three seconds count from the start of the server: a later request does not wait again.
            CatalogReadiness::Partial => assert_eq!((outcome.as_str(), took_ms), ("call.unknown-tool", 0)),
        }
    }
}

/// Ends a run, and returns what the next one finds in its store.
async fn end(world: &World) -> Arc<MemoryStore> {
    let next = Arc::new(MemoryStore::new(Retention::default()));
    for record in world.engine.store().discoveries().await.expect("records") {
        next.save_discovery(record).await.expect("saved");
    }
    world.engine.shut_down().await;
    next
}

// Otherwise it would delay the first list of every start by three seconds.
#[tokio::test(start_paused = true)]
async fn the_next_start_does_not_wait_for_a_server_that_did_not_connect() {
    let peer = working();
    *peer.start_delay.lock().unwrap() = Duration::from_secs(3600);
    let first = Setup::with(&[&peer]).legacy().start().await;
    sleep(Duration::from_secs(11)).await;
    let mut store = end(&first).await;
    for delay_s in [3600, 1] {
        *peer.start_delay.lock().unwrap() = Duration::from_secs(delay_s);
        let began = Instant::now();
        let world = Setup::with(&[&peer]).legacy().store(&store).start().await;
        assert_eq!(began.elapsed().as_millis(), 0, "{delay_s}");
        sleep(Duration::from_secs(11)).await;
        store = end(&world).await;
    }
    // It has connected, so its tools are known from the start on.
    let world = Setup::with(&[&peer]).legacy().store(&store).start().await;
    assert_eq!(tools(&world).len(), 1);
}
