//! Health windows: contract tests for every backend.

use crate::contract::{Shared, code};
use toolbooth_store::{HEALTH_MS, HealthRow, MAX_HEALTH_BATCH, MAX_WINDOW_BYTES};

fn row(subject: &str, server: &str, name: &str, saved_ms: i64, window: &str) -> HealthRow {
    let [subject, server, name, window] = [subject, server, name, window].map(str::to_owned);
    HealthRow { subject, server, name, saved_ms, window }
}

pub async fn windows_are_replaced_and_purged(store: Shared) {
    let first = [
        row("tool", "mail", "send", 1, "one"),
        row("tool", "mail", "list", 2, "two"),
        row("provider", "", "mcp:mail", 3, "three"),
    ];
    store.save_health(first.to_vec()).await.expect("kept");
    store.save_health(vec![row("tool", "mail", "send", 4, "four")]).await.expect("kept");
    let kept = store.health().await.expect("read");
    let expected = [row("tool", "mail", "send", 4, "four"), first[2].clone(), first[1].clone()];
    assert_eq!(kept, expected);
    store.purge(3 + HEALTH_MS).await.expect("purged");
    assert_eq!(store.health().await.expect("read"), expected[..2]);
}

pub async fn invalid_windows_are_refused_and_none_is_written(store: Shared) {
    let good = row("tool", "mail", "send", 1, "one");
    let long = "x".repeat(MAX_WINDOW_BYTES + 1);
    let cases = [
        vec![good.clone(), row("server", "mail", "send", 1, "one")],
        vec![good.clone(), row("tool", "ma\0il", "send", 1, "one")],
        vec![good.clone(), row("tool", "mail", "send", 1, "")],
        vec![good.clone(), row("tool", "mail", "send", 1, &long)],
        vec![good; MAX_HEALTH_BATCH + 1],
    ];
    for rows in cases {
        assert_eq!(code(store.save_health(rows).await), "store.unfit");
    }
    assert_eq!(store.health().await.expect("read"), []);
}
