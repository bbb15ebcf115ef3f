//! Signing keys of an identity provider: cached while it does not answer, fetched again when they change, at a
//! limited rate.

use crate::callers::http_as;
use crate::issuer::{Answering, Provider, Signer};
use crate::token_users::{bearer, recorded};
use ::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Instant;
use toolbooth_testkit::world::{Gateway, Home, TEST_TIMEOUT, poll};

/// The burst of key fetches, and the seconds until one more is allowed.
const FETCHES_AT_ONCE: usize = 4;
const SECONDS_PER_FETCH: u64 = 5;

/// Starts a gateway that accepts the tokens of this provider.
async fn start(provider: &Provider) -> (Home, Gateway) {
    let jwt = json!({ "issuer": provider.url, "audience": "booth" });
    let home = Home::with_settings(json!({ "auth": { "mode": "jwt", "jwt": jwt } }), &[]);
    let gateway = home.start().await;
    (home, gateway)
}

async fn status(gateway: &Gateway, token: &str) -> u16 {
    http_as(gateway, token).send(Method::GET, "/me", &[], "").await.status
}

// M4: a silent key endpoint was a sign-in outage.
#[tokio::test]
async fn known_keys_are_used_while_the_key_endpoint_is_down_or_slow() {
    let (first, second) = (Signer::new("one"), Signer::new("two"));
    let provider = Provider::start(&first).await;
    let (_home, gateway) = start(&provider).await;
    // Each token differs, because checked tokens are cached.
    let token = |number: usize| first.token(&provider.url, json!({ "jti": number.to_string() }));
    assert_eq!(status(&gateway, &token(0)).await, 200);
    assert_eq!(provider.fetches(), 1);

    for (number, outage) in [(10, Answering::Closing), (20, Answering::Stalling)] {
        provider.answer(outage);
        let fetches = provider.fetches();
        // An unknown key id makes the gateway fetch the keys again.
        let unknown = first.token_naming("unknown", &provider.url, json!({ "jti": number.to_string() }));
        let http = http_as(&gateway, &unknown);
        let waiting = tokio::spawn(async move { http.send(Method::GET, "/me", &[], "").await.status });
        let begun = poll(TEST_TIMEOUT, || async { (provider.fetches() > fetches).then_some(()) });
        begun.await.unwrap_or_else(|| panic!("{outage:?}: the keys are not fetched"));
        assert_eq!(status(&gateway, &token(number)).await, 200, "{outage:?}");
        if outage == Answering::Stalling {
            assert!(!waiting.is_finished(), "a token of a known key waited for the fetch");
        }
        let more = [1, 2, 3].map(|more| token(number + more));
        let statuses = join_all(more.iter().map(|token| status(&gateway, token))).await;
        assert_eq!(statuses, [200; 3], "{outage:?}");
        assert_eq!(waiting.await.unwrap(), 401, "{outage:?}: an unknown key is not accepted");
    }

    provider.publish(&second);
    provider.answer(Answering::Promptly);
    let rotated = second.token(&provider.url, json!({}));
    let accepted = poll(TEST_TIMEOUT, || async { (status(&gateway, &rotated).await == 200).then_some(()) });
    assert!(accepted.await.is_some(), "the new key is not accepted: {}", gateway.log());
    assert_eq!(status(&gateway, &token(30)).await, 401, "a token of the withdrawn key");
}

// Without keys no token can be checked: all are refused until a later fetch succeeds.
#[tokio::test]
async fn tokens_are_refused_until_the_keys_are_fetched() {
    let signer = Signer::new("one");
    let provider = Provider::start(&signer).await;
    provider.answer(Answering::Closing);
    let (_home, gateway) = start(&provider).await;
    let token = signer.token(&provider.url, json!({}));
    let reply = http_as(&gateway, &token).send(Method::GET, "/me", &[], "").await;
    assert_eq!(reply.status, 503);
    let problem = reply.json().await;
    assert_eq!(problem["code"], "auth.unavailable", "{problem}");
    provider.answer(Answering::Promptly);
    let accepted = poll(TEST_TIMEOUT, || async { (status(&gateway, &token).await == 200).then_some(()) });
    assert!(accepted.await.is_some(), "{}", gateway.log());
}

#[tokio::test]
async fn unknown_key_ids_cause_a_bounded_number_of_fetches() {
    let signer = Signer::new("one");
    let provider = Provider::start(&signer).await;
    let started = Instant::now();
    let (_home, gateway) = start(&provider).await;
    let token = |more: Value| signer.token(&provider.url, more);
    assert_eq!(status(&gateway, &token(json!({}))).await, 200);
    let invented: Vec<String> = (0..100)
        .map(|number| signer.token_naming(&format!("invented-{number}"), &provider.url, json!({})))
        .collect();
    for some in invented.chunks(10) {
        let statuses = join_all(some.iter().map(|token| status(&gateway, token))).await;
        assert!(statuses.iter().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
    }
    let fetches = provider.fetches();
    let regrown = usize::try_from(started.elapsed().as_secs() / SECONDS_PER_FETCH).unwrap();
    assert!((2..=FETCHES_AT_ONCE + regrown).contains(&fetches), "{fetches} fetches for 100 unknown key ids");
    // Callers with a known key are not affected, and the refused tokens are in the audit.
    let admin = token(json!({ "sub": "root", "groups": ["admin"] }));
    let root = gateway.http().sending(&bearer(&admin));
    assert_eq!(root.get_json("/me").await["user"], "root");
    let row = recorded(&root, "auth.refused").await;
    assert_eq!(row["user"], "", "{row}");
    assert!(!row.to_string().contains("invented"), "{row}");
}
