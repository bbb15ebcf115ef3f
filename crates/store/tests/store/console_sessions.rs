//! Sessions of the console: contract tests for every backend.

use crate::contract::{Shared, code};
use toolbooth_store::{ConsoleSessionRecord, MAX_CONSOLE_CREDENTIAL_BYTES, MAX_CONSOLE_SESSIONS_OF_USER};

fn session(number: u8, user: &str, until_ms: i64) -> ConsoleSessionRecord {
    ConsoleSessionRecord {
        digest: [number; 32],
        user: user.into(),
        credential: vec![0, number, 255],
        until_ms,
        ends_ms: until_ms.saturating_add(100),
    }
}

pub async fn a_console_session_is_extended_and_ended(store: Shared) {
    let first = session(1, "ann", 10);
    store.add_console_session(first.clone()).await.expect("added");
    store.add_console_session(session(2, "bob", 10)).await.expect("added");
    assert_eq!(store.console_session(&[1; 32]).await, Ok(Some(first.clone())));
    store.extend_console_session(&[1; 32], 50).await.expect("extended");
    store.replace_console_credential(&[1; 32], vec![7]).await.expect("replaced");
    assert_eq!(
        store.console_session(&[1; 32]).await,
        Ok(Some(ConsoleSessionRecord { until_ms: 50, credential: vec![7], ..first }))
    );
    store.end_console_session(&[1; 32]).await.expect("ended");
    store.end_console_session(&[9; 32]).await.expect("nothing to end");
    // A request that was under way when the session ended does not bring it back.
    store.extend_console_session(&[1; 32], 60).await.expect("nothing to extend");
    store.replace_console_credential(&[1; 32], vec![8]).await.expect("nothing to replace");
    assert_eq!(store.console_session(&[1; 32]).await, Ok(None));
    assert_eq!(
        store.console_session(&[2; 32]).await.expect("read").map(|found| found.user),
        Some("bob".into())
    );
}

pub async fn console_sessions_are_limited_and_purged(store: Shared) {
    store.add_console_session(session(200, "bob", 5)).await.expect("added");
    let most = u8::try_from(MAX_CONSOLE_SESSIONS_OF_USER).expect("few");
    for number in 0..=most {
        store.add_console_session(session(number, "ann", 1_000 + i64::from(number))).await.expect("added");
    }
    let is_there = async |number: u8| store.console_session(&[number; 32]).await.expect("read").is_some();
    assert!(!is_there(0).await, "the one that ends first is deleted");
    assert!(is_there(1).await && is_there(most).await && is_there(200).await);
    store.purge(1_002).await.expect("purged");
    assert!(!is_there(200).await && !is_there(1).await);
    assert!(is_there(2).await && is_there(most).await);
    for unfit in [
        ConsoleSessionRecord { user: "\0".into(), ..session(9, "", 1) },
        ConsoleSessionRecord { credential: vec![], ..session(9, "ann", 1) },
        ConsoleSessionRecord {
            credential: vec![0; MAX_CONSOLE_CREDENTIAL_BYTES + 1],
            ..session(9, "ann", 1)
        },
    ] {
        assert_eq!(code(store.add_console_session(unfit).await), "store.unfit");
    }
}
