//! Results over the budget.

use crate::peer::{ScriptedPeer, text};
use crate::world::Setup;
use toolbooth_core::result::Budget;
use toolbooth_engine::FileQuery;

const LONG: usize = 40_000;

#[tokio::test(start_paused = true)]
async fn a_result_over_the_budget_becomes_a_file() {
    let peer = ScriptedPeer::new("mail", async |_| text(&"word ".repeat(LONG / 5)));
    let setup = Setup::with(&[&peer]).terms(|terms| terms.results.budget = Budget::of_tokens(1_000));
    let world = setup.start().await;
    let (shown, took_ms) = world.call("mcp.mail.work").await;
    assert!(shown.len() < LONG / 2, "{}", shown.len());
    assert_eq!(took_ms, 0);
    let files = world.engine.files().list(&world.caller, FileQuery::default()).await.expect("listed");
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].size_bytes, LONG as u64);
    assert_eq!(files[0].created_ms, world.engine.clock().now_ms());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_stored_stays_whole() {
    let peer = ScriptedPeer::new("mail", async |_| text(&"word ".repeat(LONG / 5)));
    let mut setup = Setup::with(&[&peer]).terms(|terms| terms.results.budget = Budget::of_tokens(1_000));
    setup.files.terms.max_bytes = 10;
    let world = setup.start().await;
    let (shown, _) = world.call("mcp.mail.work").await;
    assert_eq!(shown.len(), LONG);
    assert!(world.engine.files().list(&world.caller, FileQuery::default()).await.expect("listed").is_empty());
}
