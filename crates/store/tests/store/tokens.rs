//! Tokens: contract tests for every backend.

use crate::contract::{HOUR_MS, Shared, code};
use toolbooth_core::token::{TokenRecord, TokenStatus};
use toolbooth_store::MAX_TOKENS;

fn token(id: &str) -> TokenRecord {
    TokenRecord {
        id: id.into(),
        hash: TokenRecord::hash_of(id),
        user: "ann@example.org".into(),
        groups: vec!["staff".into(), "wei\"rd\\ ".into()],
        persona: Some("dev".into()),
        note: None,
        created_ms: 1,
        expires_ms: Some(HOUR_MS),
        revoked_ms: None,
    }
}

pub async fn tokens_are_found_by_their_hash(store: Shared) {
    let (one, two) = (token("one"), TokenRecord { groups: vec![], expires_ms: None, ..token("two") });
    store.add_token(one.clone()).await.expect("added");
    store.add_token(two.clone()).await.expect("added");
    store.add_token(one.clone()).await.expect("a repetition");
    assert_eq!(store.tokens().await.expect("listed"), [one.clone(), two]);
    assert_eq!(store.token_by_hash(&one.hash).await, Ok(Some(one)));
    assert_eq!(store.token_by_hash(&[0; 32]).await, Ok(None));
}

pub async fn a_token_with_a_used_id_or_hash_is_refused(store: Shared) {
    store.add_token(token("one")).await.expect("added");
    let same_id = TokenRecord { hash: [1; 32], ..token("one") };
    let same_hash = TokenRecord { hash: token("one").hash, ..token("two") };
    for other in [same_id, same_hash] {
        assert_eq!(code(store.add_token(other).await), "store.taken");
    }
    for unfit in [token(""), token(&"x".repeat(65)), TokenRecord { user: "\0".into(), ..token("x") }] {
        assert_eq!(code(store.add_token(unfit).await), "store.unfit");
    }
    let crowd = TokenRecord { groups: vec!["g".into(); 257], ..token("x") };
    assert_eq!(code(store.add_token(crowd).await), "store.unfit");
    assert_eq!(store.tokens().await.expect("listed"), [token("one")]);
}

pub async fn the_first_revocation_is_final(store: Shared) {
    store.add_token(token("one")).await.expect("added");
    for at_ms in [5, 6] {
        let revoked = store.revoke_token("one", at_ms).await.expect("revoked").expect("exists");
        assert_eq!(revoked.revoked_ms, Some(5));
    }
    let found = store.token_by_hash(&token("one").hash).await.expect("read").expect("exists");
    assert_eq!(found.status(0), TokenStatus::Revoked);
    assert_eq!(store.revoke_token("two", 5).await, Ok(None));
}

pub async fn purge_deletes_expired_and_revoked_tokens(store: Shared) {
    for (id, expires_ms) in [("expired", Some(10)), ("revoked", None), ("live", None), ("young", Some(12))] {
        store.add_token(TokenRecord { expires_ms, ..token(id) }).await.expect("added");
    }
    store.revoke_token("revoked", 10).await.expect("revoked");
    store.purge(HOUR_MS + 11).await.expect("purged");
    let kept: Vec<_> = store.tokens().await.expect("listed").into_iter().map(|token| token.id).collect();
    assert_eq!(kept, ["live", "young"]);
}

pub async fn tokens_are_limited(store: Shared) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..MAX_TOKENS {
        let store = store.clone();
        tasks.spawn(async move { store.add_token(token(&number.to_string())).await });
    }
    for result in tasks.join_all().await {
        assert_eq!(result, Ok(()));
    }
    assert_eq!(code(store.add_token(token("one more")).await), "store.full");
}
