//! Consents, pins and releases: contract tests for every backend.

use crate::contract::{Shared, code};
use crate::sample::server;
use toolbooth_core::consent::{Consent, ConsentQuery, MAX_PINNED_BYTES, Pin, Release};
use toolbooth_store::MAX_CONSENTS_OF_USER;
use uuid::Uuid;

fn consent(tool: &str) -> Consent {
    Consent {
        id: Uuid::now_v7(),
        user: "ann".into(),
        server: server("mail"),
        tool: tool.into(),
        digest: [1; 32],
        session: None,
        granted_by: "cy".into(),
        created_ms: 1,
        expires_ms: None,
    }
}

pub async fn consents_cover_only_their_scope(store: Shared) {
    let mail = server("mail");
    let send = consent("send");
    let in_session = Consent { session: Some("s1".into()), ..consent("read") };
    let expiring = Consent { expires_ms: Some(10), ..consent("list") };
    for consent in [&send, &in_session, &expiring] {
        store.grant_consent(consent.clone()).await.expect("granted");
        store.grant_consent(consent.clone()).await.expect("a repetition");
    }
    let query = |tool, session| ConsentQuery { user: "ann", server: &mail, tool, digest: &[1; 32], session };
    let cases = [
        (query("send", None), 0, Some(&send)),
        (query("send", Some("s9")), 0, Some(&send)),
        (ConsentQuery { digest: &[2; 32], ..query("send", None) }, 0, None),
        (ConsentQuery { user: "bo", ..query("send", None) }, 0, None),
        (query("read", Some("s1")), 0, Some(&in_session)),
        (query("read", Some("s2")), 0, None),
        (query("read", None), 0, None),
        (query("list", None), 9, Some(&expiring)),
        (query("list", None), 10, None),
    ];
    for (query, now_ms, expected) in cases {
        let found = store.consent_for(&query, now_ms).await.expect("read");
        assert_eq!(found.as_ref(), expected, "{query:?}");
    }
    assert_eq!(
        store.consents(Some("ann")).await.expect("listed"),
        [expiring.clone(), in_session, send.clone()]
    );
    assert_eq!(store.consents(Some("bo")).await.expect("listed"), []);
    assert_eq!(store.revoke_consent(send.id).await, Ok(Some(send.clone())));
    assert_eq!(store.revoke_consent(send.id).await, Ok(None));
    assert_eq!(store.consent_for(&query("send", None), 0).await, Ok(None));
    store.purge(10).await.expect("purged");
    assert_eq!(store.consents(None).await.expect("listed").len(), 1);
}

pub async fn a_newer_consent_replaces_an_older_one(store: Shared) {
    let old = consent("send");
    let new = Consent { digest: [2; 32], ..consent("send") };
    let apart = Consent { session: Some("s1".into()), ..consent("send") };
    for consent in [&old, &apart, &new] {
        store.grant_consent(consent.clone()).await.expect("granted");
    }
    assert_eq!(store.consents(None).await.expect("listed"), [new.clone(), apart]);
    assert_eq!(code(store.grant_consent(Consent { tool: "x".into(), ..new }).await), "store.taken");
    let empty = Consent { session: Some(String::new()), ..consent("send") };
    assert_eq!(code(store.grant_consent(empty).await), "store.unfit");
}

pub async fn consents_are_limited(store: Shared) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..MAX_CONSENTS_OF_USER {
        let store = store.clone();
        tasks.spawn(async move { store.grant_consent(consent(&number.to_string())).await });
    }
    assert!(tasks.join_all().await.into_iter().all(|granted| granted.is_ok()));
    assert_eq!(code(store.grant_consent(consent("one more")).await), "store.full");
    store.grant_consent(consent("7")).await.expect("replaces an older consent");
    store
        .grant_consent(Consent { user: "bo".into(), ..consent("x") })
        .await
        .expect("another user is not limited");
}

pub async fn pins_are_replaced_and_deleted(store: Shared) {
    let pin = |name: &str, tool: &str, digest: u8| Pin {
        server: server(name),
        tool: tool.into(),
        digest: [digest; 32],
        pinned_ms: 1,
        by: "ann".into(),
        definition: None,
    };
    store.save_pins(vec![pin("b", "y", 1), pin("b", "x", 1), pin("a", "x", 1)]).await.expect("saved");
    store.save_pins(vec![pin("b", "x", 2)]).await.expect("saved");
    store.save_pins(vec![]).await.expect("saved");
    assert_eq!(store.pins().await.expect("listed"), [pin("a", "x", 1), pin("b", "x", 2), pin("b", "y", 1)]);
    let unfit = vec![pin("c", "x", 1), pin("c", "\0", 1)];
    assert_eq!(code(store.save_pins(unfit).await), "store.unfit");
    store.forget_pins(&server("b")).await.expect("forgotten");
    assert_eq!(store.pins().await.expect("listed"), [pin("a", "x", 1)]);
}

pub async fn a_pin_stores_the_accepted_text(store: Shared) {
    let pin = |digest: u8, definition: Option<&str>| Pin {
        server: server("a"),
        tool: "x".into(),
        digest: [digest; 32],
        pinned_ms: 1,
        by: "ann".into(),
        definition: definition.map(str::to_owned),
    };
    let kept = || async { store.pin(&server("a"), "x").await.expect("read") };
    assert_eq!(kept().await, None);
    let text = r#"{"name":"x","description":"caf\u00e9 \"é\""}"#;
    store.save_pins(vec![pin(1, Some(text))]).await.expect("saved");
    assert_eq!(kept().await, Some(pin(1, Some(text))));
    assert_eq!(store.pins().await.expect("listed"), [pin(1, None)], "a list has no texts");
    store.save_pins(vec![pin(2, None)]).await.expect("saved");
    assert_eq!(kept().await, Some(pin(2, None)), "no text is left behind that does not belong to it");
    assert_eq!(store.pin(&server("b"), "x").await.expect("read"), None);
    let long = "x".repeat(MAX_PINNED_BYTES + 1);
    assert_eq!(code(store.save_pins(vec![pin(3, Some(&long))]).await), "store.unfit");
}

pub async fn a_release_is_for_one_version(store: Shared) {
    let release = |name: &str, tool: &str, digest: u8| Release {
        server: server(name),
        tool: tool.into(),
        digest: [digest; 32],
        released_ms: 1,
        by: "ann".into(),
    };
    for (name, tool, digest) in [("b", "y", 1), ("b", "x\u{200b}", 1), ("a", "x", 1), ("b", "y", 2)] {
        store.save_release(release(name, tool, digest)).await.expect("saved");
    }
    let kept = store.releases().await.expect("listed");
    assert_eq!(kept, [release("a", "x", 1), release("b", "x\u{200b}", 1), release("b", "y", 2)]);
    assert_eq!(code(store.save_release(release("c", "\0", 1)).await), "store.unfit");
}
